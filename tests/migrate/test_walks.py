"""Random walks over the migration from 2.x to 3.x with the real duties: slow ticks, kills, and a KCL worker that looks at the
row once a minute. Headrace never takes leases while anybody may assign them, and never assigns while anybody may take them."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

import pytest
from hypothesis import settings as examples
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from headrace.pipeline.core.leases.change import Change, Outcome
from headrace.pipeline.core.leases.change_kind import ChangeKind
from headrace.pipeline.duties.fleet.leader_report import LeaderMemory
from headrace.pipeline.duties.fleet.leader_tick import LeaderDuty
from headrace.pipeline.duties.fleet.worker_report import WorkerMemory
from headrace.pipeline.duties.fleet.worker_tick import WorkerDuty
from headrace.pipeline.errors import BadSetting, HeadraceError, Transient
from headrace.pipeline.kcl.migration import ACTS_AS_2X, ClientVersion
from headrace.pipeline.migrate.migrating import Migrating
from headrace.pipeline.migrate.steps import Action, Goal, Request
from headrace.pipeline.settings.choices import Heartbeat, Mode
from headrace.pipeline.settings.model import WorkerSettings
from tests.duties.world import World
from tests.memory.leases import MemoryLeaseStore
from tests.memory.migration import MemoryMigrationTables
from tests.vectors.rules.row_writes import evict

WORKERS = ("w1", "w2", "w3")
KCL_LOOKS = timedelta(seconds=90)
"""KCL's workers look at the row at the latest 90 s after the look before."""
ABANDONED = timedelta(seconds=60)
"""After this time Dagster ends a tick."""
BEGINNINGS = [
    (),
    (Action.START,),
    (Action.START, Action.START),
    (Action.START, Action.START, Action.ROLLBACK),
]
"""What the person did before the walk begins."""
ACTIONS = st.sampled_from([action for action in Action if action is not Action.STATUS])
TAKES = frozenset({ChangeKind.TAKE})
ASSIGNS = frozenset({ChangeKind.ASSIGN, ChangeKind.INITIATE})


class WatchedLeases(MemoryLeaseStore):
    """Leases that note who shares them by which rule."""

    def __init__(self) -> None:
        super().__init__()
        self.rules: list[ChangeKind] = []

    def apply_all(self, changes: list[Change]) -> tuple[Outcome, ...]:  # type: ignore[override]
        self.rules += [change.kind for change in changes if change.kind in TAKES | ASSIGNS]
        return super().apply_all(changes)


@dataclass
class KclWorker:
    """How a KCL worker follows the row: it acts by what it has seen last."""

    acts_as_2x: bool = True
    looked: datetime | None = None

    def look(self, version: ClientVersion | None, now: datetime) -> None:
        self.acts_as_2x = version is None or version in ACTS_AS_2X
        self.looked = now


@dataclass
class Begun:
    """A tick that has read the row, and not done its work yet."""

    duty: WorkerDuty | LeaderDuty
    worker: str
    until: datetime


@dataclass
class Walk:
    world: World
    tables: MemoryMigrationTables
    leases: WatchedLeases
    kcl: KclWorker = field(default_factory=KclWorker)
    begun: list[Begun] = field(default_factory=list)


def a_walk() -> Walk:
    world = World(workers=WORKERS, shards=4)
    leases = world.leases = WatchedLeases()
    kcl = replace(world.settings.kcl, mode=Mode.MIGRATING, heartbeat=Heartbeat.LEASE)
    world.settings = replace(world.settings, kcl=kcl)
    return Walk(world, MemoryMigrationTables(world), leases)


