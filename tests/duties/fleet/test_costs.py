"""What coordination costs in DynamoDB: the requests and units of each role's tick, and of an hour at rest.

Rows are in the stand-in's DynamoDB, through the real adapters; streams and the lake table are in memory. `pytest -s`
prints the bills.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import timedelta
from functools import partial
from math import ceil
from typing import TYPE_CHECKING, Any

import pytest

from headrace.pipeline.aws.clients import clients
from headrace.pipeline.aws.leases import table_layout
from headrace.pipeline.aws.leases.leader_lock import DynamoLeaderLock
from headrace.pipeline.aws.leases.leases import DynamoLeaseStore
from headrace.pipeline.aws.leases.table_layout import KnownPlaces
from headrace.pipeline.aws.leases.tables import DynamoTables
from headrace.pipeline.aws.leases.workers import DynamoWorkerStore
from headrace.pipeline.clock import SystemClock
from headrace.pipeline.cost.sizing import at_rest, beating
from headrace.pipeline.duties.fleet.beater import BeaterMemory
from headrace.pipeline.duties.fleet.leader_tick import LeaderDuty
from headrace.pipeline.duties.waves.run import Run
from headrace.pipeline.settings.blocks.aws import AwsSettings
from headrace.pipeline.settings.blocks.kcl import KclSettings
from headrace.pipeline.settings.choices import Beat, Heartbeat, Layout
from headrace.pipeline.settings.model import WorkerSettings
from tests.duties.bill import Bill, Meter
from tests.duties.reading import wiring_of
from tests.duties.world import TICK, World

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

MINUTE = 12
"""Ticks. Shard syncs, assignments, probes and looks at the leader each fall due a whole number of times within it."""
HOUR = 60
"""Minutes."""


@dataclass
class PricedWorld(World):
    """The world of the duties with its coordination tables in DynamoDB. The stores live as long as a process, as in
    Dagster's code server."""

    client: DynamoDBClient = field(kw_only=True)
    meter: Meter = field(kw_only=True)
    heartbeat: Heartbeat = Heartbeat.WORKER
    layout: Layout = Layout.AUTO

    def __post_init__(self) -> None:
        super().__post_init__()
        self.settings = replace(
            self.settings,
            application=f"cost-{uuid.uuid4().hex[:8]}",
            kcl=KclSettings(heartbeat=self.heartbeat, layout=self.layout),
        )
        DynamoTables(self.client, self.settings).create()
        client, settings = self.client, self.settings
        places = KnownPlaces(client, settings, SystemClock())
        self.leases = DynamoLeaseStore(client, settings.lease_table)  # type: ignore[assignment]
        self.rows = DynamoWorkerStore(  # type: ignore[assignment]
            client, lambda: places().workers, clock=self.clock, also=lambda: places().also_workers
        )
        self.lock = DynamoLeaderLock(client, lambda: places().lock)  # type: ignore[assignment]
        self.tables = DynamoTables(client, settings, places=places)  # type: ignore[assignment]

    def a_leader(self, leader: str = "w1") -> LeaderDuty:
        """A deployment with this worker alone."""
        mine = replace(self.settings, workers=(WorkerSettings(id=leader),))
        return replace(super().a_leader(leader), settings=mine)

    def come_to_rest(self) -> None:
        """A world in which all leases are assigned, and every shard has been read and found empty."""
        self.settle()
        for worker in self.workers:
            self.wave(worker, f"first-of-{worker}")
        self.tick(MINUTE)

    def price(self, what: str, act: Callable[[], object]) -> Bill:
        with self.meter.bill() as bill:
            act()
        print(f"{what:44} {bill}")
        return bill

    def price_until(self, what: str, act: Callable[[], object], is_it: Callable[[Bill], bool]) -> Bill:
        """The bill of the first tick within a minute for which `is_it` is true."""
        for _ in range(MINUTE):
            self.clock.advance(TICK)
            bill = self.price(what, act)
            if is_it(bill):
                return bill
        raise AssertionError(f"{what}: no tick within a minute did it")

    def drop(self) -> None:
        for name in (self.settings.lease_table, self.settings.worker_table, self.settings.state_table):
            with suppress(self.client.exceptions.ResourceNotFoundException):
                self.client.delete_table(TableName=name)


MakeWorld = Callable[..., PricedWorld]


