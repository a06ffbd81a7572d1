"""The lake table, which decides what has landed and what hasn't."""

from typing import Any

import dagster as dg

from headrace.pipeline.app.wiring import Wiring
from headrace.pipeline.settings.model import Settings
from headrace.resources.stated import refuse_changes


class LakeResource(dg.ConfigurableResource[Any]):
    """Shows where the lake table is. The values come from the settings file, and a run with other values is refused before it
    reads anything."""

    table: str
    catalog: str
    """The type of the user's catalog, or the folder of the embedded catalog. Dagster shows this text, so the catalog's
    other properties, which may name users, are left out."""
    wiring: dg.ResourceDependency[Wiring]

    @classmethod
    def of(cls, settings: Settings, wiring: dg.ResourceDefinition) -> "LakeResource":
        return cls(**_stated(settings), wiring=wiring)

    def setup_for_execution(self, context: dg.InitResourceContext) -> None:
        refuse_changes(self, _stated(self.wiring.settings))


def _stated(settings: Settings) -> dict[str, Any]:
    landing = settings.landing
    return {
        "table": landing.table,
        "catalog": landing.catalog.get("type", "configured") if landing.catalog else landing.home,
    }
