"""The data files that a staging task writes, and what its manifest says about them."""

import os
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from socket import gethostname
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from headrace.pipeline.core.landing.landing import Proposal
from headrace.pipeline.core.shards.position import Position
from headrace.pipeline.core.shards.stream import ShardKey, StreamId
from headrace.pipeline.errors import BadSetting, WrongShape
from headrace.pipeline.lake.files import stage_files
from headrace.pipeline.lake.files.stage_files import CantWrite, TaskFiles
from headrace.pipeline.lake.staging.stage_task import stage_batches
from tests.lake.samples import NOON, StandingClock, a_key, a_range, with_origin
from tests.lake.stage_script import (
    ROOMY,
    a_batch,
    a_page,
    a_spec,
    across_midnight,
    files_in,
    rows_of,
    script,
    stage,
    staged_of,
)
from tests.lake.tables import IcebergLake
from tests.lake.written import write_files


def test_a_task_writes_one_file_for_each_day_with_all_its_shards_in_order(tmp_path: Path):
    pages = script(
        **{f"s{n}": [a_page(5, 6, key=a_key(n), behind=1), a_page(7, key=a_key(n))] for n in range(3)}
    )

    manifest = stage([a_batch(n) for n in (2, 0, 1)], pages, tmp_path, threads=3)

    (file,) = manifest.files
    assert rows_of(manifest) == [(a_key(n).shard_id, number) for n in range(3) for number in (5, 6, 7)]
    assert file.shards == {a_key(0), a_key(1), a_key(2)}
    assert (file.rows, file.partition, file.staged_at) == (9, "2026-01-31", NOON)


def test_a_file_is_in_its_days_folder_with_a_new_name(tmp_path: Path):
    manifest = stage([a_batch()], script(s0=[a_page(1)]), f"{tmp_path}/data/")

    assert manifest.files[0].path == f"{tmp_path}/data/arrival_ts_day=2026-01-31/file-0.parquet"
    assert files_in(tmp_path) == ["data/arrival_ts_day=2026-01-31/file-0.parquet"]


def test_names_are_never_used_twice(tmp_path: Path):
    paths = [
        file.path
        for _ in range(2)
        for file in stage_batches(
            [a_batch()], script(s0=[a_page(1)]), spec=a_spec(tmp_path), limits=ROOMY, threads=1
        ).files
    ]

    assert len(set(paths)) == 2
    assert len(files_in(tmp_path)) == 2


def test_a_file_uri_keeps_its_form_in_the_manifest(tmp_path: Path):
    manifest = stage([a_batch()], script(s0=[a_page(1)]), f"file://{tmp_path}/data")

    assert manifest.files[0].path.startswith(f"file://{tmp_path}/data/arrival_ts_day=")
    assert len(files_in(tmp_path)) == 1


def test_rows_around_midnight_utc_are_in_the_file_of_the_day_they_arrived_on(tmp_path: Path):
    midnight = datetime(2026, 2, 1, tzinfo=UTC)
    tick = timedelta(microseconds=1)
    arrivals = [
        midnight - tick,
        midnight,
        midnight + timedelta(hours=23, minutes=59),
        midnight + timedelta(days=1),
    ]

    manifest = stage([a_batch()], script(s0=[across_midnight(*arrivals)]), tmp_path)

    by_day = {file.partition: file for file in manifest.files}
    assert {day: file.rows for day, file in by_day.items()} == {
        "2026-01-31": 1,
        "2026-02-01": 2,
        "2026-02-02": 1,
    }
    assert all(file.shards == {a_key()} for file in manifest.files)
    numbers = pq.ParquetFile(by_day["2026-02-01"].path).read()["sequence_number"].to_pylist()
    assert numbers == ["2", "3"]


def test_rows_whose_arrivals_go_back_over_midnight_are_ordered_by_sequence_number(tmp_path: Path):
    midnight = datetime(2026, 2, 1, tzinfo=UTC)
    second = timedelta(seconds=1)
    page = across_midnight(midnight - second, midnight, midnight - second, midnight)

    manifest = stage([a_batch()], script(s0=[page]), tmp_path)

    found = [pq.ParquetFile(file.path).read()["sequence_number"].to_pylist() for file in manifest.files]
    assert found == [["1", "3"], ["2", "4"]]