@pytest.fixture(scope="module")
def patient(dynamodb: DynamoDBClient) -> DynamoDBClient:
    """A client that waits for answers however busy the machine is: a request that it gave up and sent again would be on the bill."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(clients, "_READ", 600)
        patch.setattr(clients, "_CONNECT", 600)
        where = dynamodb.meta
        return clients.dynamodb_client(AwsSettings(region=where.region_name, endpoint=where.endpoint_url))


@pytest.fixture(scope="module")
def make(patient: DynamoDBClient) -> Iterator[MakeWorld]:
    """Worlds at rest. The look at the layout is priced separately, because it happens as often as the host's clock
    says."""
    made: list[PricedWorld] = []
    with Meter(patient).listening() as meter, pytest.MonkeyPatch.context() as patch:
        patch.setattr(table_layout, "_HOLDS", 1e9)

        def make(**how: Any) -> PricedWorld:
            made.append(PricedWorld(client=patient, meter=meter, **how))
            made[-1].come_to_rest()
            return made[-1]

        yield make
        for world in made:
            world.drop()


@pytest.fixture(scope="module")
def few(make: MakeWorld) -> PricedWorld:
    """One worker with five leases."""
    return make(shards=5)


@pytest.fixture(scope="module")
def many(make: MakeWorld) -> PricedWorld:
    """One worker with fifty leases."""
    return make(shards=50)


@pytest.fixture(scope="module")
def one(make: MakeWorld) -> PricedWorld:
    """One worker with fifty leases, in layout S."""
    return make(shards=50, layout=Layout.S)


def leases_of(world: PricedWorld) -> str:
    return world.settings.lease_table


def test_a_leaders_tick_between_its_duties_reads_the_lock_and_the_workers_and_writes_its_beat(
    many: PricedWorld,
) -> None:
    bill = many.price_until(
        "leader, between its duties", many.lead, lambda b: not b.of("Scan", leases_of(many))
    )
    assert bill.written == 1
    assert bill.writes == 1
    assert bill.of("GetItem") == 1
    assert bill.reads <= 2


def test_an_assignment_pass_reads_the_leases_once_and_writes_its_number(many: PricedWorld) -> None:
    bill = many.price_until("leader, assignment", many.lead, lambda b: b.written == 2)
    assert bill.of("Scan", leases_of(many)) == 1
    assert bill.reads <= 2 + 0.5 * 50 / 8, "a row has 512 bytes, so a unit reads eight rows"


def test_a_shard_sync_that_finds_no_new_shard_writes_no_lease_row(many: PricedWorld) -> None:
    bill = many.price_until(
        "leader, shard sync", many.lead, lambda b: b.of("Scan", leases_of(many)) == 1 and b.written == 1
    )
    assert bill.of("PutItem") == 0


@pytest.mark.parametrize("where", ["many", "one"])
def test_a_follower_writes_nothing_and_scans_nothing(request: pytest.FixtureRequest, where: str) -> None:
    """That holds also at the ticks at which the leader syncs or assigns."""
    world: PricedWorld = request.getfixturevalue(where)
    world.work("w2")
    for _ in range(MINUTE):
        world.clock.advance(TICK)
        world.lead("w1")
        bill = world.price(f"follower's leader tick, {where}", lambda: world.lead("w2"))
        assert (bill.scans, bill.written) == (0, 0)
        assert (bill.of("GetItem"), bill.of("BatchGetItem")) == (1, 1)
        assert bill.reads <= 2


def test_in_layout_s_a_leaders_tick_between_its_duties_reads_only_rows_that_it_knows(
    one: PricedWorld,
) -> None:
    bill = one.price_until("leader, between its duties, one table", one.lead, lambda b: not b.scans)
    assert (bill.of("GetItem"), bill.of("BatchGetItem")) == (1, 1)
    assert (bill.written, bill.writes) == (1, 1)
    assert bill.reads <= 1 + len(one.rows.listing().workers)


def test_in_layout_s_a_leader_scans_for_workers_once_a_period_and_for_leases_as_often_as_in_layout_m(
    one: PricedWorld,
) -> None:
    bills = []
    for _ in range(MINUTE):
        one.clock.advance(TICK)
        bills.append(one.price("leader, one table", one.lead))
    a_minute, times = MINUTE * TICK, one.settings.times
    periods, syncs = a_minute // times.assignment, a_minute // times.shard_sync
    assert sum(bill.written == 2 for bill in bills) == periods
    assert sum(bill.scans for bill in bills) <= 2 * periods + syncs
    assert any(bill.scans == 0 for bill in bills)


@pytest.mark.parametrize(("size", "held"), [("few", 0), ("few", 5), ("many", 50)])
def test_an_idle_workers_tick_writes_one_beat_and_reads_its_own_rows_however_many_leases_it_has(
    request: pytest.FixtureRequest, size: str, held: int
) -> None:
    world: PricedWorld = request.getfixturevalue(size)
    worker = "w1" if held else "w9"
    world.work(worker)
    looks = reads = 0
    for _ in range(MINUTE):
        world.clock.advance(TICK)
        bill = world.price(f"worker, {held} leases", lambda: world.work(worker))
        lists = bill.of("Scan", leases_of(world))
        assert bill.scans == lists
        assert bill.written == 1
        assert bill.writes == 1
        assert bill.of("Query") == 1
        assert bill.of("BatchGetItem") == 0, "a worker with all leases reads them as one list"
        reads += lists
        looks += bill.of("GetItem") > 1
        assert bill.reads <= ceil(held / 8) * lists + (4 if bill.of("GetItem") > 1 else 2)
    assert reads == (MINUTE / 3 if held else 0), "the rows are read at every third tick"
    assert looks <= 3, "the worker looks at the leader as often as the leader assigns"


def test_a_worker_whose_run_is_alive_costs_no_more_than_an_idle_worker(few: PricedWorld) -> None:
    few.runs.launch("running", "w1")
    few.runs.start("running")
    for _ in range(3):
        few.clock.advance(TICK)
        bill = few.price("worker, its run at work", few.work)
        assert (bill.scans, bill.written) == (1, 1)
        assert bill.reads <= 1 + 4
    few.runs.end("running")


def test_stopping_costs_a_write_for_each_lease_and_then_only_reads(make: MakeWorld) -> None:
    world = make(shards=5)
    world.rows.set_stopping("w1", stopping=True)
    bill = world.price("worker, stopping with 5 leases", world.work)
    assert bill.of("UpdateItem", leases_of(world)) == 5
    assert bill.written == 5 + 1, "five leases, and the worker's beat, by which the leader notices the stop"
    world.clock.advance(TICK)
    bill = world.price("worker, stopped", world.work)
    assert (bill.scans, bill.written) == (0, 0)


def test_a_worker_costs_the_same_in_layout_s_as_in_layout_m(make: MakeWorld) -> None:
    world = make(shards=5, layout=Layout.S)
    for _ in range(4):
        world.clock.advance(TICK)
        bill = world.price("worker, 5 leases, one table", world.work)
        assert (bill.written, bill.writes) == (1, 1)
        assert bill.scans <= 1
        assert bill.reads <= 2 + 4


def test_the_look_at_the_layout_scans_nothing_once_there_is_a_lock(many: PricedWorld) -> None:
    """The look happens once a minute in each process."""
    bill = many.price("the layout", lambda: table_layout.gather(many.client, many.settings))
    assert (bill.scans, bill.written) == (0, 0)
    assert bill.reads <= 6


def an_hour(world: PricedWorld) -> tuple[Bill, Bill]:
    """Two deployments at rest, one of which leads: what the leader's ticks cost, and what all other ticks cost."""
    world.tick(6)  # let the writes of earlier steps come to an end
    leader, others = Bill(), Bill()
    for _ in range(MINUTE):
        acts: list[tuple[Bill, Callable[[], object]]] = [
            (leader, lambda: world.lead("w1")),
            (others, lambda: world.lead("w2")),
            *((others, partial(world.work, worker)) for worker in world.workers),
        ]
        for whose, act in acts:
            with world.meter.bill() as bill:
                act()
            whose.add(bill)
        world.clock.advance(TICK)
    leader, others = leader.times(HOUR), others.times(HOUR)
    count = len(list(world.leases.scan().leases))
    print(f"{count:3} shards, an hour   leader {leader}\n{'':21}others {others}")
    return leader, others


