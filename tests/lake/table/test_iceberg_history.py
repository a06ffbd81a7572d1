"""Other engines work on the table: the search for positions, the tag, rollbacks and lost answers, on a real table."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.exceptions import CommitFailedException
from pyiceberg.io import InputFile
from pyiceberg.serializers import FromInputFile
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.refs import SnapshotRefType
from sqlalchemy import create_engine, text

from headrace.pipeline.core.landing.landing import Proposal
from headrace.pipeline.core.shards.position import Position
from headrace.pipeline.errors import ChainBroken, CommitUnknown, Unreachable
from headrace.pipeline.lake.table import plain_read as read
from headrace.pipeline.lake.table import sql_catalog
from tests.lake.samples import NOON, ORIGIN, a_key, a_landing, a_range, at
from tests.lake.tables import IcebergLake, append_as_others, commit_nothing, patch
from tests.lakehouse import an_iceberg_lake, land

A, B = a_key(0), a_key(1)
FOREIGN_SHARD_ID = a_key(999).shard_id


@pytest.fixture
def lake(tmp_path: Path) -> IcebergLake:
    """A table in which the position of shard A is 3, after two landings."""
    return an_iceberg_lake(tmp_path, [1, 2], [3])


def rollback(lake: IcebergLake, steps: int) -> None:
    links = list(lake.iceberg.history())
    lake.iceberg.open().manage_snapshots().set_current_snapshot(links[steps].snapshot).commit()


def expire_all(lake: IcebergLake) -> None:
    lake.iceberg.open().maintenance.expire_snapshots().older_than(
        datetime.now(UTC) + timedelta(days=1)
    ).commit()


def tag_of(lake: IcebergLake) -> int:
    return lake.iceberg.open().refs()["headrace"].snapshot_id


# --- snapshots of other engines --------------------------------------------------------------------------------------


def test_ranges_land_on_appends_of_other_engines(lake: IcebergLake):
    append_as_others(lake.iceberg.open())
    assert lake.iceberg.load().positions.of(A) == at(3)
    land(lake.iceberg, 4)
    assert lake.numbers() == {A.shard_id: [1, 2, 3, 4], FOREIGN_SHARD_ID: [1]}
    assert [len(page.ranges) for page in lake.pages()] == [0, 1, 1, 1]


def test_a_range_lands_on_an_append_that_came_before_the_swap(lake: IcebergLake):
    lake.before_next_swap(lambda: append_as_others(lake.handle().open()))
    land(lake.iceberg, 4)
    assert lake.numbers() == {A.shard_id: [1, 2, 3, 4], FOREIGN_SHARD_ID: [1]}


def test_a_cherry_pick_stops_the_landing(lake: IcebergLake):
    append_as_others(lake.iceberg.open(), summary={"source-snapshot-id": "5"})
    with pytest.raises(ChainBroken, match="headrace repair"):
        lake.iceberg.commit(a_landing(lake.iceberg.staging_spec(), A, after=3, numbers=[4]))
    assert lake.numbers()[A.shard_id] == [1, 2, 3]


# --- expiry -------------------------------------------------------------------------------------------------


def test_after_expiry_the_tagged_landing_is_found_through_the_metadata_log(lake: IcebergLake):
    for number in range(3):
        append_as_others(lake.iceberg.open(), number=number)
    head, landing = lake.iceberg.load().snapshot, tag_of(lake)
    expire_all(lake)
    assert {snapshot.snapshot_id for snapshot in lake.iceberg.open().snapshots()} == {landing, head}
    assert lake.iceberg.load().positions.of(A) == at(3)
    land(lake.iceberg, 4)
    assert lake.numbers()[A.shard_id] == [1, 2, 3, 4]


def test_after_expiry_without_the_tag_positions_are_found_through_the_metadata_log(lake: IcebergLake):
    lake.iceberg.open().manage_snapshots().remove_tag("headrace").commit()
    append_as_others(lake.iceberg.open())
    expire_all(lake)
    assert len(lake.iceberg.open().snapshots()) == 1
    assert lake.iceberg.load().positions.of(A) == at(3)
    assert not lake.iceberg.load().origin_allowed


def test_the_ledger_is_read_through_the_metadata_log_too(lake: IcebergLake):
    before = [(entry.snapshot, entry.sequence) for entry in read.ledger(lake.iceberg)]
    append_as_others(lake.iceberg.open())
    expire_all(lake)
    assert [(entry.snapshot, entry.sequence) for entry in read.ledger(lake.iceberg)] == before
    assert before[0][1] == 1


def test_without_the_metadata_files_the_chain_is_broken_and_no_origin_is_decided(lake: IcebergLake):
    append_as_others(lake.iceberg.open())
    append_as_others(lake.iceberg.open())
    expire_all(lake)
    for entry in lake.iceberg.open().metadata.metadata_log:
        Path(entry.metadata_file).unlink()
    with pytest.raises(ChainBroken, match="headrace repair"):
        lake.iceberg.load()
    with pytest.raises(ChainBroken):
        list(read.ledger(lake.iceberg))
    assert list(read.ledger(lake.iceberg, partial=True)) == []


def test_a_metadata_file_that_cannot_be_read_now_isnt_reported_as_a_broken_chain(
    lake: IcebergLake, monkeypatch: pytest.MonkeyPatch
):
    for number in range(2):
        append_as_others(lake.iceberg.open(), number=number)
    expire_all(lake)
    read_metadata, newest = FromInputFile.table_metadata, lake.iceberg.open().metadata_location

    def refuse_older(file: InputFile) -> TableMetadata:
        if file.location != newest:
            raise ConnectionResetError("storage went away")
        return read_metadata(file)

    monkeypatch.setattr(FromInputFile, "table_metadata", refuse_older)
    with pytest.raises(Unreachable, match="an earlier metadata file"):
        lake.iceberg.load()


# --- the tag and rollbacks ----------------------------------------------------------------------------------


def test_the_tag_follows_commits_that_move_a_position(lake: IcebergLake):
    moved = tag_of(lake)
    assert moved == lake.iceberg.load().snapshot
    seen = lake.iceberg.commit(Proposal((a_range(A, 3, Position(3, seen=NOON)),)))
    assert tag_of(lake) == seen.snapshot
    tag = lake.iceberg.open().refs()["headrace"]
    assert (tag.snapshot_ref_type, tag.max_ref_age_ms, tag.max_snapshot_age_ms) == (
        SnapshotRefType.TAG,
        None,
        None,
    )


def test_after_a_rollback_the_positions_are_those_of_main_not_of_the_tag(lake: IcebergLake):
    rollback(lake, 1)
    assert tag_of(lake) != lake.iceberg.load().snapshot
    assert lake.iceberg.load().positions.of(A) == at(2)
    land(lake.iceberg, 3, 4)
    assert lake.numbers() == {A.shard_id: [1, 2, 3, 4]}


def test_a_rollback_between_look_and_swap_is_not_undone_by_the_commit(lake: IcebergLake):
    """The base still exists and has the highest sequence number. Only the requirement on the branch main notices
    the rollback."""
    proposal = a_landing(lake.iceberg.staging_spec(), A, after=3, numbers=[4])
    lake.before_next_swap(lambda: rollback(lake, 1))
    assert lake.iceberg.commit(proposal).landing.refused
    assert lake.numbers() == {A.shard_id: [1, 2]}


def test_after_a_rollback_and_expiry_the_tag_is_still_not_used(lake: IcebergLake):
    rollback(lake, 1)
    append_as_others(lake.iceberg.open())
    expire_all(lake)
    assert lake.iceberg.load().positions.of(A) == at(2)


@pytest.mark.parametrize("trace", ["tag", "property", "snapshot"])
def test_after_a_rollback_to_before_the_origin_no_new_origin_is_decided(tmp_path: Path, trace: str):
    lake = IcebergLake(tmp_path)
    commit_nothing(lake.iceberg.open())
    lake.iceberg.commit(ORIGIN)
    rollback(lake, 1)
    if trace != "tag":
        lake.iceberg.open().manage_snapshots().remove_tag("headrace").commit()
    if trace == "snapshot":
        with lake.iceberg.open().transaction() as change:
            change.remove_properties("headrace.landed")
    with pytest.raises(ChainBroken, match=rf"the {trace}|{trace} \d+"):
        lake.iceberg.commit(ORIGIN)


def test_a_table_that_was_dropped_and_made_again_refuses_ranges_of_the_old_one(lake: IcebergLake):
    proposal = a_landing(lake.iceberg.staging_spec(), A, after=3, numbers=[4])
    lake.iceberg.catalog.drop_table("lake.records")
    lake.iceberg.ensure(create=True)
    assert lake.iceberg.commit(proposal).landing.refused
    assert lake.iceberg.load().origin_allowed


# --- lost and late answers
# ------------------------------------------------------------------------------------------------


def wrap(lake: IcebergLake, act: Callable[[Callable[..., Any], tuple[Any, ...]], Any]) -> None:
    """Send the next commit request through `act`. Later requests are sent as usual."""
    commit = lake.iceberg.catalog.commit_table

    def commit_through_act(*args: Any) -> Any:
        patch(lake.iceberg.catalog, "commit_table", commit)
        return act(commit, args)

    patch(lake.iceberg.catalog, "commit_table", commit_through_act)


def test_a_commit_that_was_rolled_back_before_it_was_looked_for_lands_again(lake: IcebergLake):
    """D17: the commit's snapshot is in the metadata. If the commit counted as landed, its rows would be lost."""

    def land_and_roll_back(commit: Callable[..., Any], args: tuple[Any, ...]) -> None:
        commit(*args)
        rollback(lake, 1)
        raise ConnectionResetError("the answer was lost")

    wrap(lake, land_and_roll_back)
    land(lake.iceberg, 4)
    assert lake.numbers() == {A.shard_id: [1, 2, 3, 4]}
    assert lake.handle().load().positions.of(A) == at(4)


