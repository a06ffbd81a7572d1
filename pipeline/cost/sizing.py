"""How many units of DynamoDB an application needs, by its shards, workers and times: formulas for the sizing page, and for what the
sensors' ticks and `headrace beat` cost, which no run counts.

`tests/duties/fleet/test_costs.py` measures the real ticks and holds the formulas to them.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from math import ceil
from typing import Final

from headrace.pipeline.settings.choices import Beat, Heartbeat
from headrace.pipeline.settings.model import Settings

_HOUR: Final = timedelta(hours=1)
_ROW: Final = 512
"""Bytes of a lease row, at most."""
_READ_UNIT: Final = 4096
TARGET: Final = 0.7
"""The part of provisioned capacity that is to be used: auto scaling's usual target."""
FLOWING_WRITES: Final = 0.025
"""Writes of lease rows a second and shard with traffic, with claims that are kept from wave to wave."""
_LOOKS: Final = 0.4
"""Looks a second at each row with traffic: two by the ticks of a worker's sensor and two by its run, in ten seconds."""
_FEW_WORKERS: Final = 4
"""So many workers read their rows by keys, which costs a unit for each. Fewer workers scan the table."""
WAVE_WRITES: Final = 0.3
"""The same beside KCL's workers, with `heartbeat: lease`: three writes a wave. The beats are those of a shard at rest, or
fewer: while a run has claimed the row, it beats in the place of the ticks and of `headrace beat`."""


@dataclass(frozen=True, slots=True)
class Units:
    """DynamoDB's read and write units a second."""

    reads: float
    writes: float

    def __add__(self, other: Units) -> Units:
        return Units(self.reads + other.reads, self.writes + other.writes)

    @property
    def provisioned(self) -> tuple[int, int]:
        """Read and write capacity with room for auto scaling."""
        return ceil(self.reads / TARGET), ceil(self.writes / TARGET)


def at_rest(settings: Settings, *, shards: int, workers: int, deployments: int) -> Units:
    """The units of the sensors' ticks and of `headrace beat` while no record flows. `workers`: of all deployments."""
    times = settings.times
    worker_ticks, leader_ticks = _a_second(times.worker_tick), _a_second(times.leader_tick)
    passes = _a_second(times.assignment)
    reads = (
        # Its own row and the index at each tick, and the leader's row and lock at each fourth.
        workers * worker_ticks * (1.5 + 2 / 4)
        + deployments * leader_ticks * 2
        # A worker's leases at each third tick; the leader's scans, of which each second sync is one with an assignment.
        + _looking(shards, workers) * worker_ticks / 3
        + scanned(settings, rows=shards)
    )
    beats = shards * worker_ticks if settings.kcl.heartbeat is Heartbeat.LEASE else 0.0
    # A beat of each worker, one of the lock, and a number for each assignment.
    ticks = Units(reads, workers * worker_ticks + leader_ticks + passes + beats)
    return ticks + beating(settings, shards=shards, workers=workers)


def beating(settings: Settings, *, shards: int, workers: int) -> Units:
    """The units of `headrace beat` beside the ticks, with `kcl.beat: process`. A beat that is refused costs as
    much as one that is written.
    """
    if settings.kcl.beat is not Beat.PROCESS or settings.lease_beat is None:
        return Units(0.0, 0.0)
    turns = _a_second(settings.lease_beat)
    # The worker's row and the index at each turn; a write to the worker's row, and one to each lease.
    return Units(workers * turns * 1.5, turns * (workers + shards))


def scanned(settings: Settings, *, rows: int) -> float:
    """The read units a second of the leader's scans, which also read the rows of ended shards."""
    passes, syncs = _a_second(settings.times.assignment), _a_second(settings.times.shard_sync)
    # Divided by two: these scans are eventually consistent, which costs half a unit for four KB.
    return rows * (passes + syncs / 2) * _ROW / _READ_UNIT / 2


def flowing(settings: Settings, *, shards: int, workers: int) -> Units:
    """The units a second of the lease table, beyond `at_rest`, while records flow in all shards."""
    is_beaten = settings.kcl.heartbeat is Heartbeat.LEASE
    writes = WAVE_WRITES if is_beaten else FLOWING_WRITES
    run_beats = workers * _a_second(settings.run_beat)
    return Units(_looking(shards, workers) * _LOOKS, shards * writes + run_beats)


def _looking(shards: int, workers: int) -> float:
    """Read units for which all workers look at their leases once."""
    if workers >= _FEW_WORKERS:
        return shards
    # A scan is charged by the bytes of all rows, eight lease rows a unit, and reads by keys cost a
    # unit for each row, however small it is.
    return min(shards, workers * ceil(shards * _ROW / _READ_UNIT))


def _a_second(period: timedelta) -> float:
    return 1 / period.total_seconds()
