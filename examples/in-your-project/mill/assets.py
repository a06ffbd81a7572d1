"""The project's own assets, which follow what Headrace lands."""

import json

import dagster as dg
import pyarrow.compute as pc

from mill.resources import Lake


@dg.asset(
    deps=[dg.AssetKey(["shop", "records"])],
    # A landing updates partitions, one for each shard. `eager` would wait until all shards have one.
    automation_condition=dg.AutomationCondition.any_deps_updated() & ~dg.AutomationCondition.in_progress(),
)
def landed(lake: Lake) -> dg.MaterializeResult[None]:
    """How many records have landed."""
    return dg.MaterializeResult(metadata={"records": lake.open("lake.orders").scan().count()})


@dg.asset(deps=[dg.AssetKey(["shop", "lake", "sold"])], automation_condition=dg.AutomationCondition.eager())
def sales(lake: Lake) -> dg.MaterializeResult[None]:
    """The sum of all sales, from the typed table."""
    amounts = lake.open("lake.sold").scan(selected_fields=("amount",)).to_arrow()["amount"]
    return dg.MaterializeResult(metadata={"sales": len(amounts), "amount": pc.sum(amounts).as_py() or 0})


@dg.asset(
    partitions_def=dg.DailyPartitionsDefinition(start_date="2026-01-31"),
    deps=[dg.AssetKey(["shop", "complete_hours"])],
    # `eager` alone looks at the newest day only, and would pass over a day that is complete more than a day later.
    automation_condition=dg.AutomationCondition.eager().without(
        dg.AutomationCondition.in_latest_time_window()
    ),
)
def sales_by_day(context: dg.AssetExecutionContext, lake: Lake) -> dg.MaterializeResult[None]:
    """The sales of a day, counted when the lake table has all records of that day."""
    window = context.partition_time_window
    since, before = window.start.isoformat(), window.end.isoformat()
    records = lake.open("lake.orders").scan(
        row_filter=f"arrival_ts >= '{since}' and arrival_ts < '{before}'", selected_fields=("data",)
    )
    orders = [json.loads(payload) for payload in records.to_arrow()["data"].to_pylist() if payload]
    amount = sum(order["amount"] for order in orders)
    return dg.MaterializeResult(metadata={"sales": len(orders), "amount": amount})
