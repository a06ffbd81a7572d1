"""Expiry on a real table: what other engines' tools left, lost answers, long histories, and what a commit costs afterwards."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.exceptions import CommitFailedException
from pyiceberg.serializers import ToOutputFile
from pyiceberg.table.metadata import TableMetadataV2
from pyiceberg.table.snapshots import SnapshotLogEntry
from pyiceberg.table.update import (
    AssertRefSnapshotId,
    AssertTableUUID,
    RemoveSnapshotsUpdate,
    update_table_metadata,
)

from pipeline.core.expiry_plan import Shape
from pipeline.core.position import Position
from pipeline.duties.expiring import Expiring, look_after
from pipeline.errors import CommitUnknown
from pipeline.lake import read
from pipeline.lake.catalog import CATALOG_NAME, embedded_catalog
from pipeline.lake.iceberg import IcebergTable
from pipeline.lake.lineage_table import IcebergLineage
from pipeline.lake.sql_catalog import KeepingSqlCatalog, without_snapshots
from pipeline.settings.upkeep_block import UpkeepSettings
from tests.lake.files import ORIGIN, a_key, a_landing, at
from tests.lake.tables import IcebergLake, append_as_others, patch

A, B = a_key(0), a_key(1)
FEW = UpkeepSettings(keep_snapshots=5, keep_for=timedelta(minutes=1))


@pytest.fixture
def lake(tmp_path: Path) -> IcebergLake:
    """A table whose position of shard A is 3."""
    made = IcebergLake(tmp_path)
    made.iceberg.commit(ORIGIN)
    land(made.iceberg, 3)
    return made


def land(table: IcebergTable, upto: int) -> int:
    """Land a record of shard A."""
    before = table.load().positions.of(A)
    after = before.sequence if before else None
    committed = table.commit(a_landing(table.staging_spec(), A, after=after, numbers=[upto]))
    assert not committed.landing.refused
    return committed.snapshot or 0


def commits(lake: IcebergLake, count: int) -> None:
    for _ in range(count):
        lake.iceberg.carry()


def an_expiring(lake: IcebergLake, settings: UpkeepSettings = FEW) -> Expiring:
    """Expiry at a time when all snapshots of now are old."""
    newest = max(each.at for each in lake.iceberg.retained().snapshots.values())
    later = replace(lake.clock, at=newest + timedelta(hours=2))
    return Expiring(
        table=lake.iceberg, lineage=lambda: IcebergLineage(lake.iceberg), settings=settings, clock=later
    )


def expire(lake: IcebergLake, settings: UpkeepSettings = FEW) -> str | None:
    return an_expiring(lake, settings).step(lake.iceberg.load().shape)


def known(lake: IcebergLake) -> set[int]:
    return set(lake.handle().retained().snapshots)


def rollback(lake: IcebergLake, to: int) -> None:
    lake.iceberg.open().manage_snapshots().set_current_snapshot(to).commit()


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


def sent(lake: IcebergLake) -> list[tuple[Any, ...]]:
    """The commit requests from now on."""
    commit, found = lake.iceberg.catalog.commit_table, list[tuple[Any, ...]]()

    def noted(*args: Any) -> Any:
        found.append(args)
        return commit(*args)

    patch(lake.iceberg.catalog, "commit_table", noted)
    return found


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


# --- long histories -------------------------------------------------------------------------------------------


def lengthen(lake: IcebergLake, count: int) -> None:
    """Put a long history below the table's newest snapshot, without a commit for each snapshot of it."""
    table, catalog = lake.iceberg.open(), lake.iceberg.catalog
    assert isinstance(catalog, KeepingSqlCatalog)
    base = table.metadata
    head = base.current_snapshot()
    assert head is not None
    assert isinstance(base, TableMetadataV2)
    first, parent, snapshots = base.snapshots[0], base.snapshots[-2].snapshot_id, list(base.snapshots[:-1])
    for number in range(count):
        made = first.model_copy(
            update={
                "snapshot_id": 10_000 + number,
                "parent_snapshot_id": parent,
                "sequence_number": base.last_sequence_number + number,
                "timestamp_ms": base.last_updated_ms,
                "summary": head.summary,
                "manifest_list": head.manifest_list,
            }
        )
        parent = made.snapshot_id
        snapshots.append(made)
    last = base.last_sequence_number + count
    snapshots.append(head.model_copy(update={"parent_snapshot_id": parent, "sequence_number": last}))
    log = [
        SnapshotLogEntry(**{"snapshot-id": s.snapshot_id, "timestamp-ms": base.last_updated_ms})
        for s in snapshots
    ]
    longer = base.model_copy(
        update={"snapshots": snapshots, "snapshot_log": log, "last_sequence_number": last}
    )
    location = f"{table.location()}/metadata/99999-{uuid4()}.metadata.json"
    ToOutputFile.table_metadata(longer, table.io.new_output(location), overwrite=True)
    catalog._swap(table.name(), table.metadata_location, location)