def test_at_rest_writes_do_not_grow_with_the_leases(few: PricedWorld, many: PricedWorld) -> None:
    seen = []
    for world in (few, many):
        leader, others = an_hour(world)
        assert others.of("Scan", leases_of(world)) == 720 / 3
        seen.append((leader.written + others.written, leader.writes + others.writes))
    assert seen[0] == seen[1]
    assert seen[0][0] <= 2 * 720 + 180, (
        "the worker's beat, the lock's beat, and the number of assignment passes"
    )


def test_with_heartbeat_lease_writes_grow_with_the_leases(make: MakeWorld) -> None:
    """This is KCL's way. It also shows that the meter would notice if the test above were wrong."""
    world = make(shards=5, heartbeat=Heartbeat.LEASE)
    world.clock.advance(TICK)
    bill = world.price("worker, 5 leases, heartbeat: lease", world.work)
    assert bill.of("UpdateItem", leases_of(world)) == 5


def flowing(world: PricedWorld, runs: int) -> tuple[Bill, float]:
    """What so many runs of the default length cost while records flow into each shard, and how many seconds they take. The
    ticks of the worker's sensor are in the bill, too."""
    number, began = len(world.leases.scan().leases), world.clock.monotonic()

    def pause(seconds: float) -> None:
        before = world.clock.monotonic() // 5
        world.clock.advance(timedelta(seconds=max(seconds, 1e-3)))
        if world.clock.monotonic() // 5 > before:
            world.work()
            for shard in range(number):
                world.produce(shard, 1)

    world.clock.pause = pause  # type: ignore[method-assign]
    with world.meter.bill() as bill:
        for run in range(runs):
            world.runs.launch(f"flows-{run}", "w1")
            world.runs.start(f"flows-{run}")
            Run(
                attempt=world.a_run("w1", f"flows-{run}"),
                settings=world.settings,
                clock=world.clock,
                on_wave=lambda _: None,
                is_stopping=lambda: False,
            ).all_that_is_due()
            world.runs.end(f"flows-{run}")
    return bill, world.clock.monotonic() - began


