"""Readings that end at a position, as those of windows do: nothing after the position is staged, also of the position's own record."""

from dataclasses import replace
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from headrace.pipeline.core.ledger.batch import Batch, BatchLimits
from headrace.pipeline.core.shards.position import Position
from headrace.pipeline.lake.staging.stage_task import stage_batches
from tests.lake.kpl_pages import a_page_of, aggregate
from tests.lake.samples import NOON, StandingClock
from tests.lake.stage_script import DAY, ROOMY, a_batch, a_page, a_spec, rows_of, script, stage, staged_of


def until(position: Position, after: Position | int | None = None) -> Batch:
    return replace(a_batch(after=after), until=position, goes_on=True)


def test_later_records_of_a_page_are_left_out_and_no_further_page_is_read(tmp_path: Path):
    pages = script(s0=[a_page(1, 2, behind=9), a_page(3, 4, 5, behind=3), a_page(6)])
    manifest = stage([until(Position(4, arrival=NOON))], pages, tmp_path)
    done = staged_of(manifest)
    assert (done.upto, done.rows, done.records, done.bytes, done.pages) == (
        Position(4, arrival=NOON),
        4,
        4,
        28,
        2,
    )
    assert [number for _, number in rows_of(manifest)] == [1, 2, 3, 4]


def test_the_reading_ends_at_the_position_where_its_record_has_left_the_stream(tmp_path: Path):
    done = staged_of(stage([until(Position(4), after=2)], script(s0=[a_page(7, behind=3)]), tmp_path))
    assert (done.upto, done.rows) == (Position(4), 0)


@pytest.mark.parametrize("page", [a_page(), a_page(children=("shardId-000000000001",))])
def test_a_shard_without_later_records_ends_the_reading_at_the_position(tmp_path: Path, page: object):
    done = staged_of(stage([until(Position(4), after=2)], script(s0=[page]), tmp_path))
    assert (done.upto, done.error) == (Position(4), None)


def test_an_empty_page_behind_the_newest_record_doesnt_end_it(tmp_path: Path):
    pages = script(s0=[a_page(behind=9), a_page(3, behind=2), a_page(5)])
    done = staged_of(stage([until(Position(4), after=2)], pages, tmp_path))
    assert (done.upto, done.rows) == (Position(4), 1)


def test_the_limits_of_a_wave_end_a_reading_before_its_position(tmp_path: Path):
    few = BatchLimits(records=1, bytes=1 << 30, seconds=60)
    pages = script(s0=[a_page(3, behind=9), a_page(4, 5, behind=2)])
    done = staged_of(stage([until(Position(4), after=2)], pages, tmp_path, limits=few))
    assert done.upto == Position(3, arrival=NOON)


def test_up_to_an_end_all_records_of_the_shard_are_read(tmp_path: Path):
    children = ("shardId-000000000001",)
    pages = script(s0=[a_page(3, behind=9), a_page(8, children=children)])
    done = staged_of(stage([until(Position(2, ended=True), after=2)], pages, tmp_path))
    assert done.upto == Position(8, ended=True, children=children, arrival=NOON)
    assert done.rows == 2


def test_records_that_have_left_the_stream_before_the_position_are_a_gap(tmp_path: Path):
    pages = script(s0=[a_page(3, 5, answered=NOON + 2 * DAY)])
    done = staged_of(stage([until(Position(4), after=2)], pages, tmp_path))
    assert done.gap is not None
    assert (done.gap.since, done.upto, done.rows) == (NOON, Position(4), 1)


ABC = aggregate(b"a", b"b", b"c")


def rows_up_to(
    until_there: Position, folder: Path, *, after: Position | None = None, unpack: bool
) -> list[tuple[str, int, bytes]]:
    manifest = stage_batches(
        [until(until_there, after)],
        script(s0=[a_page_of(ABC, b"later")]),
        spec=replace(a_spec(folder), unpack=unpack),
        limits=ROOMY,
        threads=1,
        clock=StandingClock(),
    )
    done = staged_of(manifest)
    found = [pq.ParquetFile(file.path).read().to_pydict() for file in manifest.files]
    rows = [
        row
        for each in found
        for row in zip(each["sequence_number"], each["sub_sequence_number"], each["data"], strict=True)
    ]
    assert (done.error, done.upto, done.rows) == (None, until_there, len(rows))
    return rows


@pytest.mark.parametrize(
    ("until_there", "subs"),
    [(Position(1, 1, inside=True), [0, 1]), (Position(1, 0, inside=True), [0]), (Position(1), [0, 1, 2])],
)
def test_of_an_aggregate_at_the_position_only_user_records_up_to_there_are_taken(
    tmp_path: Path, until_there: Position, subs: list[int]
):
    """The next range of the lake table begins with the user records after it."""
    assert [(n, s) for n, s, _ in rows_up_to(until_there, tmp_path, unpack=True)] == [("1", s) for s in subs]


@pytest.mark.parametrize(
    ("until_there", "rows"),
    [
        (Position(1, 1, inside=True), [("1", 0, b"a"), ("1", 1, b"b")]),
        (Position(1, 0, inside=True), [("1", 0, b"a")]),
        (Position(1, 2, inside=True), [("1", 0, ABC)]),
        (Position(1), [("1", 0, ABC)]),
        (Position(2, 0, inside=True), [("1", 0, ABC), ("2", 0, b"later")]),
    ],
)
def test_where_aggregates_are_kept_only_one_in_which_the_reading_ends_is_taken_apart(
    tmp_path: Path, until_there: Position, rows: list[tuple[str, int, bytes]]
):
    """As a whole it would come again with what is read after the position."""
    assert rows_up_to(until_there, tmp_path, unpack=False) == rows


def test_where_aggregates_are_kept_a_reading_begins_with_what_is_left_of_one(tmp_path: Path):
    after = Position(1, 0, inside=True)
    found = rows_up_to(Position(2), tmp_path, after=after, unpack=False)
    assert found == [("1", 1, b"b"), ("1", 2, b"c"), ("2", 0, b"later")]
