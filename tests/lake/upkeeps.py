"""The upkeep of a lake table in this process, without Spark."""

from pipeline.duties.compacting import Compacting
from pipeline.duties.deleting import Deleting
from pipeline.duties.expiring import Expiring
from pipeline.duties.upkeep import Upkeep
from pipeline.lake.iceberg import IcebergTable
from pipeline.lake.lineage_table import IcebergLineage
from pipeline.lake.live_table import IcebergLive
from pipeline.lake.table_files import IcebergFiles, LineageFiles
from pipeline.lake_ports import Rewriter
from pipeline.ports import Clock
from pipeline.settings.upkeep_block import UpkeepSettings


def upkeep_of(
    table: IcebergTable, settings: UpkeepSettings, clock: Clock, *, expires_by: Clock | None = None
) -> Upkeep:
    """`expires_by`: the clock by which snapshots get old, where it isn't the one by which files do."""
    files = (IcebergFiles(table), LineageFiles(IcebergLineage(table)))
    return Upkeep(
        table=table,
        deleting=tuple(Deleting(files=each, settings=settings, clock=clock) for each in files),
        expiring=Expiring(
            table=table,
            lineage=lambda: IcebergLineage(table),
            settings=settings,
            clock=expires_by or clock,
        ),
        compacting=Compacting(table=IcebergLive(table), rewriter=_no_spark, settings=settings, clock=clock),
        settings=settings,
    )


def _no_spark() -> Rewriter:
    raise AssertionError("these tests have too few files for a compaction, or switch it off")
