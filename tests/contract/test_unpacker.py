"""What every implementation of the port promises that takes aggregates of the lake table apart. On Iceberg, Spark's work is done in this process."""

from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path

import pytest

from headrace.pipeline.core.landing.landing import Proposal
from headrace.pipeline.core.ledger.batch import StagedFile
from headrace.pipeline.core.ledger.ledger import Kind, Range
from headrace.pipeline.core.shards.position import Position
from headrace.pipeline.core.shards.sort_texts import end_of, sort_key_of
from headrace.pipeline.core.shards.stream import ShardKey
from headrace.pipeline.demo.aggregate import aggregated
from headrace.pipeline.kcl.deaggregate import MAGIC
from headrace.pipeline.lake.table.lake_table import IcebergTable
from headrace.pipeline.ports.landing import LandingTable
from headrace.pipeline.typed.ports import SourceTable
from headrace.pipeline.typed.source import IcebergSource
from headrace.pipeline.typed.values import ApartCount, Bound, Parsed, SurveyOrder
from headrace.pipeline.windows.ports import Unpacker
from tests.lake.samples import NOON, ORIGIN, STREAM, StandingClock, a_range
from tests.memory.aggregates import LandedRow, WholeRow
from tests.memory.parse import MemoryRows, MemorySourceTable
from tests.memory.table import MemoryTable
from tests.memory.unpack import MemoryUnpacker
from tests.typed.parsings import A, B, good
from tests.windows.unpackings import UnpackBed, local_unpacker, packed

BROKEN, NESTED = -1, -2
"""A record that looks like an aggregate and is none, and an aggregate of one record that is an aggregate of two records."""


class OnIceberg:
    def __init__(self, folder: Path) -> None:
        self._bed = UnpackBed(folder)
        lake: IcebergTable = self._bed.lake.handle()
        self.table: LandingTable = lake
        self.source: SourceTable = IcebergSource(lake)
        self.unpacker: Unpacker = local_unpacker(self._bed)

    def land(self, key: ShardKey, records: Mapping[int, int]) -> None:
        self._bed.land(key, {number: self._payload(number, users) for number, users in records.items()})

    def _payload(self, number: int, users: int) -> bytes:
        if users == BROKEN:
            return MAGIC + b"not an aggregate"
        if users == NESTED:
            return aggregated("key", [packed(number, number)])
        return good(number) if users == 1 else packed(*range(number, number + users))


class InMemory:
    def __init__(self) -> None:
        self._clock = StandingClock()
        self._rows = MemoryRows(self._clock, sub=lambda _, number: number % 10)
        lake = MemoryTable(self._clock)
        lake.commit(ORIGIN)
        self.table: LandingTable = lake
        self.source: SourceTable = MemorySourceTable(lake, self._rows)
        self.unpacker: Unpacker = MemoryUnpacker(source=self._rows, table=lake)

    def land(self, key: ShardKey, records: Mapping[int, int]) -> None:
        rows = [self._row(key, number, users) for number, users in records.items()]
        (file,) = self._rows.write("landed", rows)
        after = self.table.load().positions.of(key)
        self.table.commit(
            Proposal((a_range(key, after, Position(max(records), arrival=NOON), rows=len(rows)),), (file,))
        )

    def _row(self, key: ShardKey, number: int, users: int) -> LandedRow:
        if users == BROKEN:
            return WholeRow(key, number, 0)
        if users == NESTED:
            return WholeRow(key, number, 1, 2)
        return (key, number) if users == 1 else WholeRow(key, number, users)


Made = OnIceberg | InMemory


@pytest.fixture(params=["memory", "iceberg"])
def made(request: pytest.FixtureRequest, tmp_path: Path) -> Made:
    """Numbers are tens, because a row in memory has the sum of its record's number and its own one in the record."""
    made: Made = InMemory() if request.param == "memory" else OnIceberg(tmp_path)
    made.land(A, {10: 1, 20: 3, 30: 2})
    made.land(B, {110: 2})
    made.land(A, {40: 2, 50: 1})
    return made


def found(made: Made, *bounds: Bound, aggregates: bool = True) -> list[tuple[ShardKey, str, str, int]]:
    paths = tuple(file.path for file in made.source.look().files)
    order = SurveyOrder(paths, bounds, frozenset(), (STREAM,), None, others=False, aggregates=aggregates)
    return sorted((p.key, p.first, p.last, p.rows) for p in made.unpacker.survey(order).pieces)


def key(number: int, sub: int = 0) -> str:
    return sort_key_of(Position(number, sub))


def apart(made: Made, *bounds: Bound) -> Parsed:
    return made.unpacker.unpack(made.source.look().files, bounds, [STREAM], {})


