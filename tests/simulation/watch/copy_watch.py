"""The own table of a window, and the judge of its commits: each user record of the lake table within the window once, and what the lake table lacks
from the stream (I1).

An aggregate may be copied as one row, and be taken apart in the lake table later, or the other way round. So the judge counts user records.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from headrace.pipeline.core.ledger.ledger import Kind, Range
from headrace.pipeline.core.shards.position import Position
from headrace.pipeline.core.shards.sort_texts import end_of, past, sort_key_of
from headrace.pipeline.core.shards.stream import ShardKey
from headrace.pipeline.errors import Unreachable
from headrace.pipeline.windows.window import ReplayWindow, Stretch
from tests.memory.aggregates import numbers_of
from tests.memory.lineage import MemoryLineage
from tests.memory.parse import MemoryRows, MemoryTyped, TypedRow
from tests.memory.stage import MemoryStage
from tests.memory.table import Snapshot
from tests.simulation.made.typed_commits import WINDOWS
from tests.simulation.watch.truth import Violation

if TYPE_CHECKING:
    from tests.simulation.made.typed_fleet import TypedFleet


class _WatchedCopy(MemoryTyped):
    def __init__(self, watch: CopyWatch, fleet: TypedFleet) -> None:
        super().__init__(fleet.world.clock, f"window_{watch.window.id}/data")
        self._watch, self._fleet = watch, fleet
        self.is_there = False
        # The setting of the time at which the table is made.
        self.unpacks = fleet.world.table.staging_spec().unpack

    def _swap(self, made: Snapshot) -> bool:
        task = self._fleet.world.sim.current
        swap = super()._swap

        def now() -> bool:
            if not swap(made):
                return False
            self._fleet.commits.note(WINDOWS, None if task is None else task.process)
            self._watch.judge(made)
            return True

        return now() if task is None else self._fleet.faults.at_swap(task.process, now, lambda: None)


class CopyWatch:
    def __init__(self, fleet: TypedFleet, window: ReplayWindow) -> None:
        self.window = window
        self._fleet = fleet
        self._world = fleet.world
        self.rows = MemoryRows(fleet.world.clock, sub=fleet.landed.sub)
        self.table = _WatchedCopy(self, fleet)
        self.lineage = MemoryLineage(self.table)
        self.stage = MemoryStage(fleet.stream, fleet.world.clock)
        self.stage.rows = self.rows.rows
        self.stage.fault = self._fail_sometimes
        self.stage.tells_end = lambda _: not fleet.faults.occurs("end_untold")
        self._copied: set[tuple[ShardKey, int]] = set()

    def _fail_sometimes(self, key: ShardKey) -> None:
        if self._fleet.faults.occurs("kinesis"):
            raise Unreachable(f"no answer came about {key}")

    def judge(self, made: Snapshot) -> None:
        rows = [row for file in made.files for row in self.rows.rows[file.path]]
        users = [(row[0], number) for row in rows for number in _numbers(row)]
        if twice := sorted(row for row, times in Counter(users).items() if times > 1 or row in self._copied):
            raise self._broken(f"row {twice[0]} is copied twice", twice[0][0])
        self._copied.update(users)
        for each in made.page.ranges:
            count = sum(row[0] == each.key for row in rows)
            found = {number for key, number in users if key == each.key}
            if each.rows != count:
                raise self._broken(f"{each.key} has {count} rows, and its range {each.rows}", each.key)
            if each.kind is Kind.READ:
                self._judge_read(each, found)
            # The first range of a shard brings the table to where the window begins.
            elif each.rows or not each.why:
                self._judge_copied(each, found)
            if each.rows:
                self._judge_order(each)

    def _judge_copied(self, each: Range, found: set[int]) -> None:
        key = each.key
        if strange := sorted(found - self._within(key, self._landed(key, ever=True), each.after, each.upto)):
            raise self._broken(
                f"row {strange[0]} of {key} isn't of the range {each.after} - {each.upto}", key
            )
        # The rest of an aggregate may land after the wave has looked, where the position was adopted inside of it.
        wanted, stop = self._within(key, self._landed(key), each.after, each.upto), sort_key_of(each.upto)
        if lost := sorted(n for n in wanted - found if self._key(key, n) <= stop):
            raise self._broken(f"row {lost[0]} of {key} was passed over", key)

    def _judge_read(self, each: Range, found: set[int]) -> None:
        key = each.key
        own = next(of for of in self.window.ranges if of.key == key)
        if not any(_is_part_of(each, stretch) for stretch in own.stretches):
            raise self._broken(
                f"{each.after} - {each.upto} of {key} is read, which the window doesn't ask for", key
            )
        self._fleet.faults.happened["skipped_read" if each.after else "older_read"] += len(found)
        wanted = self._put(key, each.after, each.upto)
        if strange := sorted(found - wanted):
            raise self._broken(f"{strange[0]} of {key} isn't of the range {each.after} - {each.upto}", key)
        lost = wanted - found
        if kept := sorted(lost - self._trimmed(key)):
            raise self._broken(f"{kept[0]} of {key} was passed over in the stream", key)
        if lost and not each.why:
            raise self._broken(f"{min(lost)} of {key} has left the stream, and nothing tells so", key)

    def _judge_order(self, each: Range) -> None:
        """I3: the window's parents of a shard come first."""
        own = next(of for of in self.window.ranges if of.key == each.key)
        for parent in own.parents:
            key = ShardKey(each.key.stream, parent)
            above = next(of for of in self.window.ranges if of.key == key)
            at = self.table.load().positions.of(key)
            if at is None or not (at.ended or at.token == above.upto.token):
                raise self._broken(f"{each.key} comes before its parent {parent}, which is at {at}", each.key)

    def _put(self, key: ShardKey, after: Position | None, upto: Position) -> set[int]:
        """The user records that were put into the shard."""
        return self._within(key, self._world.truth.shards[key].sequences, after, upto)

    def _trimmed(self, key: ShardKey) -> set[int]:
        shard, horizon = self._world.truth.shards[key], self._world.clock.now() - self._world.losses.retention
        pairs = zip(shard.sequences, shard.arrivals, strict=True)
        return {number for number, arrival in pairs if arrival < horizon}

    def _landed(self, key: ShardKey, *, ever: bool = False) -> set[int]:
        table, landed = self._world.table, self._fleet.landed
        files = [f for s in table.snapshots.values() for f in s.files] if ever else table.files_at(table.head)
        rows = (row for file in files for _, row in landed.by_shard(file.path).get(key, ()))
        return {number for row in rows for number in _numbers(row)}

    def _within(self, key: ShardKey, rows: Iterable[int], after: Position | None, upto: Position) -> set[int]:
        low = past(after)
        # An end stands for all that follows, and a checkpoint of KCL may be inside an aggregate.
        high = "~" if upto.ended else f"{sort_key_of(upto)};" if upto.reads_again else end_of(upto)
        return {number for number in rows if low < self._key(key, number) < high}

    def _key(self, key: ShardKey, number: int) -> str:
        return self._fleet.landed.sort_key(TypedRow(key, number))

    def require_copied(self) -> None:
        for each in self.window.ranges:
            key, read = each.key, set[int]()
            for stretch in each.stretches:
                read |= self._put(key, stretch.after, stretch.upto)
            found = {number for of, number in self._copied if of == key}
            wanted = self._within(key, self._landed(key), each.after, each.upto) | (read - self._trimmed(key))
            if strange := sorted(
                found - self._within(key, self._landed(key, ever=True), each.after, each.upto) - read
            ):
                raise self._broken(f"row {strange[0]} of {key} isn't of the window", key)
            stop = "~" if each.upto.ended else sort_key_of(each.upto)
            if lost := sorted(n for n in wanted - found if self._key(key, n) <= stop):
                raise self._broken(f"row {lost[0]} of {key} was passed over", key)

    def _broken(self, why: str, key: ShardKey) -> Violation:
        return Violation("I1", f"window {self.window.id}: {why}", key.shard_id)


def _numbers(row: Any) -> range:
    """Of a row that was copied, or that was read from the stream."""
    return range(row[1], row[1] + row.users) if isinstance(row, TypedRow) else numbers_of(row)


def _is_part_of(each: Range, stretch: Stretch) -> bool:
    if past(each.after) < past(stretch.after):
        return False
    return stretch.upto.ended or (not each.upto.ended and sort_key_of(each.upto) <= sort_key_of(stretch.upto))
