"""Dagster: each hour of orders is materialized once, when the lake table has all records of that hour."""

import json
from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path

import dagster as dg
import pandas as pd
import pyarrow.compute as pc
from lake_orders import open_table, records_between, valid_through

HOUR = timedelta(hours=1)
FORMAT = "%Y-%m-%d-%H:%M"
OUTPUT = Path("hours").resolve()
hours = dg.HourlyPartitionsDefinition(start_date="2026-01-01-00:00", fmt=FORMAT)


@dg.asset(partitions_def=hours, deps=[dg.AssetKey(["orders", "records"])])
def orders_by_hour(context: dg.AssetExecutionContext) -> dg.MaterializeResult[None]:
    """The orders of one hour, as one Parquet file. The same hour materialized again replaces the file."""
    table = open_table()
    window = context.partition_time_window
    through = valid_through(table)
    if through is None or through < window.end:
        raise dg.Failure(
            f"lake.orders doesn't have all records before {window.end:{FORMAT}} yet: it is complete up to {through}. Nothing was "
            "written; the sensor complete_hours starts this hour when it is complete"
        )
    records = records_between(table, window.start, window.end, "shard_id", "sort_key", "data").to_pandas()
    orders = pd.DataFrame([json.loads(data) for data in records["data"]], columns=["order", "amount"])
    OUTPUT.mkdir(exist_ok=True)
    orders.to_parquet(OUTPUT / f"{context.partition_key}.parquet")
    return dg.MaterializeResult(metadata={"records": len(orders), "complete up to": through.isoformat()})


@dg.sensor(
    target=[orders_by_hour], minimum_interval_seconds=60, default_status=dg.DefaultSensorStatus.RUNNING
)
def complete_hours(context: dg.SensorEvaluationContext) -> dg.SensorResult | dg.SkipReason:
    """Start a run for each hour that has become complete. The cursor is the end of the last hour with a run."""
    table = open_table()
    through = valid_through(table)
    if through is None:
        return dg.SkipReason("Headrace doesn't state yet up to which time lake.orders has all records")
    begin = datetime.fromisoformat(context.cursor) if context.cursor else _first_hour()
    if begin is None or through < begin + HOUR:
        return dg.SkipReason(f"no further hour is complete; lake.orders is complete up to {through:{FORMAT}}")
    requests: list[dg.RunRequest] = []
    while begin + HOUR <= through and len(requests) < 24:
        key = begin.strftime(FORMAT)
        requests.append(dg.RunRequest(run_key=key, partition_key=key))
        begin += HOUR
    return dg.SensorResult(run_requests=requests, cursor=begin.isoformat())


def _first_hour() -> datetime | None:
    """The hour of the oldest record."""
    arrivals = open_table().scan(selected_fields=("arrival_ts",)).to_arrow()["arrival_ts"]
    oldest: datetime | None = pc.min(arrivals).as_py()
    return oldest and oldest.astimezone(UTC).replace(minute=0, second=0, microsecond=0)


@dg.asset_check(asset=orders_by_hour)
def late_records() -> dg.AssetCheckResult:
    """Records can come into an hour that is already materialized, when a person replays or repositions a shard. This check names
    such hours of the last seven days that are materialized."""
    files = sorted(OUTPUT.glob("*.parquet"))[-7 * 24 :]
    if not files:
        return dg.AssetCheckResult(passed=True, description="no hour is materialized yet")
    counted = {path.stem: len(pd.read_parquet(path)) for path in files}
    begin, end = _begin(files[0].stem), _begin(files[-1].stem) + HOUR
    arrivals = records_between(open_table(), begin, end, "arrival_ts")["arrival_ts"]
    there = Counter(pc.strftime(arrivals, FORMAT.replace("%M", "00")).to_pylist())
    late = [
        f"{hour}: {there[hour]} records, of which {n} are materialized"
        for hour, n in sorted(counted.items())
        if there[hour] != n
    ]
    told = "\n".join([*late, "Materialize these hours again."]) if late else "no record came later"
    return dg.AssetCheckResult(passed=not late, description=told, metadata={"hours": len(late)})


def _begin(hour: str) -> datetime:
    return datetime.strptime(hour, FORMAT).replace(tzinfo=UTC)


daily = dg.ScheduleDefinition(
    name="late_records_daily",
    cron_schedule="0 6 * * *",
    job=dg.define_asset_job(
        "late_records_job", selection=dg.AssetSelection.checks_for_assets(orders_by_hour)
    ),
)
defs = dg.Definitions(
    assets=[orders_by_hour], asset_checks=[late_records], sensors=[complete_hours], schedules=[daily]
)
