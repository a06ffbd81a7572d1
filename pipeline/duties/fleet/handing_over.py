"""A user's code gives a shard to another worker, in the same way as the leader does by itself.

    no run reads the shard     the lease moves at once
    a run reads it             a handover begins: the run finishes its wave, then the next owner reads on

Each is one write, on the condition that the row is as it was read. The lake table's commit decides what lands,
whoever owns the lease.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass

from headrace.pipeline.core.leases.change import Applied, Change, assign, initiate_handover, move
from headrace.pipeline.core.leases.lease import Lease
from headrace.pipeline.core.shards.partition import partition_of
from headrace.pipeline.errors import BadSetting, HeadraceError, Transient
from headrace.pipeline.ports.base import Clock
from headrace.pipeline.ports.leases import LeaseStore, WorkerStore

_WHY = "asked for by code of the user's"


@dataclass(frozen=True, slots=True, kw_only=True)
class HandingOver:
    why_not: str | None
    """Why no shard of this application may be handed over by code; None where it may be."""
    leases: LeaseStore
    workers: WorkerStore
    clock: Clock

    def hand_over(self, row: Lease, to: str) -> str:
        """Give the shard to the worker `to`, now or after the wave that reads it. Returns a sentence that says
        which of the two.
        """
        shard = partition_of(row.key)
        if row.holder == to and row.checkpoint_owner is None:
            return f"{shard} is {to}'s already"
        if row.checkpoint_owner is not None and row.owner == to:
            return f"{row.checkpoint_owner} hands {shard} over to {to} already"
        self._check(row, shard, to)
        change = self._change(row, to)
        outcome = self.leases.apply(change)
        if not isinstance(outcome, Applied):
            raise Transient(
                f"another process has changed the lease row of {shard} meanwhile. Nothing was written; look at the row again"
            )
        if outcome.lease.checkpoint_owner is None:
            return f"{shard} is {to}'s now"
        with suppress(HeadraceError):  # the run looks at its rows by itself, at the next tick of its worker
            self.workers.ask(outcome.lease.checkpoint_owner)
        return (
            f"{outcome.lease.checkpoint_owner} finishes its wave of {shard}, and hands the shard over to {to}"
        )

    def _check(self, row: Lease, shard: str, to: str) -> None:
        if self.why_not is not None:
            raise BadSetting(f"{shard} can't be handed over by code: {self.why_not}. Nothing was written")
        if row.has_ended:
            raise BadSetting(f"{shard} has ended, and nobody reads it any more. Nothing was written")
        if row.checkpoint_owner is not None:
            raise BadSetting(
                f"{shard} is being handed over from {row.checkpoint_owner} to {row.owner}. Nothing was written; wait until that is over"
            )
        worker = self.workers.get(to)
        # A name with a slip would take the shard from everybody: no worker of that name ever reads it.
        if worker is None or not worker.is_ours:
            raise BadSetting(
                f"there is no worker {to!r} of Headrace in the worker table, so {shard} stays. Nothing was written"
            )
        if worker.stopping:
            raise BadSetting(f"the worker {to} is stopping, so {shard} stays. Nothing was written")

    def _change(self, row: Lease, to: str) -> Change:
        now = self.clock.now()
        if row.holder is None:
            # Nobody holds the lease, so there is no holder who would have to agree.
            return assign(row, to, _WHY)
        # Nobody reads the shard, so that it may move in one write.
        if row.run_claim is None:
            return move(row, to, _WHY, when=now)
        return initiate_handover(row, to, _WHY, when=now)
