"""The landing table with its judge: every commit is held against what was really put (I1, I3, I4, I8, I9, I12, I13)."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from pipeline.core.lineage import Kind, Range
from pipeline.core.stream import ShardKey, StreamId
from pipeline.memory.table import Lost, MemoryTable, Snapshot
from pipeline.ports import TableState
from pipeline.settings_choices import InitialPosition
from tests.simulation.truth import ShardTruth, Violation

if TYPE_CHECKING:
    from tests.simulation.world import World


class WatchedTable(MemoryTable):
    def __init__(self, world: World) -> None:
        super().__init__(world.clock)
        self._world = world
        self.origins: dict[StreamId, datetime | None] = {}
        self._decided: dict[StreamId, datetime] = {}
        self.landed = 0
        self.repairing = False
        """A person's repair is being committed."""
        self.rows_of = lambda file: world.stage.rows[file.path]
        self._before: dict[int, dict[ShardKey, tuple[Any, int, datetime | None]]] = {}
        """By snapshot: what its shards stood at before it."""

    def _swap(self, made: Snapshot) -> bool:
        world = self._world
        task = world.sim.current
        if task is None:
            return self.swap_now(made, "a person")
        process, weather = task.process, world.weather
        world.sim.pause(0.01 + 0.1 * world.rng.random())
        if world.script is not None:
            world.script(process, "table.swap", (made,))
        if weather.strikes("napped"):
            weather.freeze(process, "the swap", lambda: None)
        if weather.strikes("killed"):
            weather.told(process, "the swap", "killed here")
            if world.rng.random() < 0.5:
                self.swap_now(made, process.name)
            world.sim.die()
        if weather.strikes("swap_lost"):
            weather.told(process, "the swap", "request lost")
            world.sim.pause(2.0)
            raise Lost
        if weather.strikes("swap_late"):
            delay = world.rng.uniform(0.5, 60.0)
            weather.told(process, "the swap", f"late by {delay:.1f} s")
            world.sim.after(delay, lambda: self._swap_late(made, process.name))
            world.sim.pause(2.0)
            raise Lost
        done = self.swap_now(made, process.name)
        if weather.strikes("swap_unanswered"):
            weather.told(process, "the swap", "applied, answer lost")
            world.sim.pause(2.0)
            raise Lost
        return done

    def _swap_late(self, made: Snapshot, by: str) -> None:
        self._world.note(by, "its late swap arrives")
        self.swap_now(made, by)

    def swap_now(self, made: Snapshot, by: str) -> bool:
        base = self.head
        if not super()._swap(made):
            self._world.note(by, f"swap refused: the table stands at {self.head}, not at {made.parent}")
            return False
        if base != made.parent:
            raise Violation("I4", f"snapshot {made.id} of base {made.parent} landed on {base}")
        self._judge(made, by)
        return True

    def state_at(self, snapshot: int) -> TableState:
        return self._state(snapshot)

    def roll_back(self, to: int) -> None:
        """What landed since isn't in the table any more, and what really is there goes back with it."""
        for snapshot in self.history(self.head):
            if snapshot.id == to:
                break
            for key, (token, read, gap_until) in self._before.pop(snapshot.id, {}).items():
                shard = self._world.truth.shards[key]
                shard.goes_back()
                shard.token, shard.read, shard.gap_until = token, read, gap_until
        self.rollback(to)

    def compact(self) -> None:
        """Somebody rewrites files, or inserts: a new snapshot, the same positions, no range of ours."""
        if self.head is not None:
            self._world.note(
                "compaction", f"snapshot {self.append_as_others()} after {self.snapshots[self.head].parent}"
            )

    # -- the judge ---------------------------------------------------------------------------------------------

    def _judge(self, made: Snapshot, by: str) -> None:
        for stream, origin in made.page.origins:
            if self._was_let_go(stream, made):
                self.origins[stream] = origin.start.at
            else:
                self._judge_origin(stream, origin.start.at)
            self._decided[stream] = origin.decided
        self._before[made.id] = {
            each.key: (shard.token, shard.read, shard.gap_until)
            for each in made.page.ranges
            if (shard := self._world.truth.shards.get(each.key)) is not None
        }
        if self.repairing:
            self._judge_repair(made)
            return
        rows: dict[ShardKey, list[int]] = {}
        for file in made.files:
            for key, sequence in self._world.stage.rows[file.path]:
                rows.setdefault(key, []).append(sequence)
        for each in made.page.ranges:
            if each.moves:
                self._judge_range(each, rows.pop(each.key, []), by)
        if rows:
            key = min(rows)
            raise Violation("I11", f"rows of {key} landed without a range", key.shard_id)
        self._judge_positions(made)

    def _was_let_go(self, stream: StreamId, made: Snapshot) -> bool:
        """A repair keeps nothing of a former life, and a run of then may come late: there is nothing left to read."""
        if self.repairing or stream not in self.origins or self._world.truth.lives(stream):
            return False
        return stream not in self._state(made.parent).positions.origins

    def _judge_origin(self, stream: StreamId, at: datetime | None) -> None:
        if stream in self.origins:
            if not self.repairing or self.origins[stream] != at:
                raise Violation("I9", f"the origin of {stream} was decided twice")
            return
        self.origins[stream] = at
        self._world.note("table", f"origin of {stream.epoch}: {at}")
        position = self._world.plan.position
        if self._world.plan.adopted:
            position = InitialPosition.TRIM_HORIZON
        is_first = self._world.truth.is_first_life(stream)
        now = self._world.clock.now()
        if position is InitialPosition.LATEST and is_first:
            slowest = timedelta(seconds=240)
            if at is None or not now - slowest <= at <= now:
                raise Violation("I1", f"LATEST at {now} became {at}: not Kinesis's clock")
        if position is InitialPosition.TRIM_HORIZON and at is not None:
            raise Violation("I1", f"TRIM_HORIZON became {at}")

    def _judge_range(self, each: Range, rows: list[int], by: str) -> None:
        shard = self._world.truth.shards.get(each.key)
        about = each.key.shard_id
        if shard is None:
            raise Violation("I1", f"a range of {each.key} ({each.key.stream.epoch}), which never was", about)
        self._world.leases.require_not_ahead(each)
        after = each.after.token if each.after else None
        if after != shard.token:
            raise Violation(
                "I4",
                f"{by}: a range of {each.key} begins at {after}, the table stood at {shard.token}",
                about,
            )
        if each.kind is Kind.LANDED and (shard.token is None or shard.token[0] is None):
            self._judge_parents(shard, by)
        upto = each.upto.token
        if (upto[0] or -1, upto[1]) < ((shard.token or (None, 0))[0] or -1, (shard.token or (None, 0))[1]):
            raise Violation("I9", f"{by}: {each.key} goes back from {shard.token} to {upto}", about)
        if shard.ended:
            raise Violation("I4", f"{by}: {each.key} had ended, yet goes on to {upto}", about)
        stop = shard.read if upto[0] is None else bisect_right(shard.sequences, upto[0])
        wanted = shard.sequences[max(shard.read, self._first(shard)) : stop]
        if each.kind is Kind.LANDED:
            self._compare(each, self._not_lost(shard, wanted, rows), rows, by)
            shard.unread_until = self._unread_until(shard) if upto[0] is None else None
        elif each.kind is Kind.ADOPT:
            self._judge_adopted(shard, each, stop)
        elif each.kind is Kind.SKIPPED:
            shard.gap_until = each.last_arrival
            stop = len(shard.sequences) if each.upto.ended else stop
        self._judge_end(shard, each, stop)
        self.landed += len(rows)
        if each.upto.ended:
            stop = len(shard.sequences)
        shard.token, shard.read = upto, max(stop, shard.read)
        self._world.note(by, f"{about} landed to {upto} (+{len(rows)}), {each.kind}")

    def _judge_repair(self, made: Snapshot) -> None:
        """The rows that are in the table say how far each shard is: not one of them twice, and none passed over. One without a
        position starts afresh, unless Kinesis has forgotten it, or it counts as ended for its descendants."""
        landed: dict[ShardKey, int] = {}
        for snapshot in self.history(made.parent):
            for file in snapshot.files:
                for key, sequence in self._world.stage.rows[file.path]:
                    landed[key] = max(sequence, landed.get(key, 0))
        for key, shard in self._world.truth.shards.items():
            at = made.positions.shards.get(key)
            token = None if at is None else at.token
            last = landed.get(key)
            stands = self._world.is_unlisted(key) if at is None else at.ended or at.sequence == last
            if last is not None and not stands and not self._was_recreated(shard):
                raise Violation("I1", f"repaired to {at}, but the last row of {key} is {last}", key.shard_id)
            vanished = shard.token is None and self._world.is_unlisted(key)
            if at is not None and at.ended and not shard.ended and not vanished:
                raise Violation("I1", f"repaired to the end of {key}, which hadn't ended", key.shard_id)
            over = at.ended if at is not None else self._counts_as_end(shard, made)
            read = len(shard.sequences) if over else bisect_right(shard.sequences, last or 0)
            shard.goes_back()
            if token != shard.token:
                shard.gap_until = None
            shard.token, shard.read = token, read

    def _counts_as_end(self, shard: ShardTruth, made: Snapshot) -> bool:
        """Without a position: one that had ended, or never had any, with a descendant that has one."""
        return (shard.ended or shard.token is None) and self._world.truth.is_passed(
            shard, made.positions.shards
        )

    def _judge_adopted(self, shard: ShardTruth, each: Range, stop: int) -> None:
        """Where KCL's row stood, we begin."""
        start = each.upto.start
        if start is not None:
            stop = 0 if start.at is None else bisect_left(shard.arrivals, start.at)
        stop = len(shard.sequences) if each.upto.ended else stop
        if shard.begins is not None and stop != shard.begins:
            raise Violation(
                "I1",
                f"{each.key} was adopted at {stop} of its records, KCL stood at {shard.begins}",
                each.key.shard_id,
            )

    def _not_lost(self, shard: ShardTruth, wanted: list[int], rows: list[int]) -> list[int]:
        """I13: what is missing at the start must have been reported before, or was trimmed before the stream was ever read."""
        until = shard.gap_until or self._unread_until(shard)
        if until is None:
            return wanted
        arrived = dict(zip(shard.sequences, shard.arrivals, strict=True))
        there = set(rows)
        return [n for n in wanted if n in there or arrived[n] > until]

    def _unread_until(self, shard: ShardTruth) -> datetime | None:
        """What arrived before this was trimmed before the stream was ever read."""
        nothing_landed = shard.token is None or shard.token[0] is None
        if not nothing_landed or not self._starts_at_the_horizon(shard):
            return None
        trimmed = self._world.clock.now() - timedelta(seconds=self._world.plan.retention)
        return min(trimmed, self._decided[shard.key.stream])

    def _starts_at_the_horizon(self, shard: ShardTruth) -> bool:
        """A root, or a shard whose parents had left the stream before anybody read them, were KCL's to their end, or ended
        without a record of theirs and began so themselves."""
        stream, world = shard.key.stream, self._world
        named = self.origins[stream]
        in_reach = self._decided[stream] - timedelta(seconds=world.plan.retention)
        if not self._is_first_of_ours(stream) or (named is not None and named >= in_reach):
            return False
        parents = (world.truth.shards[ShardKey(stream, name)] for name in shard.parents)
        return all(
            (parent.token is None and world.is_unlisted(parent.key))
            or self._was_kcls(parent)
            or (parent.token is not None and parent.token[0] is None and self._starts_at_the_horizon(parent))
            for parent in parents
        )

    def _is_first_of_ours(self, stream: StreamId) -> bool:
        """Of its lives, the first that has an origin: an earlier one may have been KCL's alone."""
        return next(each for each in self.origins if each.arn == stream.arn) == stream

    @staticmethod
    def _was_kcls(shard: ShardTruth) -> bool:
        """KCL read it to its end: nobody of ours knows when that was."""
        return shard.ended and shard.begins == len(shard.sequences)

    def _compare(self, each: Range, wanted: list[int], rows: list[int], by: str) -> None:
        if rows == wanted:
            return
        about = each.key.shard_id
        if doubled := sorted(set(rows) - set(wanted)):
            raise Violation(
                "I1",
                f"{by}: {each.key}: rows that don't belong here (twice, or never put): {doubled[:5]}",
                about,
            )
        if missing := sorted(set(wanted) - set(rows)):
            raise Violation(
                "I1", f"{by}: {each.key}: passed over {len(missing)} records: {missing[:5]}", about
            )
        raise Violation("I12", f"{by}: {each.key}: rows out of order", about)

    def _first(self, shard: ShardTruth) -> int:
        return self._world.truth.first(shard, self.origins.get(shard.key.stream))

    def _judge_end(self, shard: ShardTruth, each: Range, stop: int) -> None:
        if not each.upto.ended:
            return
        about = each.key.shard_id
        if shard.closed is None and not self._was_recreated(shard):
            raise Violation("I1", f"{each.key} was ended while it is open", about)
        left = len(self._not_lost(shard, shard.sequences[max(stop, self._first(shard)) :], []))
        if each.kind is Kind.LANDED and left:
            raise Violation("I1", f"{each.key} was ended {left} records early", about)
        if each.kind is Kind.LANDED and set(each.upto.children) != set(shard.children):
            raise Violation(
                "I3", f"{each.key} ended with children {each.upto.children}, not {shard.children}", about
            )

    def _was_recreated(self, shard: ShardTruth) -> bool:
        return not self._world.truth.lives(shard.key.stream)

    def _judge_parents(self, shard: ShardTruth, by: str) -> None:
        at, placed = self.origins.get(shard.key.stream), self._world.truth.placed()
        for name in shard.parents:
            parent = self._world.truth.shards[ShardKey(shard.key.stream, name)]
            # Trimmed before anybody held or read it: the range says so (`gone`).
            is_gone = parent.token is None and (
                self._world.is_unlisted(parent.key) or self._world.truth.is_passed(parent, placed)
            )
            if not parent.ended and not is_gone and not self._world.truth.is_out_of_scope(parent, at):
                raise Violation(
                    "I3",
                    f"{by}: {shard.key} lands before its parent {name} ended ({parent.token})",
                    shard.key.shard_id,
                )

    def _judge_positions(self, made: Snapshot) -> None:
        for key, position in made.positions.shards.items():
            shard = self._world.truth.shards.get(key)
            if shard is None or shard.token != position.token:
                raise Violation(
                    "I4",
                    f"snapshot {made.id} carries {position} for {key}, its ranges say {shard and shard.token}",
                    key.shard_id,
                )
        for stream, origin in made.positions.origins.items():
            if self.origins[stream] != origin.start.at:
                raise Violation("I9", f"the origin of {stream} moved to {origin.start}")
