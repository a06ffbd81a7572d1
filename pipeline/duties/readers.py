"""Which worker reads each of the shards that a person or a backfill has named."""

from __future__ import annotations

from dataclasses import dataclass

from headrace.pipeline.core.change import Applied, assign
from headrace.pipeline.core.words import no_such_shard
from headrace.pipeline.errors import Unknown
from headrace.pipeline.ports import LeaseStore


@dataclass(frozen=True, slots=True)
class Readers:
    leases: LeaseStore
    local_workers: tuple[str, ...]
    """Ids of the workers that these settings configure. A lease without an owner is assigned to the first of them."""

    def require_known(self, keys: tuple[str, ...]) -> None:
        """Raise an error with similar keys if one of these keys has no lease row."""
        unknown = [key for key in keys if self.leases.get(key) is None]
        if not unknown:
            return
        raise Unknown(no_such_shard(unknown[0], [row.key for row in self.leases.scan().leases]))

    def by_worker(self, keys: tuple[str, ...]) -> dict[str, tuple[str, ...]]:
        """Worker id -> those of the shards that the worker reads."""
        self.require_known(keys)
        found: dict[str, list[str]] = {}
        for key in keys:
            found.setdefault(self._reader(key), []).append(key)
        return {worker: tuple(its) for worker, its in found.items()}

    def _reader(self, key: str) -> str:
        row = self.leases.get(key)
        if row is None:
            raise Unknown(f"the lease row of shard {key!r} was deleted meanwhile; nothing was read")
        owner = row.holder
        if owner is None:
            first = self.local_workers[0]
            match self.leases.apply(
                assign(row, first, f"it has no owner, and its shard was asked for by name: -> {first}")
            ):
                case Applied():
                    owner = first
                case lost:  # another write was faster, most likely the leader's: the owner in the row counts
                    owner = (lost.found.holder if lost.found else None) or first
        if owner not in self.local_workers:
            raise Unknown(
                f"{key} is read by worker {owner}, which isn't among the workers in these settings "
                f"({', '.join(self.local_workers)}); nothing was read. Materialize the shard in the deployment of that worker, "
                "or stop that worker first"
            )
        return owner
