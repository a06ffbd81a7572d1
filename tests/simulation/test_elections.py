"""After a SIGKILLed leader another takes over, whatever ticks fail and cursors are lost meanwhile."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import timedelta
from random import Random

import pytest

from pipeline.core.election import LockRow
from pipeline.duties.alone import WorkersBeat, alone
from pipeline.duties.cursors import read_leader, write_leader
from pipeline.duties.leader_report import LeaderMemory
from pipeline.duties.leader_tick import LeaderDuty
from pipeline.errors import Throttled
from pipeline.memory.clock import CountingIds, MemoryClock
from pipeline.memory.leader_lock import MemoryLeaderLock
from pipeline.memory.leases import MemoryLeaseStore
from pipeline.memory.source import MemorySource
from pipeline.memory.table import MemoryTable
from pipeline.memory.workers import MemoryWorkerStore
from pipeline.settings.model import Settings, StreamSettings, WorkerSettings
from tests.duties.world import MadeTables

LOCK = 20.0
MOST_A_LOOK = 7.5
"""A tick and a half: what one look adds at most."""


class ShakyLock(MemoryLeaderLock):
    fails = False

    def read(self) -> LockRow | None:
        if self.fails:
            raise Throttled("the lock's row can't be read now")
        return super().read()


@dataclass
class Candidate:
    """One deployment's leader sensor, and what its credit must be by the rule."""

    name: str
    duty: LeaderDuty
    cursor: str | None = None
    failures: int = 0
    credit: float = 0.0
    last: float | None = None
    since_due: int = 0
    """Successful ticks since the credit reached the lock's time."""

    def forget(self) -> None:
        self.cursor, self.last, self.credit, self.since_due = None, None, 0.0, 0

    def tick(self, now: float) -> bool:
        """As sensors/leader.py does. True if it went through."""
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
    seed: int
    clock: MemoryClock = field(default_factory=MemoryClock)

    def __post_init__(self) -> None:
        self.rng = Random(self.seed)
        self.lock = ShakyLock()
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
            clock=self.clock,
            ids=self.ids,
        )

    def takes_over(self) -> Candidate:
        """The first leads, dies, and the others tick on. Whoever leads then."""
        dead, *others = self.candidates
        for _ in range(self.rng.randrange(1, 4)):
            self.round([dead, *others], shaky=False)
        for each in others:
            each.credit, each.since_due = 0.0, 0  # it has moved until now
        for _ in range(2_000):
            for each in others:
                self.step(each)
                row = self.lock._row
                assert row is not None
                if row.owner != dead.name:
                    return each
                assert each.since_due < 2, (
                    f"seed {self.seed}: {each.name} waits with a credit of {each.credit}"
                )
            self.clock.advance(timedelta(seconds=5.0 + self.rng.uniform(-0.3, 1.0)))
        raise AssertionError(f"seed {self.seed}: nobody leads after hours")

    def round(self, candidates: list[Candidate], *, shaky: bool) -> None:
        for each in candidates:
            self.step(each, shaky=shaky)
        self.clock.advance(timedelta(seconds=5))

    def step(self, each: Candidate, *, shaky: bool = True) -> None:
        if shaky and self.rng.random() < self.lose:
            each.forget()
        self.lock.fails = shaky and self.rng.random() < self.fail
        each.tick(self.clock.monotonic())
        self.lock.fails = False


@pytest.mark.parametrize("first", range(0, 1_000, 250))
def test_another_leads_at_the_second_tick_at_the_latest_after_its_credit_reaches_the_locks_time(first):
    for seed in range(first, first + 250):
        election = Election(seed)
        assert election.takes_over().name != "w1"


def test_nobody_takes_the_lock_of_a_leader_that_beats():
    for seed in range(50):
        election = Election(seed)
        for _ in range(30):
            dead, *others = election.candidates
            election.step(dead, shaky=False)
            for each in others:
                election.step(each)
            election.clock.advance(timedelta(seconds=5))
            row = election.lock._row
            assert row is not None
            assert row.owner == "w1"


def test_memory_of_a_tick_survives_its_cursor():
    election = Election(1)
    election.round(election.candidates, shaky=False)
    memory, failures = read_leader(election.candidates[1].cursor)
    assert failures == 0
    assert memory != LeaderMemory()
