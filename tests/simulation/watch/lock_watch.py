"""The leader's lock as one process reaches it, and the judge of its writes (I44): only its owner beats or releases it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.pipeline.core.leases.election import LockRow
from tests.simulation.scheduler import Process
from tests.simulation.watch.truth import Violation

if TYPE_CHECKING:
    from tests.simulation.world import World


class JudgedLock:
    def __init__(self, world: World, process: Process) -> None:
        self._world = world
        self._process = process

    def read(self) -> LockRow | None:
        return self._world.lock.read()

    def take(self, mine: LockRow, *, seen: LockRow | None) -> bool:
        self._judge(mine.owner, "takes the lock for")
        return self._world.lock.take(mine, seen=seen)

    def beat(self, mine: LockRow, version: str) -> bool:
        before = self._world.lock.read()
        done = self._world.lock.beat(mine, version)
        if before is not None and self._world.lock.read() != before:
            self._judge(before.owner, "beats the lock of")
        return done

    def release(self, mine: LockRow) -> bool:
        before = self._world.lock.read()
        done = self._world.lock.release(mine)
        if before is not None and self._world.lock.read() != before:
            self._judge(before.owner, "releases the lock of")
        return done

    def _judge(self, owner: str, what: str) -> None:
        mine = {
            worker
            for deployment in self._world.deployments
            if self._process.host in (deployment.host, *deployment.run_hosts)
            for worker in deployment.workers
        }
        if owner not in mine:
            raise Violation("I44", f"{self._process} {what} {owner}; its workers are {sorted(mine)}", owner)
