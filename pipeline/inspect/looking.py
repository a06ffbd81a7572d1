"""Read an application's tables once, or twice with some time between, and return an `Observation`."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import TYPE_CHECKING

from headrace.pipeline.clock import SystemClock
from headrace.pipeline.core.words.words import counted
from headrace.pipeline.inspect.balance import BEFORE_THE_FIRST_DASH
from headrace.pipeline.inspect.compare import observation_of
from headrace.pipeline.inspect.observation import Observation
from headrace.pipeline.inspect.read import TableNames, TableReader
from headrace.pipeline.ports.base import Clock

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

_LONG_ENOUGH = 30.0
"""Seconds between two looks after which a living worker has surely moved."""
_FEWEST_LOOKS = 2


def look_at_tables(
    client: DynamoDBClient,
    table: str | TableNames,
    *,
    watch: timedelta | None = None,
    cluster_by: str | re.Pattern[str] = BEFORE_THE_FIRST_DASH,
    progress: Callable[[str], None] = lambda _: None,
    clock: Clock | None = None,
) -> Observation:
    """Read the tables of an application, and return what they show. `table`: its lease table, or the names of all
    three where they aren't KCL's.

    `watch`: read the tables a second time after so long. Only changes between two readings show which workers are
    alive. `cluster_by`: the regular expression that finds a cluster's name in a worker's id.
    """
    clock = clock or SystemClock()
    names = TableNames.of(table) if isinstance(table, str) else table
    rule = re.compile(cluster_by)
    reader = TableReader(client, names, clock=clock, progress=progress)
    first = reader.read()
    if watch is None:
        return observation_of(first, cluster_by=rule)
    began = clock.monotonic()
    progress(f"{counted(len(first.leases), 'lease')} seen; looking again in {watch.total_seconds():.0f} s")
    clock.pause(watch.total_seconds())
    # Measured, as the reading of a large table takes long itself.
    watched = timedelta(seconds=clock.monotonic() - began)
    return observation_of(first, reader.read(), watched=watched, cluster_by=rule)


def looks_at_tables(
    client: DynamoDBClient,
    names: TableNames,
    *,
    every: timedelta,
    cluster_by: str | re.Pattern[str] = BEFORE_THE_FIRST_DASH,
    clock: Clock,
) -> Iterator[Observation]:
    """One observation after the other, each compared with an earlier reading, for as long as the caller iterates."""
    rule = re.compile(cluster_by)
    reader = TableReader(client, names, clock=clock)
    reads = [(clock.monotonic(), reader.read())]
    yield observation_of(reads[0][1], cluster_by=rule)
    while True:
        clock.pause(every.total_seconds())
        reads.append((clock.monotonic(), reader.read()))
        # A worker may write as seldom as every 20 s: the oldest of these looks shows whether it has moved.
        while len(reads) > _FEWEST_LOOKS and reads[-1][0] - reads[1][0] >= _LONG_ENOUGH:
            del reads[0]
        (began, first), (ended, last) = reads[0], reads[-1]
        yield observation_of(first, last, watched=timedelta(seconds=ended - began), cluster_by=rule)
