"""The table itself: how it is made, which properties are kept, its time stamps, and which files a commit refuses."""

import pickle
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from pyiceberg.exceptions import CommitFailedException
from pyiceberg.schema import Schema
from pyiceberg.table.sorting import UNSORTED_SORT_ORDER_ID
from pyiceberg.transforms import DayTransform, IdentityTransform
from pyiceberg.types import LongType, NestedField, StringType

from headrace.pipeline.core.landing.landing import Proposal
from headrace.pipeline.core.ledger.batch import StagedFile
from headrace.pipeline.errors import ClockOff, Unknown, WrongShape
from headrace.pipeline.lake.table import plain_read as read
from headrace.pipeline.lake.table.append import TAG
from headrace.pipeline.lake.table.catalog import embedded_catalog
from headrace.pipeline.lake.table.lake_table import IcebergTable
from headrace.pipeline.lake.table.schema import PROPERTIES, SCHEMA
from headrace.pipeline.task_identity import AwsKeys, TaskIdentity
from tests.lake.samples import NOON, ORIGIN, StandingClock, a_file, a_key, a_landing, a_range, with_origin
from tests.lake.tables import IcebergLake
from tests.lake.written import write_files
from tests.lakehouse import land

A, B = a_key(0), a_key(1)


@pytest.fixture
def lake(tmp_path: Path) -> IcebergLake:
    return IcebergLake(tmp_path)


# --- schema and properties
# --------------------------------------------------------------------------------------------------


def test_the_table_is_made_with_headraces_columns_partitioning_order_and_properties(lake: IcebergLake):
    table = lake.iceberg.open()
    assert table.schema().as_struct() == SCHEMA.as_struct()
    assert [(field.name, field.transform) for field in table.spec().fields] == [
        ("arrival_day", DayTransform())
    ]
    assert table.sort_order().order_id != UNSORTED_SORT_ORDER_ID
    assert table.format_version == 2
    assert PROPERTIES.items() <= table.properties.items()


def test_any_number_of_processes_may_make_the_table_at_once(tmp_path: Path):
    catalog = embedded_catalog(tmp_path)

    def make(_: int) -> str:
        table = IcebergTable(catalog, "lake.records", state=str(tmp_path / "state"), clock=StandingClock())
        table.ensure(create=True)
        return str(table.open().metadata.table_uuid)

    with ThreadPoolExecutor(4) as makers:
        assert len(set(makers.map(make, range(4)))) == 1


def test_removed_properties_are_set_again_at_the_next_start(lake: IcebergLake):
    with lake.iceberg.open().transaction() as change:
        change.remove_properties("write.metadata.previous-versions-max", "commit.manifest-merge.enabled")
    lake.handle().ensure(create=False)
    assert PROPERTIES.items() <= lake.iceberg.open().properties.items()


def test_changed_properties_stay_except_a_metadata_history_that_is_too_short(
    lake: IcebergLake,
):
    with lake.iceberg.open().transaction() as change:
        change.set_properties(
            {"commit.manifest.min-count-to-merge": "7", "write.metadata.previous-versions-max": "10"}
        )
    lake.handle().ensure(create=False)
    kept = lake.iceberg.open().properties
    assert kept["commit.manifest.min-count-to-merge"] == "7"
    assert kept["write.metadata.previous-versions-max"] == "200"


def test_a_start_that_finds_all_properties_set_commits_nothing(lake: IcebergLake):
    before = lake.iceberg.open().metadata_location
    lake.handle().ensure(create=False)
    assert lake.iceberg.open().metadata_location == before


def test_additional_columns_dont_disturb_the_landing(lake: IcebergLake):
    land(lake.iceberg, 1)
    with lake.iceberg.open().update_schema() as change:
        change.add_column("region", StringType())
    lake.handle().ensure(create=False)
    land(lake.iceberg, 2)
    assert read.rows(lake.iceberg, ["region"])["region"].to_pylist() == [None, None]
    assert lake.numbers() == {A.shard_id: [1, 2]}


def test_the_error_for_a_missing_column_names_it(lake: IcebergLake):
    with lake.iceberg.open().update_schema() as change:
        change.rename_column("arrival_ts", "arrived")
    with pytest.raises(WrongShape, match="no column arrival_ts"):
        lake.handle().ensure(create=False)
    with pytest.raises(WrongShape, match="no column arrival_ts"):
        lake.iceberg.commit(ORIGIN)


def test_the_error_for_a_column_of_another_type_names_it(tmp_path: Path):
    table = IcebergTable(
        embedded_catalog(tmp_path), "lake.records", state=str(tmp_path / "state"), clock=StandingClock()
    )
    table.catalog.create_namespace("lake")
    fields = [f for f in SCHEMA.fields if f.name != "sequence_number"]
    number = NestedField(4, "sequence_number", LongType(), required=False)
    table.catalog.create_table("lake.records", Schema(*fields, number))
    with pytest.raises(WrongShape, match="sequence_number as long"):
        table.ensure(create=True)


