"""Lake tables with landings on Iceberg, for tests of whatever is made of a lake table.

an_iceberg_lake    a table whose stream has its origin, with a commit for each landing of shard A
land      the next records of a shard, in one commit
"""

from collections.abc import Sequence
from pathlib import Path

from headrace.pipeline.core.shards.stream import ShardKey
from headrace.pipeline.ports.landing import LakeTable
from tests.lake.samples import ORIGIN, a_key, a_landing, with_origin
from tests.lake.tables import IcebergLake

A = a_key(0)


def an_iceberg_lake(folder: Path, *landings: Sequence[int]) -> IcebergLake:
    lake = IcebergLake(folder)
    lake.iceberg.commit(ORIGIN)
    for numbers in landings:
        land(lake.iceberg, *numbers)
    return lake


def land(table: LakeTable, *numbers: int, shard: ShardKey = A) -> int:
    """Commit these records of the shard after those that the table has. A table without an origin of its stream gets one.

    Returns the snapshot.
    """
    positions = table.load().positions
    before = positions.of(shard)
    after = before.sequence if before else None
    proposal = a_landing(table.staging_spec(), shard, after=after, numbers=numbers)
    committed = table.commit(proposal if positions.origins else with_origin(proposal))
    assert not committed.landing.refused
    assert committed.snapshot is not None
    return committed.snapshot
