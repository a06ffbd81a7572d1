"""Typed tables and their quarantine tables in memory: a file is a list of rows. The contract tests check these ports and the ones on
Iceberg in the same way."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from itertools import count
from typing import Any, NamedTuple

from headrace.pipeline.core.ledger.batch import StagedFile
from headrace.pipeline.core.ledger.ledger import LedgerPage
from headrace.pipeline.core.shards.position import Position
from headrace.pipeline.core.shards.sort_texts import record_in, row_shard, sort_key_of
from headrace.pipeline.core.shards.stream import ShardKey, StreamId
from headrace.pipeline.errors import ChainBroken, WrongShape
from headrace.pipeline.ports.base import Clock
from headrace.pipeline.typed.account import aside_name, one_report
from headrace.pipeline.typed.duplicates_plan import Comparison
from headrace.pipeline.typed.ports import (
    Exchange,
    ParsedTable,
    Parser,
    QuarantineTable,
    SourceLook,
    SourceTable,
    Surveyor,
)
from headrace.pipeline.typed.set_elsewhere import way_on
from headrace.pipeline.typed.tasks.read import wanted_bounds
from headrace.pipeline.typed.values import (
    Bound,
    FilePart,
    Parsed,
    Piece,
    ReadUnit,
    ShardCount,
    SourceFile,
    Survey,
    SurveyOrder,
    WavePlan,
    Wishes,
)
from tests.memory.aggregates import WholeRow
from tests.memory.duplicates import EventOf, duplicates_of
from tests.memory.table import MemoryTable


class TypedRow(NamedTuple):
    """A row of a typed table or of its quarantine table. Its first two values are those of a row of the lake table in memory."""

    key: ShardKey
    number: int
    """The sequence number + the sub-sequence number."""
    reason: str = ""
    """In the quarantine table: why the row couldn't be parsed."""
    version: str = ""
    """The version of the parser that decided about the row."""
    users: int = 1
    """How many user records the row stands for: of an aggregate that landed as one row, all of them."""
    is_aggregate: bool = False
    """Of the lake table: whether the payload begins as an aggregate."""


def _typed(row: Any) -> TypedRow:
    if not isinstance(row, WholeRow):
        return TypedRow(*row)
    return TypedRow(row.key, row.number, users=len(row.numbers()), is_aggregate=True)


KeyedRow = tuple[str, TypedRow]
"""A row with its sort key before it."""


