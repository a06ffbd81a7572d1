"""The lineage table on Iceberg: its form, tables that aren't its own, other engines, and faults."""

import random
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyiceberg.exceptions import CommitFailedException
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import NestedField, StringType

from headrace.pipeline.core.landing.landing import Proposal
from headrace.pipeline.core.ledger.filter import RangeFilter
from headrace.pipeline.core.ledger.ledger import Kind, LedgerEntry, LedgerPage, Lost, ParentIs, ParentReason
from headrace.pipeline.core.ledger.rows import lineage_rows_of
from headrace.pipeline.core.shards.position import Position
from headrace.pipeline.errors import ChainBroken, Unreachable, WrongShape
from headrace.pipeline.lake.table import plain_read as read
from headrace.pipeline.lake.table.data_files import data_files
from headrace.pipeline.lineage.schema import ROW_GROUP_LIMIT
from headrace.pipeline.lineage.table import Content, IcebergLineage, as_arrow
from tests.core.strategies import PAGES, POSITIONS
from tests.lake.samples import NOON, ORIGIN, a_file, a_key, a_range, at
from tests.lake.tables import IcebergLake, append_as_others, patch
from tests.lakehouse import land
from tests.lineage.iceberg_lines import NAME, A, B, forget_history, lineage_of, with_two_landings
from tests.lineage.lineages import IcebergLines, pages_in
from tests.memory.table import LostOnTheWay


@pytest.fixture
def line(tmp_path: Path) -> IcebergLines:
    return with_two_landings(tmp_path)


def footers_of(table: Table) -> list[pq.FileMetaData]:
    paths = [task.file.file_path.removeprefix("file://") for task in table.scan().plan_files()]
    return [pq.read_metadata(path) for path in paths]


# --- its form -----------------------------------------------------------------------------------------------


def test_a_row_tells_what_a_reader_without_headrace_asks(line: IcebergLines):
    file = a_file(line.ice.iceberg.staging_spec(), {B: [10, 11]})
    parents = (ParentReason(A.shard_id, ParentIs.ENDED),)
    line.lake.table.commit(Proposal((a_range(A, 2, Position(2, ended=True, children=(B.shard_id,))),)))
    child = a_range(B, None, 11, rows=2, files=[file], parents=parents)
    committed = line.lake.table.commit(Proposal((child,), (file,)))
    line.table.record()
    (row,) = lineage_of(line).scan(f"shard_id = '{B.shard_id}'").to_arrow().to_pylist()
    assert row["entry"] == "range"
    assert row["snapshot_id"] == committed.snapshot
    assert (row["stream"], row["stream_epoch"]) == (B.stream.name, B.stream.epoch)
    assert row["after"] is None
    assert (row["upto"]["sequence_number"], row["upto"]["ended"]) == ("11", False)
    assert (row["rows"], row["run"], row["claim"]) == (2, "run-1", "run-1/claim")
    assert row["files"] == [Path(file.path).name]
    assert row["parents"] == [{"shard_id": A.shard_id, "why": "ended", "by": None}]


