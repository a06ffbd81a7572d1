"""How often the leader, and a deployment that may lead next, reads the worker rows."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta

import pytest

from headrace.pipeline.duties.fleet.assignment_pass import AssignmentMemory
from headrace.pipeline.ports.leases import WorkerListing
from tests.duties.moves import let_host_die, owners, ticks_until
from tests.duties.world import TICK, World
from tests.memory.clock import MemoryClock
from tests.memory.workers import MemoryWorkerStore

PERIOD = 4
"""Ticks of an assignment period."""


class RecordingWorkerStore(MemoryWorkerStore):
    """A worker store that records which rows were read."""

    def __init__(self, *, clock: MemoryClock, among_leases: bool = False) -> None:
        super().__init__(clock=clock, among_leases=among_leases)
        self.looks: list[str] = []
        self.moving_clock = clock
        self.delay = timedelta(0)
        """The time before all rows are read."""

    def listing(self) -> WorkerListing:
        self.looks.append("all")
        self.moving_clock.advance(self.delay)
        return super().listing()

    def glance(self, known: Iterable[str]) -> WorkerListing:
        known = tuple(known)
        self.looks.append(f"glance at {'+'.join(sorted(set(known)))}")
        found = super().get_many(known) if self._among_leases else super().listing()
        assert len(found.workers) == len({row.worker_id for row in found.workers})
        return found

    def get_many(self, worker_ids: Sequence[str]) -> WorkerListing:
        self.looks.append("+".join(worker_ids))
        return super().get_many(worker_ids)


@dataclass
class TwoDeployments(World):
    """Two deployments: that of w1 leads, and that of w2 would lead next."""

    workers: tuple[str, ...] = ("w1", "w2")
    shards: int = 4
    among_leases: bool = True
    looked: RecordingWorkerStore = field(init=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        self.rows = self.looked = RecordingWorkerStore(clock=self.clock, among_leases=self.among_leases)
        self.every = self.settings
        self.settle()

    def use_settings_of(self, worker: str) -> None:
        """From now on the settings are those of the worker's own deployment."""
        mine = tuple(each for each in self.every.workers if each.id == worker)
        self.settings = replace(self.every, workers=mine or self.every.workers[:1])

    def lead_as(self, worker: str) -> str:
        self.use_settings_of(worker)
        self.looked.looks.clear()
        said = str(super().lead(worker))
        self.settings = self.every
        return said

    def looks_in(self, ticks: int, worker: str) -> list[list[str]]:
        """Which rows the leader read in each of its ticks."""
        seen = []
        for _ in range(ticks):
            self.lead_as(worker)
            seen.append(list(self.looked.looks))
            for each in self.workers:
                self.work(each)
            self.clock.advance(TICK)
        return seen


@pytest.mark.parametrize("among_leases", [False, True])
def test_a_follower_looks_at_its_own_workers_only(among_leases: bool) -> None:  # noqa: FBT001
    world = TwoDeployments(among_leases=among_leases)
    for _ in range(3 * PERIOD):
        world.lead_as("w1")
        assert world.lead_as("w2") == "leader: w1 leads"
        assert world.looked.looks == ["w2"]
        assert world.leader_memory["w2"].workers == {}
        for each in world.workers:
            world.work(each)
        world.clock.advance(TICK)


def test_a_leader_looks_at_all_workers_once_a_period_and_in_between_at_those_it_knows() -> None:
    world = TwoDeployments()
    world.looks_in(PERIOD, "w1")
    looks = [each for (each,) in world.looks_in(3 * PERIOD, "w1")]
    assert looks.count("all") == 3
    assert set(looks) == {"all", "glance at w1+w2"}


def test_with_workers_in_the_lease_table_a_new_worker_owns_leases_within_a_period_and_two_looks() -> None:
    world = TwoDeployments()
    world.looks_in(PERIOD, "w1")
    world.workers = ("w1", "w2", "w3")
    world.source.split(world.shard(0))
    world.looks_in(PERIOD + 2, "w1")
    seen = world.leader_memory["w1"].workers["w3"]
    assert seen.moved
    world.produce(1, 1)
    world.wave("w1", "the-end")
    world.looks_in(PERIOD, "w1")
    assert owners(world)["w3"] >= 1


