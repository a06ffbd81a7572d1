"""The expiry of long histories, and what a commit costs afterwards."""

from collections.abc import Sequence
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
    RemoveSnapshotsUpdate,
    update_table_metadata,
)

from headrace.pipeline.core.landing.expiry_plan import Shape
from headrace.pipeline.core.shards.position import Position
from headrace.pipeline.lake.table.catalog import CATALOG_NAME, embedded_catalog
from headrace.pipeline.lake.table.sql_catalog import KeepingSqlCatalog, without_snapshots
from tests.lake.samples import a_landing, at
from tests.lake.table.expiries import A, an_expiring, commits, expire, known, sent
from tests.lake.tables import IcebergLake
from tests.lakehouse import an_iceberg_lake, land


@pytest.fixture
def lake(tmp_path: Path) -> IcebergLake:
    return an_iceberg_lake(tmp_path, [3])


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
