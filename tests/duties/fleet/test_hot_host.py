"""A worker with a busy host loses leases: from the CPU that tasks measure, through the workers' rows, to KCL's
balancing."""

from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from headrace.pipeline.aws.leases.leases import DynamoLeaseStore
from headrace.pipeline.aws.leases.workers import DynamoWorkerStore
from headrace.pipeline.core.leases.change import Applied
from headrace.pipeline.kcl.fleet import KclRules
from headrace.pipeline.settings.choices import Strategy
from tests.duties.measured import MeasuringStage, a_load
from tests.duties.world import World
from tests.stand_in import a_table
from tests.vectors.rules.assignment import Plan, Term, plan_assignment

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

SHARDS = 8
WORKERS = ("w1", "w2")


@pytest.fixture(params=["memory", pytest.param("dynamodb", marks=pytest.mark.slow)])
def world(request: pytest.FixtureRequest) -> Iterator[World]:
    made = World(workers=WORKERS, shards=SHARDS)
    made.stage = MeasuringStage(made.stage)  # type: ignore[assignment]
    if request.param == "memory":
        made.settle()
        yield made
        return
    client: DynamoDBClient = request.getfixturevalue("dynamodb")
    tables = a_table(client, "leaseKey"), a_table(client, "wid")
    stores: Any = DynamoLeaseStore(client, tables[0]), DynamoWorkerStore(client, tables[1], clock=made.clock)
    made.leases, made.rows = stores
    made.settle()
    yield made
    for table in tables:
        client.delete_table(TableName=table)


def work(world: World, *, busy: dict[str, float | None]) -> None:
    """A minute of waves with the same traffic on every shard. Each worker has two hosts: one at work, one idle."""
    for n in range(3):
        for shard in range(SHARDS):
            world.produce(shard)
        for worker, cpu in busy.items():
            loads = () if cpu is None else (a_load(cpu, f"{worker}-a"), a_load(2, f"{worker}-b"))
            world.stage.loads = loads  # type: ignore[attr-defined]
            world.wave(worker, f"{worker}-{n}")
            world.work(worker)
        world.clock.advance(timedelta(seconds=30))


def plan(world: World) -> Plan:
    return plan_assignment(
        world.leases.scan().leases,
        world.rows.listing().workers,
        term=Term(),
        rules=KclRules(),
        at_ns=10**12,
        now=world.clock.now(),
    )


def owners(world: World) -> dict[str, int]:
    leases = world.leases.scan().leases
    return {worker: sum(row.owner == worker for row in leases) for worker in WORKERS}


def test_leases_move_from_the_worker_with_the_busy_host_to_the_other(world: World):
    work(world, busy={"w1": 96, "w2": 8})
    assert owners(world) == {"w1": 4, "w2": 4}
    found = plan(world)
    assert found.changes
    for change in found.changes:
        assert "w1 -> w2" in change.why
        assert isinstance(world.leases.apply(change), Applied)
    after = owners(world)
    assert after["w2"] > 4 > after["w1"]


@pytest.mark.parametrize(
    ("strategy", "moves"), [(Strategy.VARIANCE, True), (Strategy.GAP, True), (Strategy.LEASE_COUNT, False)]
)
def test_headraces_own_strategy_moves_leases_from_a_busy_host_too(
    world: World, strategy: Strategy, *, moves: bool
):
    assignment = replace(world.settings.assignment, strategy=strategy)
    world.settings = replace(world.settings, assignment=assignment)
    work(world, busy={"w1": 96, "w2": 8})
    world.clock.advance(world.settings.times.assignment)
    world.tick(3 * 4)
    after = owners(world)
    assert (after["w2"] > 4 > after["w1"]) is moves
    assert sum(after.values()) == SHARDS


def test_a_busy_and_an_idle_host_even_out_within_three_passes_and_then_no_lease_moves():
    """The load moves with the leases. The two hosts of w1 have 96 % CPU on average, those of w2 8 %."""
    world = World(workers=WORKERS, shards=SHARDS)
    world.stage = MeasuringStage(world.stage)  # type: ignore[assignment]
    world.settle()
    work(world, busy={"w1": 50, "w2": 50})
    cost = {row.key: 24 if row.owner == "w1" else 2 for row in world.leases.scan().leases}

    def busy() -> dict[str, float | None]:
        rows = world.leases.scan().leases
        return {worker: sum(cost[r.key] for r in rows if r.owner == worker) for worker in WORKERS}

    seen = []
    for _ in range(12):
        # The other host of each worker has 2 % (see `work`).
        work(world, busy={worker: 2 * (percent or 0) - 2 for worker, percent in busy().items()})
        world.clock.advance(world.settings.times.assignment)
        world.tick(4)
        seen.append(owners(world))
    assert seen[2] != {"w1": 4, "w2": 4}
    assert seen[3:] == [seen[2]] * 9
    assert sorted(busy().values()) == [48, 56]  # type: ignore[type-var]


def test_workers_with_equal_load_keep_their_leases(world: World):
    work(world, busy={"w1": 50, "w2": 52})
    assert plan(world).changes == ()


def test_workers_that_measure_nothing_are_balanced_by_throughput(world: World):
    work(world, busy={"w1": None, "w2": None})
    assert {row.measured_by for row in world.rows.listing().workers} == {"throughput"}
    assert plan(world).changes == ()


def test_the_worker_rows_say_what_was_measured(world: World):
    work(world, busy={"w1": 96, "w2": 8})
    found = {row.worker_id: (row.stats, row.measured_by) for row in world.rows.listing().workers}
    assert found == {
        "w1": ({"C": (49.0, 49.0, 49.0)}, "cpu of 2 hosts"),
        "w2": ({"C": (5.0, 5.0, 5.0)}, "cpu of 2 hosts"),
    }