class MigratingFleet(RuleBasedStateMachine):
    """Three deployments of Headrace with one worker each, the command, and a KCL worker."""

    @initialize(actions=st.sampled_from(BEGINNINGS))
    def begin(self, actions: tuple[Action, ...]) -> None:
        self.walk = a_walk()
        self.alive = set(WORKERS)
        self.runs = 0
        self.go_on(40)
        for action in actions:
            self.migrate_later(action)

    def _tick_all(self) -> None:
        for worker in sorted(self.alive):
            self._lead(worker)
            self._work(worker)
        self._pass(timedelta(seconds=5))

    def _pass(self, span: timedelta) -> None:
        """Time passes. Whoever is too late for it is done with before."""
        walk, now = self.walk, self.walk.world.clock.now() + span
        for begun in [begun for begun in walk.begun if begun.until < now]:
            walk.begun.remove(begun)
        walk.world.clock.advance(span)
        if walk.kcl.looked is None or now - walk.kcl.looked >= KCL_LOOKS:
            walk.kcl.look(walk.world.tables.version, now)

    # -- ticks -------------------------------------------------------------------------------------------------------

    def _alone(self, worker: str) -> World:
        world = self.walk.world
        world.settings = replace(world.settings, workers=(WorkerSettings(id=worker),))
        return world

    def _duty(self, worker: str, *, leads: bool) -> WorkerDuty | LeaderDuty:
        world = self._alone(worker)
        if leads:
            return world.a_leader(worker)
        return WorkerDuty(
            worker_id=worker,
            instance=f"dagster-{worker}",
            leases=world.leases,
            workers=world.rows,
            source=world.source,
            runs=world.runs,
            clock=world.clock,
            times=world.settings.times,
            policy=world.policy,
            stream=world._stream_of,
        )

    def _do(self, duty: WorkerDuty | LeaderDuty, worker: str) -> None:
        world, leases = self.walk.world, self.walk.leases
        leases.rules.clear()
        with suppress(HeadraceError):
            if isinstance(duty, LeaderDuty):
                before = world.leader_memory.get(worker, LeaderMemory())
                world.leader_memory[worker] = duty.tick(before).memory
            else:
                known = world.worker_memory.get(worker, WorkerMemory())
                world.worker_memory[worker] = duty.tick(known).memory
        self._judge(leases.rules)

    def _judge(self, rules: list[ChangeKind]) -> None:
        """What this tick did by a rule must not fall together with what anybody else may do by the other rule."""
        for kind in rules:
            takes = kind in TAKES
            if self.walk.kcl.acts_as_2x is not takes:
                raise AssertionError(f"{kind} while KCL's worker {'assigns' if takes else 'takes'} leases")

    @rule(worker=st.sampled_from(WORKERS))
    def work(self, worker: str) -> None:
        if worker in self.alive:
            self._work(worker)

    @rule(worker=st.sampled_from(WORKERS))
    def lead(self, worker: str) -> None:
        if worker in self.alive:
            self._lead(worker)

    def _work(self, worker: str) -> None:
        self._do(self._duty(worker, leads=False), worker)

    def _lead(self, worker: str) -> None:
        self._do(self._duty(worker, leads=True), worker)

    @rule(worker=st.sampled_from(WORKERS), leads=st.sampled_from([False, True]))
    def begin_a_slow_tick(self, worker: str, *, leads: bool) -> None:
        if worker in self.alive and not any(begun.worker == worker for begun in self.walk.begun):
            until = self.walk.world.clock.now() + ABANDONED
            self.walk.begun.append(Begun(self._duty(worker, leads=leads), worker, until))

    @precondition(lambda self: self.walk.begun)
    @rule()
    def end_a_slow_tick(self) -> None:
        begun = self.walk.begun.pop(0)
        if begun.worker in self.alive:
            self._do(begun.duty, begun.worker)

    # -- time, kills and the person ------------------------------------------------------------------------------------

    @rule(seconds=st.sampled_from([5, 20, 60, 130]))
    def wait(self, seconds: int) -> None:
        self._pass(timedelta(seconds=seconds))

    @rule(ticks=st.integers(1, 30))
    def go_on(self, ticks: int) -> None:
        for _ in range(ticks):
            self._tick_all()

    @rule(worker=st.sampled_from(WORKERS))
    def kill_or_start(self, worker: str) -> None:
        self.alive ^= {worker}
        self.walk.world.worker_memory.pop(worker, None)
        self.walk.world.leader_memory.pop(worker, None)
        self.walk.begun = [begun for begun in self.walk.begun if begun.worker != worker]

    @rule()
    def kcl_looks(self) -> None:
        self.walk.kcl.look(self.walk.world.tables.version, self.walk.world.clock.now())

    @rule(action=ACTIONS)
    def migrate(self, action: Action) -> None:
        request = Request(action=action, bake=timedelta(0), follows=True)
        migrating = Migrating(self.walk.tables)
        try:
            plan = migrating.plan(request, Goal.VERSION if action is Action.START else None)
        except (BadSetting, Transient):
            return
        migrating.carry_out(plan)

    @rule(action=ACTIONS)
    def migrate_later(self, action: Action) -> None:
        """The workers go on for the ten minutes that the command demands."""
        self.go_on(121)
        self.migrate(action)

    @rule(shard=st.integers(0, 3))
    def lose_an_owner(self, shard: int) -> None:
        """A lease waits for an owner, so that whoever may share leases does so."""
        row = self.walk.world.leases.get(self.walk.world.shard(shard).shard_id)
        if row is not None and row.owner is not None and row.run_claim is None:
            self.walk.world.leases.apply(evict(row, "lost"))

    @rule(worker=st.sampled_from(WORKERS), shard=st.integers(0, 3))
    def read(self, worker: str, shard: int) -> None:
        if worker in self.alive:
            self._alone(worker).produce(shard, 1)
            self.runs += 1
            self.walk.world.wave(worker, f"run-{self.runs}")

    # -- what holds ------------------------------------------------------------------------------------------------

    @invariant()
    def no_record_lands_twice_and_none_is_left_out(self) -> None:
        if hasattr(self, "walk"):
            self.walk.world.check_chains()
            landed = self.walk.world.landed()
            assert len(landed) == len(set(landed))


@pytest.mark.slow
class TestMigratingFleet(MigratingFleet.TestCase):  # type: ignore[misc,valid-type]
    """Twenty seconds; `test_following.py` has the quick tests of the same promise."""


TestMigratingFleet.settings = examples(max_examples=40, stateful_step_count=20, deadline=None)
