"""A check: whether the lake table's upkeep keeps up with its commits."""

from __future__ import annotations

from collections.abc import Iterator

from headrace.pipeline.core.landing.expiry_plan import Shape
from headrace.pipeline.doctor.case import LiveCase
from headrace.pipeline.doctor.diagnosis import Diagnosis, Health

_NAME = "upkeep"
_LATE, _TOO_LATE = 8, 40
"""Expiry begins at 25 snapshots more than stay, and the leader's at 100: 200 say that neither works. A thousand make each
commit slow."""


def upkeep_keeps_up(live: LiveCase) -> Iterator[Diagnosis]:
    settings, table = live.settings.upkeep, live.ports.table("doctor")
    if not table.exists():
        return
    shape = table.load().shape
    if not settings.enabled:
        yield Diagnosis(
            _NAME,
            Health.NOTE,
            f"upkeep.enabled is false, and the table has {shape.snapshots:,} snapshots",
            "Something else has to expire them: each one makes commits slower",
        )
        return
    history = table.retained()
    since = live.ports.clock.now() - settings.keep_for
    stay = max(settings.keep_snapshots, sum(seen.at >= since for seen in history.snapshots.values()))
    yield upkeep_findings(shape, stay)


def upkeep_findings(shape: Shape, stay: int) -> Diagnosis:
    """Whether upkeep does its work, by the number of snapshots that the table has.

    `stay`: how many snapshots the settings keep.
    """
    if not shape.is_due(stay, late=_LATE):
        return Diagnosis(
            _NAME, Health.WELL, f"the table has {shape.snapshots:,} snapshots, of which {stay:,} are to stay"
        )
    health = Health.ILL if shape.is_due(stay, late=_TOO_LATE) else Health.NOTE
    return Diagnosis(
        _NAME,
        health,
        f"the table has {shape.snapshots:,} snapshots, of which only {stay:,} are to stay: expiry is behind, and each "
        "snapshot makes commits slower",
        "Look at the last run of the upkeep job, or run `headrace upkeep`, which says what is in its way",
    )
