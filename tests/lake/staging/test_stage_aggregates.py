"""What a staging task makes of aggregates: rows, counts and positions, and how it goes on inside an aggregate."""

from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from headrace.pipeline.core.ledger.batch import Batch, Manifest
from headrace.pipeline.core.shards.position import Position
from headrace.pipeline.core.shards.shard import HashRange
from headrace.pipeline.kcl.deaggregate import OUTSIDE
from headrace.pipeline.lake.staging import stage_read
from headrace.pipeline.lake.staging.stage_task import stage_batches
from headrace.pipeline.ports.pages import RecordPage
from tests.kcl.kpl import entry, message, sealed
from tests.lake.kpl_pages import a_page_of, aggregate
from tests.lake.samples import NOON, StandingClock
from tests.lake.stage_script import ROOMY, a_batch, a_spec, script, staged_of

ABC = aggregate(b"a", b"b", b"c")
BROKEN = sealed(message(entry(0, b"a"), entry(7, b"b")))


def stage(batch: Batch, *pages: RecordPage, folder: Path, unpack: bool = True) -> Manifest:
    return stage_batches(
        [batch],
        script(s0=list(pages)),
        spec=replace(a_spec(folder), unpack=unpack),
        limits=ROOMY,
        threads=1,
        clock=StandingClock(),
    )


def landed(manifest: Manifest) -> list[tuple[int, int, bytes, str | None]]:
    names = ("sequence_number", "sub_sequence_number", "data", "decode_error")
    found: list[tuple[int, int, bytes, str | None]] = []
    for file in manifest.files:
        table = pq.ParquetFile(file.path).read().to_pydict()
        for number, sub, data, why in zip(*(table[name] for name in names), strict=True):
            found.append((int(number), sub, data, why))
    return found


def test_each_user_record_is_a_row_and_records_and_rows_are_counted(tmp_path: Path):
    manifest = stage(a_batch(), a_page_of(b"plain", ABC, aggregate(b"d")), folder=tmp_path)

    done = staged_of(manifest)
    assert landed(manifest) == [
        (1, 0, b"plain", None),
        (2, 0, b"a", None),
        (2, 1, b"b", None),
        (2, 2, b"c", None),
        (3, 0, b"d", None),
    ]
    assert (done.records, done.rows, done.unpacked) == (3, 5, True)
    assert done.bytes == len(b"plain" + ABC + aggregate(b"d"))
    assert sum(file.rows for file in manifest.files) == 5


def test_the_position_is_the_last_user_record_of_the_last_kinesis_record(tmp_path: Path):
    """KCL goes on after exactly that user record, so that a lease that goes back to KCL delivers nothing twice."""
    manifest = stage(a_batch(), a_page_of(b"plain", ABC), folder=tmp_path)

    assert staged_of(manifest).upto.token == (2, 2, False)
    plain_last = stage(a_batch(), a_page_of(ABC, b"plain"), folder=tmp_path)
    assert staged_of(plain_last).upto.token == (2, 0, False)


def test_in_a_table_that_keeps_aggregates_each_kinesis_record_is_a_row(tmp_path: Path):
    manifest = stage(a_batch(), a_page_of(b"plain", ABC, BROKEN), folder=tmp_path, unpack=False)

    done = staged_of(manifest)
    assert landed(manifest) == [(1, 0, b"plain", None), (2, 0, ABC, None), (3, 0, BROKEN, None)]
    assert (done.records, done.rows, done.unpacked, done.upto.sub) == (3, 3, False, 0)


@pytest.mark.parametrize("after", [Position(1, 0, inside=True), Position(1, 1), Position(1, 1, inside=True)])
@pytest.mark.parametrize("more", [(), (b"next",)])
def test_reading_goes_on_with_the_user_record_after_the_position(
    tmp_path: Path, after: Position, more: tuple[bytes, ...]
):
    manifest = stage(a_batch(after=after), a_page_of(ABC, *more), folder=tmp_path)

    done, left = staged_of(manifest), [(1, 1, b"b", None), (1, 2, b"c", None)][after.sub :]
    assert landed(manifest) == left + [(2, 0, data, None) for data in more]
    assert (done.records, done.rows) == (1 + len(more), len(left) + len(more))
    assert (done.upto.token, done.upto.inside) == ((2, 0, False) if more else (1, 2, False), False)


