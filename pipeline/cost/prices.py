"""The price table: a TOML file that comes with Headrace, or the user's own."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from headrace.pipeline.errors import BadSetting

SHIPPED: Final = Path(__file__).with_name("prices.toml")
_PARTS: Final = {
    "dynamodb": ("write_units", "read_units"),
    "kinesis": ("read_gb",),
    "s3": ("put_requests",),
    "cpu": ("hour",),
}
_MORE: Final = {"kinesis": ("fan_out_gb", "consumer_shard_hour")}
"""Prices that a file needn't have: those of users are older than these."""
_TEXTS: Final = ("region", "written", "currency")


@dataclass(frozen=True, slots=True, kw_only=True)
class Prices:
    region: str
    written: str
    currency: str
    write_unit: float
    read_unit: float
    read_gb: float
    fan_out_gb: float
    consumer_shard_hour: float | None
    """None where a user's own prices don't tell it: it is only told, and counts in no sum."""
    put_request: float
    cpu_hour: float

    def __str__(self) -> str:
        return f"prices of {self.region} in {self.currency}, written on {self.written}"


def prices_of(path: str | None) -> Prices:
    """The prices in this file; for None those that come with Headrace. Raises BadSetting."""
    file = SHIPPED if path is None else Path(path)
    try:
        table = tomllib.loads(file.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise BadSetting(
            f"the prices {file} can't be read ({error}). Nothing was read or written; correct the file, or the setting `prices`"
        ) from error
    if wrong := list(_mistakes(table)):
        raise BadSetting(
            f"the prices {file}: {'; '.join(wrong)}; {SHIPPED} shows the form. Nothing was read or written"
        )
    return Prices(
        region=table["region"],
        written=str(table["written"]),
        currency=table["currency"],
        write_unit=table["dynamodb"]["write_units"] / 1e6,
        read_unit=table["dynamodb"]["read_units"] / 1e6,
        read_gb=table["kinesis"]["read_gb"],
        fan_out_gb=table["kinesis"].get("fan_out_gb", table["kinesis"]["read_gb"]),
        consumer_shard_hour=table["kinesis"].get("consumer_shard_hour"),
        put_request=table["s3"]["put_requests"] / 1e6,
        cpu_hour=table["cpu"]["hour"],
    )


def _mistakes(table: Mapping[str, Any]) -> list[str]:
    wrong = [f"{name} is missing" for name in _TEXTS if name not in table]
    for part, names in _PARTS.items():
        block = table.get(part)
        stated = block if isinstance(block, dict) else {}
        for name in (*names, *(name for name in _MORE.get(part, ()) if name in stated)):
            value = stated.get(name)
            if isinstance(value, bool) or not isinstance(value, int | float) or value < 0:
                wrong.append(f"{part}.{name} has to be a number from 0 on")
    return wrong