@dataclass
class MemoryRows:
    """The rows of the files of one table, by the files' paths."""

    clock: Clock
    rows: dict[str, Any] = field(default_factory=dict)
    """Tuples of `TypedRow`; of the lake table, those of `MemoryStage.rows`."""
    sub: Callable[[ShardKey, int], int] = lambda _key, _number: 0
    """Sub-sequence number of a row, where it isn't 0."""
    arrival: Callable[[ShardKey, int], datetime | None] = lambda _key, _number: None
    """When a row's record arrived, where that is known."""
    _names: Iterator[int] = field(default_factory=count)
    _typed: dict[str, tuple[Any, tuple[TypedRow, ...]]] = field(default_factory=dict)
    """By path: the rows of the file, as they are and as typed ones."""
    _keys: dict[int, tuple[ShardKey, str]] = field(default_factory=dict)
    """By number: a row's shard and its sort key. Rows of two shards hardly ever have the same number."""
    _source_files: dict[str, tuple[Any, SourceFile]] = field(default_factory=dict)
    """By path: the rows of the file, as they are, and what a look tells of the file."""
    _shards: dict[str, tuple[Any, dict[ShardKey, list[KeyedRow]]]] = field(default_factory=dict)
    """By path: the rows of the file, as they are and by shard."""

    def of(self, path: str) -> Sequence[TypedRow]:
        rows = self.rows[path]
        known = self._typed.get(path)
        if known is None or known[0] is not rows:
            known = self._typed[path] = rows, tuple(map(_typed, rows))
        return known[1]

    def by_shard(self, path: str) -> dict[ShardKey, list[KeyedRow]]:
        """The rows of each shard in their order, each with its sort key."""
        rows = self.rows[path]
        known = self._shards.get(path)
        if known is None or known[0] is not rows:
            shards: dict[ShardKey, list[KeyedRow]] = {}
            for row in sorted(self.of(path)):
                shards.setdefault(row.key, []).append((self.sort_key(row), row))
            known = self._shards[path] = rows, shards
        return known[1]

    def source_file(self, path: str, added: int) -> SourceFile:
        """`added`: the sequence number of the commit that has added the file."""
        rows = self.rows[path]
        known = self._source_files.get(path)
        if known is None or known[0] is not rows or known[1].added != added:
            known = self._source_files[path] = rows, self._a_source_file(path, added)
        return known[1]

    def _a_source_file(self, path: str, added: int) -> SourceFile:
        by_shard = self.by_shard(path)
        keys = [key for rows in by_shard.values() for key, _ in rows]
        shards = [key.shard_id for key in by_shard]
        # Within a shard the arrivals grow with the sort keys.
        ends = [self.arrival(*row[:2]) for rows in by_shard.values() for _, row in (rows[0], rows[-1])]
        known = [arrival for arrival in ends if arrival is not None]
        return SourceFile(
            path,
            len(keys),
            min(keys),
            max(keys),
            (min(shards), max(shards)),
            oldest=min(known, default=None),
            newest=max(known, default=None),
            added=added,
        )

    def sort_key(self, row: TypedRow) -> str:
        known = self._keys.get(row.number)
        if known is not None and (known[0] is row.key or known[0] == row.key):
            return known[1]
        sub = self.sub(row.key, row.number)
        text = sort_key_of(Position(row.number - sub, sub))
        self._keys[row.number] = row.key, text
        return text

    def write(self, location: str, rows: Iterable[tuple[Any, ...]]) -> tuple[StagedFile, ...]:
        """Stage a file. No file is made of no rows."""
        rows = tuple(sorted(rows))
        if not rows:
            return ()
        now = self.clock.now()
        day = f"{now:%Y-%m-%d}"
        path = f"{location}/arrival_ts_day={day}/{next(self._names)}.parquet"
        self.rows[path] = rows
        return (self.staged(path),)

    def staged(self, path: str) -> StagedFile:
        rows, day = self.of(path), path.split("arrival_ts_day=")[1].split("/", maxsplit=1)[0]
        shards = frozenset(row.key for row in rows)
        return StagedFile(path, shards, len(rows), len(rows), b"", day, self.clock.now())


class MemoryTyped(MemoryTable, ParsedTable):
    def pages(self) -> Iterator[LedgerPage]:
        for snapshot in self.walk(self.head):
            if snapshot.ours:
                yield snapshot.page


class MemoryQuarantine(MemoryTyped, QuarantineTable):
    def __init__(self, clock: Clock, location: str, rows: MemoryRows) -> None:
        super().__init__(clock, location)
        self._rows = rows
        self._place = location

    def staged(self, name: str, shards: frozenset[ShardKey]) -> StagedFile:
        path = f"{self._place}/{name}"
        if path not in self._rows.rows or path in self.removed:
            raise WrongShape(f"{path} has rows that a commit of the typed table has set aside, and is gone")
        file = self._rows.staged(path)
        return StagedFile(path, shards, file.rows, file.size, b"", file.partition, file.staged_at)

    def reasons(self) -> Counter[str]:
        return Counter(row.reason for file in self.files_at(self.head) for row in self._rows.of(file.path))

    def without(self, taken: frozenset[str], shards: frozenset[ShardKey]) -> Exchange:
        live = {file.path for file in self.files_at(self.head)}
        gone = [path for path in sorted(live) if aside_name(path) in taken]
        missing = taken - {aside_name(path) for path in gone}
        lost = {row[:2] for name in missing for row in self._rows.of(f"{self._place}/{name}")}
        added: list[StagedFile] = []
        for path in sorted(live.difference(gone)):
            rows = self._rows.of(path)
            stays = [row for row in rows if row[:2] not in lost]
            if len(stays) < len(rows):
                gone.append(path)
                added += self._rows.write(self._place, stays)
        return Exchange(
            tuple(gone),
            tuple(StagedFile(f.path, shards, f.rows, f.size, b"", f.partition, f.staged_at) for f in added),
        )


