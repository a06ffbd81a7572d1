"""Run one seed, from its plan to the judges' verdict."""

from __future__ import annotations

import traceback
from dataclasses import dataclass, field
from hashlib import sha256

from tests.simulation.plan import HEALTHY, Plan, a_plan
from tests.simulation.settle import require_cleared, require_settled, unsettled
from tests.simulation.stretches import Quiet
from tests.simulation.tally import Tally
from tests.simulation.troubles.troubles import Troubles
from tests.simulation.watch.truth import History, Violation
from tests.simulation.world import World

_LOOK = 10.0


@dataclass(slots=True)
class Outcome:
    """What became of one seed."""

    plan: Plan
    violation: Violation | None
    history: History = field(repr=False)
    seconds: float
    """Virtual seconds that the seed took."""
    settled_after: float | None
    landed: int
    tally: Tally
    happened: dict[str, int]
    """How often each kind of fault or rare event happened."""

    @property
    def digest(self) -> str:
        return sha256("\n".join(lines(self.history)).encode()).hexdigest()


def lines(history: History) -> list[str]:
    return [f"{at:9.3f}  {who:<16} {what}" for at, who, what in history]


def run_seed(seed: int) -> Outcome:
    return run_plan(a_plan(seed))


def run_plan(plan: Plan) -> Outcome:
    world = World(plan)
    violation = None
    settled: float | None = None
    try:
        world.start()
        Troubles(world).start()
        world.sim.run(plan.fault_seconds + HEALTHY)
        if plan.quiet:
            quiet = Quiet(world)
            quiet.run_through()
            require_cleared(world)
            quiet.resume_traffic()
        while settled is None and world.sim.now < plan.end:
            world.sim.run(world.sim.now + _LOOK)
            if next(unsettled(world), None) is None:
                settled = world.sim.now - plan.fault_seconds - plan.quiet
        require_settled(world)
    except Violation as broken:
        violation = broken
    except Exception as crash:  # noqa: BLE001 - a crash of the product is a finding, and is reported like a broken invariant
        stack = "".join(traceback.format_exception(crash)[-3:])
        violation = Violation("crash", f"{type(crash).__name__}: {crash}\n{stack}")
    finally:
        world.close()
    return Outcome(
        plan,
        violation,
        world.history,
        world.sim.now,
        settled,
        landed=world.table.landed,
        tally=world.tally,
        happened=dict(sorted(world.call_faults.happened.items())),
    )