@settings(max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(PAGES)
def test_any_ledger_comes_back_from_parquet_as_it_was(
    tmp_path_factory: pytest.TempPathFactory, page: LedgerPage
):
    """The page is put in place of the ledger of a real snapshot."""
    line = IcebergLines(tmp_path_factory.mktemp("lake"))
    line.lake.table.commit(ORIGIN)
    entry = next(iter(line.table.entries()))
    assert isinstance(entry, LedgerEntry)
    wanted = LedgerEntry(entry.snapshot, entry.sequence, entry.at, page, "orders-1")
    patch(line.table, "_entry", lambda _: wanted)
    line.table.record()
    assert list(line.handle().entries()) == [wanted]


def test_a_row_group_has_ranges_of_few_shards_also_in_a_table_of_an_older_version(line: IcebergLines):
    line.table.record()
    with lineage_of(line).transaction() as change:
        change.remove_properties(ROW_GROUP_LIMIT)
    assert isinstance(line.table, IcebergLineage)
    ledgers = [LedgerEntry(100 + n, 100 + n, NOON, LedgerPage(SHARDS)) for n in range(300)]
    rows = as_arrow([row for each in ledgers for row in lineage_rows_of(each)], lineage_of(line))
    line.table.commit(lambda look, _: Content(rows, (), look.recorded))
    groups = [file.row_group(i) for file in footers_of(lineage_of(line)) for i in range(file.num_row_groups)]
    asked = SHARDS[20].key.shard_id
    may_have = [each for each in groups if _has(each, asked)]
    assert sum(each.num_rows for each in groups) > 300 * len(SHARDS)
    assert sum(each.num_rows for each in may_have) < 300 * len(SHARDS) / 2
    found = list(line.handle().entries(RangeFilter(shards=frozenset({asked}), upto=10**6)))
    ranges = [each for entry in found if isinstance(entry, LedgerEntry) for each in entry.page.ranges]
    assert ranges == [SHARDS[20]] * 300


SHARDS = tuple(a_range(a_key(10 + n), 1, 2) for n in range(60))


def _has(group: pq.RowGroupMetaData, shard_id: str) -> bool:
    columns = [group.column(i) for i in range(group.num_columns)]
    bounds = next(each.statistics for each in columns if each.path_in_schema == "shard_id")
    assert bounds is not None
    return bounds.has_min_max and str(bounds.min) <= shard_id <= str(bounds.max)


def test_ranges_that_were_derived_for_a_lost_part_are_there_whatever_kinds_are_asked_for(line: IcebergLines):
    line.table.record()
    lost = Lost(100, 100, NOON, "gone", SHARDS[:2])
    rows = as_arrow(lineage_rows_of(lost), lineage_of(line))
    assert isinstance(line.table, IcebergLineage)
    line.table.commit(lambda look, _: Content(rows, (), look.recorded))
    asked = RangeFilter(kinds=frozenset({Kind.SKIPPED}))
    assert [each for each in line.handle().entries(asked) if isinstance(each, Lost)] == [lost]


KINDS = st.none() | st.frozensets(st.sampled_from(Kind), max_size=3)
NUMBERS = st.none() | POSITIONS.map(lambda at: at.sequence)


@settings(max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(PAGES, PAGES, KINDS, NUMBERS, st.randoms(use_true_random=False))
def test_a_reader_gets_what_is_asked_for_of_any_ledger(
    tmp_path_factory: pytest.TempPathFactory,
    page: LedgerPage,
    derived: LedgerPage,
    kinds: frozenset[Kind] | None,
    number: int | None,
    dice: random.Random,
):
    """The pages are put in place of the ledger of a real snapshot: the second one as ranges that were derived for a lost part."""
    line = IcebergLines(tmp_path_factory.mktemp("lake"))
    line.lake.table.commit(ORIGIN)
    entry = next(iter(line.table.entries()))
    assert isinstance(entry, LedgerEntry)
    wanted: list[LedgerEntry | Lost] = [
        Lost(entry.snapshot, entry.sequence, entry.at, "gone", derived.ranges),
        LedgerEntry(entry.snapshot, entry.sequence, entry.at, page, "orders-1"),
    ]
    patch(line.table, "_additions", lambda _, __: iter(wanted))
    line.table.record()
    keys = [each.key for each in (*page.ranges, *derived.ranges)]
    asked = RangeFilter(
        shards=frozenset({dice.choice(keys).shard_id, "another"}) if keys and dice.random() < 0.5 else None,
        stream=dice.choice(keys).stream.name if keys and dice.random() < 0.5 else None,
        kinds=kinds,
        number=number,
    )
    there = [found for each in wanted if (found := asked.of(each)) is not None]
    assert list(line.handle().entries(asked)) == there


def test_the_lineage_of_a_table_of_today_is_read_without_a_lineage_table(line: IcebergLines):
    assert pages_in(line.table) == line.lake.pages()
    assert not line.own.catalog.table_exists(NAME)


def test_the_table_has_the_identifier_of_the_lake_table_with_a_suffix(line: IcebergLines):
    line.table.record()
    assert line.own.catalog.table_exists(NAME)
    assert isinstance(line.table, IcebergLineage)
    assert line.table.identifier == NAME


def test_ledgers_in_state_files_are_recorded(line: IcebergLines):
    ranges = tuple(a_range(a_key(n), None, at(7**70 + n**9), kind=Kind.ADOPT) for n in range(10, 3_000))
    line.lake.table.commit(Proposal(ranges))
    assert list((line.ice.folder / "state").iterdir())
    assert line.table.record().ranges == 2 + len(ranges)
    assert pages_in(line.handle()) == line.lake.pages()


def test_a_recording_waits_for_a_state_file_that_is_gone(line: IcebergLines):
    """The file may only be looked for in a wrong place."""
    recorded = line.table.record()
    ranges = tuple(a_range(a_key(n), None, at(7**70 + n**9), kind=Kind.ADOPT) for n in range(10, 3_000))
    line.lake.table.commit(Proposal(ranges))
    state = line.ice.folder / "state"
    state.rename(line.ice.folder / "elsewhere")
    with pytest.raises(ChainBroken, match="headrace lineage --rebuild"):
        line.table.record()
    assert line.handle().recorded() == recorded
    (line.ice.folder / "elsewhere").rename(state)
    assert line.table.record().gaps == 0
    assert pages_in(line.handle()) == line.lake.pages()


# --- tables that aren't its own -----------------------------------------------------------------------------


def test_a_table_of_another_form_under_its_name_is_refused_and_stays(line: IcebergLines):
    line.own.catalog.create_table(NAME, Schema(NestedField(1, "entry", StringType(), required=False)))
    with pytest.raises(WrongShape, match="lacks the column snapshot_id"):
        line.table.record()
    assert lineage_of(line).current_snapshot() is None


def test_a_partitioned_lineage_table_is_refused(line: IcebergLines):
    line.table.record()
    with lineage_of(line).update_spec() as change:
        change.add_field("shard_id", IdentityTransform())
    land(line.ice.iceberg, 3)
    with pytest.raises(WrongShape, match="partitioned"):
        line.table.record()


def test_the_lineage_of_a_lake_table_that_was_made_anew_is_refused_and_stays(line: IcebergLines):
    recorded = line.table.record()
    line.own.catalog.drop_table("lake.records")
    again = IcebergLake(line.ice.folder)
    again.table.commit(ORIGIN)
    with pytest.raises(WrongShape, match="another lake table"):
        IcebergLineage(again.iceberg).record()
    assert line.handle().recorded() == recorded


def test_a_recording_of_a_newer_headrace_is_refused(line: IcebergLines):
    line.table.record()
    with (
        lineage_of(line).transaction() as change,
        change.update_snapshot(snapshot_properties={"headrace.recorded": "2:{}"}).fast_append(),
    ):
        pass
    with pytest.raises(WrongShape, match="upgrade Headrace"):
        line.table.record()


@pytest.mark.parametrize("text", ["1:", "1:[]", '1:{"snapshot": 1, "since": 2}'])
def test_a_recording_that_cant_be_read_is_refused_with_what_to_do(line: IcebergLines, text: str):
    line.table.record()
    with (
        lineage_of(line).transaction() as change,
        change.update_snapshot(snapshot_properties={"headrace.recorded": text}).fast_append(),
    ):
        pass
    with pytest.raises(WrongShape, match="roll the table back"):
        line.table.record()


def test_columns_that_others_added_stay_filled(line: IcebergLines):
    line.table.record()
    with lineage_of(line).update_schema() as change:
        change.add_column("note", StringType())
    land(line.ice.iceberg, 3)
    line.table.record()
    line.lake.rollback(2)
    line.table.record()
    assert pages_in(line.handle()) == line.lake.pages()
    assert lineage_of(line).scan().to_arrow()["note"].null_count == 2


# --- other engines ------------------------------------------------------------------------------------------


def rewrite_all(table: Table) -> None:
    """Put all rows into one new file, as another engine's compaction does."""
    table.overwrite(table.scan().to_arrow())


def test_after_another_engine_rewrote_the_lake_tables_files_the_ranges_name_the_files_that_landed(
    line: IcebergLines,
):
    before = line.lake.pages()
    table = line.ice.iceberg.open()
    whole = a_file(line.ice.iceberg.staging_spec(), {A: [1, 2]})
    with table.transaction() as change, change.update_snapshot().overwrite() as rewrite:
        for task in table.scan().plan_files():
            rewrite.delete_data_file(task.file)
        rewrite.append_data_file(next(data_files((whole,), table.metadata)))
    assert [Path(file.path).name for file in read.landed_files(line.ice.iceberg)] == [Path(whole.path).name]
    land(line.ice.iceberg, 3)
    line.table.record()
    assert pages_in(line.table)[:3] == before
    assert [len(r.files) for page in before for r in page.ranges] == [1, 1]
    assert pages_in(line.handle()) == line.lake.pages()


def test_after_another_engine_rewrote_the_lineage_tables_files_recording_goes_on(line: IcebergLines):
    line.table.record()
    rewrite_all(lineage_of(line))
    land(line.ice.iceberg, 3)
    assert line.table.record().snapshots == 4
    assert pages_in(line.handle()) == line.lake.pages()


def test_after_the_lineage_tables_own_history_was_lost_the_rows_tell_how_far_it_goes(line: IcebergLines):
    recorded = line.table.record()
    rewrite_all(lineage_of(line))
    forget_history(lineage_of(line))
    assert line.handle().recorded() == recorded
    land(line.ice.iceberg, 3)
    line.table.record()
    assert pages_in(line.handle()) == line.lake.pages()


def test_after_a_rollback_of_the_lineage_table_the_ledgers_are_recorded_again(line: IcebergLines):
    first = line.table.record()
    before = lineage_of(line).current_snapshot()
    assert before is not None
    land(line.ice.iceberg, 3)
    line.table.record()
    lineage_of(line).manage_snapshots().set_current_snapshot(before.snapshot_id).commit()
    assert line.handle().recorded() == first
    line.table.record()
    assert pages_in(line.handle()) == line.lake.pages()


def test_after_expiry_of_everything_that_is_recorded_recording_goes_on_without_a_gap(line: IcebergLines):
    line.table.record()
    before = line.lake.pages()
    forget_history(line.ice.iceberg.open())
    land(line.ice.iceberg, 3)
    recorded = line.table.record()
    assert (recorded.snapshots, recorded.gaps) == (4, 0)
    assert pages_in(line.handle())[:3] == before


def test_an_expired_snapshot_that_the_metadata_log_still_names_is_recorded(line: IcebergLines):
    append_as_others(line.ice.iceberg.open())
    later = datetime.now(UTC) + timedelta(days=1)
    before = line.lake.pages()
    line.ice.iceberg.open().maintenance.expire_snapshots().older_than(later).commit()
    assert line.table.record().gaps == 0
    assert pages_in(line.handle()) == before


# --- faults -------------------------------------------------------------------------------------------------


def test_a_process_that_dies_between_its_files_and_the_commit_leaves_nothing_that_readers_see(
    line: IcebergLines,
):
    class Killed(BaseException):
        pass

    def die() -> None:
        raise Killed

    line.before_next_swap(die)
    with pytest.raises(Killed):
        line.table.record()
    assert list((line.ice.folder / "warehouse").rglob("*lineage*/data/*.parquet"))
    assert line.handle().recorded().snapshot is None
    line.handle().record()
    assert pages_in(line.handle()) == line.lake.pages()


def test_a_late_request_of_a_recorder_that_was_thought_dead_is_refused(line: IcebergLines):
    """Its request arrives after another process has recorded the same ledgers."""
    sent: list[tuple[Any, ...]] = []
    commit = line.own.catalog.commit_table

    def held_back(*args: Any) -> Any:
        sent.append(args)
        patch(line.own.catalog, "commit_table", commit)
        raise LostOnTheWay("request")

    patch(line.own.catalog, "commit_table", held_back)
    line.table.record()
    with pytest.raises(CommitFailedException, match="another process has updated"):
        commit(*sent[0])
    # A REST catalog gets only the requirements and the updates, and judges them by the newest metadata.
    _, requirements, updates = sent[0]
    with pytest.raises(CommitFailedException, match="Requirement failed: branch main"):
        commit(line.own.open(), requirements, updates)
    assert pages_in(line.handle()) == line.lake.pages()


def test_a_table_that_was_dropped_meanwhile_doesnt_get_half_of_the_ledgers(line: IcebergLines):
    line.table.record()
    land(line.ice.iceberg, 3)

    def drop_and_make_anew() -> None:
        line.drop()
        line.handle().record()

    line.before_next_swap(drop_and_make_anew)
    line.table.record()
    assert pages_in(line.handle()) == line.lake.pages()


def test_a_recorder_that_finds_the_table_just_created_and_filled_by_another_records_nothing_twice(
    line: IcebergLines,
):
    create = line.own.catalog.create_table

    def second(*args: Any, **more: Any) -> Any:
        line.handle().record()
        return create(*args, **more)

    patch(line.own.catalog, "create_table", second)
    recorded = line.table.record()
    assert recorded.snapshots == len(line.lake.pages())
    assert pages_in(line.handle()) == line.lake.pages()


def test_storage_that_doesnt_answer_is_unreachable_and_nothing_is_recorded(
    line: IcebergLines, monkeypatch: pytest.MonkeyPatch
):
    def down(*_: Any, **__: Any) -> Any:
        raise OSError("no route to host")

    with monkeypatch.context() as broken:
        broken.setattr("headrace.pipeline.lineage.table._dataframe_to_data_files", down)
        with pytest.raises(Unreachable):
            line.table.record()
    line.table.record()
    assert pages_in(line.handle()) == line.lake.pages()
