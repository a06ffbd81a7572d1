"""Plans that once broke an invariant, saved as JSON.

The plan is saved, not its seed, because a seed stands for another plan once the drawing of plans is changed.
"""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Final

from headrace.pipeline.settings.choices import Heartbeat, InitialPosition, Mode
from tests.simulation.application.plan import read_application
from tests.simulation.plan import Plan, TypedPlan
from tests.simulation.troubles.call_faults import Mix

CORPUS: Final = Path(__file__).with_name("corpus")


def write_plan(plan: Plan, why: str) -> str:
    said = asdict(plan)
    said["mix"] = {name: rate for name, rate in said["mix"].items() if rate}
    return json.dumps({"why": why, "plan": said}, indent=1) + "\n"


def read_plan(text: str) -> Plan:
    said = json.loads(text)["plan"]
    named = {
        "mix": Mix(**said["mix"]),
        "position": InitialPosition(said["position"]),
        "heartbeat": Heartbeat(said["heartbeat"]),
        "mode": Mode(said.get("mode", Mode.OWN)),
        "typed": TypedPlan(**said.get("typed", {})),
        "application": read_application(said.get("application", {})),
    }
    return Plan(**(said | named))


def keep(plan: Plan, why: str) -> Path:
    path = CORPUS / f"seed-{plan.seed}.json"
    path.write_text(write_plan(plan, why), encoding="utf-8")
    return path
