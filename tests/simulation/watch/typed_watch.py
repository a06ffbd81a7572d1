"""A typed table and its quarantine table, and the judge of their commits (I38): is each row of the lake table in exactly one place?

The judge keeps an account of its own, from the files that commits name. It asks the lake table which rows a parsed range has to have, and the
rules of the simulated parser which of them may be dropped.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from datetime import datetime
from itertools import chain
from typing import TYPE_CHECKING

from headrace.pipeline.core.landing.landing import Proposal
from headrace.pipeline.core.ledger.accounting import Accounting, read_accounting
from headrace.pipeline.core.ledger.generation import is_chain
from headrace.pipeline.core.ledger.ledger import Kind, Range
from headrace.pipeline.core.shards.position import Position, Positions
from headrace.pipeline.core.shards.sort_texts import end_of, past
from headrace.pipeline.core.shards.stream import ShardKey
from headrace.pipeline.ports.base import Clock
from headrace.pipeline.ports.landing import Committed
from headrace.pipeline.settings.blocks.parse import UniqueSettings
from headrace.pipeline.typed.account import DUPLICATE
from headrace.pipeline.windows.window import WindowRange
from tests.memory.lineage import MemoryLineage
from tests.memory.parse import MemoryQuarantine, MemoryRows, MemoryTyped, TypedRow
from tests.memory.table import MemoryTable, Snapshot
from tests.simulation.made.typed_commits import whole
from tests.simulation.watch.event_watch import EventWatch
from tests.simulation.watch.replacement_watch import ReplacementWatch
from tests.simulation.watch.truth import Violation

if TYPE_CHECKING:
    from tests.simulation.made.typed_fleet import TypedFleet

_LEAST_JUDGED = 100
_ALL_STAY = UniqueSettings()
_Row = tuple[ShardKey, int]
Rules = Callable[[str, TypedRow], str | None]
"""What the parser of a version says of a row, as `tests.memory.parse.Verdict`."""


class WatchedTyped(MemoryTyped):
    def __init__(self, watch: TypedWatch, clock: Clock, location: str) -> None:
        super().__init__(clock, location)
        self._watch = watch
        self.is_there = False

    def commit(self, proposal: Proposal) -> Committed:
        return whole(super().commit(proposal), self._watch.name)

    def _swap(self, made: Snapshot) -> bool:
        return self._watch.swap(made, super()._swap, self._watch.judge_typed)


class WatchedQuarantine(MemoryQuarantine):
    def __init__(self, watch: TypedWatch, clock: Clock, location: str, rows: MemoryRows) -> None:
        super().__init__(clock, location, rows)
        self._watch = watch
        self.is_there = False

    def commit(self, proposal: Proposal) -> Committed:
        return whole(super().commit(proposal), f"{self._watch.name}'s quarantine table")

    def _swap(self, made: Snapshot) -> bool:
        return self._watch.swap(made, super()._swap, self._watch.judge_quarantine)


class TypedWatch:
    """Both tables of a target, and what their commits have said of each row so far."""

    def __init__(
        self,
        fleet: TypedFleet,
        name: str,
        rules: Rules,
        stop_above: float,
        unique: UniqueSettings = _ALL_STAY,
    ) -> None:
        self._fleet = fleet
        self._world = fleet.world
        self.name = name
        self.rules = rules
        self._stop_above = stop_above
        self.landed_rows = fleet.landed
        self.typed_rows, self.aside_rows = (
            MemoryRows(self._world.clock, sub=self.sub, arrival=self.arrival) for _ in range(2)
        )
        clock = self._world.clock
        self.table = WatchedTyped(self, clock, f"{name}/data")
        self.quarantine = WatchedQuarantine(self, clock, f"{name}_quarantine/data", self.aside_rows)
        self.lineage, self.aside_lineage = MemoryLineage(self.table), MemoryLineage(self.quarantine)
        self.done: dict[_Row, TypedRow | None] = {}
        """The rows that commits have parsed, as the last one of them has written each. None: dropped."""
        self.aside: dict[_Row, TypedRow] = {}
        """The rows that commits have decided to be in quarantine."""
        self.given_up: set[_Row] = set()
        """The rows that a person has given up, because the table had passed them before they landed (`passed_watch.py`)."""
        self.accepted: dict[_Row, tuple[int, float]] = {}
        """Those of them of which a commit knows that the person has said so, with how often the lake table had been set elsewhere by then, and
        when."""
        self.whole: set[_Row] = set()
        """The rows with an aggregate that were decided about as one row."""
        self._states: dict[frozenset[object], tuple[int, list[TypedRow]]] = {frozenset(): (0, [])}
        """By the positions of the typed table: the number of the commit, and what belongs into the quarantine table then."""
        self._settled = 0
        """The number of the commit up to which the quarantine table has followed."""
        self._ever: dict[ShardKey, set[int]] = {}
        """All rows that the lake table ever had; a rollback may have taken some from it."""
        self._seen = 0
        """How many snapshots of the lake table `_ever` has."""
        self._told_files: set[str] = set()
        """Data files of the lake table of which each row that the target takes was decided about."""
        self.replacements = ReplacementWatch(self, fleet.windows.window)
        self.events = EventWatch(self, unique)

    def swap(
        self,
        made: Snapshot,
        swap: Callable[[Snapshot], bool],
        judge: Callable[[Snapshot, str, int | None], None],
    ) -> bool:
        task = self._world.sim.current
        # The process may have looked again before a late request arrives.
        looked = None if task is None else self._fleet.looks.get(task.process)

        def now() -> bool:
            by = "a late request" if task is None else task.process.name
            if not swap(made):
                self._world.note(by, f"swap of {self.name} refused")
                return False
            self._fleet.commits.note(self.name, None if task is None else task.process)
            judge(made, by, looked)
            return True

        return now() if task is None else self._fleet.faults.at_swap(task.process, now, lambda: None)

    def sub(self, key: ShardKey, number: int) -> int:
        return self._world.truth.shards[key].subs.get(number, 0)

    def arrival(self, key: ShardKey, number: int) -> datetime:
        return self._world.truth.shards[key].arrival(number)

    def broken(self, why: str, key: ShardKey | None = None) -> Violation:
        return Violation("I38", f"{self.name}: {why}", "" if key is None else key.shard_id)

    # -- the typed table -----------------------------------------------------------------------------------------

    def judge_typed(self, made: Snapshot, by: str, looked: int | None) -> None:
        """`looked`: the snapshot of the lake table at which the process has looked."""
        self.judge_positions(self.table, made)
        if made.replaced and not made.page.ranges:
            self.judge_rewrite(self.typed_rows, made)
            return
        if any(each.kind is Kind.REPLAY for each in made.page.ranges):
            self.replacements.judge(made, looked)
            self.judge_stop(read_accounting(each.account) for each in made.page.ranges if not each.moves)
            self.note_state(made, by)
            return
        good = by_key(row for file in made.files for row in self.typed_rows.of(file.path))
        told = {each.key: read_accounting(each.account) for each in made.page.ranges}
        names = sorted({name for each in told.values() for name in each.aside})
        bad = by_key(row for name in names for row in self.aside_rows.of(self.aside_path(name)))
        parsed = [each for each in made.page.ranges if each.kind is Kind.PARSED]
        added, twice = list(chain(*good.values())), list[TypedRow]()
        for each in parsed:
            there = self.rows_at(looked, each.key)
            rows, aside = good.pop(each.key, []), bad.pop(each.key, [])
            twice += self._judge_parsed(each, told[each.key], there, rows, aside)
        if len(parsed) < len(made.page.ranges):
            twice += self._judge_redriven(list(told.values()), good, bad)
            good, bad = {}, {}
        self.events.judge(added, twice, by)
        self._fleet.faults.happened["event_left_out"] += len(twice)
        if lost := sorted({*good, *bad}):
            raise self.broken(f"{by} has written rows of {lost[0]} without a range", lost[0])
        for each in parsed:
            if each.after is None and each.rows and not is_chain(each.key):
                self.judge_parents(each.key)
        self.judge_stop(told.values())
        self.note_state(made, by)

    def note_state(self, made: Snapshot, by: str) -> None:
        tokens = _tokens(made.positions)
        if tokens not in self._states:
            self._states[tokens] = len(self._states), list(self.aside.values())
        self._world.note(by, f"{self.name}: {len(self.done)} rows done, {len(self.aside)} set aside")

    def aside_path(self, name: str) -> str:
        return f"{self.quarantine.staging_spec().location}/{name}"

    def _judge_parsed(
        self,
        each: Range,
        told: Accounting,
        there: dict[int, TypedRow],
        good: list[TypedRow],
        bad: list[TypedRow],
    ) -> list[TypedRow]:
        """`there`: the shard's rows of the lake table when the wave looked. Returns the rows that count as duplicates."""
        key, found = each.key, {row.number for row in chain(good, bad)}
        within = self.numbers_in(each, there)
        if len(found) < len(good) + len(bad):
            raise self.broken(f"a row of {key} is twice in one commit", key)
        if strange := sorted(found - within):
            raise self.broken(
                f"row {strange[0]} of {key} doesn't belong to the range {each.after} - {each.upto}", key
            )
        if twice := sorted(n for n in found if (key, n) in self.done or (key, n) in self.aside):
            raise self.broken(f"row {twice[0]} of {key} was decided about before", key)
        dropped = [n for n in within - found if self.rules(told.version, TypedRow(key, n)) is None]
        doubles = [TypedRow(key, n) for n in sorted(within - found - set(dropped))]
        if lost := [row for row in doubles if not self._may_be_twice(told.version, row)]:
            raise self.broken(f"row {lost[0].number} of {key} was passed over", key)
        counts = (told.parsed, told.quarantined, sum(told.dropped.values()), told.dropped.get(DUPLICATE, 0))
        wanted = (len(good), len(bad), len(dropped) + len(doubles), len(doubles))
        if counts != wanted or not told.is_complete:
            raise self.broken(f"the accounting of {key} is wrong: {told.text()}", key)
        for row in chain(good, bad):
            if row.version != told.version or self.rules(row.version, row) != row.reason:
                raise self.broken(f"version {told.version} decides otherwise about {row}", key)
        self.note_whole(there, within)
        self.done.update(((key, row.number), row) for row in good)
        self.done.update(((key, number), None) for number in dropped)
        self.done.update((row[:2], None) for row in doubles)
        self.aside.update(((key, row.number), row) for row in bad)
        return doubles

    def _may_be_twice(self, version: str, row: TypedRow) -> bool:
        """Whether a row may be left out for another one of its event: only a row that was parsed is compared with others."""
        return self.events.leaves_out and self.rules(version, row) == ""

    def is_in(self, each: Range | WindowRange) -> Callable[[TypedRow], bool]:
        """A function that tells whether a row of the range's shard lies in the range."""
        low, high, sort_key = past(each.after), end_of(each.upto), self.landed_rows.sort_key
        return lambda row: low < sort_key(row) < high

    def numbers_in(self, each: Range | WindowRange, there: dict[int, TypedRow]) -> set[int]:
        """The numbers of the rows of a shard that lie in the range. `there`: the rows by number."""
        low, high, sort_key = past(each.after), end_of(each.upto), self.landed_rows.sort_key
        return {number for number, row in there.items() if low < sort_key(row) < high}

    def note_whole(self, there: dict[int, TypedRow], numbers: Iterable[int]) -> None:
        """Note which of the rows that a commit has decided about were aggregates."""
        rows = [there[number] for number in numbers]
        self.whole.difference_update(row[:2] for row in rows)
        self.whole.update(row[:2] for row in rows if row.users > 1)

    def _judge_redriven(
        self,
        told: list[Accounting],
        good: dict[ShardKey, list[TypedRow]],
        bad: dict[ShardKey, list[TypedRow]],
    ) -> list[TypedRow]:
        """Returns the rows that count as duplicates."""
        names = sorted({name for each in told for name in each.taken})
        taken = [row[:2] for name in names for row in self.aside_rows.of(self.aside_path(name))]
        if gone := sorted(set(taken) - self.aside.keys()):
            raise self.broken(f"a redrive decides about {gone[0]}, which isn't in quarantine", gone[0][0])
        rows = [*chain(*good.values()), *chain(*bad.values())]
        found, version = Counter(row[:2] for row in rows), told[0].version
        doubles = [
            row
            for row in (TypedRow(*each) for each in sorted(Counter(taken) - found))
            if self._may_be_twice(version, row)
        ]
        found.update(row[:2] for row in doubles)
        wanted = Counter(taken)
        if differs := sorted((found - wanted) + (wanted - found)):
            raise self.broken(f"a redrive loses or doubles {differs[0]}", differs[0][0])
        if sum(each.dropped.get(DUPLICATE, 0) for each in told) != len(doubles):
            raise self.broken(f"a redrive leaves out {len(doubles)} duplicates, and counts others")
        for row in chain(*bad.values()):
            if row != self.aside[row[:2]] and self.rules(row.version, row) != row.reason:
                raise self.broken(f"version {row.version} decides otherwise about {row}", row.key)
            self.aside[row[:2]] = row
        for row in chain(*good.values()):
            if self.rules(row.version, row) != "":
                raise self.broken(f"version {row.version} doesn't mend {row}", row.key)
            del self.aside[row[:2]]
            self.done[row[:2]] = row
        for row in doubles:
            del self.aside[row[:2]]
            self.done[row[:2]] = None
        return doubles

    def judge_parents(self, key: ShardKey) -> None:
        """I3: no row of a shard comes before one of its parents."""
        for name in self._world.truth.shards[key].parents:
            parent = ShardKey(key.stream, name)
            if left := sorted(n for n in self.landed(parent) if not self.is_told(parent, n)):
                raise Violation("I3", f"{self.name}: {key} comes before row {left[0]} of its parent", name)

    def judge_stop(self, told: Iterable[Accounting]) -> None:
        told = [each for each in told if not each.taken]
        aside = sum(each.quarantined for each in told)
        parsed = sum(each.parsed + each.dropped.get(DUPLICATE, 0) for each in told)
        if aside + parsed >= _LEAST_JUDGED and aside > self._stop_above * (aside + parsed):
            raise self.broken(
                f"{aside} of {aside + parsed} rows were set aside in one commit, in spite of stop_above"
            )

    def judge_positions(self, table: MemoryTable, made: Snapshot) -> None:
        """I4: the ranges lead from the positions below to those of the commit, and no position goes back."""
        below = Positions() if made.parent is None else table.snapshots[made.parent].positions
        moved = {each.key: each for each in made.page.ranges if each.moves}
        for key in dict.fromkeys((*below.shards, *made.positions.shards)):
            was, now, each = below.of(key), made.positions.of(key), moved.get(key)
            if now is None or _token(was) != _token(each.after if each else was):
                raise Violation(
                    "I4", f"{self.name}: a range of {key} begins elsewhere than at {was}", key.shard_id
                )
            if now.token != _token(each.upto if each else was) or (
                was is not None and _order(now) < _order(was)
            ):
                raise Violation("I4", f"{self.name}: {key} goes from {was} to {now}", key.shard_id)

    def judge_rewrite(self, rows: MemoryRows, made: Snapshot) -> None:
        before = [row for path in made.replaced for row in rows.of(path)]
        if not are_same_rows(before, [row for file in made.files for row in rows.of(file.path)]):
            raise Violation("I35", f"{self.name}: a compaction changes rows")

    # -- the quarantine table ------------------------------------------------------------------------------------

    def judge_quarantine(self, made: Snapshot, by: str, _looked: int | None) -> None:
        self.judge_positions(self.quarantine, made)
        number, wanted = self._states.get(_tokens(made.positions), (-1, []))
        if number < 0:
            raise self.broken(f"{by}: the quarantine table has positions that the typed table never had")
        if number < self._settled:
            raise self.broken(f"{by}: the quarantine table goes back to an earlier commit of the typed table")
        self._settled = number
        self._compare(wanted, by)

    def _compare(self, told: list[TypedRow], by: str) -> None:
        rows = rows_in(self.quarantine, self.aside_rows)
        if are_same_rows(rows, told):
            return
        found, wanted = Counter(rows), Counter(told)
        for differs, how in ((wanted - found, "lacks"), (found - wanted, "has")):
            if differs:
                row = min(differs)
                raise self.broken(
                    f"{by}: the quarantine table {how} {row} against the typed table's decision", row.key
                )

    # -- all of it -----------------------------------------------------------------------------------------------

    def require_parsed(self, files: Iterable[str], takes: Callable[[ShardKey], bool], by: str) -> None:
        """I53: a run that ended well has decided about each row that the lake table had in these files when the run began, and has still."""
        table = self._world.table
        lives = table.load().positions.origins
        there = {file.path for file in table.files_at(table.head)}
        for path in [path for path in files if path in there and path not in self._told_files]:
            for key, number, *_ in self._world.stage.rows[path]:
                if takes(key) and key.stream in lives and not self.is_told(key, number):
                    raise Violation(
                        "I53",
                        f"{self.name}: {by} ends well, and row {number} of {key}, which had landed before it began, isn't parsed",
                        key.shard_id,
                    )
            self._told_files.add(path)

    def is_told(self, key: ShardKey, number: int) -> bool:
        """Whether a commit has decided about the row, or about the aggregate that it was a part of: typed tables don't follow by themselves where
        an aggregate is taken apart."""
        first = key, number - self.sub(key, number)
        decided = (key, number) in self.done or (key, number) in self.aside or first in self.whole
        return decided or (key, number) in self.given_up

    def has_passed(self, position: Position, row: TypedRow) -> bool:
        """Whether no wave looks for the row, because it lies at or before the position. Such a row is there only where a person has set the lake
        table elsewhere, or has repaired its positions."""
        is_behind = position.ended or self.landed_rows.sort_key(row) <= past(position)
        return is_behind and bool(self.times_set_elsewhere)

    @property
    def times_set_elsewhere(self) -> int:
        """How often a person has set the lake table to another snapshot, or has repaired its positions."""
        happened = self._world.call_faults.happened
        return happened["rolled_back"] + happened["repaired"]

    def rows_at(self, snapshot: int | None, key: ShardKey) -> dict[int, TypedRow]:
        """The rows of a shard that the lake table has at a snapshot."""
        return {
            row.number: row
            for file in self._world.table.files_at(snapshot)
            for _, row in self.landed_rows.by_shard(file.path).get(key, ())
        }

    def is_out_of_reach(self, planned: WindowRange) -> bool:
        """Whether a repair of the lake table has left out the life of a range's stream before a row of the range was parsed: then none ever is."""
        table = self._world.table
        if planned.key.stream in table.load().positions.origins:
            return False
        rows, is_in = self.rows_at(table.head, planned.key), self.is_in(planned)
        return not any(self.is_told(planned.key, number) for number, row in rows.items() if is_in(row))

    def landed(self, key: ShardKey) -> set[int]:
        return set(self.rows_at(self._world.table.head, key))

    def ever(self, key: ShardKey) -> set[int]:
        # In the order in which they were committed.
        for snapshot in list(self._world.table.snapshots.values())[self._seen :]:
            for file in snapshot.files:
                for its, number, *_ in self._world.stage.rows[file.path]:
                    self._ever.setdefault(its, set()).add(number)
            self._seen += 1
        return self._ever.get(key, set())

    def require_accounted(self, takes: Callable[[ShardKey], bool]) -> None:
        """At the end each row of the lake table is in one place, and both tables have the rows of the account.

        A repair keeps no former lives of a stream: rows of a life without an origin aren't parsed any more.
        """
        table = self._world.table
        lives = table.load().positions.origins
        for file in table.files_at(table.head):
            for key, number, *_ in self._world.stage.rows[file.path]:
                if takes(key) and key.stream in lives and not self.is_told(key, number):
                    raise self.broken(f"row {number} of {key} is in neither table", key)
        self.require_settled()

    def require_settled(self) -> None:
        """Both tables have the rows of the account."""
        self.require_typed()
        self._compare(list(self.aside.values()), "at the end")

    def require_typed(self) -> None:
        """The typed table has each row once, as the commit that decided last has written it."""
        rows, decided = rows_in(self.table, self.typed_rows), list(filter(None, self.done.values()))
        if are_same_rows(rows, decided):
            return
        found, told = Counter(rows), Counter(decided)
        if differs := sorted((found - told) + (told - found)):
            raise self.broken(
                f"{differs[0]} isn't once in the typed table as the last decision has it", differs[0].key
            )


def by_key(rows: Iterable[TypedRow]) -> dict[ShardKey, list[TypedRow]]:
    found: dict[ShardKey, list[TypedRow]] = {}
    for row in rows:
        found.setdefault(row.key, []).append(row)
    return found


def are_same_rows(rows: list[TypedRow], others: list[TypedRow]) -> bool:
    """Whether both have the same rows, each as often as the other has it."""
    # All rows are looked at after each commit, and a row's number is hashed much faster than the row.
    by_number = {row.number: row for row in rows}
    if len(by_number) == len(rows) == len(others):
        return by_number == {row.number: row for row in others}
    return Counter(rows) == Counter(others)


def rows_in(table: MemoryTable, rows: MemoryRows) -> list[TypedRow]:
    return [row for file in table.files_at(table.head) for row in rows.of(file.path)]


def _token(at: Position | None) -> tuple[int | None, int, bool] | None:
    return None if at is None else at.token


def _order(at: Position) -> tuple[int, int, bool]:
    return -1 if at.sequence is None else at.sequence, at.sub, at.ended


def _tokens(positions: Positions) -> frozenset[object]:
    return frozenset((key, at.token) for key, at in positions.shards.items())
