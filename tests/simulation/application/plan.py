"""What is drawn of a processor that is an application of its own."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from random import Random
from typing import Any

from headrace.pipeline.settings.choices import InitialPosition, Mode


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
    leases: Mode = Mode.OWN
    position: InitialPosition = InitialPosition.TRIM_HORIZON
    since: float = 0.0
    """With AT_TIMESTAMP: the second of the plan at which reading begins."""
    begins: float = 0.0
    """The second at which the deployments are started."""


def read_application(said: Mapping[str, Any]) -> ApplicationPlan:
    """A plan as JSON has it."""
    leases, position = said.get("leases", Mode.OWN), said.get("position", InitialPosition.TRIM_HORIZON)
    named = {"leases": Mode(leases), "position": InitialPosition(position)}
    return ApplicationPlan(**{**said, **named})


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
        leases=Mode.KCL_2 if rng.random() < 0.2 else Mode.OWN,
        position=rng.choice((InitialPosition.TRIM_HORIZON, InitialPosition.TRIM_HORIZON, *InitialPosition)),
        since=rng.uniform(10.0, 60.0),
        begins=rng.choice((0.0, rng.uniform(20.0, 90.0))),
    )
