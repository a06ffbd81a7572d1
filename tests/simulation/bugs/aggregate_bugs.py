"""Planted bugs that show only where producers aggregate and KCL stopped inside an aggregate."""

from __future__ import annotations

from typing import Final

from tests.simulation.bugs.planted import a_bug

_PLAN_ADOPTED: Final = {
    "adopted": True,
    "aggregates": True,
    "keeps": 0.0,
    "opens": 60.0,
    "position": "TRIM_HORIZON",
    "streams": 1,
    "added": 0,
    "removed": False,
    "discovered": False,
    "retention": 86_400.0,
}

AGGREGATES: Final = (
    a_bug(
        "adopted-as-whole",
        "an adopted checkpoint counts as the end of its Kinesis record",
        ("beside_kcl.adoption_plan", "arrival=_UNKNOWN_ARRIVAL, inside=True)", "arrival=_UNKNOWN_ARRIVAL)"),
        among=_PLAN_ADOPTED,
    ),
    a_bug(
        "adopted-without-sub",
        "an adopted position forgets the sub-sequence number of KCL's checkpoint",
        ("beside_kcl.adoption_plan", "checkpoint.sub, arrival=", "0, arrival="),
        among=_PLAN_ADOPTED,
    ),
    a_bug(
        "not-read-again",
        "reading goes on after the record at an adopted checkpoint",
        ("core.shards.position", "and (self.inside or self.sub > 0)", "and False"),
        among=_PLAN_ADOPTED,
    ),
)