def test_an_owner_that_the_leader_doesnt_know_has_the_workers_listed_at_once() -> None:
    """After a code reload the leader knows only some workers. A living owner must not be taken for one without a
    row."""
    world = TwoDeployments()
    world.looks_in(1, "w1")
    memory = world.leader_memory["w1"]
    known = {name: seen for name, seen in memory.workers.items() if name != "w2"}
    assignment = replace(memory.assignment, last_pass=None)
    world.leader_memory["w1"] = replace(
        memory, workers=known, assignment=assignment, listed=world.clock.now()
    )
    ((first, second),) = world.looks_in(1, "w1")
    assert (first, second) == ("glance at w1", "all")
    seen = world.leader_memory["w1"].workers["w2"]
    assert seen.token != "none"
    assert not seen.moved, "a first look at the row doesn't show that w2 is alive"
    assert world.leader_memory["w1"].workers["w1"].credit == timedelta(0), (
        "two looks in one tick add the time of one"
    )
    world.looks_in(2, "w1")
    assert owners(world) == {"w1": 2, "w2": 2}


def test_once_the_lock_stood_still_for_half_of_its_duration_a_follower_watches_the_workers_too() -> None:
    world = TwoDeployments()
    world.lead_as("w2")
    world.workers = ("w2",)
    seen = []
    for _ in range(8):
        world.clock.advance(TICK)
        world.work("w2")
        said = world.lead_as("w2")
        seen.append((said.partition(":")[2][:9], list(world.looked.looks)))
        if "w1 leads" not in said:
            break
    waits = [looks for said, looks in seen if said == " w1 leads"]
    assert waits == [["w2"], ["all"], ["glance at w1+w2"], ["glance at w1+w2"]]
    watched = world.leader_memory["w2"].workers["w1"]
    assert watched.credit >= 3 * TICK, "w1 has stood still for so long by then"
    assert ticks_until_owned_by(world, "w2") <= 2


def ticks_until_owned_by(world: TwoDeployments, worker: str) -> int:
    for ticks in range(20):
        if set(owners(world)) == {worker}:
            return ticks
        world.clock.advance(TICK)
        world.work(worker)
        world.lead_as(worker)
    raise AssertionError(owners(world))


def test_a_follower_stops_watching_the_workers_once_the_lock_moves_again() -> None:
    world = TwoDeployments()
    world.lead_as("w2")
    for _ in range(3):
        world.clock.advance(TICK)
        world.lead_as("w2")
    assert world.leader_memory["w2"].workers
    world.lead_as("w1")
    world.clock.advance(TICK)
    assert world.lead_as("w2") == "leader: w1 leads"
    assert world.looked.looks == ["w2"]
    assert world.leader_memory["w2"].workers == {}
    assert world.leader_memory["w2"].listed is None


@pytest.mark.parametrize("among_leases", [False, True])
def test_a_deployment_whose_workers_all_stop_doesnt_wait_for_the_lock_any_more(among_leases: bool) -> None:  # noqa: FBT001
    world = TwoDeployments(among_leases=among_leases)
    world.rows.set_stopping("w2", stopping=True)
    assert "all workers of this deployment are stopping" in world.lead_as("w2")
    assert world.leader_memory["w2"].lock is None
    found = world.lock.read()
    assert found is not None
    assert found.owner == "w1", "the lock isn't w2's to release"
    assert "all workers of this deployment are stopping" not in world.lead_as("w1")


def test_a_worker_row_that_isnt_understood_is_reported_and_changes_nothing_else() -> None:
    world = TwoDeployments(among_leases=False)
    world.rows.hold_odd_row("w9", "lut is of type S, not N")
    assert "1 worker row not understood" in world.lead_as("w1")
    world.rows = RecordingWorkerStore(clock=world.clock)
    assert "not understood" not in world.lead_as("w1")


def test_a_dead_worker_is_noticed_in_layout_s_as_soon_as_in_layout_m() -> None:
    took = []
    for among_leases in (False, True):
        world = TwoDeployments(among_leases=among_leases)
        world.tick(5)
        let_host_die(world, "w2")
        took.append(ticks_until(world, lambda: owners(world) == {"w1": 4}))  # noqa: B023
    assert took[0] == took[1]
    assert timedelta(seconds=20) <= took[0] * TICK <= timedelta(seconds=35)


def test_time_before_a_leader_first_saw_a_worker_in_the_midst_of_a_tick_is_no_silence() -> None:
    world = TwoDeployments()
    world.use_settings_of("w1")
    # As after a restart: the leader knows its own worker only, and finds the other one as the owner of leases.
    memory = world.leader_memory["w1"]
    world.leader_memory["w1"] = replace(
        memory,
        workers={"w1": memory.workers["w1"]},
        listed=world.clock.now(),
        last_look=world.clock.now(),
        assignment=AssignmentMemory(),
    )
    # Its process is frozen before that look at all rows.
    world.looked.delay = timedelta(minutes=1)
    world.looked.looks.clear()
    world.lead("w1")
    assert world.looked.looks == ["glance at w1", "all"]
    world.clock.advance(timedelta(seconds=1))
    world.lead("w1")
    assert world.leader_memory["w1"].workers["w2"].credit == timedelta(seconds=1)
