"""When runs keep their claims from wave to wave: never beside KCL workers, which read on from a row's checkpoint.

If the checkpoint in a row is late, a KCL worker that takes the row reads records again that Headrace has landed
since.
"""

from __future__ import annotations

from dataclasses import dataclass

from headrace.pipeline.core.leases.worker import not_ours
from headrace.pipeline.ports.leases import LeaderLock, WorkerStore


def keeps_nothing(_lost_to: frozenset[str]) -> bool:
    """Always false: where the settings expect KCL workers, each wave claims its shards, writes their checkpoints
    and releases them.
    """
    return False


@dataclass(frozen=True, slots=True)
class KeepsUntilKclIsSeen:
    """Runs keep claims until a KCL worker is seen: the settings expect none, but a person can start some at any
    time.

    A KCL 3.x worker that leads holds the leader's lock. A KCL 2.x worker is noticed by a run when it takes one of
    the run's leases.
    """

    lock: LeaderLock
    workers: WorkerStore

    def may_keep(self, lost_to: frozenset[str]) -> bool:
        lock_row = self.lock.read()
        leader = () if lock_row is None or lock_row.released else (lock_row.owner,)
        suspects = sorted(lost_to | set(leader))
        # A worker whose row isn't there or isn't understood counts as KCL's: the wave then writes more than it has to.
        return not suspects or not not_ours(suspects, self.workers.get_many(suspects).workers)
