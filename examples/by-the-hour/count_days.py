"""Plain SQL by DuckDB: count the days that are complete, and the days into which records came later again."""

from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import duckdb
from lake_orders import open_table, records_between, valid_through

DAY = timedelta(days=1)
LOOK_BACK = 7 * DAY
"""How far back a call looks for records that came later."""


def main() -> None:
    table = open_table()
    through = valid_through(table)
    if through is None:
        print("Headrace doesn't state yet up to which time lake.orders has all records")
        return
    upto = through.astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    with duckdb.connect("days.duckdb") as database:
        database.execute(
            "CREATE TABLE IF NOT EXISTS days (day DATE PRIMARY KEY, orders BIGINT, amount BIGINT)"
        )
        before: dict[date, int] = dict(database.execute("SELECT day, orders FROM days").fetchall())
        since = _midnight(max(before)) - LOOK_BACK if before else datetime(1970, 1, 1, tzinfo=UTC)
        database.register("orders", records_between(table, since, upto, "arrival_ts", "data"))
        database.execute(Path(__file__).with_name("days.sql").read_text(), {"since": since, "upto": upto})
        days = database.execute("SELECT day, orders, amount FROM days ORDER BY day").fetchall()
    for day, orders, amount in days:
        was_counted = bool(before) and day <= max(before)
        late = orders - before.get(day, 0) if was_counted else 0
        told = f", {late} of them later than the first count" if late else ""
        print(f"{day}: {orders} orders, amount {amount}{told}")
    print(f"lake.orders has all records before {through:%Y-%m-%d %H:%M} UTC")


def _midnight(day: date) -> datetime:
    return datetime(day.year, day.month, day.day, tzinfo=UTC)


if __name__ == "__main__":
    main()
