"""What a reader of the lineage table asks for is what the reader gets, from each implementation."""

from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from headrace.pipeline.core.landing.landing import Proposal
from headrace.pipeline.core.ledger.filter import ALL_RANGES, Joining, RangeFilter
from headrace.pipeline.core.ledger.ledger import Kind, LedgerEntry, Lost, Range
from headrace.pipeline.core.shards.position import Position
from headrace.pipeline.core.shards.stream import ShardKey
from tests.contract.lakes import LAKES, MEMORY, an_iceberg
from tests.lake.samples import NOON, ORIGIN, a_key, a_landing, a_range
from tests.lineage.lineages import IcebergLines, Lineage, MemoryLines, losses_in

SECOND = timedelta(seconds=1)
A, B = a_key(0), a_key(1)
OF_A, OF_B = frozenset({A.shard_id}), frozenset({B.shard_id})


@pytest.fixture(params=LAKES)
def line(request: pytest.FixtureRequest, tmp_path: Path) -> Lineage:
    """A lake table with landings of two shards and a gap. The last two ledgers aren't recorded."""
    made: Lineage = MemoryLines(tmp_path)
    if request.param != MEMORY:
        made = IcebergLines(tmp_path, an_iceberg(request, tmp_path))
    made.lake.table.commit(ORIGIN)
    land(made, A, 10)
    land(made, B, 100)
    made.lake.table.commit(Proposal((a_range(A, 10, 15, kind=Kind.SKIPPED),)))
    made.table.record()
    land(made, A, 20)
    land(made, B, 200)
    return made


def land(line: Lineage, key: ShardKey, number: int) -> None:
    found = line.lake.table.load().positions.of(key)
    after = None if found is None else found.sequence
    committed = line.lake.table.commit(
        a_landing(line.lake.table.staging_spec(), key, after=after, numbers=[number])
    )
    assert not committed.landing.refused


def ends(line: Lineage, asked: RangeFilter) -> list[int | None]:
    """Where the ranges end that a reader gets, before and after a recording of the rest."""
    before = list(line.handle().entries(asked))
    line.table.record()
    assert list(line.handle().entries(asked)) == before
    pages = [each.page for each in before if isinstance(each, LedgerEntry)]
    return [each.upto.sequence for page in pages for each in page.ranges]


def test_without_a_condition_all_ledgers_are_there(line: Lineage):
    assert ends(line, ALL_RANGES) == [10, 100, 15, 20, 200]
    assert list(line.table.entries(ALL_RANGES)) == list(line.table.entries())


def test_ranges_of_one_shard(line: Lineage):
    assert ends(line, RangeFilter(shards=OF_A)) == [10, 15, 20]
    assert ends(line, RangeFilter(shards=OF_B)) == [100, 200]
    assert ends(line, RangeFilter(shards=OF_A | OF_B)) == [10, 100, 15, 20, 200]
    assert ends(line, RangeFilter(shards=frozenset())) == []


def test_ranges_of_one_stream(line: Lineage):
    assert ends(line, RangeFilter(stream=A.stream.name)) == [10, 100, 15, 20, 200]
    assert ends(line, RangeFilter(stream="another")) == []


def test_ranges_of_some_kinds(line: Lineage):
    assert ends(line, RangeFilter(kinds=frozenset({Kind.SKIPPED, Kind.REPLAY}))) == [15]
    assert ends(line, RangeFilter(kinds=frozenset({Kind.LANDED}), shards=OF_A)) == [10, 20]


@pytest.mark.parametrize(
    ("number", "wanted"),
    [(5, [10, 100]), (10, [10, 100, 15]), (12, [100, 15]), (20, [100, 20]), (150, [200]), (201, [])],
)
def test_ranges_that_may_have_a_sequence_number(line: Lineage, number: int, wanted: list[int]):
    assert ends(line, RangeFilter(number=number)) == wanted


def test_ledgers_up_to_a_snapshot(line: Lineage):
    entries = list(line.table.entries())
    for entry in entries:
        upto = [each for each in entries if each.sequence <= entry.sequence]
        assert list(line.table.entries(RangeFilter(upto=entry.sequence))) == upto
    line.table.record()
    for entry in entries:
        upto = [each for each in entries if each.sequence <= entry.sequence]
        assert list(line.table.entries(RangeFilter(upto=entry.sequence))) == upto


