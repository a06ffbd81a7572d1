"""The judge of a table of the latest rows (I38): after each commit it equals a fold of the rows that were parsed so far, by key and in the order of
the stream: of each key there is the row of its latest record, or none where that record deletes it.

    what a record is about     a key whose hash lies in its shard's range, so that keys move with splits and merges
    later                      in a later life of the stream, or with a higher number
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING
from zlib import crc32

from headrace.pipeline.core.ledger.accounting import Accounting, read_accounting
from headrace.pipeline.core.ledger.generation import is_chain
from headrace.pipeline.core.ledger.ledger import Kind, Range
from headrace.pipeline.core.shards.shard import MAX_HASH_KEY
from headrace.pipeline.core.shards.stream import ShardKey
from headrace.pipeline.typed.account import DELETION, SUPERSEDED
from tests.memory.parse import TypedRow
from tests.memory.table import Snapshot
from tests.simulation.watch.typed_watch import TypedWatch, are_same_rows, by_key, rows_in

if TYPE_CHECKING:
    from tests.simulation.made.typed_fleet import TypedFleet
    from tests.simulation.watch.typed_watch import Rules

_KEYS = 40
"""So many hashes have keys, evenly spread."""


class Keys:
    """Which key a row is about. The shard's range of hashes tells which keys it may have."""

    def __init__(self, fleet: TypedFleet) -> None:
        self._world = fleet.world
        self._of_shard: dict[ShardKey, tuple[str, ...]] = {}

    def of(self, row: TypedRow) -> str:
        names = self._of_shard.get(row.key)
        if names is None:
            names = self._of_shard[row.key] = self._names(row.key)
        return names[crc32(f"key {row.number}".encode()) % len(names)]

    def _names(self, key: ShardKey) -> tuple[str, ...]:
        shard = self._world.truth.shards[key]
        if shard.hash_range is None:
            # Shards that roll over go on one after the other.
            first = key
            while parents := self._world.truth.shards[first].parents:
                first = ShardKey(key.stream, parents[0])
            return tuple(f"{key.stream.name} {first.shard_id} {n}" for n in range(3))
        span = shard.hash_range
        points = (MAX_HASH_KEY * (2 * n + 1) // (2 * _KEYS) for n in range(_KEYS))
        inside = [f"{key.stream.name} {point:040d}" for point in points if span.start <= point <= span.end]
        # Few keys, so that each comes often; those at both ends, so that each child of a shard gets some of them.
        return tuple(dict.fromkeys((*inside[:2], *inside[-2:]))) or (f"{key.stream.name} {span.start:040d}+",)


def deletes(row: TypedRow) -> bool:
    return crc32(f"deletes {row.number}".encode()) % 4 == 0


class LatestWatch(TypedWatch):
    def __init__(self, fleet: TypedFleet, name: str, rules: Rules, stop_above: float) -> None:
        super().__init__(fleet, name, rules, stop_above)
        self.keys = Keys(fleet)
        self.fold: dict[str, TypedRow] = {}
        """By key: the latest record of all that were parsed."""

    def judge_typed(self, made: Snapshot, by: str, looked: int | None) -> None:
        self.judge_positions(self.table, made)
        if made.replaced and not made.page.ranges:
            self.judge_rewrite(self.typed_rows, made)
            return
        told = {each.key: read_accounting(each.account) for each in made.page.ranges}
        names = sorted({name for each in told.values() for name in each.aside})
        bad = by_key(row for name in names for row in self.aside_rows.of(self.aside_path(name)))
        parsed: dict[ShardKey, list[TypedRow]] = {}
        for each in made.page.ranges:
            if each.kind is not Kind.PARSED:
                raise self.broken(f"{by} commits a range of the kind {each.kind}", each.key)
            parsed[each.key] = self._judge_range(each, told[each.key], looked, bad.pop(each.key, []))
            if each.after is None and told[each.key].rows and not is_chain(each.key):
                self.judge_parents(each.key)
        if bad:
            raise self.broken(f"{by} has set rows of {min(bad)} aside without a range", min(bad))
        self._judge_table(by)
        for key, rows in parsed.items():
            self._judge_counts(key, rows, told[key])
        # Before the merge: most of the rows that could be parsed don't stay.
        self.judge_stop(replace(told[key], parsed=len(rows)) for key, rows in parsed.items())
        self.note_state(made, by)

    def _judge_range(
        self, each: Range, told: Accounting, looked: int | None, aside: list[TypedRow]
    ) -> list[TypedRow]:
        """Returns the rows that were parsed."""
        key, there = each.key, self.rows_at(looked, each.key)
        within = sorted(self.numbers_in(each, there))
        if twice := [n for n in within if (key, n) in self.done or (key, n) in self.aside]:
            raise self.broken(f"row {twice[0]} of {key} was decided about before", key)
        verdicts = {n: self.rules(told.version, TypedRow(key, n)) for n in within}
        wanted = [TypedRow(key, n, why, told.version) for n, why in verdicts.items() if why]
        if sorted(row._replace(users=1) for row in aside) != wanted:
            raise self.broken(f"{key}: the rows {aside} are set aside, and not {wanted}", key)
        rows = [TypedRow(key, n, "", told.version) for n, why in verdicts.items() if why == ""]
        for row in rows:
            about = self.keys.of(row)
            if about not in self.fold or _order(self.fold[about]) < _order(row):
                self.fold[about] = row
        self.note_whole(there, within)
        self.done.update((row[:2], None) for row in rows)
        self.aside.update((row[:2], row) for row in aside)
        return rows

    def _judge_table(self, by: str) -> None:
        # A row that landed as a whole aggregate has as many users as it has records, and stays one row of the table.
        rows = [
            row._replace(users=1, is_aggregate=False) if row.users > 1 or row.is_aggregate else row
            for row in rows_in(self.table, self.typed_rows)
        ]
        latest = [row for row in self.fold.values() if not deletes(row)]
        if are_same_rows(rows, latest):
            return
        found, wanted = Counter(rows), Counter(latest)
        for differs, how in ((wanted - found, "lacks"), (found - wanted, "has")):
            if differs:
                row = min(differs)
                about = self.keys.of(row)
                raise self.broken(
                    f"{by}: the table {how} {row}, and the latest record of {about} is {self.fold.get(about)}",
                    row.key,
                )

    def _judge_counts(self, key: ShardKey, rows: list[TypedRow], told: Accounting) -> None:
        latest = [self.fold[self.keys.of(row)] == row for row in rows]
        stay = sum(is_latest and not deletes(row) for row, is_latest in zip(rows, latest, strict=True))
        gone = sum(is_latest and deletes(row) for row, is_latest in zip(rows, latest, strict=True))
        wanted = stay, gone, len(rows) - stay - gone
        if (told.parsed, told.dropped.get(DELETION, 0), told.dropped.get(SUPERSEDED, 0)) != wanted:
            raise self.broken(f"the accounting of {key} is wrong: {told.text()}, and not {wanted}", key)
        self._fleet.faults.happened["superseded"] += wanted[2]
        self._fleet.faults.happened["deletion"] += gone

    def require_typed(self) -> None:
        self._judge_table("at the end")


def _order(row: TypedRow) -> tuple[int, int]:
    return row.key.stream.epoch, row.number
