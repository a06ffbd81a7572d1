"""The first start of an application: its namespace and its lake table are created in the catalog."""

from __future__ import annotations

from contextlib import suppress

from pyiceberg.catalog import Catalog
from pyiceberg.exceptions import NamespaceAlreadyExistsError, TableAlreadyExistsError
from sqlalchemy.exc import IntegrityError

from headrace.pipeline.lake.table.schema import RECORDS, TableLayout, properties_of_new
from headrace.pipeline.settings.choices import Aggregates


def create_table(
    catalog: Catalog,
    identifier: str,
    layout: TableLayout = RECORDS,
    *,
    aggregates: Aggregates = Aggregates.AUTO,
) -> None:
    """Create the namespace and the table. If two processes do so at once, the second one uses what the first one
    has created.
    """
    if catalog.table_exists(identifier):
        # A role that may only write to an existing table needs no right to create one.
        return
    # SqlCatalog reports a namespace that another process creates at the same moment as an IntegrityError.
    with suppress(NamespaceAlreadyExistsError, IntegrityError):
        catalog.create_namespace(identifier.rpartition(".")[0])
    with suppress(TableAlreadyExistsError):
        catalog.create_table(
            identifier,
            layout.schema,
            partition_spec=layout.partitions,
            sort_order=layout.order,
            properties=dict(properties_of_new(layout, aggregates)),
        )
