"""After a leader is killed another deployment leads, whatever ticks fail and cursors are lost meanwhile."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import timedelta
from random import Random

import pytest

from headrace.pipeline.core.leases.election import LockRow
from headrace.pipeline.duties.fleet.cursor import read_leader, write_leader
from headrace.pipeline.duties.fleet.leader_report import LeaderMemory
from headrace.pipeline.duties.fleet.leader_tick import LeaderDuty
from headrace.pipeline.duties.policy.own_tables import WorkersBeat, alone
from headrace.pipeline.errors import Throttled
from headrace.pipeline.settings.model import Settings, StreamSettings, WorkerSettings
from tests.duties.world import MadeTables
from tests.memory.clock import CountingIds, MemoryClock
from tests.memory.consumers import MemoryConsumers
from tests.memory.leader_lock import MemoryLeaderLock
from tests.memory.leases import MemoryLeaseStore
from tests.memory.source import MemorySource
from tests.memory.table import MemoryTable
from tests.memory.workers import MemoryWorkerStore

LOCK = 20.0
MOST_A_LOOK = 7.5
"""Seconds, a tick and a half: the most that one look adds to the credit."""


class FailingLock(MemoryLeaderLock):
    """A lock whose reads fail while the test says so."""

    fails = False

    def read(self) -> LockRow | None:
        if self.fails:
            raise Throttled("the lock's row can't be read now")
        return super().read()


@dataclass
class Candidate:
    """One deployment's leader sensor, and the credit that the rule gives it."""

    name: str
    duty: LeaderDuty
    cursor: str | None = None
    failures: int = 0
    credit: float = 0.0
    last: float | None = None
    since_due: int = 0
    """Successful ticks since the credit exceeded the duration of the lock."""

    def forget(self) -> None:
        self.cursor, self.last, self.credit, self.since_due = None, None, 0.0, 0

    def tick(self, now: float) -> bool:
        """Tick as sensors/leader.py does. Returns whether the tick succeeded."""
        memory, failures = read_leader(self.cursor)
        try:
            report = self.duty.tick(memory)
        except Throttled:
            failures = 0 if failures >= 2 else failures + 1
            self.cursor, self.last = write_leader(replace(memory, last_look=None), failures), None
            return False
        self.cursor = write_leader(report.memory, 0)
        if self.last is not None:
            self.credit += min(now - self.last, MOST_A_LOOK)
        self.last = now
        self.since_due += self.credit > LOCK
        return True


@dataclass
class Election:
    """Candidates for one lock, whose ticks fail and whose cursors are lost by chance."""

    seed: int
    clock: MemoryClock = field(default_factory=MemoryClock)

    def __post_init__(self) -> None:
        self.rng = Random(self.seed)
        self.lock = FailingLock()
        self.source = MemorySource(self.clock)
        self.source.create_stream("orders", 1)
        self.leases = MemoryLeaseStore()
        self.workers = MemoryWorkerStore(clock=self.clock)
        self.table = MemoryTable(self.clock)
        self.ids = CountingIds()
        self.fail, self.lose = self.rng.uniform(0.0, 0.5), self.rng.uniform(0.0, 0.2)
        names = ["w1", *(f"w{i}" for i in range(2, 2 + self.rng.choice((1, 1, 2))))]
        self.candidates = [Candidate(name, self.a_duty(name)) for name in names]

    def a_duty(self, name: str) -> LeaderDuty:
        settings = Settings(
            application="app", streams=(StreamSettings(name="orders"),), workers=(WorkerSettings(id=name),)
        )
        return LeaderDuty(
            leader_id=name,
            settings=settings,
            policy=alone(
                settings,
                signs_of_life=WorkersBeat(),
                leases=self.leases,
                workers=self.workers,
                lock=self.lock,
            ),
            tables=MadeTables(),
            leases=self.leases,
            workers=self.workers,
            lock=self.lock,
            source=self.source,
            table=self.table,
            consumers=lambda _: MemoryConsumers(),
            clock=self.clock,
            ids=self.ids,
        )

    def next_leader(self) -> Candidate:
        """The first candidate leads and dies; the others go on ticking. Returns the candidate that leads then."""
        dead, *others = self.candidates
        for _ in range(self.rng.randrange(1, 4)):
            self.round([dead, *others], may_fail=False)
        for each in others:
            each.credit, each.since_due = 0.0, 0  # the lock's counter has moved until now
        for _ in range(2_000):
            for each in others:
                self.step(each)
                row = self.lock._row
                assert row is not None
                if row.owner != dead.name:
                    return each
                assert each.since_due < 2, (
                    f"seed {self.seed}: {each.name} doesn't take the lock with a credit of {each.credit}"
                )
            self.clock.advance(timedelta(seconds=5.0 + self.rng.uniform(-0.3, 1.0)))
        raise AssertionError(f"seed {self.seed}: no candidate leads after 2,000 ticks")

    def round(self, candidates: list[Candidate], *, may_fail: bool) -> None:
        for each in candidates:
            self.step(each, may_fail=may_fail)
        self.clock.advance(timedelta(seconds=5))

    def step(self, each: Candidate, *, may_fail: bool = True) -> None:
        if may_fail and self.rng.random() < self.lose:
            each.forget()
        self.lock.fails = may_fail and self.rng.random() < self.fail
        each.tick(self.clock.monotonic())
        self.lock.fails = False


@pytest.mark.parametrize("first", range(0, 1_000, 250))
def test_another_deployment_leads_at_most_two_ticks_after_its_credit_exceeds_the_locks_duration(first):
    for seed in range(first, first + 250):
        election = Election(seed)
        assert election.next_leader().name != "w1"


def test_the_lock_of_a_leader_that_ticks_is_never_taken():
    for seed in range(50):
        election = Election(seed)
        for _ in range(30):
            dead, *others = election.candidates
            election.step(dead, may_fail=False)
            for each in others:
                election.step(each)
            election.clock.advance(timedelta(seconds=5))
            row = election.lock._row
            assert row is not None
            assert row.owner == "w1"


def test_what_a_leader_tick_remembers_is_read_back_from_its_cursor():
    election = Election(1)
    election.round(election.candidates, may_fail=False)
    memory, failures = read_leader(election.candidates[1].cursor)
    assert failures == 0
    assert memory != LeaderMemory()
