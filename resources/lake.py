"""The landing table: the judge of every position."""

from pathlib import Path
from typing import TYPE_CHECKING

from dagster import ConfigurableResource

from pipeline.clock import SystemClock
from pipeline.ports import LandingTable, ShardSource
from pipeline.settings import Settings

if TYPE_CHECKING:
    from pipeline.lake.iceberg import IcebergTable


class LakeResource(ConfigurableResource[LandingTable]):
    table: str
    catalog: dict[str, str]
    state: str
    home: str

    @classmethod
    def of(cls, settings: Settings) -> "LakeResource":
        landing = settings.landing
        return cls(
            table=landing.table,
            catalog=dict(landing.catalog),
            state=landing.state or str(Path(landing.home).resolve() / "state"),
            home=landing.home,
        )

    def landing_table(self, writer: str, source: ShardSource | None = None) -> "IcebergTable":
        """`writer` names who commits; by `source` the host's clock is checked before each commit."""
        from pipeline.lake.catalog import embedded_catalog
        from pipeline.lake.iceberg import IcebergTable

        date = source.aws_now if source is not None else lambda: None
        catalog = self.catalog or embedded_catalog(Path(self.home))
        return IcebergTable(
            catalog,
            self.table,
            state=self.state,
            clock=SystemClock(),
            writer=writer,
            date_of_aws=date,
        )