class MemorySourceTable(SourceTable):
    """A table as a typed table, or a redrive, reads it."""

    def __init__(self, table: MemoryTable, rows: MemoryRows) -> None:
        self._table = table
        self._rows = rows

    def exists(self) -> bool:
        return self._table.exists()

    def look(self) -> SourceLook:
        at = self._rows.clock.now()
        state = self._table.load()
        added: dict[str, int] = {}
        for each in self._table.history(state.snapshot):
            for file in each.files:
                added.setdefault(file.path, each.sequence)
        paths = [file.path for file in self._table.files_at(state.snapshot)]
        return SourceLook(
            state.positions,
            tuple(self._rows.source_file(path, added[path]) for path in paths),
            at,
            snapshot=state.snapshot,
            sequence=state.snapshot or 0,
            kept_from=state.kept_from,
            leads_to=lambda snapshot, _: self._leads_to(state.snapshot, snapshot),
            way_to=partial(way_on, self._known_main(state.snapshot)),
        )

    def _leads_to(self, head: int | None, snapshot: int) -> bool:
        try:
            return any(each.id == snapshot for each in self._table.walk(head))
        except ChainBroken:
            return False

    def _known_main(self, head: int | None) -> dict[int, int]:
        known: dict[int, int] = {}
        try:
            for link in self._table.walk(head):
                known[link.sequence] = link.id
        except ChainBroken:
            pass  # older snapshots have expired
        return known

    def changed_by_others(self, since: int, *, lacks: int) -> str:
        newest, rows = "", 0
        for each in self._table.history(self._table.head):
            if each.sequence < since or each.ours:
                continue
            more = sum(file.rows for file in each.files) - sum(len(self._rows.of(p)) for p in each.replaced)
            most = max(0, more if lacks < 0 else -more)
            rows += most
            if most and not newest:
                newest = f"another engine has changed rows by snapshot {each.id}"
            if newest and rows >= abs(lacks):
                return newest
        return ""


Verdict = Callable[[TypedRow], str | None]
"""Why a row can't be parsed: an empty text where it can be parsed, None where the target's filter leaves it out."""


@dataclass(frozen=True, kw_only=True)
class MemorySurveyor(Surveyor):
    source: MemoryRows
    piece: int = 1_000
    """A piece has at most so many rows, and the rest of its last Kinesis record."""

    def survey(self, order: SurveyOrder) -> Survey:
        pieces = tuple(piece for path in order.files for piece in self._pieces(path, order))
        return Survey(pieces, {} if order.aggregates else {path: self._parts(path) for path in order.files})

    def _parts(self, path: str) -> tuple[FilePart, ...]:
        keys = {key: [text for text, _ in rows] for key, rows in self.source.by_shard(path).items()}
        return tuple(FilePart(*row_shard(key), min(of), max(of), len(of)) for key, of in keys.items())

    def _pieces(self, path: str, order: SurveyOrder) -> Iterator[Piece]:
        bound_of = wanted_bounds(order)
        for key, rows in self.source.by_shard(path).items():
            bound = bound_of(row_shard(key))
            if bound is None:
                continue
            wanted = {
                text: row
                for text, row in _within(rows, bound)
                if (order.ceiling is None or text < order.ceiling)
                and (row.is_aggregate or not order.aggregates)
            }
            for texts in _parted([*wanted], self.piece):
                first, last = texts[0], texts[-1]
                yield Piece(
                    key,
                    path,
                    0,
                    first,
                    last,
                    rows=len(texts),
                    bytes=len(texts),
                    oldest=self.source.arrival(key, wanted[first].number),
                    newest=self.source.arrival(key, wanted[last].number),
                )

    def within(self, rows: Iterable[TypedRow], bound: Bound) -> list[TypedRow]:
        return [row for _, row in _within([(self.source.sort_key(row), row) for row in rows], bound)]

    def rows_of(self, unit: ReadUnit, bounds: Mapping[ShardKey, Bound]) -> list[TypedRow]:
        """What one Spark task reads: the wanted rows of one file."""
        by_shard = self.source.by_shard(unit.path)
        rows = [row for key in by_shard if key in bounds for _, row in _within(by_shard[key], bounds[key])]
        if len(rows) != unit.rows:
            raise WrongShape(f"{unit.path} has other rows than were counted")
        return rows


