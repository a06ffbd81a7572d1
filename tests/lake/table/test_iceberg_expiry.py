"""Expiry on a real table: what stays, what other engines' tools left, and lost answers.

`test_iceberg_long_histories.py` has long histories, and what a commit costs after an expiry.
"""

from functools import partial
from pathlib import Path

import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.table.update import (
    AssertRefSnapshotId,
    AssertTableUUID,
    RemoveSnapshotsUpdate,
)

from headrace.pipeline.duties.waves.expire import look_after
from headrace.pipeline.errors import CommitUnknown
from headrace.pipeline.lake.table import plain_read as read
from headrace.pipeline.lineage.table import IcebergLineage
from tests.lake.samples import a_landing, at
from tests.lake.table.expiries import A, an_expiring, commits, expire, known, rollback, sent
from tests.lake.tables import IcebergLake, append_as_others, patch
from tests.lakehouse import an_iceberg_lake, land


@pytest.fixture
def lake(tmp_path: Path) -> IcebergLake:
    return an_iceberg_lake(tmp_path, [3])


# --- what stays -----------------------------------------------------------------------------------------------


def test_the_newest_stay_and_every_ledger_is_still_there(lake: IcebergLake):
    for number in range(4, 40):
        land(lake.iceberg, number)
    before = list(read.ledger(lake.iceberg))
    assert expire(lake) == "33 snapshots of the lake table expired"
    assert len(known(lake)) == 5
    entries = list(IcebergLineage(lake.handle()).entries())
    assert [each.snapshot for each in entries] == [entry.snapshot for entry in before]
    assert lake.handle().load().positions.of(A) == at(39)
    assert lake.numbers() == {A.shard_id: list(range(3, 40))}
    land(lake.iceberg, 40)


def test_tags_branches_and_another_engines_commits_stay_with_the_way_to_their_positions(lake: IcebergLake):
    append_as_others(lake.iceberg.open())
    tagged = lake.iceberg.load().snapshot or 0
    lake.iceberg.open().manage_snapshots().create_tag(tagged, "audit").create_branch(tagged, "test").commit()
    commits(lake, 40)
    expire(lake)
    assert (
        len(known(lake)) == 5 + 3
    )  # the tagged one, the landing below it, and the origin's, which is on the branch
    rollback(lake, tagged)
    assert lake.handle().load().positions.of(A) == at(3)
    land(lake.iceberg, 4)
    assert lake.numbers()[A.shard_id] == [3, 4]


def test_after_an_expiry_main_can_be_rolled_back_to_whatever_is_left(lake: IcebergLake):
    for number in range(4, 40):
        land(lake.iceberg, number)
        if number % 3 == 0:
            append_as_others(lake.iceberg.open(), number=number)
    positions = {
        entry.snapshot: entry.page.ranges[0].upto for entry in read.ledger(lake.iceberg) if entry.page.ranges
    }
    expire(lake)
    history = lake.iceberg.retained()
    for each in history.snapshots:
        nearest = next(s.snapshot for s in history.line(each) if s.carries)
        rollback(lake, each)
        assert lake.handle().load().positions.of(A) == positions[nearest]


def test_after_a_rollback_the_snapshots_that_were_taken_back_go_and_main_goes_on(lake: IcebergLake):
    commits(lake, 10)
    stays = lake.iceberg.load().snapshot or 0
    for number in range(4, 34):
        land(lake.iceberg, number)
    rollback(lake, stays)
    land(lake.iceberg, 4)
    expire(lake)
    assert stays in known(lake)
    assert lake.handle().load().positions.of(A) == at(4)
    assert lake.numbers()[A.shard_id] == [3, 4]
    land(lake.iceberg, 5)


def test_a_table_that_forbids_expiry_is_left_alone(lake: IcebergLake):
    commits(lake, 40)
    with lake.iceberg.open().transaction() as change:
        change.set_properties({"gc.enabled": "false"})
    before = known(lake)
    assert expire(lake) is None
    assert known(lake) == before


def test_an_expiry_by_pyicebergs_own_removal_leaves_a_table_that_goes_on(lake: IcebergLake):
    """As with the catalogs of Glue and Hive: it takes the parent's id from the children of removed snapshots."""
    for number in range(4, 40):
        land(lake.iceberg, number)
    catalog = lake.iceberg.catalog
    assert isinstance(catalog, SqlCatalog)
    patch(catalog, "commit_table", partial(SqlCatalog.commit_table, catalog))
    assert expire(lake) == "33 snapshots of the lake table expired"
    oldest = min(lake.handle().retained().snapshots.values(), key=lambda each: each.sequence)
    assert oldest.parent is None
    land(lake.iceberg, 40)
    rollback(lake, oldest.snapshot)
    assert lake.handle().load().positions.of(A) == at(35)
    assert expire(lake) is None
    commits(lake, 40)
    assert expire(lake) is not None
    assert len(list(IcebergLineage(lake.handle()).entries())) > 40


def test_the_tag_goes_to_the_snapshot_that_carries_the_positions(lake: IcebergLake):
    """Another engine's expiry keeps tagged snapshots: the nearest positions are the best to keep."""
    append_as_others(lake.iceberg.open())
    carried = lake.iceberg.carry().snapshot
    assert lake.iceberg.retained().refs["headrace"].snapshot == carried


