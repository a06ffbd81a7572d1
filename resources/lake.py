"""The lake table, which decides what has landed and what hasn't."""

import dagster as dg

from headrace.pipeline.app.ports import Ports
from headrace.pipeline.ports.landing import LakeTable
from headrace.pipeline.ports.lineage import LineageTable
from headrace.pipeline.settings.model import Settings
from headrace.pipeline.upkeep.ports import LiveTable, TableFiles
from headrace.pipeline.windows.ports import WindowStore


class LakeResource(dg.ConfigurableResource[LakeTable]):
    table: str
    catalog: str
    """The type of the user's catalog, or the folder of the embedded catalog. Dagster shows this text, so the catalog's other
    properties, which may name users, are left out."""
    ports: dg.ResourceDependency[Ports]

    @classmethod
    def of(cls, settings: Settings, ports: dg.ResourceDefinition) -> "LakeResource":
        landing = settings.landing
        return cls(
            table=landing.table,
            catalog=landing.catalog.get("type", "configured") if landing.catalog else landing.home,
            ports=ports,
        )

    def landing_table(self, writer: str) -> LakeTable:
        """`writer`: the name of the committing worker or command, which goes into the table's history."""
        return self.ports.table(writer)

    def table_files(self, user: str) -> TableFiles:
        return self.ports.files(user)

    def lineage_files(self, user: str) -> TableFiles:
        return self.ports.lineage_files(user)

    def live_table(self, writer: str) -> LiveTable:
        return self.ports.live(writer)

    def lineage_table(self, writer: str) -> LineageTable:
        return self.ports.lineage(writer)

    def windows(self) -> WindowStore:
        return self.ports.windows()
