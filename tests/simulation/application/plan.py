"""What is drawn of a processor that is an application of its own."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random


@dataclass(frozen=True, slots=True, kw_only=True)
class ApplicationPlan:
    """A processor of mode `application` on the hosts of the fleet that lands. All times are means, in seconds; 0 is never."""

    is_on: bool = False
    retries: bool = False
    """Whether a call that failed is tried again (`on_error: retry`)."""
    call_records: int = 10_000
    """The most records of one call."""
    dies: float = 0.0
    """The share of its answers in the place of which the processor's process dies."""
    pauses: float = 0.0
    """The share of its answers before which the whole run is frozen."""
    cut: float = 0.0
    """The share of the steps at which a run is killed."""
    keeps: bool = False
    """Whether the processor's processes stay from wave to wave."""
    is_joined: bool = False
    """Whether the settings are those of a fleet beside workers of KCL."""
    kills: float = 0.0
    """Between two kills of a run."""
    steals: float = 0.0
    """Between two leases that a worker of KCL takes."""


def an_application(rng: Random) -> ApplicationPlan:
    return ApplicationPlan(
        is_on=True,
        retries=rng.random() < 0.5,
        call_records=rng.choice((1, 3, 10_000)),
        dies=rng.choice((0.0, rng.uniform(0.005, 0.05))),
        pauses=rng.choice((0.0, rng.uniform(0.005, 0.05))),
        cut=rng.choice((0.0, rng.uniform(0.01, 0.1))),
        keeps=rng.random() < 0.5,
        is_joined=rng.random() < 0.3,
        kills=rng.choice((0.0, rng.uniform(30.0, 120.0))),
        steals=rng.choice((0.0, rng.uniform(30.0, 100.0))),
    )
