"""The ports of typed tables on Iceberg and in memory, as their contract sees both."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path

from headrace.pipeline.core.landing.landing import Proposal
from headrace.pipeline.core.ledger.batch import StagedFile
from headrace.pipeline.core.shards.position import Position
from headrace.pipeline.core.shards.stream import ShardKey
from headrace.pipeline.ports.landing import LandingTable
from headrace.pipeline.settings.blocks.parse import UniqueSettings
from headrace.pipeline.typed.ports import Parser, SourceTable
from headrace.pipeline.typed.source import IcebergSource
from headrace.pipeline.upkeep.live_table import IcebergLive
from headrace.pipeline.upkeep.ports import LiveTable, Rewriter
from headrace.pipeline.windows.ports import Copier
from tests.lake.samples import NOON, ORIGIN, StandingClock, a_key, a_range
from tests.lake.tables import append_as_others, delete_as_others, rewrite_as_others
from tests.memory.live import MemoryLive, MemoryRewriter
from tests.memory.parse import (
    MemoryParser,
    MemoryQuarantine,
    MemoryRows,
    MemorySourceTable,
    MemoryTyped,
    TypedRow,
)
from tests.memory.table import MemoryTable
from tests.memory.windows import MemoryCopier
from tests.typed.parsings import BAD, good
from tests.upkeep.compactions import InProcess as InProcessRewriter
from tests.windows.windows import InProcess as InProcessCopier
from tests.windows.windows import WindowBed

HOUR, MILLISECOND = timedelta(hours=1), timedelta(milliseconds=1)
UNIQUE = UniqueSettings(by="id", within=HOUR)


class OnIceberg:
    def __init__(self, folder: Path) -> None:
        self._bed = WindowBed(folder)
        self._bed.settings = replace(self._bed.settings, unique=UNIQUE)
        self.clock: StandingClock = self._bed.clock
        self.source: SourceTable = IcebergSource(self._bed.lake.iceberg)
        table = self._bed.typed()
        table.ensure(create=True)
        iceberg = self._bed.quarantine()
        iceberg.ensure(create=True)
        self.table, self.quarantine = table, iceberg
        self.set_aside: SourceTable = IcebergSource(iceberg)
        self.parser: Parser = self._bed.parser
        self.redriver: Parser = replace(self._bed.parser, source=self._bed.quarantine)
        self.live: LiveTable = IcebergLive(iceberg)
        self.rewriter: Rewriter = InProcessRewriter(iceberg)
        self.typed: SourceTable = IcebergSource(table)
        self.leaver: Parser = replace(self._bed.parser, source=self._bed.typed)
        copies = self._bed.own_table("w")
        copies.ensure(create=True)
        self.copies: SourceTable = IcebergSource(copies)
        self.copier: Copier = InProcessCopier(bed=self._bed, table=copies)
        self.copied: LandingTable = copies

    def land(self, key: ShardKey, records: Mapping[int, bool]) -> None:
        self._bed.land(key, {number: good(number) if fits else BAD for number, fits in records.items()})

    def land_events(self, key: ShardKey, records: Mapping[int, int], arrival: datetime) -> None:
        """By number: the event of the record. The second one arrives a millisecond after the first."""
        self._bed.land(key, {number: good(event) for number, event in records.items()}, arrival=arrival)

    def leave_out(self, *numbers: int) -> None:
        """The filter leaves these records out from now on."""
        self._bed.parser.filtered = frozenset(numbers)

    def insert_as_others(self) -> None:
        append_as_others(self._bed.lake.handle().open())
        self._of_others = max(self.source.look().files, key=lambda file: file.added or 0).path

    def rewrite_as_others(self) -> None:
        """A compaction of the row that another engine has inserted."""
        self._of_others = rewrite_as_others(self._bed.lake.handle().open(), self._of_others)

    def delete_as_others(self) -> None:
        delete_as_others(self._bed.lake.handle().open(), self._of_others)

    def roll_back_to(self, sequence: int) -> None:
        self._bed.lake.rollback(self.sequence() - sequence)

    def sequence(self) -> int:
        snapshot = self._bed.lake.handle().open().current_snapshot()
        return 0 if snapshot is None else snapshot.sequence_number or 0

    def remove(self, path: str) -> None:
        Path(path.removeprefix("file://")).unlink()


class InMemory:
    def __init__(self) -> None:
        self.clock = StandingClock()
        self._arrivals: dict[int, datetime] = {}
        self._events: dict[int, int] = {}

        def arrival(_: ShardKey, number: int) -> datetime | None:
            return self._arrivals.get(number)

        landed, typed, aside = (MemoryRows(self.clock, arrival=arrival) for _ in range(3))
        self._lake, self._landed = MemoryTable(self.clock), landed
        self._lake.commit(ORIGIN)
        self._wrong: set[int] = set()
        self._left_out: frozenset[int] = frozenset()
        self.table = MemoryTyped(self.clock, "typed")
        self.quarantine = MemoryQuarantine(self.clock, "aside", aside)
        self.source: SourceTable = MemorySourceTable(self._lake, landed)
        self.set_aside: SourceTable = MemorySourceTable(self.quarantine, aside)
        parser = MemoryParser(
            source=landed,
            typed=typed,
            aside=aside,
            table=self.table,
            quarantine=self.quarantine,
            verdict=self._verdict,
            version="1",
            event_of=lambda row: self._events.get(row.number),
        )
        self.parser: Parser = parser
        self.redriver: Parser = replace(parser, source=aside)
        self.live: LiveTable = MemoryLive(self.quarantine)
        self.rewriter: Rewriter = MemoryRewriter(aside.rows, self.clock)
        self.typed: SourceTable = MemorySourceTable(self.table, typed)
        self.leaver: Parser = replace(parser, source=typed)
        rows, copies = MemoryRows(self.clock), MemoryTyped(self.clock, "copies")
        self.copies: SourceTable = MemorySourceTable(copies, rows)
        self.copier: Copier = MemoryCopier(source=landed, copies=rows, table=copies)
        self.copied: LandingTable = copies

    def land(self, key: ShardKey, records: Mapping[int, bool]) -> None:
        self._wrong |= {number for number, fits in records.items() if not fits}
        self._land(key, sorted(records), NOON)

    def land_events(self, key: ShardKey, records: Mapping[int, int], arrival: datetime) -> None:
        self._events |= records
        self._land(key, sorted(records), arrival)

    def _land(self, key: ShardKey, records: list[int], arrival: datetime) -> None:
        for place, number in enumerate(records):
            self._arrivals[number] = arrival + place * timedelta(milliseconds=1)
        path = f"memory/{len(self._landed.rows)}"
        self._landed.rows[path] = tuple((key, number) for number in records)
        day = f"{self.clock.at:%Y-%m-%d}"
        file = StagedFile(path, frozenset({key}), len(records), 1, b"", day, self.clock.at)
        after = self._lake.load().positions.of(key)
        upto = Position(max(records), arrival=arrival)
        self._lake.commit(Proposal((a_range(key, after, upto, rows=len(records)),), (file,)))

    def _verdict(self, row: TypedRow) -> str | None:
        if row.number in self._left_out:
            return None
        return "bad" if row.number in self._wrong else ""

    def leave_out(self, *numbers: int) -> None:
        self._left_out = frozenset(numbers)

    def insert_as_others(self) -> None:
        self._lake.append_as_others((self._of_others("others"),))

    def rewrite_as_others(self) -> None:
        """A compaction of the row that another engine has inserted."""
        self._lake.append_as_others((self._of_others("rewritten"),), frozenset({"others"}))

    def delete_as_others(self) -> None:
        self._lake.append_as_others(replaced=frozenset({"rewritten"}))

    def _of_others(self, path: str) -> StagedFile:
        self._landed.rows[path] = ((a_key(999), 1),)
        day = f"{self.clock.at:%Y-%m-%d}"
        return StagedFile(path, frozenset({a_key(999)}), 1, 1, b"", day, self.clock.at)

    def roll_back_to(self, sequence: int) -> None:
        self._lake.rollback(sequence)

    def sequence(self) -> int:
        return self._lake.head or 0

    def remove(self, path: str) -> None:
        self.quarantine.removed.add(path)


Made = OnIceberg | InMemory