def test_ledgers_after_a_snapshot(line: Lineage):
    entries = list(line.table.entries())
    for _ in range(2):
        for entry in entries:
            above = [each for each in entries if each.sequence > entry.sequence]
            assert list(line.table.entries(RangeFilter(above=entry.sequence))) == above
            asked = RangeFilter(above=entry.sequence - 1, upto=entry.sequence)
            assert list(line.table.entries(asked)) == [entry]
        line.table.record()


def test_ranges_whose_first_record_arrived_in_some_time(line: Lineage):
    for number, key in ((30, A), (300, B)):
        at = line.lake.table.load().positions.of(key)
        made = a_landing(
            line.lake.table.staging_spec(), key, after=at.sequence if at else None, numbers=[number]
        )
        arrival = NOON + number * SECOND
        ranges = tuple(replace(each, first_arrival=arrival, last_arrival=arrival) for each in made.ranges)
        assert not line.lake.table.commit(replace(made, ranges=ranges)).landing.refused
    # Of the others nothing tells when their records arrived.
    assert ends(line, RangeFilter(arrived=(NOON, NOON + 301 * SECOND))) == [30, 300]
    assert ends(line, RangeFilter(arrived=(NOON + 30 * SECOND, NOON + 300 * SECOND))) == [30]
    assert ends(line, RangeFilter(arrived=(NOON, NOON + 301 * SECOND), shards=OF_B)) == [300]


def test_joined_ranges_stand_for_all_of_a_shard(line: Lineage):
    for number in range(21, 27):
        land(line, A, number)
    for _ in range(2):
        whole = [*_ranges_of(line, RangeFilter(), A)]
        joined = [*_ranges_of(line, RangeFilter(joining=Joining(10**9, by_day=True)), A)]
        assert (joined[0], joined[-1]) == (whole[0], whole[-1])
        assert sum(each.joined for each in joined) == len(whole)
        assert sum(each.rows for each in joined) == sum(each.rows for each in whole)
        assert [each.kind for each in joined].count(Kind.SKIPPED) == 1
        below = [*_ranges_of(line, RangeFilter(joining=Joining(0)), A)]
        assert below == whole
        line.table.record()


def _ranges_of(line: Lineage, asked: RangeFilter, key: ShardKey) -> Iterator[Range]:
    for entry in line.handle().entries(asked):
        if isinstance(entry, LedgerEntry):
            yield from (each for each in entry.page.ranges if each.key == key)


def test_origins_are_there_whatever_ranges_are_asked_for(line: Lineage):
    (entry,) = line.table.entries(RangeFilter(shards=frozenset()))
    assert isinstance(entry, LedgerEntry)
    assert entry.page.origins == ORIGIN.origins


def test_removed_ends_are_those_of_the_shards_that_are_asked_for(line: Lineage):
    line.lake.table.commit(Proposal((a_range(A, 20, Position(20, ended=True, children=(B.shard_id,))),)))
    line.lake.table.commit(Proposal(drop=(A,)))
    for _ in range(2):
        dropped = {
            shards: [
                key
                for each in line.table.entries(RangeFilter(shards=shards))
                if isinstance(each, LedgerEntry)
                for key in each.page.dropped
            ]
            for shards in (OF_A, OF_B)
        }
        assert dropped == {OF_A: [A], OF_B: []}
        line.table.record()


def test_lost_parts_are_there_whatever_ranges_are_asked_for(line: Lineage):
    line.lake.append_as_others()
    line.lake.expire_all_but_the_head(forget=True)
    line.table.record()
    (lost,) = losses_in(line.table)
    for asked in (RangeFilter(shards=OF_B), RangeFilter(kinds=frozenset()), RangeFilter(number=7)):
        found = [each for each in line.table.entries(asked) if isinstance(each, Lost)]
        assert found == [lost]
    before = RangeFilter(upto=lost.sequence - 1)
    assert not [each for each in line.table.entries(before) if isinstance(each, Lost)]


def test_after_a_rollback_nothing_above_is_told(line: Lineage):
    line.table.record()
    line.lake.rollback(1)
    assert ends(line, RangeFilter(shards=OF_B)) == [100]
