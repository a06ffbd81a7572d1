"""Each day of orders is counted once, when the lake table has all records of that day."""

import json
from pathlib import Path

import dagster as dg
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.table import Table

from headrace import build_definitions

HERE = Path(__file__).parent
HOME = HERE / "headrace-data"
DAYS = HERE / "days"


@dg.asset(
    partitions_def=dg.DailyPartitionsDefinition(start_date="2026-01-31"),
    deps=[dg.AssetKey(["orders", "complete_hours"])],
    # `eager` alone looks at the newest day only, and would pass over a day that is complete more than a day later.
    automation_condition=dg.AutomationCondition.eager().without(
        dg.AutomationCondition.in_latest_time_window()
    ),
)
def orders_by_day(context: dg.AssetExecutionContext) -> dg.MaterializeResult[None]:
    """The number and the amount of a day's orders. The same day counted again replaces the file."""
    window = context.partition_time_window
    since, before = window.start.isoformat(), window.end.isoformat()
    records = _table().scan(
        row_filter=f"arrival_ts >= '{since}' and arrival_ts < '{before}'", selected_fields=("data",)
    )
    payloads = records.to_arrow()["data"].to_pylist()
    orders = [json.loads(payload) for payload in payloads if payload is not None]
    counted = {"orders": len(orders), "amount": sum(order["amount"] for order in orders)}
    DAYS.mkdir(exist_ok=True)
    (DAYS / f"{context.partition_key}.json").write_text(json.dumps(counted))
    return dg.MaterializeResult(metadata=counted)


def _table() -> Table:
    catalog = SqlCatalog(
        "headrace", uri=f"sqlite:///{HOME / 'catalog.db'}", warehouse=str(HOME / "warehouse")
    )
    return catalog.load_table("lake.orders")


defs = dg.Definitions.merge(
    dg.Definitions(
        assets=[orders_by_day],
        # Dagster makes such a sensor by itself, and has it stopped at first.
        sensors=[
            dg.AutomationConditionSensorDefinition(
                "automation", target=[orders_by_day], default_status=dg.DefaultSensorStatus.RUNNING
            )
        ],
    ),
    build_definitions(HERE / "headrace.yaml"),
)
