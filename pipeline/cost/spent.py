"""What a run has used of AWS and CPU, in the form in which Dagster keeps it, and what that costs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from headrace.pipeline.cost.prices import Prices

_GB: Final = 1e9
_REQUESTS_OF_A_COMMIT: Final = 8
"""Requests to S3 of a commit with one file."""
_OF_ITS_FILE: Final = 1


@dataclass(frozen=True, slots=True)
class Spent:
    """What one run, or several together, have used of AWS and CPU."""

    calls: Mapping[str, int] = field(default_factory=dict)
    read_units: float = 0.0
    write_units: float = 0.0
    bytes: int = 0
    """Of the Kinesis records that were read."""
    fan_out_bytes: int = 0
    """Those of `bytes` that came by enhanced fan-out, which has a price of its own."""
    files: int = 0
    commits: int = 0
    cpu_seconds: float = 0.0
    runs: int = 1

    def to_json(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in self.__slots__}

    @classmethod
    def from_json(cls, told: Mapping[str, Any]) -> Spent:
        """The usage in a JSON object that Dagster keeps. Fields that only a later version knows are ignored, and
        missing ones count as 0.
        """
        return cls(**{name: told[name] for name in cls.__slots__ if name in told})


def spent_together(every: Iterable[Spent]) -> Spent:
    spent = list(every)
    calls: Counter[str] = Counter()
    for one in spent:
        calls.update(one.calls)
    return Spent(
        calls=dict(sorted(calls.items())),
        read_units=sum(one.read_units for one in spent),
        write_units=sum(one.write_units for one in spent),
        bytes=sum(one.bytes for one in spent),
        fan_out_bytes=sum(one.fan_out_bytes for one in spent),
        files=sum(one.files for one in spent),
        commits=sum(one.commits for one in spent),
        cpu_seconds=sum(one.cpu_seconds for one in spent),
        runs=sum(one.runs for one in spent),
    )


def costs_of(spent: Spent, prices: Prices) -> dict[str, float]:
    """The price of each part. Puts to S3 are estimated from files and commits, all other parts were counted."""
    # pyarrow and pyiceberg don't tell their requests. A commit with one file was counted once:
    # eight requests.
    puts = spent.files + spent.commits * (_REQUESTS_OF_A_COMMIT - _OF_ITS_FILE)
    polled = spent.bytes - spent.fan_out_bytes
    return {
        "DynamoDB": spent.write_units * prices.write_unit + spent.read_units * prices.read_unit,
        "Kinesis": (polled * prices.read_gb + spent.fan_out_bytes * prices.fan_out_gb) / _GB,
        "S3": puts * prices.put_request,
        "CPU": spent.cpu_seconds / 3600 * prices.cpu_hour,
    }


def cost_line(spent: Spent, prices: Prices) -> str:
    """The cost in one line, such as `about 0.00213 USD (DynamoDB 0.00100, Kinesis 0.00100, S3 0.00010, CPU 0.00003)`."""
    parts = costs_of(spent, prices)
    told = ", ".join(f"{name} {value:.5f}" for name, value in parts.items() if value)
    return f"about {sum(parts.values()):.5f} {prices.currency}" + (f" ({told})" if told else "")
