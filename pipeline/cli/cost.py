"""`headrace cost`: what the runs of a day have used of AWS and CPU, and what that costs."""

import argparse
from datetime import UTC, date, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from headrace.pipeline.cli.options import add_config, load
from headrace.pipeline.cli.telling import tell
from headrace.pipeline.cli.views.json_output import add_json, print_json

if TYPE_CHECKING:
    from headrace.pipeline.cli.options import Subparsers
    from headrace.pipeline.cost.days import Day
    from headrace.pipeline.cost.prices import Prices
    from headrace.pipeline.settings.model import Settings


def add(subparsers: "Subparsers") -> None:
    parser = subparsers.add_parser(
        "cost",
        description="Sum up what the runs of a day have used (API calls, DynamoDB's units, bytes, CPU), as Dagster's storage "
        "has it, add what the sensors' ticks and `headrace beat` cost by the sizing formulas, and tell the price of both. "
        "The command writes nothing, and asks AWS nothing.",
    )
    add_config(parser)
    parser.add_argument(
        "--day", type=_day, metavar="DATE", help="a day in UTC, such as 2026-01-31 (default: today)"
    )
    parser.add_argument("--prices", metavar="FILE", help="a file with prices (default: the setting `prices`)")
    parser.add_argument(
        "--shards",
        type=_shards,
        default=0,
        metavar="N",
        help="how many shards this deployment's workers read, for the ticks",
    )
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    from headrace.pipeline.cost.prices import prices_of

    loaded = load(args)
    prices = prices_of(args.prices or loaded.settings.prices)
    now = datetime.now(UTC)
    day = _day_of(loaded.settings, Path(loaded.name), args.day or now.date(), shards=args.shards, now=now)
    capacity = _capacity(loaded.settings, args.shards)
    if args.json:
        print_json(
            {**_document(day, prices), "capacity": dict(zip(("read", "write"), capacity, strict=True))}
        )
    else:
        tell(*_lines(day, prices, loaded.settings.application), *_left_out(loaded.settings, prices))
        read, write = capacity
        tell(
            f"provisioned tables would need {read:,} read and {write:,} write units a second while {args.shards:,} shards flow"
        )
    return 0


def _capacity(settings: "Settings", shards: int) -> tuple[int, int]:
    """Units a second of this deployment while records flow in all of its shards, with room for auto scaling."""
    from headrace.pipeline.cost.sizing import at_rest, flowing

    workers = len(settings.workers)
    rest = at_rest(settings, shards=shards, workers=workers, deployments=1)
    return (rest + flowing(settings, shards=shards, workers=workers)).provisioned


def _day_of(settings: "Settings", config: Path, day: date, *, shards: int, now: datetime) -> "Day":
    from headrace.assets.names import records_key
    from headrace.pipeline.cli.beside.services import dagster_home
    from headrace.pipeline.cost.days import bounds_of, day_of
    from headrace.pipeline.cost.sizing import at_rest
    from headrace.pipeline.errors import BadSetting
    from headrace.resources.spent_events import spent_in

    home = dagster_home(config)
    # Dagster makes an empty instance in any folder, and the cost of no run would look like a day
    # that cost nothing.
    if not (home / "dagster.yaml").is_file():
        raise BadSetting(
            f"there is no dagster.yaml in {home}: set DAGSTER_HOME to the folder of the Dagster whose runs are meant. Nothing was read"
        )
    spent = list(spent_in(home, records_key(settings), *bounds_of(day)))
    ticks = at_rest(settings, shards=shards, workers=len(settings.workers), deployments=1)
    return day_of(day, spent, ticks, now=now)


def _lines(day: "Day", prices: "Prices", application: str) -> list[str]:
    runs, costs = day.runs, day.costs(prices)
    return [
        f"{application}, {day.date} UTC: {runs.runs:,} runs, as far as Dagster still has them",
        f"  API calls      {sum(runs.calls.values()):>14,}",
        *(f"    {name:34} {count:,}" for name, count in runs.calls.items()),
        f"  DynamoDB       {runs.read_units:>14,.0f} read units, {runs.write_units:,.0f} write units",
        f"  read           {runs.bytes:>14,} bytes of records",
        f"  CPU            {runs.cpu_seconds:>14,.0f} s of the runs' own processes",
        f"  sensors, about {day.ticks.read_units:>14,.0f} read units, {day.ticks.write_units:,.0f} write units",
        *(f"{name:10} {value:10.4f} {prices.currency}" for name, value in costs.items()),
        f"{'together':10} {sum(costs.values()):10.4f} {prices.currency}, by the {prices}",
    ]


def _left_out(settings: "Settings", prices: "Prices") -> list[str]:
    """What AWS charges beside the sum, for which the number of shards and of requests isn't known here."""
    from headrace.pipeline.settings.stream_names import is_dynamodb

    consumers = sorted(
        {name for stream in settings.streams if (name := settings.consumer_of(stream)) is not None}
    )
    lines = []
    if consumers:
        price = prices.consumer_shard_hour
        known = "a price" if price is None else f"{price} {prices.currency}"
        lines.append(
            f"not in the sum: {known} an hour for each shard of a consumer of "
            f"enhanced fan-out ({', '.join(consumers)})"
        )
    if any(is_dynamodb(stream.name) for stream in settings.streams):
        lines.append(
            "not in the sum: reads of the streams of DynamoDB tables, which AWS charges by the request"
        )
    return lines


def _document(day: "Day", prices: "Prices") -> dict[str, object]:
    costs = day.costs(prices)
    return {
        "day": day.date.isoformat(),
        "runs": day.runs.to_json(),
        "sensors": {"read_units": day.ticks.read_units, "write_units": day.ticks.write_units},
        "currency": prices.currency,
        "costs": costs,
        "together": sum(costs.values()),
    }


def _day(text: str) -> date:
    try:
        return date.fromisoformat(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"{text!r} isn't a day such as 2026-01-31") from error


def _shards(text: str) -> int:
    if not (text.isascii() and text.isdigit()):
        raise argparse.ArgumentTypeError(f"{text[:40]!r} isn't a number of shards")
    return int(text)