def test_every_column_carries_the_tables_field_id(tmp_path: Path):
    manifest = stage([a_batch()], script(s0=[a_page(1)]), tmp_path)

    schema = pq.ParquetFile(manifest.files[0].path).schema_arrow
    ids = {f.name: int((f.metadata or {})[b"PARQUET:field_id"]) for f in schema}
    assert ids == dict(a_spec(tmp_path).field_ids)


def test_additional_columns_of_the_table_are_left_out(tmp_path: Path):
    spec = a_spec(tmp_path)
    spec = replace(spec, field_ids=(*spec.field_ids, ("added_by_spark", 99)))

    manifest = stage_batches([a_batch()], script(s0=[a_page(1)]), spec=spec, limits=ROOMY, threads=1)

    assert "added_by_spark" not in pq.ParquetFile(manifest.files[0].path).schema_arrow.names


def test_a_table_that_lacks_a_column_is_refused_and_no_file_is_left(tmp_path: Path):
    spec = a_spec(tmp_path)
    spec = replace(spec, field_ids=tuple(pair for pair in spec.field_ids if pair[0] != "data"))

    manifest = stage_batches([a_batch(after=1)], script(s0=[a_page(2)]), spec=spec, limits=ROOMY, threads=1)

    assert "the lake table lacks columns that Headrace writes: data" in (staged_of(manifest).error or "")
    assert (manifest.files, files_in(tmp_path)) == ((), [])


def test_the_footer_in_the_manifest_equals_the_files_own(tmp_path: Path):
    (file,) = stage([a_batch()], script(s0=[a_page(1, 2, 3)]), tmp_path).files

    footer = pq.read_metadata(pa.BufferReader(file.footer))

    own = pq.read_metadata(file.path)
    assert (footer.num_rows, footer.num_row_groups) == (own.num_rows, own.num_row_groups) == (3, 1)
    assert footer.row_group(0).to_dict() == own.row_group(0).to_dict()
    assert file.size == Path(file.path).stat().st_size


def test_the_footer_holds_neither_payloads_nor_partition_keys(tmp_path: Path):
    (file,) = stage([a_batch()], script(s0=[a_page(1, payload=b"payload-canary")]), tmp_path).files

    assert b"canary" not in file.footer
    assert b"customer" not in file.footer
    assert b"shardId-000000000000" in file.footer


def test_files_are_compressed_as_the_spec_says(tmp_path: Path):
    (file,) = stage([a_batch()], script(s0=[a_page(1)]), tmp_path).files

    assert pq.read_metadata(file.path).row_group(0).column(8).compression == "ZSTD"