def test_another_partitioning_is_refused(lake: IcebergLake):
    with lake.iceberg.open().update_spec() as change:
        change.add_field("shard_id", IdentityTransform())
    with pytest.raises(WrongShape, match="partitioned by"):
        lake.handle().ensure(create=False)


def test_the_error_for_a_dropped_table_names_it(lake: IcebergLake):
    lake.iceberg.catalog.drop_table("lake.records")
    with pytest.raises(Unknown, match=r"lake\.records isn't in the catalog"):
        lake.iceberg.load()


def test_the_staging_spec_can_be_pickled_and_holds_keys_only_where_files_are_in_s3(tmp_path: Path):
    properties = embedded_catalog(tmp_path) | {
        "s3.endpoint": "http://127.0.0.1:9",
        "s3.region": "eu-west-1",
        "s3.access-key-id": "AKIA",
        "s3.secret-access-key": "canary",
    }
    table = IcebergTable(properties, "lake.records", state=str(tmp_path / "state"), clock=StandingClock())
    table.ensure(create=True)
    travelled = pickle.dumps(table.staging_spec())
    spec = pickle.loads(travelled)
    assert dict(spec.field_ids) == {field.name: field.field_id for field in SCHEMA.fields}
    assert b"canary" not in travelled
    beside = pickle.loads(pickle.dumps(table.spec_reaching("s3://lake/others")))
    assert dict(beside.options) == {"endpoint": "http://127.0.0.1:9", "region": "eu-west-1"}
    assert beside.identity == TaskIdentity(keys=AwsKeys("AKIA", "canary"))
    assert "canary" not in f"{beside!r} {beside}"


# --- files that a commit may name
# --------------------------------------------------------------------------------------


def a_file_without_field_ids(lake: IcebergLake) -> StagedFile:
    return a_file(lake.iceberg.staging_spec(), {A: [1]}, with_ids=False)


def a_file_with_other_field_ids(lake: IcebergLake) -> StagedFile:
    spec = lake.iceberg.staging_spec()
    swapped = tuple((name, {4: 3, 3: 4}.get(i, i)) for name, i in spec.field_ids)
    return a_file(replace(spec, field_ids=swapped), {A: [1]})


def a_file_for_another_day(lake: IcebergLake) -> StagedFile:
    return replace(a_file(lake.iceberg.staging_spec(), {A: [1]}), partition="2026-01-30")


def a_file_with_another_row_count(lake: IcebergLake) -> StagedFile:
    return replace(a_file(lake.iceberg.staging_spec(), {A: [1]}), rows=2)


def a_file_with_a_broken_footer(lake: IcebergLake) -> StagedFile:
    return replace(a_file(lake.iceberg.staging_spec(), {A: [1]}), footer=b"PAR1")


@pytest.mark.parametrize(
    ("bad", "why"),
    [
        (a_file_without_field_ids, "carries field id none"),
        (a_file_with_other_field_ids, "column shard_id carries field id 4, the table has 3"),
        (a_file_for_another_day, "all its rows arrived on 2026-01-30"),
        (a_file_with_another_row_count, "says 1 row, the staging result says 2"),
        (a_file_with_a_broken_footer, "footer can't be read"),
    ],
)
def test_a_file_that_would_harm_the_table_fails_the_whole_commit(
    lake: IcebergLake, bad: Callable[[IcebergLake], StagedFile], why: str
):
    good, wrong = a_file(lake.iceberg.staging_spec(), {B: [1]}), bad(lake)
    proposal = with_origin(
        Proposal((a_range(A, None, 1, files=[wrong]), a_range(B, None, 1, files=[good])), (good, wrong))
    )
    with pytest.raises(WrongShape, match=why):
        lake.iceberg.commit(proposal)
    assert lake.iceberg.load().snapshot is None


def test_committing_reads_no_data_file_again(lake: IcebergLake):
    proposal = a_landing(lake.iceberg.staging_spec(), A, after=None, numbers=[1])
    file = Path(proposal.files[0].path)
    content = file.read_bytes()
    file.write_bytes(b"")  # the file exists, and can't be read as Parquet
    assert not lake.iceberg.commit(with_origin(proposal)).landing.refused
    file.write_bytes(content)
    assert lake.numbers() == {A.shard_id: [1]}


def test_files_as_spark_tasks_write_them_land_without_a_warning(
    lake: IcebergLake, caplog: pytest.LogCaptureFixture
):
    spec = lake.iceberg.staging_spec()
    read_on = {A: [1, 2], B: [7]}
    rows = {key: pq.read_table(a_file(spec, {key: read_on[key]}).path).to_batches() for key in read_on}
    names = iter("abc")
    files = write_files(rows, spec, now=lambda: NOON, fresh=lambda: next(names))
    ranges = (a_range(A, None, 2, files=files), a_range(B, None, 7, files=files))
    assert not lake.iceberg.commit(with_origin(Proposal(ranges, files))).landing.refused
    assert lake.numbers() == {A.shard_id: [1, 2], B.shard_id: [7]}
    assert caplog.records == []
    bounds = next(iter(lake.iceberg.open().scan().plan_files())).file.lower_bounds
    assert set(bounds) == {1, 2, 3, 4, 5, 8, 11}  # statistics hold no payload and no partition key