def test_a_commit_request_that_arrives_after_its_repetition_was_sent_lands_once(lake: IcebergLake):
    """D7: the late request lands before its repetition, and both count as one landing."""
    held: list[Callable[[], Any]] = []

    def hold_the_request_back(commit: Callable[..., Any], args: tuple[Any, ...]) -> None:
        held.append(lambda: commit(*args))
        lake.before_next_swap(held[0])
        raise TimeoutError("no answer yet")

    wrap(lake, hold_the_request_back)
    snapshot = land(lake.iceberg, 4)
    assert lake.iceberg.load().snapshot == snapshot
    assert lake.numbers() == {A.shard_id: [1, 2, 3, 4]}


def test_a_conflict_reported_for_a_commit_that_landed_deletes_nothing(lake: IcebergLake):
    """The client sent the request twice, and the second one is refused because of the first (see
    test_iceberg_library)."""

    def conflict_with_itself(commit: Callable[..., Any], args: tuple[Any, ...]) -> None:
        commit(*args)
        raise CommitFailedException("the table has changed since the commit was prepared")

    wrap(lake, conflict_with_itself)
    land(lake.iceberg, 4)
    assert lake.numbers() == {A.shard_id: [1, 2, 3, 4]}


def test_a_landing_is_found_below_commits_that_came_before_it_was_looked_for(lake: IcebergLake):
    def land_and_go_on(commit: Callable[..., Any], args: tuple[Any, ...]) -> None:
        commit(*args)
        append_as_others(lake.handle().open())
        lake.handle().commit(a_landing(lake.iceberg.staging_spec(), A, after=4, numbers=[5]))
        raise ConnectionResetError("the answer was lost")

    wrap(lake, land_and_go_on)
    land(lake.iceberg, 4)
    assert lake.numbers() == {A.shard_id: [1, 2, 3, 4, 5], FOREIGN_SHARD_ID: [1]}