@dataclass(frozen=True, kw_only=True)
class MemoryParser(MemorySurveyor, Parser):
    """Parses rows of `source`. For a redrive, `source` has the rows of the quarantine table; for a replacement, also those of the typed
    table."""

    typed: MemoryRows
    aside: MemoryRows
    table: MemoryTyped
    quarantine: MemoryQuarantine
    verdict: Verdict
    version: str
    event_of: EventOf = lambda _: None

    def parse(
        self, plan: WavePlan, wishes: Wishes, comparison: Comparison | None = None
    ) -> tuple[Parsed, int]:
        bounds = {each.key: each.bound for each in plan.ranges}
        twice = frozenset() if comparison is None else self._duplicates(plan, bounds, comparison)
        return one_report(self._parse(unit, bounds, twice) for unit in plan.units), 0

    def _duplicates(
        self, plan: WavePlan, bounds: Mapping[ShardKey, Bound], comparison: Comparison
    ) -> frozenset[tuple[ShardKey, int]]:
        rows = (row for unit in plan.units for row in self.rows_of(unit, bounds))
        return duplicates_of(
            (row for row in rows if self.verdict(row) == ""),
            (row for file in comparison.files for row in self.typed.of(file.path)),
            comparison,
            event_of=self.event_of,
            arrival_of=self.typed.arrival,
        )

    def _parse(
        self, unit: ReadUnit, bounds: Mapping[ShardKey, Bound], twice: frozenset[tuple[ShardKey, int]]
    ) -> Parsed:
        told = [(row, self.verdict(row)) for row in self.rows_of(unit, bounds)]
        made = [(row._replace(version=self.version, is_aggregate=False), why) for row, why in told]
        duplicates = [row for row, _ in made if row[:2] in twice]
        good = [row._replace(reason="") for row, why in made if why == "" and row[:2] not in twice]
        bad = [row._replace(reason=why) for row, why in made if why]
        left_out = [row for row, why in made if why is None]
        return Parsed(
            self.typed.write(self.table.staging_spec().location, good),
            self.aside.write(self.quarantine.staging_spec().location, bad),
            counts_of(good, bad, left_out, duplicates),
            tuple((unit.first + n, 1) for n in range(len(told))),
        )

    def copy_unselected(
        self, files: Sequence[SourceFile], selected: Sequence[Bound], streams: Sequence[StreamId]
    ) -> Parsed:
        return unselected_rows(self, files, selected)


def unselected_rows(
    surveyor: MemorySurveyor, files: Sequence[SourceFile], selected: Sequence[Bound]
) -> Parsed:
    """The rows of these files that aren't selected, in new files."""
    chosen = {each.key: each for each in selected}

    def stays(row: TypedRow) -> bool:
        return row.key not in chosen or not surveyor.within([row], chosen[row.key])

    rows = [row for each in files for row in surveyor.source.of(each.path) if stays(row)]
    (location,) = {each.path.partition("/arrival_ts_day=")[0] for each in files}
    made = surveyor.source.write(location, rows)
    return Parsed((), made, counts_of((), rows))


def _within(rows: Iterable[KeyedRow], bound: Bound) -> list[KeyedRow]:
    low, high, reason = bound.low, bound.high, bound.aside.reason
    if bound.aside.since or bound.aside.until:
        raise NotImplementedError("rows in memory have no time of arrival")
    return [
        keyed
        for keyed in rows
        if keyed[0] > low and (high is None or keyed[0] < high) and reason in (None, keyed[1].reason)
    ]


def _parted(texts: Sequence[str], most: int) -> Iterator[Sequence[str]]:
    """The sort keys in portions of at least `most`, which part no Kinesis record."""
    start = 0
    for end in range(most, len(texts)):
        if end - start >= most and record_in(texts[end]) != record_in(texts[end - 1]):
            yield texts[start:end]
            start = end
    if texts:
        yield texts[start:]


def counts_of(
    good: Collection[TypedRow],
    bad: Collection[TypedRow],
    left_out: Collection[TypedRow] = (),
    duplicates: Collection[TypedRow] = (),
) -> tuple[ShardCount, ...]:
    def of(key: ShardKey, rows: Collection[TypedRow]) -> int:
        return sum(row.key == key for row in rows)

    keys = {row.key for row in (*good, *bad, *left_out, *duplicates)}
    return tuple(
        ShardCount(key, of(key, good), of(key, bad), of(key, duplicates), of(key, left_out))
        for key in sorted(keys)
    )