def test_readers_find_rows_by_day_and_column_statistics(lake: IcebergLake):
    spec = lake.iceberg.staging_spec()
    days = [a_file(spec, {A: [n]}, arrival=NOON + timedelta(days=n)) for n in (0, 1)]
    lake.iceberg.commit(with_origin(Proposal((a_range(A, None, 1, files=days),), tuple(days))))
    scan = lake.iceberg.open().scan("arrival_ts >= '2026-02-01T00:00:00+00:00'")
    assert [task.file.file_path for task in scan.plan_files()] == [days[1].path]
    assert not list(lake.iceberg.open().scan(f"shard_id = '{B.shard_id}'").plan_files())
    assert {file.partition[0] for file in (task.file for task in scan.plan_files())} == {
        (date(2026, 2, 1) - date(1970, 1, 1)).days
    }


def test_the_snapshot_of_a_landed_file_is_known_after_manifests_were_merged(lake: IcebergLake):
    for n in range(25):
        land(lake.iceberg, n + 1)
    head = lake.iceberg.open().current_snapshot()
    assert head is not None
    assert len(head.manifests(lake.iceberg.open().io)) < 20
    by_ledger = {
        (entry.snapshot, name)
        for entry in read.ledger(lake.iceberg)
        for r in entry.page.ranges
        for name in r.files
    }
    assert {(file.snapshot, Path(file.path).name) for file in read.landed_files(lake.iceberg)} == by_ledger
    assert sum(file.rows for file in read.landed_files(lake.iceberg)) == 25


# --- time ---------------------------------------------------------------------------------------------------


def test_time_stamps_of_snapshots_never_go_back_however_clocks_differ(lake: IcebergLake):
    """Iceberg in Java, Go and Rust refuses a table whose time stamps go back."""
    proposals = [ORIGIN] + [
        a_landing(lake.iceberg.staging_spec(), A, after=n or None, numbers=[n + 1]) for n in range(3)
    ]
    ahead = datetime.now(UTC) + timedelta(minutes=3)
    for proposal, now in zip(proposals, [ahead, NOON, ahead - timedelta(hours=1), ahead], strict=True):
        lake.clock.at = now
        fresh = tuple(replace(file, staged_at=now) for file in proposal.files)
        assert not lake.iceberg.commit(replace(proposal, files=fresh)).landing.refused
    metadata = lake.iceberg.open().metadata
    snapshots = [entry.timestamp_ms for entry in metadata.snapshot_log]
    files = [entry.timestamp_ms for entry in metadata.metadata_log] + [metadata.last_updated_ms]
    assert snapshots == sorted(set(snapshots))
    assert files == sorted(files)


@pytest.mark.parametrize("off", [timedelta(seconds=31), timedelta(seconds=-31)])
def test_a_host_whose_clock_is_off_does_not_commit(tmp_path: Path, off: timedelta):
    lake = IcebergLake(tmp_path)
    table = IcebergTable(
        embedded_catalog(tmp_path),
        "lake.records",
        state=str(tmp_path / "state"),
        clock=lake.clock,
        date_of_aws=lambda: NOON + off,
    )
    with pytest.raises(ClockOff, match=r"differs from AWS's by [+-]31 s.*Nothing was committed"):
        table.commit(ORIGIN)
    assert lake.iceberg.load().snapshot is None


def test_a_host_whose_clock_is_slightly_off_commits(tmp_path: Path):
    lake = IcebergLake(tmp_path)
    table = IcebergTable(
        embedded_catalog(tmp_path),
        "lake.records",
        state=str(tmp_path / "state"),
        clock=lake.clock,
        date_of_aws=lambda: NOON - timedelta(seconds=30),
    )
    assert table.commit(ORIGIN).snapshot is not None


def test_a_commit_that_was_sent_twice_and_refused_the_second_time_lands_once(lake: IcebergLake):
    """A REST client that signs its requests for AWS repeats one whose answer it didn't get, and reports the second answer."""

    def refuse() -> None:
        raise CommitFailedException("main has moved")

    lake.after_next_swap(refuse)
    land(lake.iceberg, 1)
    assert lake.numbers() == {A.shard_id: [1]}


def test_an_old_request_names_what_a_rollback_of_main_leaves_as_it_is(lake: IcebergLake):
    """A catalog that looks at nothing but the request's requirements refuses the request, too, though main is on its base again."""
    land(lake.iceberg, 1)
    base = lake.iceberg.base_to_carry()
    late = lake.iceberg.prepare(base, base.carrying(), move_tag=True)
    lake.handle().carry()
    lake.rollback(1)
    now = lake.iceberg.open().metadata
    assert now.current_snapshot_id == base.table.metadata.current_snapshot_id
    (tag,) = [needed for needed in late.requirements if getattr(needed, "ref", "") == TAG]
    with pytest.raises(CommitFailedException, match="tag headrace has changed"):
        tag.validate(now)
