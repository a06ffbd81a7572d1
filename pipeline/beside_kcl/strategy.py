"""The strategy of lease assignment that `assignment.strategy` names, with the values of the settings."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from math import inf

from headrace.pipeline.core.leases.change import Change
from headrace.pipeline.core.leases.worker import Worker
from headrace.pipeline.core.sharing.assign_plan import AssignmentInput, GapRules
from headrace.pipeline.duties.policy.own_tables import by_gap
from headrace.pipeline.duties.policy.policy import PlanMoves
from headrace.pipeline.kcl.fleet import KclRules
from headrace.pipeline.kcl.strategies import plan_lease_count, plan_variance
from headrace.pipeline.settings.choices import Strategy
from headrace.pipeline.settings.model import Settings


def plan_moves_of(settings: Settings, rules: GapRules) -> PlanMoves:
    match settings.assignment.strategy:
        case Strategy.GAP:
            return by_gap(rules)
        case Strategy.VARIANCE | Strategy.LEASE_COUNT:
            return ByKclStrategy(settings, rules).plan_moves


@dataclass(frozen=True, slots=True)
class ByKclStrategy:
    """Plans the leader's assignments by one of KCL 3.x's strategies."""

    settings: Settings
    rules: GapRules

    def plan_moves(self, scene: AssignmentInput, workers: Iterable[Worker], passes: int) -> list[Change]:
        """The changes of one assignment pass. KCL's strategies balance in the first pass of a leader, and
        then in one of `kcl.balance_every` passes."""
        plan = plan_variance if self.settings.assignment.strategy is Strategy.VARIANCE else plan_lease_count
        balance = passes % self.settings.kcl.balance_every == 0
        return plan(scene, workers, self.rules, kcl_rules=_kcl_rules(self.settings), balance=balance)


def _kcl_rules(settings: Settings) -> KclRules:
    """KCL's rules with the settings' numbers. `plan_variance` and `plan_lease_count` set the others."""
    kcl = settings.kcl
    return KclRules(
        max_kbps=inf if kcl.max_throughput_kbps is None else kcl.max_throughput_kbps,
        dampening=kcl.dampening,
        tolerance=settings.assignment.tolerance,
        overshoot=kcl.overshoot,
        alpha=kcl.ema_alpha,
    )