def test_three_thousand_snapshots_expire_a_thousand_at_a_time(lake: IcebergLake):
    commits(lake, 2)
    lengthen(lake, 3_000)
    expiring = an_expiring(lake)
    expiring.lineage().record()
    requests = sent(lake)
    shape = lake.iceberg.load().shape
    assert shape == Shape(3_004)
    assert expiring.step(shape) == "2,999 snapshots of the lake table expired"
    assert [len(updates[0].snapshot_ids) for _, _, updates in requests] == [1_000, 1_000, 999]
    assert len(known(lake)) == 5
    assert lake.handle().load().positions.of(A) == at(3)
    land(lake.handle(), 4)


def test_the_removal_of_thousands_looks_at_each_snapshot_a_few_times_only(lake: IcebergLake):
    """pyiceberg's own removal compares each removed snapshot with all snapshots: nine million comparisons here."""
    commits(lake, 2)
    lengthen(lake, 3_000)
    base = lake.iceberg.open().metadata
    looks = 0

    class Counted(list[Any]):
        def __iter__(self) -> Any:
            nonlocal looks
            for each in super().__iter__():
                looks += 1
                yield each

    counted = base.model_copy(update={"snapshots": Counted(base.snapshots)})
    gone = frozenset(each.snapshot_id for each in base.snapshots[:2_990]) - {
        ref.snapshot_id for ref in base.refs.values()
    }
    assert len(without_snapshots(counted, gone).snapshots) == len(base.snapshots) - len(gone)
    assert looks <= 2 * len(base.snapshots)


def test_a_removal_leaves_what_pyicebergs_own_removal_leaves_except_parents_and_holes_in_the_log(
    lake: IcebergLake,
):
    commits(lake, 5)
    base = lake.iceberg.open().metadata
    gone = [each.snapshot_id for each in base.snapshots[1:4]]
    ours = without_snapshots(base, frozenset(gone))
    removal = RemoveSnapshotsUpdate.model_validate({"snapshot-ids": gone})
    theirs = update_table_metadata(base, (removal,))
    outside = {"snapshots", "snapshot_log", "last_updated_ms"}
    assert ours.model_dump(exclude=outside) == theirs.model_dump(exclude=outside)
    assert [s.snapshot_id for s in ours.snapshots] == [s.snapshot_id for s in theirs.snapshots]
    assert ours.snapshots == [each for each in base.snapshots if each.snapshot_id not in gone]
    assert [entry.snapshot_id for entry in ours.snapshot_log] == [s.snapshot_id for s in base.snapshots[4:]]
    with pytest.raises(CommitFailedException):
        without_snapshots(ours, frozenset(gone))


def test_pyicebergs_own_catalog_reads_the_table_after_an_expiry(lake: IcebergLake, tmp_path: Path):
    commits(lake, 40)
    expire(lake)
    properties = {key: value for key, value in embedded_catalog(tmp_path).items() if key != "type"}
    own = SqlCatalog(CATALOG_NAME, **properties)
    assert own.load_table("lake.records").scan().count() == 1
    own.close()


# --- what a commit costs --------------------------------------------------------------------------------------


def written(lake: IcebergLake, upto: Sequence[int]) -> list[int]:
    """Bytes of the metadata file that each of these landings writes."""
    found = []
    for number in upto:
        land(lake.iceberg, number)
        location = lake.iceberg.open().metadata_location.removeprefix("file://")
        found.append(Path(location).stat().st_size)
    return found


def test_after_an_expiry_a_commit_writes_as_little_as_in_a_young_table(lake: IcebergLake):
    commits(lake, 5)
    (young,) = written(lake, [4])
    commits(lake, 150)
    (long,) = written(lake, [5])
    expire(lake)
    (after,) = written(lake, [6])
    assert long > 10 * young
    # The metadata log has more entries by then, of about 200 bytes each.
    assert after < young + 200 * 220


@pytest.mark.slow
def test_with_upkeep_the_cost_of_a_commit_does_not_grow(lake: IcebergLake):
    expiring = an_expiring(lake)
    sizes = []
    for number in range(4, 154):
        shape = lake.iceberg.commit(
            a_landing(lake.iceberg.staging_spec(), A, after=number - 1, numbers=[number])
        ).state.shape
        sizes.append(shape.snapshots)
        if expiring.is_due(shape):
            lake.iceberg.load()
            expiring.clock.pause(3600)
            expiring.step(shape)
    assert max(sizes) <= 5 + 25 + 1
    assert lake.iceberg.load().positions.of(A) == Position(153, arrival=at(153).arrival)
