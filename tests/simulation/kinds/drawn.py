"""Kinds of histories that the drawing of single fields hardly ever brings together. Each is in at least six of a hundred plain seeds.

A kind is drawn for a plan after all else, where it fits, and several may come together. `has` tells a kind by the plan alone, so that a test
can count how often each kind comes (`test_kinds.py`).
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import TYPE_CHECKING, Final

from tests.simulation.kinds.kind import Kind
from tests.simulation.kinds.of_fleets import CALM_KINDS, LEASE_KINDS, STREAM_KINDS
from tests.simulation.kinds.of_people import LATE_KINDS, PEOPLE_KINDS
from tests.simulation.kinds.of_tables import TABLE_KINDS

if TYPE_CHECKING:
    from tests.simulation.plan import Plan

KINDS: Final[tuple[Kind, ...]] = (
    *LEASE_KINDS,
    *PEOPLE_KINDS,
    *TABLE_KINDS,
    *STREAM_KINDS,
    *LATE_KINDS,
    *CALM_KINDS,
)
"""In the order in which they are drawn: a kind is drawn only where those before it leave room."""


def with_kinds(plan: Plan, fitted: Callable[[Plan], Plan] | None = None) -> Plan:
    """Each kind is drawn from a random generator of its own: a further kind changes only the plans that get it.

    `fitted` sets the fields that a planted bug is looked for in. A kind that these fields would undo is left out.
    """
    for kind in KINDS:
        rng = Random(f"{kind.name} {plan.seed}")
        if rng.random() < kind.share and kind.fits(plan):
            of_kind = kind.make(plan, rng)
            if fitted is None:
                plan = of_kind
            elif kind.has(fitted(of_kind)):
                plan = fitted(of_kind)
    return plan


def kinds_of(plan: Plan) -> frozenset[str]:
    return frozenset(kind.name for kind in KINDS if kind.has(plan))
