"""The project's own resource."""

import dagster as dg
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.table import Table


class Lake(dg.ConfigurableResource[None]):
    """Opens tables of the lake."""

    home: str

    def open(self, table: str) -> Table:
        catalog = SqlCatalog(
            "headrace", uri=f"sqlite:///{self.home}/catalog.db", warehouse=f"{self.home}/warehouse"
        )
        return catalog.load_table(table)