@pytest.mark.parametrize(
    ("data", "sub"),
    [(b"plain", 0), (ABC, 2), (ABC[:-1], 0)],
    ids=["plain", "the last user record", "damaged"],
)
def test_of_a_record_that_was_read_to_its_end_nothing_lands_again(tmp_path: Path, data: bytes, sub: int):
    after = Position(1, sub, arrival=NOON, inside=True)
    page = a_page_of(data, b"next")

    manifest = stage(a_batch(after=after), page, folder=tmp_path)

    done = staged_of(manifest)
    assert landed(manifest) == [(2, 0, b"next", None)]
    assert (done.records, done.rows, done.bytes) == (1, 1, 4)
    assert done.first_arrival == NOON + timedelta(seconds=1)
    alone = staged_of(stage(a_batch(after=after), a_page_of(data), folder=tmp_path / "alone"))
    assert (alone.records, alone.rows, alone.bytes, alone.first_arrival) == (0, 0, 0, None)
    assert alone.upto == Position(1, sub, arrival=NOON), "it is known now that nothing is left of it"


def test_a_wave_sees_that_a_shard_is_quiet_although_it_reads_the_last_aggregate_again(tmp_path: Path):
    """Otherwise the shard would look like one that may have lost records, once the retention has passed."""
    later = NOON + timedelta(hours=1)
    after = Position(1, 2, arrival=NOON)
    empty = replace(
        a_page_of(b"", answered=later), records=None, rows=0, bytes=0, last_sequence=None, last_arrival=None
    )

    done = staged_of(stage(a_batch(after=after), a_page_of(ABC), empty, folder=tmp_path))

    assert done.upto == Position(1, 2, arrival=NOON, seen=later)
    assert (done.rows, done.at_tip) == (0, True)


def test_the_rest_of_an_aggregate_that_cant_be_taken_apart_lands_whole_and_once(tmp_path: Path):
    """KCL delivers the user records before the broken one and forgets the others."""
    manifest = stage(a_batch(after=Position(1, 0, inside=True)), a_page_of(BROKEN), folder=tmp_path)

    ((number, sub, data, why),) = landed(manifest)
    assert (number, sub, data) == (1, 1, BROKEN)
    assert "user record 1 of 2 is broken" in str(why)
    upto = staged_of(manifest).upto
    assert upto.token == (1, 1, False)
    assert landed(stage(a_batch(after=upto), a_page_of(BROKEN), folder=tmp_path / "again")) == []


def test_a_table_that_keeps_aggregates_refuses_a_part_of_one(tmp_path: Path):
    manifest = stage(
        a_batch(after=Position(1, 0, inside=True)), a_page_of(ABC), folder=tmp_path, unpack=False
    )

    done = staged_of(manifest)
    assert "set `landing.aggregates: unpack`" in str(done.error)
    assert (done.rows, done.upto.token, landed(manifest)) == (0, (1, 0, False), [])


def test_a_table_that_keeps_aggregates_goes_on_after_an_aggregate_that_was_read_to_its_end(tmp_path: Path):
    manifest = stage(
        a_batch(after=Position(1, 2, inside=True)), a_page_of(ABC, ABC), folder=tmp_path, unpack=False
    )

    assert landed(manifest) == [(2, 0, ABC, None)]


def test_user_records_outside_of_the_shard_leave_their_aggregate_whole(tmp_path: Path):
    """The batch has the hash range of the shard's lease row."""
    outside = sealed(message(entry(0, b"a", hash_key=0), hash_keys=(b"11",)))
    batch = replace(a_batch(), hash_range=HashRange(0, 10))

    assert landed(stage(batch, a_page_of(outside), folder=tmp_path)) == [(1, 0, outside, OUTSIDE)]


def test_of_a_page_that_fails_after_some_of_its_rows_were_written_nothing_is_staged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """Else these rows would land with the shard's other pages, and again when the page is read again."""

    def half(page: pa.RecordBatch, shard: HashRange | None) -> Iterator[pa.RecordBatch]:
        yield page.slice(0, 1)
        raise MemoryError

    monkeypatch.setattr(stage_read, "taken_apart", half)

    manifest = stage(a_batch(), a_page_of(b"1", b"2"), folder=tmp_path)

    done = staged_of(manifest)
    assert (done.rows, done.upto, manifest.files) == (0, Position(), ())
    assert "could not be written" in str(done.error)
