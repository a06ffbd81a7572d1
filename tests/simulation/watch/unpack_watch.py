"""The judge of commits that take aggregates of the lake table apart (I39): each user record once and in order, all other rows as they were, no
position moved, and a range in the ledger for each landing.

What is an aggregate is known to the judge by what was put, and to the product by the payload and the ledgers.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from datetime import datetime
from itertools import combinations
from typing import TYPE_CHECKING

from headrace.pipeline.core.ledger.accounting import read_accounting
from headrace.pipeline.core.ledger.ledger import Kind, Range
from headrace.pipeline.core.ledger.story import story_of
from headrace.pipeline.core.shards.position import Position
from headrace.pipeline.core.shards.sort_texts import end_of, past
from headrace.pipeline.core.shards.stream import ShardKey
from headrace.pipeline.proof.chains import broken_chains, wrong_positions
from headrace.pipeline.windows.window import ReplayWindow
from tests.memory.aggregates import LandedRow, WholeRow
from tests.memory.parse import TypedRow
from tests.memory.table import Snapshot
from tests.simulation.watch.truth import Violation

if TYPE_CHECKING:
    from tests.simulation.made.typed_fleet import TypedFleet


class UnpackWatch:
    def __init__(self, fleet: TypedFleet) -> None:
        self._fleet = fleet
        self._world = fleet.world
        self._behind: dict[str, set[str]] = {}
        """By window: the targets that had parsed aggregates of it as a whole when these were taken apart."""

    def judge(self, made: Snapshot, by: str) -> None:
        if strange := [r for r in made.page.ranges if r.moves or r.kind is not Kind.UNPACKED]:
            raise self._broken(f"{by} moves the position of {strange[0].key}", strange[0].key)
        self._judge_base(made, by)
        ranges = made.page.ranges
        before = [row for path in sorted(made.replaced) for row in self._rows(path)]
        taken = [row for row in before if self._is_taken(row, ranges)]
        wanted = (Counter(before) - Counter(taken)) + Counter(_made_of(taken))
        after = Counter(row for file in made.files for row in self._rows(file.path))
        for differs, how in ((wanted - after, "loses"), (after - wanted, "brings")):
            if differs:
                row = min(differs)
                raise self._broken(f"{by} takes {len(taken)} aggregates apart, and {how} {row}", row[0])
        if any(list(self._rows(file.path)) != sorted(self._rows(file.path)) for file in made.files):
            raise Violation("I12", f"{by} wrote rows out of order")
        self._judge_landings(made, by)
        for each in ranges:
            self._judge_range(made, each, [row for row in taken if self._is_taken(row, (each,))])
        self._fleet.faults.happened["taken_apart"] += len(taken)
        self._world.note(by, f"snapshot {made.id}: {len(taken)} aggregates are taken apart")

    def _judge_base(self, made: Snapshot, by: str) -> None:
        table = self._world.table
        if gone := made.replaced - {file.path for file in table.files_at(made.parent)}:
            raise self._broken(f"{by} replaces {min(gone)}, which isn't in snapshot {made.parent}")
        if made.positions != table.state_at(made.id).positions or any(
            made.positions.of(key) != at for key, at in self._below(made).items()
        ):
            raise self._broken(f"{by} committed other positions than those of snapshot {made.parent}")

    def _below(self, made: Snapshot) -> dict[ShardKey, Position | None]:
        below = self._world.table.state_at(made.parent or 0).positions
        return {key: below.of(key) for key in {*below.shards, *made.positions.shards}}

    def _judge_landings(self, made: Snapshot, by: str) -> None:
        """Each range is a part of one landing whose aggregates came whole, with the arrivals of that landing. None has records of another one."""
        landed = [r for each in self._world.table.history(made.parent) for r in each.page.ranges if r.moves]
        for each in made.page.ranges:
            its = [r for r in landed if r.key == each.key and r.rows and not r.unpacked and _is_part(each, r)]
            if not any(_arrivals(r) == _arrivals(each) for r in its):
                raise self._broken(f"{by}: {each.after} - {each.upto} isn't of one landing", each.key)
        for one, other in combinations(made.page.ranges, 2):
            if one.key == other.key and past(one.after) < end_of(other.upto) > past(other.after) < end_of(
                one.upto
            ):
                raise self._broken(
                    f"{by} has two ranges of the same records, to {one.upto} and {other.upto}", one.key
                )

    def _judge_range(self, made: Snapshot, each: Range, taken: list[LandedRow]) -> None:
        told, key, parts = read_accounting(each.account), each.key, _made_of(taken)
        stated = (told.removed[0], told.rows, each.rows)
        if not taken or stated != (len(taken), len(parts), len(parts) - len(taken)):
            raise self._broken(f"the accounting of {key} is wrong: {told.text()}, {stated}", key)
        window = self._fleet.windows.window(told.window)
        own = next(of for of in window.ranges if of.key == key)
        if outside := [row for row in taken if not self._is_in(row, own.after, own.upto)]:
            raise self._broken(f"{outside[0]} is outside of the window {window.id}", key)
        if left := [row for row in self._whole(made.id) if self._is_taken(row, (each,))]:
            raise self._broken(f"{left[0]} was passed over", key)
        for target in self._fleet.targets:
            if any((key, row[1]) in target.watch.whole for row in taken):
                self._behind.setdefault(window.id, set()).add(target.settings.name)

    def _is_taken(self, row: LandedRow, ranges: Iterable[Range]) -> bool:
        is_whole = isinstance(row, WholeRow) and not row.is_user
        return is_whole and any(r.key == row[0] and self._is_in(row, r.after, r.upto) for r in ranges)

    def _is_in(self, row: LandedRow, after: Position | None, upto: Position) -> bool:
        return past(after) < self._fleet.landed.sort_key(TypedRow(*row[:2])) < end_of(upto)

    def _rows(self, path: str) -> tuple[LandedRow, ...]:
        return self._world.stage.rows[path]

    def _whole(self, snapshot: int | None) -> Iterator[LandedRow]:
        """Aggregates of the table that came whole and are whole."""
        for file in self._world.table.files_at(snapshot):
            yield from (row for row in self._rows(file.path) if isinstance(row, WholeRow) and not row.is_user)

    # -- windows that are done, and the end ------------------------------------------------------------------------

    def judge_done(self, window: ReplayWindow, notes: Iterable[str], looked: int | None) -> None:
        """No aggregate of the window is left, and the run names the typed tables that don't follow. `looked`: the snapshot of the lake table at
        which the run has looked last."""
        happened = self._world.call_faults.happened
        below = {snapshot.id for snapshot in self._world.table.history(self._world.table.head)}
        # Rows without a ledger stay as they are. And what is rolled back after the last look is taken apart by another window.
        if happened["expired"] or happened["repaired"] or looked not in below:
            return
        for each in window.ranges:
            for row in self._whole(self._world.table.head):
                if row[0] == each.key and self._is_in(row, each.after, each.upto):
                    raise self._broken(f"the window {window.id} counts as done, and {row} is whole", each.key)
        text = " ".join(notes)
        for name in sorted(self._behind.get(window.id, ())):
            if not happened["rolled_back"] and f"`--replace {name}`" not in text:
                raise self._broken(
                    f"the window {window.id} is done, and nothing tells that {name} has whole aggregates"
                )

    def require_proved(self) -> None:
        """The ledgers lead to the table's positions, and state as many rows of each shard as there are, unless the retention has removed some."""
        if self._was_set_back():
            return
        table = self._world.table
        story = story_of(self._world.lineage.entries())
        for told in (*broken_chains(story), *wrong_positions(story, table.load().positions)):
            raise self._broken(f"the ledgers prove nothing: {told}")
        rows = Counter(row[0] for file in table.files_at(table.head) for row in self._rows(file.path))
        fewer = {key for key, _ in table.dropped}
        for key in (key for key in story.keys if key not in fewer):
            stated = sum(step.range.rows for step in story.of(key))
            if stated != rows[key]:
                raise self._broken(
                    f"the table has {rows[key]} rows of {key}, and the ledgers state {stated}", key
                )

    def _was_set_back(self) -> bool:
        happened = self._world.call_faults.happened
        return any(happened[what] for what in ("rolled_back", "expired", "repaired", "repositioned"))

    def _broken(self, why: str, key: ShardKey | None = None) -> Violation:
        return Violation("I39", why, "" if key is None else key.shard_id)


def _made_of(taken: Iterable[LandedRow]) -> list[LandedRow]:
    return [new for row in taken if isinstance(row, WholeRow) for new in row.taken_apart()]


def _is_part(one: Range, other: Range) -> bool:
    return past(other.after) <= past(one.after) and end_of(one.upto) <= end_of(other.upto)


def _arrivals(each: Range) -> tuple[datetime | None, datetime | None]:
    return each.first_arrival, each.last_arrival