def test_beside_an_engine_that_commits_and_expires_a_table_at_rest_stays_whole(lake: IcebergLake):
    """The other engine keeps its newest snapshot only, and the positions would get lost in it."""
    before = lake.iceberg.load().positions
    expiring = an_expiring(lake)
    carried = 0
    for number in range(130):
        append_as_others(lake.iceberg.open(), number=number)
        if number in {17, 57, 97}:
            lake.expire_all_but_the_head(forget=False)
        notes = list(look_after(lake.iceberg, lake.iceberg.load(), expiring))
        carried += sum("committed once more" in note for note in notes)
        shape = lake.iceberg.load().shape
        assert shape.foreign <= 50
        assert not shape.is_cut
    assert carried == 3  # after each expiry of the other engine
    assert lake.handle().load().positions == before


# --- the request ----------------------------------------------------------------------------------------------


def test_the_request_asserts_every_ref_and_the_table(lake: IcebergLake):
    lake.iceberg.open().manage_snapshots().create_tag(lake.iceberg.load().snapshot or 0, "audit").commit()
    commits(lake, 40)
    refs = {name: ref.snapshot for name, ref in lake.iceberg.retained().refs.items()}
    history, requests = lake.iceberg.retained(), sent(lake)
    gone = sorted(history.snapshots.values(), key=lambda each: each.sequence)[2:5]
    assert lake.iceberg.expire(history, [each.snapshot for each in gone])
    ((_, requirements, (update,)),) = requests
    asserted = {each.ref: each.snapshot_id for each in requirements if isinstance(each, AssertRefSnapshotId)}
    assert asserted == refs
    assert set(refs) == {"main", "headrace", "audit"}
    assert [each.uuid for each in requirements if isinstance(each, AssertTableUUID)] == [
        lake.iceberg.open().metadata.table_uuid
    ]
    assert isinstance(update, RemoveSnapshotsUpdate)


def test_a_tag_that_is_made_just_before_the_request_keeps_its_snapshot(lake: IcebergLake):
    commits(lake, 5)
    history = lake.iceberg.retained()
    oldest = min(history.snapshots.values(), key=lambda each: each.sequence).snapshot
    lake.before_next_swap(
        lambda: lake.handle().open().manage_snapshots().create_tag(oldest, "audit").commit()
    )
    assert not lake.iceberg.expire(history, [oldest])
    assert oldest in known(lake)


def test_a_table_that_was_made_again_under_its_name_is_left_alone(lake: IcebergLake):
    commits(lake, 5)
    history = lake.iceberg.retained()
    lake.iceberg.catalog.drop_table("lake.records")
    lake.iceberg.ensure(create=True)
    assert not lake.iceberg.expire(history, list(history.snapshots)[:2])


def test_an_expiry_whose_answer_is_lost_is_told_and_the_next_one_goes_on(lake: IcebergLake):
    commits(lake, 60)
    expiring = an_expiring(lake)
    lake.iceberg.carry()
    expiring.lineage().record()
    lake.lose("answer")
    assert "couldn't be expired now" in (expiring.step(lake.iceberg.load().shape) or "")
    assert len(known(lake)) == 5
    assert lake.handle().load().positions.of(A) == at(3)
    commits(lake, 30)
    assert expire(lake) == "30 snapshots of the lake table expired"


def test_a_paused_writer_that_wakes_after_an_expiry_lands_once_or_is_refused(lake: IcebergLake):
    proposal = a_landing(lake.iceberg.staging_spec(), A, after=3, numbers=[4])
    other = IcebergLake(lake.folder)

    def meanwhile() -> None:
        commits(other, 40)
        expire(other)

    lake.before_next_swap(meanwhile)
    assert not lake.iceberg.commit(proposal).landing.refused
    assert lake.numbers() == {A.shard_id: [3, 4]}


def test_a_landing_below_an_expiry_is_still_found_after_its_answer_was_lost(lake: IcebergLake):
    """Older metadata files, which the log names, still show it."""
    other = IcebergLake(lake.folder)

    def meanwhile() -> None:
        commits(other, 40)
        expire(other)
        raise ConnectionResetError("the answer was lost")

    lake.after_next_swap(meanwhile)
    assert not lake.iceberg.commit(
        a_landing(lake.iceberg.staging_spec(), A, after=3, numbers=[4])
    ).landing.refused
    assert lake.numbers() == {A.shard_id: [3, 4]}


def test_a_landing_below_an_expiry_whose_metadata_files_are_gone_is_an_unknown_commit(lake: IcebergLake):
    other = IcebergLake(lake.folder)

    def meanwhile() -> None:
        commits(other, 40)
        expire(other)
        for entry in other.iceberg.open().metadata.metadata_log:
            Path(entry.metadata_file.removeprefix("file://")).unlink()
        raise ConnectionResetError("the answer was lost")

    lake.after_next_swap(meanwhile)
    with pytest.raises(CommitUnknown, match="expired since"):
        lake.iceberg.commit(a_landing(lake.iceberg.staging_spec(), A, after=3, numbers=[4]))
    land(lake.handle(), 5)
    assert lake.numbers() == {A.shard_id: [3, 4, 5]}
