"""The worker that reads each of the shards which a person or a backfill has named."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from headrace.pipeline.core.leases.change import Applied, assign
from headrace.pipeline.core.shards.partition import partition_of
from headrace.pipeline.duties.streams.named_shard import lease_key_meant, no_lease
from headrace.pipeline.errors import Unknown
from headrace.pipeline.ports.leases import LeaseStore


@dataclass(frozen=True, slots=True)
class Readers:
    leases: LeaseStore
    local_workers: tuple[str, ...]
    """Ids of the workers that these settings configure. A lease without an owner is assigned to the first of them."""
    only_stream: str | None = None
    """The stream of an application that reads one."""

    def meant(self, names: Iterable[str]) -> tuple[str, ...]:
        """The lease keys of the shards that a person names by these texts, each once. Raises an error with
        similar names if a shard has no lease row.
        """
        return tuple(
            dict.fromkeys(
                lease_key_meant(name, self.leases, only_stream=self.only_stream, nothing="nothing was read")
                for name in names
            )
        )

    def by_worker(self, keys: tuple[str, ...]) -> dict[str, tuple[str, ...]]:
        """These shards by the worker that reads them: worker id -> lease keys."""
        for key in keys:
            if self.leases.get(key) is None:
                raise no_lease(partition_of(key), self.leases, nothing="nothing was read")
        keys_of: dict[str, list[str]] = {}
        for key in keys:
            keys_of.setdefault(self._reader(key), []).append(key)
        return {worker: tuple(shards) for worker, shards in keys_of.items()}

    def _reader(self, key: str) -> str:
        row = self.leases.get(key)
        if row is None:
            raise Unknown(
                f"the lease row of shard {partition_of(key)!r} was deleted meanwhile; nothing was read"
            )
        owner = row.holder
        # A shard without an owner is taken for a worker here, so that a person needn't wait for the
        # leader's next assignment. The write requires that the row still has no owner.
        if owner is None:
            first = self.local_workers[0]
            match self.leases.apply(
                assign(
                    row,
                    first,
                    f"the lease has no owner, and its shard was asked for by name: worker {first} gets it",
                )
            ):
                case Applied():
                    owner = first
                case lost:  # another write was faster, most likely the leader's: the owner in the row counts
                    owner = (lost.row.holder if lost.row else None) or first
        if owner not in self.local_workers:
            raise Unknown(
                f"{partition_of(key)} is read by worker {owner}, which isn't among the workers in these settings "
                f"({', '.join(self.local_workers)}); nothing was read. Materialize the shard in the deployment of that worker, "
                "or stop that worker first"
            )
        return owner
