"""The lake table and the judge of its commits: does each commit agree with the records that were put (I1, I3, I4,
I8, I9, I12, I13, I34)?"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING, Any

from headrace.pipeline.core.landing.expiry_plan import History
from headrace.pipeline.core.landing.repair_plan import LastRow, TableEvidence
from headrace.pipeline.core.ledger.ledger import Kind, Range
from headrace.pipeline.core.shards.position import Positions
from headrace.pipeline.core.shards.stream import ShardKey, StreamId
from headrace.pipeline.ports.landing import TableState
from headrace.pipeline.ports.staging import StagingSpec
from tests.memory.aggregates import numbers_of
from tests.memory.table import MemoryTable, Snapshot
from tests.simulation.made.typed_commits import LAKE
from tests.simulation.troubles.rolled_back import RolledBack
from tests.simulation.watch.drop_watch import judge_drop, judge_foreign
from tests.simulation.watch.file_watch import STALE
from tests.simulation.watch.lineage_watch import judge_expiry
from tests.simulation.watch.origin_watch import is_dropped_life, judge_origin
from tests.simulation.watch.repair_watch import judge_repair, rows_up_to, was_recreated
from tests.simulation.watch.rewrite_watch import judge_rewrite
from tests.simulation.watch.state_watch import StateWatch
from tests.simulation.watch.told_watch import judge_dropped_ends, judge_through, judge_told
from tests.simulation.watch.truth import ShardTruth, Violation, number_of

if TYPE_CHECKING:
    from tests.simulation.world import World


class WatchedTable(MemoryTable):
    """The lake table in memory. Each commit is judged."""

    def __init__(self, world: World) -> None:
        super().__init__(world.clock)
        self._world = world
        self.origins: dict[StreamId, datetime | None] = {}
        self.origins_since: dict[StreamId, float] = {}
        """When the origin of each stream was committed."""
        self.undone_ends: dict[ShardKey, float] = {}
        """When a person last set the table back to before the end of each shard."""
        self.landed = 0
        self.dropped: Counter[tuple[ShardKey, int]] = Counter()
        """The user records that a retention has removed, each with how often it was there."""
        self.repairing = False
        """True while a person's repair is being committed."""
        self.rows_of = lambda file: world.stage.rows[file.path]
        if "tidy" in world.plan.troubles:
            self.stale = STALE
        self._written = StateWatch()
        self._before: dict[int, dict[ShardKey, tuple[Any, ...]]] = {}
        """By snapshot: the position, the number of read records and the gaps of its shards before it."""
        self.made: dict[int, tuple[datetime, float]] = {}
        """By snapshot: when it was made, and when its process had last loaded the table."""

    def staging_spec(self) -> StagingSpec:
        return replace(super().staging_spec(), unpack=self._world.sim.now >= self._world.plan.keeps)

    def _swap(self, made: Snapshot) -> bool:
        world = self._world
        task = world.sim.current
        if task is None:
            return self.swap_now(made, "a person")
        process = task.process
        self.made[made.id] = world.clock.now(), process.loaded
        self._judge_sending(made)

        def script() -> None:
            if world.script is not None:
                world.script(process, "table.swap", (made,))

        faults = world.typed.faults if process in world.typed.processes else world.call_faults
        return faults.at_swap(process, lambda: self.swap_now(made, process.name), script)

    def swap_now(self, made: Snapshot, by: str) -> bool:
        base = self.head
        if not super()._swap(made):
            self._world.note(by, f"swap refused: the table stands at {self.head}, not at {made.parent}")
            return False
        if base != made.parent:
            raise Violation("I4", f"snapshot {made.id}, built on {made.parent}, was committed on {base}")
        task = self._world.sim.current
        self._world.typed.commits.note(LAKE, None if task is None else task.process)
        self._judge(made, by)
        return True

    def evidence(self, streams: Iterable[StreamId]) -> TableEvidence:
        found = super().evidence(streams)
        return replace(found, rows={key: self._last_row(key, last) for key, last in found.rows.items()})

    def _last_row(self, key: ShardKey, last: LastRow) -> LastRow:
        shard = self._world.truth.shards[key]
        at = shard.checkpoint(last.sequence)
        return LastRow(int(at.sequence), shard.arrival(last.sequence), at.sub)

    def state_at(self, snapshot: int | None) -> TableState:
        return self._state(snapshot)

    def expire(self, history: History, snapshots: Sequence[int]) -> bool:
        judge = judge_expiry(self, self._world.lineage, snapshots)
        done = super().expire(history, snapshots)
        if done:
            judge()
        return done

    def roll_back(self, to: int) -> RolledBack:
        """Roll the table back. What the judges know of the table goes back with it. Returns what they need to roll it forward again."""
        undone = RolledBack(self.head, to)
        for snapshot in self.history(self.head):
            if snapshot.id == to:
                break
            before = self._before.pop(snapshot.id, {})
            undone.before[snapshot.id] = before
            for key, (token, read, gaps) in before.items():
                shard = self._world.truth.shards[key]
                undone.after.setdefault(key, (shard.token, shard.read, shard.gaps))
                if shard.ended:
                    self.undone_ends[key] = self._world.sim.now
                shard.goes_back()
                shard.token, shard.read, shard.gaps = token, read, gaps
        self._note_set(to)
        return undone

    def roll_forward(self, undone: RolledBack) -> None:
        """Set the table to where it stood before it was rolled back. What has landed since is no part of it any more."""
        self.roll_back(undone.to)
        for key, (token, read, gaps) in undone.after.items():
            shard = self._world.truth.shards[key]
            shard.token, shard.read, shard.gaps = token, read, gaps
        self._before |= undone.before
        self._note_set(undone.head)

    def _note_set(self, to: int | None) -> None:
        self._world.losses.sure = False
        self._world.kept.note_rollback()
        # A person takes files away and brings files back, as commits do.
        self._world.typed.commits.note(LAKE, None)
        self.rollback(to)

    def compact(self) -> None:
        """Add a snapshot as another engine does that rewrites files: it carries no positions and no range."""
        if self.head is not None:
            self._world.note(
                "compaction", f"snapshot {self.append_as_others()} after {self.snapshots[self.head].parent}"
            )

    # -- the judge ---------------------------------------------------------------------------------------------

    def _judge_sending(self, made: Snapshot) -> None:
        """I8: a run that knows of a rollback doesn't land records again. This is judged by what the run knows when it sends the
        commit: the request may arrive late, after another try of the same commit has landed and was rolled back."""
        for each in made.page.ranges:
            if each.moves and each.kind is Kind.LANDED:
                self._world.leases.require_not_ahead(each)
                self._world.kept.require_not_behind(each)

    def _judge(self, made: Snapshot, by: str) -> None:
        ours = (each.id for each in self.history(made.parent) if each.ours)
        self._written.judge(made, None if self.repairing else next(ours, None))
        self._world.files.judge(made)
        for stream, origin in made.page.origins:
            if is_dropped_life(self._world, stream, made):
                self.origins[stream] = origin.start.at
            else:
                judge_origin(self._world, stream, origin, made)
            self._world.losses.decided[stream] = origin
        if made.replaced:
            self._judge_exchange(made, by)
            return
        self._before[made.id] = {
            each.key: (shard.token, shard.read, shard.gaps)
            for each in made.page.ranges
            if (shard := self._world.truth.shards.get(each.key)) is not None
        }
        if self.repairing:
            self._world.losses.sure = False
            self._world.kept.note_rollback()
            judge_repair(self._world, self, made)
            return
        rows: dict[ShardKey, list[int]] = {}
        for file in made.files:
            for row in self._world.stage.rows[file.path]:
                rows.setdefault(row[0], []).extend(numbers_of(row))
        for each in made.page.ranges:
            if each.moves:
                self._judge_range(each, rows.pop(each.key, []), by, made)
        if rows:
            key = min(rows)
            raise Violation("I11", f"rows of {key} landed without a range", key.shard_id)
        self._judge_positions(made)
        judge_told(
            self._world, made, next((s.positions for s in self.history(made.parent) if s.ours), Positions())
        )
        judge_dropped_ends(self._world, made)
        judge_through(self._world, made)

    def _judge_exchange(self, made: Snapshot, by: str) -> None:
        if not made.files and not made.page.ranges:
            judge_drop(self._world, made, by)
        elif any(each.kind is Kind.UNPACKED for each in made.page.ranges):
            self._world.typed.unpackings.judge(made, by)
        else:
            judge_rewrite(self._world, self, made, by)
        self._judge_positions(made)

    def _judge_range(self, each: Range, rows: list[int], by: str, made: Snapshot) -> None:
        shard = self._world.truth.shards.get(each.key)
        about = each.key.shard_id
        if shard is None:
            raise Violation(
                "I1", f"a range of {each.key} ({each.key.stream.epoch}), a shard that never existed", about
            )
        after = each.after.token if each.after else None
        if after != shard.token:
            raise Violation(
                "I4",
                f"{by}: a range of {each.key} begins at {after}, but the table's position was {shard.token}",
                about,
            )
        if each.kind is Kind.LANDED and (shard.token is None or shard.token[0] is None):
            self._judge_parents(shard, by)
        upto = each.upto.token
        if (upto[0] or -1, upto[1]) < ((shard.token or (None, 0))[0] or -1, (shard.token or (None, 0))[1]):
            raise Violation("I9", f"{by}: {each.key} goes back from {shard.token} to {upto}", about)
        if shard.ended:
            raise Violation("I4", f"{by}: {each.key} had ended, but a range goes on to {upto}", about)
        stop = shard.read if upto[0] is None else rows_up_to(self._world, shard, number_of(upto))
        stop = self._judge_kind(shard, each, stop, rows=rows, by=by, made=made)
        shard.first_read = shard.first_read or self._world.losses.read_at(each)
        # A person may have given up all of an aggregate, and the position names its first user record.
        self._judge_end(shard, each, max(stop, shard.read))
        self.landed += len(rows)
        if each.upto.ended:
            stop, shard.named = len(shard.sequences), each.upto.children
            shard.end_planned = self.made.get(made.id, (None, float("inf")))[1]
        shard.token, shard.read = upto, max(stop, shard.read)
        self._world.note(by, f"{about} landed to {upto} (+{len(rows)}), {each.kind}")

    def _judge_kind(
        self, shard: ShardTruth, each: Range, stop: int, *, rows: list[int], by: str, made: Snapshot
    ) -> int:
        """How many user records of the shard are behind the table's position now. `stop`: those up to the range's end."""
        losses = self._world.losses
        wanted = shard.sequences[max(shard.read, self._first(shard)) : stop]
        if each.kind is Kind.LANDED:
            self._world.kept.judge_commit(each)
            self._judge_landed(shard, each, wanted, rows, by)
            losses.add_proof(shard, each, max(stop, shard.read, self._first(shard)))
        elif each.kind is Kind.ADOPT:
            self._judge_adopted(shard, each, stop)
        elif each.kind is Kind.FOREIGN:
            judge_foreign(self._world, shard, each, stop)
        elif each.kind is Kind.SKIPPED:
            stop = self._judge_skipped(shard, each, stop, made)
        return stop

    def _judge_skipped(self, shard: ShardTruth, each: Range, stop: int, made: Snapshot) -> int:
        """How many user records of the shard are behind the table's position now."""
        losses = self._world.losses
        if each.first_arrival is None:
            # A person gives up whole records (`skips.py`).
            stop = shard.read_up_to(number_of(each.upto.token))
            shard.left_out.update(shard.sequences[shard.read : stop])
            return stop
        made_at, planned = self.made.get(made.id, (self._world.clock.now(), 0.0))
        shard.gaps = (*shard.gaps, losses.judged_gap(shard, each, made_at, planned))
        shard.unread_until = losses.still_unread_until(shard, losses.read_at(each))
        return stop

    def _judge_adopted(self, shard: ShardTruth, each: Range, stop: int) -> None:
        """An adopted shard must begin where KCL's row stood."""
        start = each.upto.start
        if start is not None:
            stop = 0 if start.at is None else bisect_left(shard.arrivals, start.at)
        stop = len(shard.sequences) if each.upto.ended else stop
        if shard.begins is not None and stop != shard.begins:
            raise Violation(
                "I1",
                f"{each.key} was adopted after {stop} of its records, but KCL's row stood after {shard.begins}",
                each.key.shard_id,
            )

    def _judge_landed(
        self, shard: ShardTruth, each: Range, wanted: list[int], rows: list[int], by: str
    ) -> None:
        losses = self._world.losses
        read_at = losses.read_at(each)
        if rows != wanted:
            self._compare(each, losses.must_be_there(shard, wanted, rows, read_at), rows, by)
            shard.left_out.update(set(wanted) - set(rows))
        has_record = each.upto.sequence is not None
        shard.unread_until = None if has_record else losses.still_unread_until(shard, read_at)

    def _compare(self, each: Range, wanted: list[int], rows: list[int], by: str) -> None:
        if rows == wanted:
            return
        about = each.key.shard_id
        if doubled := sorted(set(rows) - set(wanted)):
            raise Violation(
                "I1",
                f"{by}: {each.key}: rows landed twice, or were never put: {doubled[:5]}",
                about,
            )
        if missing := sorted(set(wanted) - set(rows)):
            raise Violation(
                "I1", f"{by}: {each.key}: {len(missing)} records were passed over: {missing[:5]}", about
            )
        raise Violation("I12", f"{by}: {each.key}: rows out of order", about)

    def _first(self, shard: ShardTruth) -> int:
        return self._world.truth.first(shard, self.origins.get(shard.key.stream))

    def _judge_end(self, shard: ShardTruth, each: Range, stop: int) -> None:
        if not each.upto.ended:
            return
        about = each.key.shard_id
        is_of_this_life = not was_recreated(self._world, shard)
        if shard.closed is None and is_of_this_life:
            raise Violation("I1", f"{each.key} was ended while it is open", about)
        losses = self._world.losses
        rest, now = shard.sequences[max(stop, self._first(shard)) :], losses.read_at(each)
        left = len(losses.must_be_there(shard, rest, (), now)) if rest else 0
        if each.kind in {Kind.LANDED, Kind.SKIPPED} and left:
            raise Violation("I1", f"{each.key} was ended, but {left} of its records haven't landed", about)
        shard.left_out.update(rest)
        if each.kind is Kind.SKIPPED and is_of_this_life and not self._world.is_unlisted(each.key):
            raise Violation("I1", f"{each.key} was ended as gone, but Kinesis still has it", about)
        if each.kind is Kind.LANDED and set(each.upto.children) != set(shard.children):
            raise Violation(
                "I3", f"{each.key} ended with children {each.upto.children}, not {shard.children}", about
            )

    def _judge_parents(self, shard: ShardTruth, by: str) -> None:
        at, placed = self.origins.get(shard.key.stream), self._world.truth.placed()
        for name in shard.parents:
            parent = self._world.truth.shards[ShardKey(shard.key.stream, name)]
            # The parent was trimmed before any worker held or read it. The range gives that reason (`gone`).
            is_gone = parent.token is None and (
                self._world.is_unlisted(parent.key) or self._world.truth.is_passed(parent, placed)
            )
            if not parent.ended and not is_gone and not self._world.truth.is_before_start(parent, at):
                raise Violation(
                    "I3",
                    f"{by}: {shard.key} landed before its parent {name} had ended ({parent.token})",
                    shard.key.shard_id,
                )

    def _judge_positions(self, made: Snapshot) -> None:
        for key, position in made.positions.shards.items():
            shard = self._world.truth.shards.get(key)
            if shard is None or shard.token != position.token:
                raise Violation(
                    "I4",
                    f"snapshot {made.id} carries {position} for {key}, but its ranges lead to {shard and shard.token}",
                    key.shard_id,
                )
        for stream, origin in made.positions.origins.items():
            if self.origins[stream] != origin.start.at:
                raise Violation("I9", f"the origin of {stream} moved to {origin.start}")