@pytest.mark.parametrize("shards", [4, pytest.param(50, marks=pytest.mark.slow)])
def test_a_flowing_shard_costs_less_than_three_writes_in_a_hundred_seconds(
    make: MakeWorld, shards: int
) -> None:
    world = make(shards=shards)
    bill, seconds = flowing(world, runs=2)
    rows = sum(bill.of(kind, leases_of(world)) for kind in ("UpdateItem", "PutItem", "DeleteItem"))
    print(
        f"{shards} flowing shards: {rows / shards / seconds:.4f} writes a second and shard, "
        f"{bill.reads / shards / seconds:.2f} read units; other writes {(bill.written - rows) / seconds:.2f} a second"
    )
    assert rows / shards / seconds <= 0.03
    assert bill.reads / shards / seconds <= 0.7
    assert (bill.written - rows) / seconds <= 0.5, "beats of the worker and its runs"


@pytest.mark.slow
def test_with_heartbeat_lease_a_flowing_shard_costs_three_writes_a_wave_and_its_beats(
    make: MakeWorld,
) -> None:
    world = make(shards=5, heartbeat=Heartbeat.LEASE)
    bill, seconds = flowing(world, runs=1)
    writes = bill.of("UpdateItem", leases_of(world)) / 5 / seconds
    print(
        f"heartbeat: lease: {writes:.2f} writes a second and shard, {bill.reads / 5 / seconds:.2f} read units"
    )
    assert writes >= 0.3


@pytest.mark.slow
@pytest.mark.parametrize("layout", [Layout.M, Layout.S])
@pytest.mark.parametrize("shards", [4, 50, 200])
def test_what_an_hour_at_rest_of_two_workers_costs(make: MakeWorld, shards: int, layout: Layout) -> None:
    """These figures are in the table of docs/reference/costs.md, which is for layout M."""
    leader, others = an_hour(make(workers=("w1", "w2"), shards=shards, layout=layout))
    assert leader.writes + others.writes <= 3 * 720 + 180
    assert leader.reads + others.reads <= 720 * (2 * ceil(shards / 8) / 3 + 12) + HOUR * shards / 4


@pytest.mark.parametrize("size", ["few", "many"])
def test_the_sizing_formulas_tell_what_an_hour_at_rest_costs(
    request: pytest.FixtureRequest, size: str
) -> None:
    """Within a tenth, and some reads more: the look at the layout, and the rows of other deployments."""
    world: PricedWorld = request.getfixturevalue(size)
    leader, others = an_hour(world)
    shards = len(list(world.leases.scan().leases))
    told = at_rest(world.settings, shards=shards, workers=len(world.workers), deployments=2)
    assert leader.writes + others.writes == pytest.approx(told.writes * 3600, rel=0.1)
    assert leader.reads + others.reads == pytest.approx(told.reads * 3600, rel=0.15)


def test_the_sizing_formulas_tell_what_the_process_that_beats_costs(make: MakeWorld) -> None:
    world = make(shards=5, heartbeat=Heartbeat.LEASE)
    kcl = replace(world.settings.kcl, failover=timedelta(seconds=10), beat=Beat.PROCESS)
    world.settings = replace(world.settings, kcl=kcl)
    beater = wiring_of(world).beater("w1")
    memory = beater.turn(BeaterMemory()).memory
    with world.meter.bill() as bill:
        for _ in range(MINUTE):
            world.clock.advance(beater.every)
            memory = beater.turn(memory).memory
    units, seconds = beating(world.settings, shards=5, workers=1), (MINUTE * beater.every).total_seconds()
    assert bill.of("UpdateItem", leases_of(world)) == MINUTE * 5, "each lease has a beat each turn"
    assert bill.writes == pytest.approx(units.writes * seconds)
    assert bill.reads == pytest.approx(units.reads * seconds)
