"""When runs keep their claims from wave to wave: never beside KCL workers, which read on from a row's checkpoint.

A KCL worker that takes a row whose checkpoint is late reads again what Headrace has landed since that checkpoint.
"""

from __future__ import annotations

from dataclasses import dataclass

from headrace.pipeline.core.leases.worker import not_ours
from headrace.pipeline.ports.leases import LeaderLock, WorkerStore


def keeps_nothing(_lost_to: frozenset[str]) -> bool:
    """Each wave claims its shards, writes their checkpoints and releases them: the settings expect KCL workers here."""
    return False


@dataclass(frozen=True, slots=True)
class KeepsUntilKclIsSeen:
    """The settings expect no KCL workers, but a person can start some at any time.

    A KCL 3.x worker that leads holds the leader's lock. A KCL 2.x worker shows itself to a run by taking one
    of its leases.
    """

    lock: LeaderLock
    workers: WorkerStore

    def may_keep(self, lost_to: frozenset[str]) -> bool:
        lock_row = self.lock.read()
        leader = () if lock_row is None or lock_row.released else (lock_row.owner,)
        suspects = sorted(lost_to | set(leader))
        # A worker whose row isn't there or isn't understood counts as KCL's: the wave then writes more than it has to.
        return not suspects or not not_ours(suspects, self.workers.get_many(suspects).workers)
