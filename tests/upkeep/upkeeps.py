"""The upkeep of a lake table in this process, without Spark, and a table with its upkeep."""

from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

from headrace.pipeline.core.landing.landing import Proposal
from headrace.pipeline.duties.waves.expire import Expiring
from headrace.pipeline.lake.table.lake_table import IcebergTable
from headrace.pipeline.lineage.table import IcebergLineage
from headrace.pipeline.ports.base import Clock
from headrace.pipeline.settings.blocks.upkeep import UpkeepSettings
from headrace.pipeline.upkeep.compact import Compacting
from headrace.pipeline.upkeep.delete import Deleting
from headrace.pipeline.upkeep.live_table import IcebergLive
from headrace.pipeline.upkeep.ports import Rewriter, TableFiles
from headrace.pipeline.upkeep.table_files import IcebergFiles, lineage_files
from headrace.pipeline.upkeep.upkeep import Upkeep, UpkeepReport
from tests.lake.samples import ORIGIN, StandingClock, a_key, a_landing
from tests.lake.tables import IcebergLake

A = a_key(0)
DAY = timedelta(days=1)
FEW = UpkeepSettings(keep_snapshots=1, keep_for=timedelta(minutes=1))


def upkeep_of(
    table: IcebergTable,
    settings: UpkeepSettings,
    clock: Clock,
    *,
    expires_by: Clock | None = None,
    rewriter: Rewriter | None = None,
) -> Upkeep:
    """`expires_by`: the clock by which snapshots get old, where it isn't the one by which files do."""
    files = (IcebergFiles(table), lineage_files(IcebergLineage(table)))
    return Upkeep(
        table=table,
        deleting=tuple(Deleting(files=each, settings=settings, clock=clock) for each in files),
        expiring=Expiring(
            table=table,
            lineage=lambda: IcebergLineage(table),
            settings=settings,
            clock=expires_by or clock,
        ),
        compacting=Compacting(
            table=IcebergLive(table),
            rewriter=(lambda: rewriter) if rewriter else _no_spark,
            settings=settings,
            clock=clock,
        ),
        settings=settings,
    )


def _no_spark() -> Rewriter:
    raise AssertionError("these tests have too few files for a compaction, or switch it off")


@dataclass
class Kept:
    """A table with its upkeep, whose clock a test moves on."""

    lake: IcebergLake
    is_new: bool = True

    def __post_init__(self) -> None:
        if self.is_new:
            # The table was created at the host's time, which no commit may go behind.
            self.lake.clock.at = datetime.now(UTC) + timedelta(hours=1)
            self.lake.iceberg.commit(ORIGIN)

    @property
    def clock(self) -> StandingClock:
        return self.lake.clock

    @property
    def root(self) -> Path:
        return Path(self.lake.iceberg.open().location().removeprefix("file://"))

    def upkeep(self, settings: UpkeepSettings = FEW) -> Upkeep:
        return upkeep_of(self.lake.iceberg, settings, self.clock)

    def lake_files(self) -> TableFiles:
        return self.upkeep().deleting[0].files

    def days(self, count: int, settings: UpkeepSettings = FEW) -> list[UpkeepReport]:
        """One upkeep each day."""
        found = []
        for _ in range(count):
            found.append(self.upkeep(settings).run())
            self.clock.at += DAY
        return found

    def proposal(self, after: int | None, number: int) -> Proposal:
        spec = self.lake.iceberg.staging_spec()
        made = a_landing(spec, A, after=after, numbers=[number])
        staged = tuple(replace(each, staged_at=self.clock.at) for each in made.files)
        return replace(made, files=staged)

    def land(self, number: int) -> None:
        before = self.lake.iceberg.load().positions.of(A)
        committed = self.lake.iceberg.commit(self.proposal(before.sequence if before else None, number))
        assert not committed.landing.refused

    def files(self, folder: str = "") -> set[str]:
        root = self.root / folder
        return {str(each.relative_to(self.root)) for each in root.rglob("*") if each.is_file()}

    def states(self) -> set[str]:
        return {
            each.name for each in (self.lake.folder / "state").glob("*-*.json") if "upkeep" not in each.name
        }
