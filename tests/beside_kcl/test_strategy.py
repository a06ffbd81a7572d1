"""The assignment strategies with the numbers of the settings."""

from dataclasses import fields, replace

import pytest

from headrace.pipeline.beside_kcl.strategy import plan_moves_of
from headrace.pipeline.core.leases.change import Change
from headrace.pipeline.core.leases.worker import Worker
from headrace.pipeline.core.sharing.assign_plan import AssignmentInput
from headrace.pipeline.duties.policy.own_tables import LeasesBeat, WorkersBeat, rules_of
from headrace.pipeline.settings.blocks.assignment import AssignmentSettings
from headrace.pipeline.settings.blocks.kcl import KclSettings
from headrace.pipeline.settings.choices import Heartbeat, Strategy
from headrace.pipeline.settings.model import Settings, StreamSettings
from tests.core.scenes import carried_out, counts, fleet_with, loads, unowned

SETTINGS = Settings(application="app", streams=(StreamSettings(name="orders"),))


def settings_with(strategy: Strategy, **knobs: object) -> Settings:
    names = {spec.name for spec in fields(AssignmentSettings)}
    ours = {name: value for name, value in knobs.items() if name in names}
    kcls = {name: value for name, value in knobs.items() if name not in names}
    assignment = AssignmentSettings(strategy=strategy, **ours)  # type: ignore[arg-type]
    return replace(SETTINGS, assignment=assignment, kcl=KclSettings(**kcls))  # type: ignore[arg-type]


def plan_moves(
    scene: AssignmentInput, workers: list[Worker], settings: Settings, *, run: int
) -> list[Change]:
    beaten = settings.kcl.heartbeat is Heartbeat.LEASE
    rules = rules_of(settings, LeasesBeat() if beaten else WorkersBeat())
    return plan_moves_of(settings, rules)(scene, workers, run)


def busy(**cpu: float) -> list[Worker]:
    return [Worker(name, stats={"C": (0.0, percent)}, ranges={"C": (100,)}) for name, percent in cpu.items()]


@pytest.mark.parametrize(
    ("strategy", "told"),
    [
        (Strategy.GAP, "w1 has more to read than w2"),
        (Strategy.VARIANCE, "w1 at C 45.0 %, w2 at C 5.0 %"),
        (Strategy.LEASE_COUNT, "w1 has 4 leases, w2 0"),
    ],
)
def test_the_plan_is_that_of_the_strategy_in_the_settings(strategy: Strategy, told: str):
    plan = plan_moves(fleet_with("w2", w1=[1.0] * 4), busy(w1=90.0, w2=10.0), settings_with(strategy), run=0)
    assert {change.why.partition(":")[0] for change in plan} == {told}


@pytest.mark.parametrize("strategy", [Strategy.VARIANCE, Strategy.LEASE_COUNT])
@pytest.mark.parametrize(("every", "balancing"), [(3, {0, 3, 6}), (1, set(range(8))), (8, {0})])
def test_kcls_strategies_balance_in_the_first_pass_and_then_every_few_passes(
    strategy: Strategy, every: int, balancing: set[int]
):
    scene, settings = fleet_with("w2", w1=[1.0] * 4), settings_with(strategy, balance_every=every)
    rows = busy(w1=90.0, w2=10.0)
    assert {run for run in range(8) if plan_moves(scene, rows, settings, run=run)} == balancing


@pytest.mark.parametrize("strategy", Strategy)
def test_each_strategy_keeps_the_cap(strategy: Strategy):
    scene = unowned(9, ["w1", "w2"])
    plan = plan_moves(scene, [], settings_with(strategy, max_leases=2), run=0)
    assert counts(carried_out(scene, plan)) == {"w1": 2, "w2": 2, None: 5}


@pytest.mark.parametrize("strategy", Strategy)
@pytest.mark.parametrize(("graceful", "claim", "heartbeat", "asked"), [
    (True, "run/1", Heartbeat.WORKER, True),
    (True, None, Heartbeat.WORKER, False),
    (True, None, Heartbeat.LEASE, True),
    (False, "run/1", Heartbeat.LEASE, False),
])  # fmt: skip
def test_the_holder_is_asked_to_hand_over_if_its_run_reads_or_its_leases_beat(
    strategy, graceful, claim, heartbeat, asked
):
    scene = fleet_with("w2", w1=[1.0] * 4)
    scene = replace(scene, leases=tuple(replace(row, run_claim=claim) for row in scene.leases))
    settings = settings_with(strategy, graceful=graceful)
    settings = replace(settings, kcl=replace(settings.kcl, heartbeat=heartbeat))
    plan = plan_moves(scene, busy(w1=90.0, w2=10.0), settings, run=0)
    found = [row for row in carried_out(scene, plan).leases if row.owner == "w2"]
    assert {row.checkpoint_owner for row in found} == {"w1" if asked else None}


@pytest.mark.parametrize("strategy", [Strategy.GAP, Strategy.VARIANCE])
@pytest.mark.parametrize(("tolerance", "moves"), [(0.1, True), (0.5, False)])
def test_within_the_tolerance_no_lease_moves(strategy, tolerance, moves):
    scene = fleet_with(w1=[1.0] * 13, w2=[1.0] * 7)
    plan = plan_moves(scene, busy(w1=60.0, w2=40.0), settings_with(strategy, tolerance=tolerance), run=0)
    assert bool(plan) is moves


@pytest.mark.parametrize(
    ("knobs", "moved"),
    [
        ({}, 200.0),  # 0.6 of (20 - 12.5) / 20 of 1000 KB/s, in whole leases of 100
        ({"dampening": 1.0}, 300.0),
        ({"dampening": 0.1, "overshoot": False}, 0.0),
        ({"dampening": 0.1}, 100.0),
        ({"max_throughput_kbps": 50.0}, 0.0),
    ],
)
def test_the_variance_strategy_uses_the_numbers_of_the_settings(knobs: dict[str, object], moved: float):
    scene = fleet_with(hot=[100.0] * 10, cool=[100.0] * 10)
    plan = plan_moves(scene, busy(hot=40.0, cool=10.0), settings_with(Strategy.VARIANCE, **knobs), run=0)
    assert 1000.0 - loads(carried_out(scene, plan))["hot"] == moved


@pytest.mark.parametrize(("alpha", "moved"), [(1.0, 200.0), (0.5, 100.0)])
def test_the_weight_of_the_newest_average_comes_from_the_settings(alpha: float, moved: float):
    scene = fleet_with(hot=[100.0] * 10, cool=[100.0] * 10)
    rows = [
        replace(row, stats={"C": (was, *row.stats["C"][1:])})
        for row, was in zip(busy(hot=40.0, cool=10.0), (0.0, 20.0), strict=True)
    ]
    plan = plan_moves(scene, rows, settings_with(Strategy.VARIANCE, ema_alpha=alpha), run=0)
    assert 1000.0 - loads(carried_out(scene, plan))["hot"] == moved