def test_a_row_group_is_closed_at_its_size_over_all_shards_of_the_task(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(stage_files, "ROW_GROUP", 1_500_000)
    payload = b"x" * 100_000
    pages = script(**{f"s{n}": [a_page(*range(1, 9), key=a_key(n), payload=payload)] for n in range(5)})

    (file,) = stage([a_batch(n) for n in range(5)], pages, tmp_path).files

    metadata = pq.read_metadata(file.path)
    assert [metadata.row_group(i).num_rows for i in range(metadata.num_row_groups)] == [16, 16, 8]
    assert (file.rows, file.shards) == (40, frozenset(a_key(n) for n in range(5)))


def test_each_row_group_holds_shard_after_shard_and_each_shard_by_sequence_number(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(stage_files, "ROW_GROUP", 350_000)
    files = TaskFiles(a_spec(tmp_path), now=StandingClock().now, fresh=lambda: "file")
    for number in (9, 10, 11, 12):
        for shard in (1, 0):
            page = a_page(number, key=a_key(shard), payload=b"x" * 100_000)
            assert page.records is not None
            files.add(a_key(shard), page.records)

    (file,) = files.finish()

    opened = pq.ParquetFile(file.path)
    groups = [opened.read_row_group(n).to_pydict() for n in range(opened.num_row_groups)]
    found = [list(zip(group["shard_id"], group["sequence_number"], strict=True)) for group in groups]
    zero, one = a_key(0).shard_id, a_key(1).shard_id
    assert found == [
        [(zero, "9"), (zero, "10"), (one, "9"), (one, "10")],
        [(zero, "11"), (zero, "12"), (one, "11"), (one, "12")],
    ]


def test_rows_wait_for_their_row_group_while_the_task_reads_and_no_longer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(stage_files, "ROW_GROUP", 1_000_000)
    payload = os.urandom(600_000)
    sizes: list[int] = []

    def look() -> None:
        sizes.append(sum(path.stat().st_size for path in tmp_path.rglob("*.parquet")))

    steps = [step for n in range(1, 7) for step in (a_page(n, payload=payload, behind=1), look)]
    stage([a_batch()], script(s0=[*steps, a_page(7)]), tmp_path)

    assert [size // 1_200_000 for size in sizes] == [0, 1, 1, 2, 2, 3]


def test_a_backlog_of_more_days_than_files_may_be_open_gets_all_its_rows_staged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(stage_files, "_OPEN_FILES", 2)
    days = [NOON + timedelta(days=n) for n in (0, 1, 2, 0, 3, 2)]
    steps = [a_page(n, arrival=day, behind=len(days) - n) for n, day in enumerate(days, start=1)]

    manifest = stage([a_batch()], script(s0=steps), tmp_path)

    found = sorted(number for _, number in rows_of(manifest))
    assert found == [1, 2, 3, 4, 5, 6]
    assert sum(file.rows for file in manifest.files) == 6
    for file in manifest.files:
        arrivals: list[Any] = pq.ParquetFile(file.path).read()["arrival_ts"].to_pylist()
        assert {moment.date().isoformat() for moment in arrivals} == {file.partition}


def test_a_file_may_hold_shards_of_two_streams(tmp_path: Path):
    other = ShardKey(
        StreamId("arn:aws:kinesis:eu-west-1:123456789012:stream/clicks", 5), "shardId-000000000000"
    )
    pages = script(s0=[a_page(1)])
    batch = replace(a_batch(), key=other)

    manifest = stage([a_batch(), batch], pages, tmp_path)

    assert manifest.files[0].shards == {a_key(), other}


def test_files_are_written_by_the_scheme_of_their_location_or_refused(tmp_path: Path):
    manifest = stage([a_batch(after=1)], script(s0=[a_page(2)]), "ftp://somewhere/data")

    assert "Headrace writes to paths, file://, s3:// and s3a:// only" in (staged_of(manifest).error or "")
    assert not staged_of(manifest).moved


def test_staged_files_can_be_committed_and_read_back(tmp_path: Path):
    lake = IcebergLake(tmp_path / "lake")
    spec = lake.table.staging_spec()
    pages = script(s0=[a_page(1, 2, 3)], s1=[a_page(4, key=a_key(1))])
    manifest = stage_batches(
        [a_batch(), a_batch(1)], pages, spec=spec, limits=ROOMY, threads=1, clock=StandingClock()
    )
    ranges = tuple(
        a_range(each.key, each.after, each.upto, rows=each.rows, files=manifest.files)
        for each in manifest.staged
    )

    committed = lake.table.commit(with_origin(Proposal(ranges, manifest.files)))

    assert committed.landing.refused == ()
    assert lake.numbers() == {a_key(0).shard_id: [1, 2, 3], a_key(1).shard_id: [4]}


# --- disk full ----------------------------------------------------------------------------------------------


def _full_disk_at_file(number: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The n-th file can be begun, and then the disk is full."""
    real, begun = pq.ParquetWriter.write_table, [0]

    def write_table(self: pq.ParquetWriter, table: pa.Table, **how: Any) -> None:
        begun[0] += 1
        real(self, table, **how)
        if begun[0] == number:
            raise OSError(28, "No space left on device")

    monkeypatch.setattr(pq.ParquetWriter, "write_table", write_table)


@contextmanager
def largest_file(size: int) -> Iterator[None]:
    """The kernel refuses to make a file of this process larger than this."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_the_error_of_a_file_that_cant_grow_is_the_kernels_and_not_pyarrows_second_one(tmp_path: Path):
    """pyarrow then raises "file metadata is only available after writer close"."""
    page = a_page(6, payload=os.urandom(100_000))

    with largest_file(4096):
        manifest = stage([a_batch(after=5)], script(s0=[page]), tmp_path)

    assert "File too large" in (staged_of(manifest).error or "")
    assert not staged_of(manifest).moved
    assert (manifest.files, files_in(tmp_path)) == ((), [])


def test_the_error_for_a_full_disk_says_so_with_host_and_folder(tmp_path: Path):
    folder = tmp_path / "arrival_ts_day=2026-01-31"
    folder.mkdir()
    (folder / "file-0.parquet").symlink_to("/dev/full")

    manifest = stage([a_batch(after=5)], script(s0=[a_page(6)]), tmp_path)

    why = staged_of(manifest).error or ""
    assert (
        f"the disk is full: on the host {gethostname()}, data files could not be written to {tmp_path}" in why
    )
    assert "no position moved. Make space there" in why
    assert not staged_of(manifest).moved
    assert (manifest.files, files_in(tmp_path)) == ((), [])


def test_a_full_disk_fails_every_shard_of_the_file_with_a_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    _full_disk_at_file(1, monkeypatch)
    pages = script(s0=[a_page(6)], s1=[a_page(6, key=a_key(1))], s2=[a_page(key=a_key(2), answered=NOON)])

    manifest = stage([a_batch(n, 5) for n in range(3)], pages, tmp_path)

    assert [each.upto for each in manifest.staged[:2]] == [each.after for each in manifest.staged[:2]]
    assert all("No space left on device" in (each.error or "") for each in manifest.staged[:2])
    assert not any(each.rows or each.moved for each in manifest.staged[:2])
    assert staged_of(manifest, 2).upto == Position(5, arrival=NOON, seen=NOON)
    assert (manifest.files, files_in(tmp_path)) == ((), [])


def test_if_the_disk_is_full_at_the_second_day_the_first_days_file_is_deleted_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    _full_disk_at_file(2, monkeypatch)
    midnight = datetime(2026, 2, 1, tzinfo=UTC)

    manifest = stage(
        [a_batch(after=5)], script(s0=[across_midnight(midnight - timedelta(seconds=1), midnight)]), tmp_path
    )

    assert manifest.files == ()
    assert files_in(tmp_path) == []
    assert not staged_of(manifest).moved


def test_the_error_for_a_folder_that_cant_be_made_names_it(tmp_path: Path):
    (tmp_path / "data").write_text("a file where a folder should be")

    manifest = stage([a_batch(after=5)], script(s0=[a_page(6)]), tmp_path / "data")

    assert f"could not be written to {tmp_path}/data" in (staged_of(manifest).error or "")
    assert not staged_of(manifest).moved


def test_the_errors_for_unusable_tables_are_wrong_shape_and_bad_setting(tmp_path: Path):
    clock = StandingClock()
    rows = {a_key(): [page.records for page in [a_page(1)] if page.records]}

    with pytest.raises(CantWrite) as unknown_scheme:
        write_files(rows, a_spec("ftp://x/y"), now=clock.now, fresh=str)
    with pytest.raises(CantWrite) as no_columns:
        write_files(rows, replace(a_spec(tmp_path), field_ids=()), now=clock.now, fresh=str)
    assert isinstance(unknown_scheme.value.error, BadSetting)
    assert isinstance(no_columns.value.error, WrongShape)


def test_an_unexpected_error_in_writing_stages_nothing_and_its_text_isnt_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    def write_table(*_: Any, **__: Any) -> None:
        raise ValueError("payload-canary")

    monkeypatch.setattr(pq.ParquetWriter, "write_table", write_table)

    manifest = stage([a_batch(after=5)], script(s0=[a_page(6)]), tmp_path)

    assert "an unexpected ValueError" in (staged_of(manifest).error or "")
    assert "canary" not in str(manifest)
    assert (manifest.files, files_in(tmp_path), staged_of(manifest).moved) == ((), [], False)


def test_a_full_disk_in_the_middle_of_the_reading_fails_the_shards_that_gave_rows_and_deletes_every_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(stage_files, "ROW_GROUP", 100)
    _full_disk_at_file(2, monkeypatch)
    pages = script(
        s0=[a_page(6, behind=1), a_page(7, behind=1), a_page(8)],
        s1=[a_page(6, key=a_key(1))],
        s2=[a_page(key=a_key(2), answered=NOON)],
    )

    manifest = stage([a_batch(n, 5) for n in range(3)], pages, tmp_path)

    assert [each.upto for each in manifest.staged[:2]] == [each.after for each in manifest.staged[:2]]
    assert all("No space left on device" in (each.error or "") for each in manifest.staged[:2])
    assert (staged_of(manifest, 2).error, manifest.files, files_in(tmp_path)) == (None, (), [])
