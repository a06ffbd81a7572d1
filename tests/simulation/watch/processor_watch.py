"""The judge of a processor's table (I38): each commit has exactly the rows and the state that the processor's rule gives for the landed records
of its ranges, and begins where a commit before it has ended. So no position passes a wave that wasn't committed, and no record counts twice.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from headrace.pipeline.core.ledger.generation import is_chain, shard_of
from headrace.pipeline.core.ledger.ledger import Kind, Range
from headrace.pipeline.core.shards.stream import ShardKey
from headrace.pipeline.processors.account import ProcessorAccount, read_account
from tests.memory.parse import TypedRow
from tests.memory.stops import MemoryStops
from tests.memory.table import Snapshot
from tests.simulation.made.processor_code import BY_CHANCE, ProcessorCodeRules, processed, state_of, text_of
from tests.simulation.watch.typed_watch import TypedWatch, by_key, rows_in

if TYPE_CHECKING:
    from tests.simulation.made.typed_fleet import TypedFleet

Token = tuple[int | None, int, bool]


class ProcessorWatch(TypedWatch):
    def __init__(self, fleet: TypedFleet, name: str, code: ProcessorCodeRules) -> None:
        super().__init__(fleet, name, lambda version, row: code.error(version, row.number), 1.0)
        self._ends: dict[tuple[ShardKey, Token], str] = {}
        """The state at the end of each range that a commit has."""
        self._made: Counter[TypedRow] = Counter()
        self.stops = MemoryStops()

    def judge_typed(self, made: Snapshot, by: str, looked: int | None) -> None:
        self.judge_positions(self.table, made)
        if made.replaced and not made.page.ranges:
            self.judge_rewrite(self.typed_rows, made)
            return
        good = by_key(row for file in made.files for row in self.typed_rows.of(file.path))
        told = {each.key: read_account(each.account) for each in made.page.ranges}
        names = sorted({name for each in told.values() for name in each.records.aside})
        bad = by_key(row for name in names for row in self.aside_rows.of(self.aside_path(name)))
        if any(each.kind is Kind.REDRIVEN for each in made.page.ranges):
            self._judge_given_again(made, told, good, bad)
            good, bad = {}, {}
        for each in made.page.ranges:
            if each.kind is Kind.REDRIVEN:
                continue
            if each.kind is not Kind.PROCESSED:
                raise self.broken(f"{by} commits a range of the kind {each.kind}", each.key)
            there = self.rows_at(looked, each.key)
            rows, aside = good.pop(each.key, []), bad.pop(each.key, [])
            self._judge_processed(each, told[each.key], there, rows, aside)
            if each.after is None and told[each.key].records.rows and not is_chain(each.key):
                self.judge_parents(each.key)
        if lost := sorted({*good, *bad}):
            raise self.broken(f"{by} has written rows of {lost[0]} without a range", lost[0])
        self._made.update(row for file in made.files for row in self.typed_rows.of(file.path))
        self.note_state(made, by)

    def _judge_processed(
        self,
        each: Range,
        told: ProcessorAccount,
        there: dict[int, TypedRow],
        rows: list[TypedRow],
        aside: list[TypedRow],
    ) -> None:
        key, records = each.key, told.records
        within = sorted(self.numbers_in(each, there))
        if twice := [
            number for number in within if (key, number) in self.done or (key, number) in self.aside
        ]:
            raise self.broken(f"record {twice[0]} of {key} is processed a second time", key)
        taken = self._judge_aside(each, told, within, aside)
        # A shard that a person lets stand, at its end too, gives the processor nothing.
        stands = each.after is not None and each.after.token == each.upto.token
        wanted, state = processed(taken, self._state_before(each), ends=each.upto.ended and not stands)
        found = [row.reason.partition(" ")[2] for row in sorted(rows, key=lambda row: row.reason)]
        if found != wanted:
            raise self.broken(f"{key}, {each.after} - {each.upto}: the rows {found} aren't {wanted}", key)
        if text_of(state_of(told.state)) != state:
            raise self.broken(f"{key} has the state {told.state} at {each.upto}, not {state}", key)
        if any(row.number not in there for row in rows if within):
            raise self.broken(f"rows of {key} belong to a record that hasn't landed", key)
        if (records.rows, records.quarantined, each.rows) != (len(within), len(aside), len(rows)):
            raise self.broken(f"the account of {key} is wrong: {told.text()}", key)
        self._ends[key, each.upto.token] = state
        self.done.update(((key, number), None) for number in taken)
        self.aside.update(((key, row.number), row) for row in aside)

    def _judge_given_again(
        self,
        made: Snapshot,
        told: dict[ShardKey, ProcessorAccount],
        good: dict[ShardKey, list[TypedRow]],
        bad: dict[ShardKey, list[TypedRow]],
    ) -> None:
        """Each record of the taken files stays in quarantine, or its rows come by the state that was there."""
        names = sorted({name for account in told.values() for name in account.records.taken})
        taken = {row[:2]: row for name in names for row in self.aside_rows.of(self.aside_path(name))}
        if gone := sorted(taken.keys() - self.aside.keys()):
            raise self.broken(f"a redrive decides about {gone[0]}, which isn't in quarantine", gone[0][0])
        staying = {row[:2]: row for rows in bad.values() for row in rows}
        if strange := sorted(staying.keys() - taken.keys()):
            raise self.broken(f"a redrive sets {strange[0]} aside, which it hasn't taken", strange[0][0])
        for chain, account in told.items():
            key = shard_of(chain)
            numbers = sorted(number for of, number in taken.keys() - staying.keys() if of == key)
            position = made.positions.shards[key].token
            before = self._ends[key, position]
            wanted, state = processed(numbers, before, ends=False)
            rows = sorted(good.pop(key, []), key=lambda row: row.reason)
            if (found := [row.reason.partition(" ")[2] for row in rows]) != wanted:
                raise self.broken(f"a redrive of {key} gives the rows {found}, not {wanted}", key)
            after = text_of(state_of(account.state)) if account.decides else before
            if after != state:
                raise self.broken(f"a redrive of {key} leaves the state {after}, not {state}", key)
            version = account.records.version
            if failing := [number for number in numbers if self.rules(version, TypedRow(key, number))]:
                raise self.broken(
                    f"record {failing[0]} of {key} counts, at which version {version} raises", key
                )
            self._ends[key, position] = state
            for number in numbers:
                del self.aside[key, number]
                self.done[key, number] = None
        if good:
            raise self.broken(f"a redrive has written rows of {min(good)} without a range", min(good))
        self.aside.update(staying)

    def _judge_aside(
        self, each: Range, told: ProcessorAccount, within: list[int], aside: list[TypedRow]
    ) -> list[int]:
        """Returns the records that count: all of the range but those that are set aside."""
        key, moved = each.key, {row.number for row in aside}
        if strange := moved - set(within):
            raise self.broken(f"record {min(strange)} of {key} is set aside by another range", key)
        taken = [number for number in within if number not in moved]
        for number in taken:
            if why := self.rules(told.records.version, TypedRow(key, number)):
                raise self.broken(
                    f"record {number} of {key} counts, at which the processor raised {why}", key
                )
        for row in aside:
            if BY_CHANCE not in row.reason and not self.rules(row.version, row):
                raise self.broken(f"record {row.number} of {key} is set aside without a reason", key)
        return taken

    def _state_before(self, each: Range) -> str | None:
        if each.after is None:
            return None
        state = self._ends.get((each.key, each.after.token))
        if state is None:
            raise self.broken(
                f"a range of {each.key} begins at {each.after}, where no wave has ended", each.key
            )
        return state

    def require_typed(self) -> None:
        """The processor's table has the rows of its commits, each once."""
        found = Counter(rows_in(self.table, self.typed_rows))
        if differs := sorted((found - self._made) + (self._made - found)):
            raise self.broken(f"{differs[0]} isn't once in the table, as its commit has it", differs[0].key)
