"""The strategy that the settings choose, with the settings' numbers."""

from __future__ import annotations

from collections.abc import Iterable
from math import inf

from pipeline.core.assign import Rules, Scene, plan_assign
from pipeline.core.change import Change
from pipeline.core.worker import Worker
from pipeline.kcl.fleet import Rules as Knobs
from pipeline.kcl.strategies import plan_lease_count, plan_variance
from pipeline.settings import AssignmentSettings, Settings
from pipeline.settings_choices import Heartbeat, Strategy


def plan_moves(scene: Scene, workers: Iterable[Worker], settings: Settings, *, run: int) -> list[Change]:
    """`run`: how many passes this leader made before; KCL's strategies even out in the first and every few."""
    rules, knobs = _rules(settings), _knobs(settings.assignment)
    balance = run % settings.assignment.balance_every == 0
    match settings.assignment.strategy:
        case Strategy.GAP:
            return plan_assign(scene, rules)
        case Strategy.VARIANCE:
            return plan_variance(scene, workers, rules, knobs=knobs, balance=balance)
        case Strategy.LEASE_COUNT:
            return plan_lease_count(scene, workers, rules, knobs=knobs, balance=balance)


def _rules(settings: Settings) -> Rules:
    return Rules(
        dwell=settings.times.dwell,
        graceful=settings.assignment.graceful,
        direct=settings.coordination.heartbeat is Heartbeat.WORKER,
        max_leases=settings.assignment.max_leases,
        tolerance=settings.assignment.tolerance,
    )


def _knobs(assignment: AssignmentSettings) -> Knobs:
    """Of KCL's two strategies. What the scene or the rules say already keeps its default."""
    return Knobs(
        max_kbps=inf if assignment.max_throughput_kbps is None else assignment.max_throughput_kbps,
        dampening=assignment.dampening,
        tolerance=assignment.tolerance,
        overshoot=assignment.overshoot,
        alpha=assignment.ema_alpha,
    )
