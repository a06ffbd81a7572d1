"""The leader's lock in a tick: a deployment beats and gives up its own lock only, and doesn't lead with a lock that it has lost."""

from __future__ import annotations

from datetime import timedelta

from headrace.pipeline.core.leases.election import LockRow, Move
from headrace.pipeline.duties.policy.electing import Electing, LockState
from tests.memory.clock import CountingIds
from tests.memory.leader_lock import MemoryLeaderLock

DURATION = timedelta(seconds=20)
OURS = LockRow("w1", "v1", DURATION)
THEIRS = LockRow("w2", "v2", DURATION)


def electing(lock: MemoryLeaderLock) -> Electing:
    return Electing(me="w1", lock=lock, ids=CountingIds(), tick=timedelta(seconds=5), duration=DURATION)


def test_a_timer_neither_beats_nor_releases_the_lock_of_another_deployment() -> None:
    lock = MemoryLeaderLock(THEIRS)
    assert not electing(lock).beat()
    assert not electing(lock).release()
    assert lock.read() == THEIRS


def test_a_deployment_whose_lock_went_to_another_one_since_its_look_doesnt_lead() -> None:
    lock = MemoryLeaderLock(THEIRS)
    looked = LockState(Move.BEAT, OURS)
    assert not electing(lock).leads(looked, check_can_lead=lambda: None)
    assert lock.read() == THEIRS


def test_a_lock_that_the_timer_of_the_same_tick_has_beaten_is_still_the_deployments_own() -> None:
    lock = MemoryLeaderLock(LockRow("w1", "by the timer", DURATION))
    looked = LockState(Move.BEAT, OURS)
    assert electing(lock).leads(looked, check_can_lead=lambda: None)
