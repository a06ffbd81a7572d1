"""The leader's lock as one process reaches it, and the judges of its writes (I44): only its owner beats or releases it, and only the tick of a leader
that has just taken or beaten it divides leases."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.pipeline.core.leases.change import Change
from headrace.pipeline.core.leases.change_kind import ChangeKind
from headrace.pipeline.core.leases.election import LockRow
from headrace.pipeline.settings.choices import Mode
from tests.simulation.scheduler import Process
from tests.simulation.watch.truth import Violation

if TYPE_CHECKING:
    from tests.simulation.world import World


_BY_LEADER = frozenset(
    {ChangeKind.ASSIGN, ChangeKind.MOVE, ChangeKind.INITIATE, ChangeKind.REDIRECT, ChangeKind.CALL_OFF}
)


def judge_leads(world: World, change: Change, by: Process) -> None:
    """In the modes of other programs, leases are divided by whom these name. A run takes a lease without an owner that a person has named."""
    task = world.sim.current
    if task is None or by.worker or change.kind not in _BY_LEADER or world.plan.mode is not Mode.OWN:
        return  # a late request was sent by a task that did lead
    if not task.leads:
        raise Violation("I44", f"{by} divides leases ({change.why}) without the lock", change.key)


class JudgedLock:
    def __init__(self, world: World, process: Process) -> None:
        self._world = world
        self._process = process

    def read(self) -> LockRow | None:
        return self._world.lock.read()

    def take(self, mine: LockRow, *, seen: LockRow | None) -> bool:
        self._judge(mine.owner, "takes the lock for")
        done = self._world.lock.take(mine, seen=seen)
        if done:
            self._note_lead()
        return done

    def beat(self, mine: LockRow, version: str) -> bool:
        before = self._world.lock.read()
        done = self._world.lock.beat(mine, version)
        if before is not None and self._world.lock.read() != before:
            self._judge(before.owner, "beats the lock of")
        if done:
            self._note_lead()
        return done

    def release(self, mine: LockRow) -> bool:
        before = self._world.lock.read()
        done = self._world.lock.release(mine)
        if before is not None and self._world.lock.read() != before:
            self._judge(before.owner, "releases the lock of")
        return done

    def _note_lead(self) -> None:
        if (task := self._world.sim.current) is not None:
            task.leads = True

    def _judge(self, owner: str, what: str) -> None:
        mine = {
            worker
            for deployment in self._world.deployments
            if self._process.host in (deployment.host, *deployment.run_hosts)
            for worker in deployment.workers
        }
        if owner not in mine:
            raise Violation("I44", f"{self._process} {what} {owner}; its workers are {sorted(mine)}", owner)
