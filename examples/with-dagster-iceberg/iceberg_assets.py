"""Assets after a typed table of Headrace's, by dagster-iceberg."""

import os
from pathlib import Path

import dagster as dg
import pyarrow as pa
import pyarrow.compute as pc
from dagster_iceberg.config import IcebergCatalogConfig
from dagster_iceberg.io_manager.arrow import PyArrowIcebergIOManager
from dagster_iceberg.resource import IcebergTableResource

HOME = Path(os.environ.get("SHOP", "../in-your-project/headrace-data")).resolve()
CATALOG = IcebergCatalogConfig(
    properties={"uri": f"sqlite:///{HOME / 'catalog.db'}", "warehouse": str(HOME / "warehouse")}
)
SOLD = dg.AssetKey(["shop", "lake", "sold"])


@dg.asset(
    key=["lake", "amounts"],
    ins={"sold": dg.AssetIn(SOLD, metadata={"columns": ["id", "amount"]}, input_manager_key="iceberg")},
    io_manager_key="iceberg",
    automation_condition=dg.AutomationCondition.eager(),
)
def amounts(sold: pa.Table) -> pa.Table:
    """How often each amount was sold: read from the typed table, and written as an Iceberg table, by the I/O manager."""
    counted = sold.group_by("amount").aggregate([("id", "count")])
    return counted.rename_columns({"id_count": "sales"}).sort_by("amount")


@dg.asset(deps=[SOLD], automation_condition=dg.AutomationCondition.eager())
def biggest_sale(sold: IcebergTableResource) -> dg.MaterializeResult[None]:
    """The biggest sale, with a filter that skips files: by the table's resource."""
    table = sold.load()
    rows = table.scan(row_filter="amount > 0", selected_fields=("amount",)).to_arrow()
    return dg.MaterializeResult(metadata={"amount": pc.max(rows["amount"]).as_py() or 0})


defs = dg.Definitions(
    # The typed table's asset belongs to the other code location. Dagster has to know it here, too, because `amounts` loads it.
    assets=[amounts, biggest_sale, dg.AssetSpec(SOLD)],
    resources={
        "iceberg": PyArrowIcebergIOManager(name="headrace", config=CATALOG),
        "sold": IcebergTableResource(name="headrace", config=CATALOG, table="sold", namespace="lake"),
    },
)
