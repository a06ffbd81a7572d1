"""What a kind of history is, and what several kinds need to change a plan."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from random import Random
from typing import TYPE_CHECKING

from headrace.pipeline.settings.choices import Mode

if TYPE_CHECKING:
    from tests.simulation.plan import Plan


@dataclass(frozen=True, slots=True)
class Kind:
    name: str
    has: Callable[[Plan], bool]
    make: Callable[[Plan, Random], Plan]
    fits: Callable[[Plan], bool] = lambda _: True
    share: float = 0.1
    """Of the plans for which the kind is drawn. Some don't fit."""


def troubled(plan: Plan, rng: Random, **spans: tuple[float, float]) -> Plan:
    """The plan with these troubles, and with less time: they come often."""
    troubles = {name: rng.uniform(*span) for name, span in spans.items()}
    return replace(plan, troubles={**plan.troubles, **troubles}, fault_seconds=min(plan.fault_seconds, 300.0))


def with_typed(plan: Plan, rng: Random) -> Plan:
    from tests.simulation.plan import parsed

    return plan if plan.typed.targets else replace(plan, typed=parsed(rng))


def often(plan: Plan, name: str, mean: float) -> bool:
    return 0.0 < plan.troubles.get(name, 0.0) <= mean


def may_be_parsed(plan: Plan) -> bool:
    # A typed table counts on what holds for Kinesis, where no retention is shorter than a day.
    return plan.retention > 3600.0


def is_small(plan: Plan) -> bool:
    is_plain = plan.mode is Mode.OWN and plan.streams == 1 and not plan.adopted and not plan.quiet
    return (
        is_plain
        and not plan.typed.targets
        and not plan.hosts_off
        and not plan.wave_takes
        and may_be_parsed(plan)
    )
