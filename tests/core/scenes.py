"""Fleets in which leases are to be assigned: drawn at random, or written as `worker=[throughputs]`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from random import Random

from headrace.pipeline.core.leases.change import Applied, Change
from headrace.pipeline.core.leases.lease import Lease
from headrace.pipeline.core.shards.checkpoint import SHARD_END, TRIM_HORIZON
from headrace.pipeline.core.sharing.assign_plan import AssignmentInput, GapRules, plan_assign
from tests.memory.leases import MemoryLeaseStore

NOW = datetime(2026, 5, 1, tzinfo=UTC)
DWELL = timedelta(minutes=5)
AT_ONCE = GapRules(dwell=timedelta(0), graceful=False)


def fleet_with(*living: str, **held: Sequence[float | None]) -> AssignmentInput:
    """Workers by name with the throughputs of their leases. `living`: more workers, without leases."""
    rows = [
        Lease(f"{worker}.{n}", 1, owner=worker, throughput_kbps=each)
        for worker, throughputs in held.items()
        for n, each in enumerate(throughputs)
    ]
    return AssignmentInput(leases=tuple(rows), living=frozenset([*living, *held]), now=NOW)


def unowned(count: int, living: Iterable[str]) -> AssignmentInput:
    rows = tuple(Lease(f"free.{n:03}") for n in range(count))
    return AssignmentInput(leases=rows, living=frozenset(living), now=NOW)


def a_fleet(seed: int) -> tuple[AssignmentInput, GapRules]:
    """A random state of a fleet that a leader may find, and random rules."""
    dice = Random(seed)
    living = _names(dice)
    dead = [f"{worker}x" for worker in living[: dice.randint(0, 3)]]
    everyone = [*living, *dead, *(["never-seen"] if dice.random() < 0.3 else [])]
    if dice.random() < 0.4:
        everyone = everyone[:2]
    throughput = dice.choice(
        [
            lambda: None,
            lambda: 0.0,
            lambda: dice.choice([None, 0.0, dice.uniform(0, 500)]),
            lambda: dice.expovariate(1 / 200),
            lambda: dice.choice([1.0, 1.0, 1.0, 2.0, 50.0]),
        ]
    )
    rows = tuple(_row(f"l{n:03}", everyone, throughput(), dice) for n in range(dice.randint(0, 60)))
    rules = GapRules(
        dwell=dice.choice([timedelta(0), DWELL]),
        graceful=dice.random() < 0.7,
        direct=dice.random() < 0.7,
        max_leases=dice.choice([None, None, dice.randint(1, 10)]),
        tolerance=dice.choice([0.0, 0.1, 0.3]),
    )
    return _scene(rows, frozenset(living), frozenset(dead)), rules


def _names(dice: Random) -> list[str]:
    clusters = "abcd"[: dice.randint(1, 4)]
    dash = dice.choice(["-", ""])
    return [f"{dice.choice(clusters)}{dash}{n}" for n in range(dice.randint(1, 20))]


def _row(key: str, everyone: list[str], kbps: float | None, dice: Random) -> Lease:
    owner = dice.choice([None, *everyone, *everyone])
    handing = dice.choice(everyone) if owner and dice.random() < 0.15 else None
    return Lease(
        key,
        dice.randrange(5),
        SHARD_END if dice.random() < 0.1 else TRIM_HORIZON,
        owner=owner,
        checkpoint_owner=None if handing == owner else handing,
        throughput_kbps=kbps,
        run_claim="run/1" if owner and dice.random() < 0.3 else None,
        assigned_at=NOW - timedelta(seconds=dice.randrange(600)) if dice.random() < 0.3 else None,
    )


def _scene(rows: tuple[Lease, ...], living: frozenset[str], dead: frozenset[str]) -> AssignmentInput:
    lost = frozenset(row.key for row in rows if row.holder in dead and not row.has_ended)
    return AssignmentInput(leases=rows, living=living, dead=dead, lost=lost, now=NOW)


def in_random_order(scene: AssignmentInput, seed: int) -> AssignmentInput:
    """The same fleet with its leases in another order."""
    return replace(scene, leases=tuple(Random(seed).sample(scene.leases, len(scene.leases))))


def carried_out(
    scene: AssignmentInput, plan: Sequence[Change], *, handed_over: bool = False
) -> AssignmentInput:
    """The fleet after the plan's writes. `handed_over`: also after the handovers that the plan started have been
    completed."""
    store = MemoryLeaseStore(scene.leases)
    for change in plan:
        assert isinstance(store.apply(change), Applied), change
    rows = store.scan().leases
    if handed_over:
        begun = {change.key for change in plan}
        rows = tuple(replace(row, checkpoint_owner=None) if row.key in begun else row for row in rows)
    return replace(_scene(rows, scene.living, scene.dead), now=scene.now)


def later(scene: AssignmentInput, by: timedelta = 2 * DWELL) -> AssignmentInput:
    """The same fleet some time later."""
    return replace(scene, now=scene.now + by)


def counts(scene: AssignmentInput) -> dict[str | None, int]:
    """How many open leases each worker owns."""
    return dict(Counter(row.owner for row in scene.leases if not row.has_ended))


def after(scene: AssignmentInput, rules: GapRules = AT_ONCE) -> dict[str | None, int]:
    """How many open leases each worker owns after the plan was carried out."""
    return counts(carried_out(scene, plan_assign(scene, rules)))


def loads(scene: AssignmentInput) -> dict[str, float]:
    """The throughput of each living worker's leases, as far as it is known."""
    found = dict.fromkeys(sorted(scene.living), 0.0)
    for row in scene.leases:
        if row.owner in found and not row.has_ended:
            found[row.owner] += row.throughput_kbps or 0.0
    return found


def cpu_model(scene: AssignmentInput, seed: int) -> Callable[[AssignmentInput], dict[str, float]]:
    """A model of the CPU of hosts: how much each measured worker uses, given where the leases are.

    Some shards cost more CPU than others with the same throughput, some hosts are slower, and some do other work
    too.
    """
    dice = Random(seed)
    workers = sorted(scene.living)
    measured = [worker for worker in workers if dice.random() < 0.8]
    slow = {worker: dice.choice([1.0, 1.0, 0.2, 3.0]) for worker in workers}
    other = {worker: dice.choice([0, 0, 0, 50, 90]) for worker in workers}
    cost = {row.key: dice.choice([0.2, 1.0, 1.0, 1.0, 5.0]) for row in scene.leases}
    unit = dice.uniform(10, 80) * len(workers) / max(1.0, sum(cost.values()))

    def cpu(at: AssignmentInput) -> dict[str, float]:
        own = dict.fromkeys(measured, 0.0)
        for row in at.leases:
            if row.holder in own and not row.has_ended:
                own[row.holder] += unit * cost[row.key]
        return {worker: min(100.0, other[worker] + slow[worker] * own[worker]) for worker in measured}

    return cpu