def test_if_the_catalog_doesnt_answer_the_outcome_is_unknown_and_the_files_stay(lake: IcebergLake):
    proposal = a_landing(lake.iceberg.staging_spec(), A, after=3, numbers=[4])

    def land_and_go_away(commit: Callable[..., Any], args: tuple[Any, ...]) -> None:
        commit(*args)
        patch(lake.iceberg.catalog, "load_table", refuse)
        raise ConnectionResetError("the answer was lost")

    def refuse(*_: Any) -> Any:
        raise ConnectionRefusedError("catalog down")

    wrap(lake, land_and_go_away)
    with pytest.raises(CommitUnknown, match="files are kept"):
        lake.iceberg.commit(proposal)
    assert lake.numbers() == {A.shard_id: [1, 2, 3, 4]}
    assert lake.handle().commit(proposal).landing.refused


def test_with_a_locked_database_the_outcome_is_unknown_and_the_next_try_lands(
    lake: IcebergLake, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(sql_catalog, "_BUSY_MS", 20)
    impatient = lake.handle()
    proposal = a_landing(lake.iceberg.staging_spec(), A, after=3, numbers=[4])
    with create_engine(f"sqlite:///{lake.folder / 'catalog.db'}").connect() as other:
        other.execute(text("BEGIN IMMEDIATE"))
        with pytest.raises(CommitUnknown, match="database is locked"):
            impatient.commit(proposal)
        assert impatient.load().positions.of(A) == at(3)
        other.rollback()
    assert not impatient.commit(proposal).landing.refused
    assert lake.numbers() == {A.shard_id: [1, 2, 3, 4]}


def test_readers_do_not_wait_for_a_writer(lake: IcebergLake):
    with create_engine(f"sqlite:///{lake.folder / 'catalog.db'}").connect() as other:
        assert other.execute(text("PRAGMA journal_mode")).scalar() == "wal"
        other.execute(text("BEGIN IMMEDIATE"))
        assert lake.handle().load().positions.of(A) == at(3)


def test_a_writer_waits_half_a_minute_for_another_writer(lake: IcebergLake):
    catalog = lake.iceberg.catalog
    assert isinstance(catalog, SqlCatalog)
    with catalog.engine.connect() as connection:
        assert connection.execute(text("PRAGMA busy_timeout")).scalar() == 30_000
