"""Periods that no setting names: each follows from settings by a formula. `headrace config --derived` prints them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from typing import Final

from headrace.pipeline.settings.choices import Beat, Mode
from headrace.pipeline.settings.model import Settings


@dataclass(frozen=True, slots=True)
class Derived:
    name: str
    value: timedelta
    formula: str
    meaning: str


_TAKING_PERIODS: Final = 2
"""In mode 2.x a worker scans the leases each second lease duration."""
_ALARM_PERIODS: Final = 3
"""An assignment that is late by one period is no trouble yet."""


# Some of these periods were settings once. A rule between two settings can be broken by a file, and a value
# that follows from another one can't.
def derived_of(settings: Settings) -> Iterator[Derived]:
    times = settings.times
    yield Derived("worker beat", times.worker_tick, "times.worker_tick", "a worker shows that it lives")
    yield Derived(
        "run beat",
        settings.run_beat,
        "times.lease_duration / 4, at most kcl.failover / 3 - 25ms",
        "a run shows that it lives",
    )
    if settings.kcl.beat is Beat.PROCESS and settings.lease_beat is not None:
        yield Derived(
            "lease beat",
            settings.lease_beat,
            "kcl.failover / 3 - 25ms",
            "`headrace beat` beats for the leases that no run reads",
        )
    yield Derived(
        "lease expiry", times.lease_duration, "times.lease_duration", "a worker without a beat counts as dead"
    )
    yield Derived(
        "leader lock", times.leader_lock, "4 x times.leader_tick", "the lock of a silent leader is valid"
    )
    yield Derived(
        "garbage clean-up",
        times.garbage_cleanup,
        "6 x times.cleanup",
        "rows of forgotten shards are looked for",
    )
    yield Derived(
        "hung after",
        settings.hung_after,
        "2 x wave.seconds, at least 2m",
        "a run whose wave makes no progress stops its beat",
    )
    yield Derived(
        "no-assignment alarm",
        _ALARM_PERIODS * times.assignment,
        "3 x times.assignment",
        "workers say that the leader assigns nothing",
    )
    if settings.kcl.mode is Mode.KCL_2:
        yield Derived(
            "taking",
            _TAKING_PERIODS * times.lease_duration,
            "2 x times.lease_duration",
            "a worker looks for leases to take",
        )