def land_apart(made: Made, parsed: Parsed) -> bool:
    """Commit as an unpacking does. Returns whether it landed."""
    keys = sorted({count.key for count in parsed.counts if count.parsed})
    ranges = tuple(
        Range(Kind.UNPACKED, each, None, Position(50), run="r", claim="r", unpacked=True) for each in keys
    )
    files = tuple(
        StagedFile(f.path, frozenset(keys), f.rows, f.size, f.footer, f.partition, f.staged_at)
        for f in parsed.files
    )
    gone = tuple(file.path for file in made.source.look().files)
    return not made.table.commit(Proposal(ranges, files, whole=True, gone=gone)).landing.refused


def test_a_survey_finds_only_what_begins_as_an_aggregate(made: Made):
    assert found(made, Bound(A), Bound(B)) == [
        (A, key(20), key(30), 2),
        (A, key(40), key(40), 1),
        (B, key(110), key(110), 1),
    ]
    assert found(made, Bound(A, end_of(Position(20)), end_of(Position(30)))) == [(A, key(30), key(30), 1)]
    assert sum(rows for *_, rows in found(made, Bound(A), Bound(B), aggregates=False)) == 6


def test_the_selected_aggregates_become_their_user_records_and_all_else_is_copied(made: Made):
    parsed = apart(made, Bound(A, "", end_of(Position(30))))
    assert [(c.key, c.parsed, c.aside) for c in parsed.counts] == [(A, 5, 3), (B, 0, 1)]
    assert parsed.apart == (ApartCount(A, "", 2, 5),)
    assert sum(file.rows for file in parsed.files) == 9
    before = made.table.load()
    assert land_apart(made, parsed)
    assert made.table.load().positions == before.positions
    rows = found(made, Bound(A), aggregates=False)
    assert (rows[0][1], sum(count for *_, count in rows)) == (key(10), 8)
    assert found(made, Bound(A, end_of(Position(10)), end_of(Position(20))), aggregates=False) == [
        (A, key(20), key(20, 2), 3)
    ]
    assert found(made, Bound(A), Bound(B)) == [(A, key(40), key(40), 1), (B, key(110), key(110), 1)]


def test_the_aggregates_and_their_rows_are_counted_by_bound(made: Made):
    """A shard may have several bounds, in any order, of which some have no aggregate."""
    ends = [end_of(Position(number)) for number in (0, 10, 20, 30, 50)]
    of_a = [Bound(A, low, high) for low, high in pairwise(ends)]
    parsed = apart(made, of_a[2], Bound(B), of_a[0], of_a[3], of_a[1])
    assert parsed.apart == (
        ApartCount(A, ends[1], 1, 3),
        ApartCount(A, ends[2], 1, 2),
        ApartCount(A, ends[3], 1, 2),
        ApartCount(B, "", 1, 2),
    )
    assert [(c.key, c.parsed, c.aside) for c in parsed.counts] == [(A, 7, 2), (B, 2, 0)]
    assert land_apart(made, parsed)
    assert found(made, Bound(A), Bound(B)) == []


def test_aggregates_between_two_bounds_stay_whole(made: Made):
    parsed = apart(made, Bound(A, "", end_of(Position(20))), Bound(A, end_of(Position(30))))
    assert [(a.key, a.aggregates, a.rows) for a in parsed.apart] == [(A, 1, 3), (A, 1, 2)]
    assert land_apart(made, parsed)
    assert found(made, Bound(A)) == [(A, key(30), key(30), 1)]


def test_of_two_that_take_the_same_files_apart_the_second_one_is_refused(made: Made):
    first, second = apart(made, Bound(A)), apart(made, Bound(A))
    gone = made.source.look().files
    assert land_apart(made, first)
    ranges = (Range(Kind.UNPACKED, A, None, Position(50), run="s", claim="s", unpacked=True),)
    proposal = Proposal(ranges, (), whole=True, gone=tuple(file.path for file in gone))
    assert made.table.commit(proposal).landing.refused
    assert sum(file.rows for file in second.files) == sum(file.rows for file in made.source.look().files)


def test_what_is_no_right_aggregate_stays_one_row_and_what_an_aggregate_had_inside_looks_like_one(made: Made):
    made.land(A, {60: BROKEN, 70: NESTED})
    only = Bound(A, end_of(Position(50)))
    parsed = apart(made, only)
    assert [(c.key, c.parsed) for c in parsed.counts if c.parsed] == [(A, 2)]
    assert parsed.apart == (ApartCount(A, only.low, 2, 2),)
    assert land_apart(made, parsed)
    assert found(made, only) == [(A, key(70), key(70), 1)]
