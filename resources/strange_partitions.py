"""Removes partitions from Dagster that name no shard, because a person has added them by mistake.

Dagster's UI lets a person add a partition of any name. A run for such a name fails with a sentence that names
similar shards, and the name would stay: the asset red, and each asset that depends on all of its partitions
waiting for a partition that never comes.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import timedelta

import dagster as dg

from headrace.pipeline.app.ports import Ports
from headrace.pipeline.core.shards.partition import lease_key_of, partition_of

_EVERY = timedelta(seconds=30)
_UNASKED = timedelta(minutes=10)
"""How long a key stays for which no run was started: a person who adds one may be about to start it, and its sentence
tells more."""


@dataclass(slots=True, kw_only=True)
class StrangePartitions:
    name: str
    """The name of the dynamic partitions."""
    asset: dg.AssetKey
    ports: Ports
    _shards: set[str] = field(default_factory=set)
    """Keys that are shards: with a lease row, or with records that landed."""
    _seen: dict[str, float] = field(default_factory=dict)
    """When each other key was first seen, by the monotonic clock."""
    _look_at: float = float("-inf")

    def remove(self, instance: dg.DagsterInstance) -> tuple[str, ...]:
        """Remove the partition keys that certainly name no shard. Returns them."""
        now = self.ports.clock.monotonic()
        if now < self._look_at:
            return ()
        self._look_at = now + _EVERY.total_seconds()
        strangers = self._strangers(instance)
        self._seen = {key: self._seen.get(key, now) for key in strangers}
        gone = tuple(key for key in strangers if self._may_go(instance, key, now))
        for key in gone:
            instance.delete_dynamic_partition(self.name, key)
        return gone

    def _strangers(self, instance: dg.DagsterInstance) -> list[str]:
        def unknown(keys: Iterable[str]) -> list[str]:
            return [key for key in keys if key not in self._shards]

        unknown_keys = unknown(instance.get_dynamic_partitions(self.name))
        if unknown_keys:
            rows = self.ports.leases().get_many([lease_key_of(key) for key in unknown_keys])
            self._shards.update(partition_of(row.key) for row in rows.leases)
            # A row that isn't understood may be a shard's (I23 of docs/reference/protocol.md). It isn't remembered: it
            # may be mended or deleted.
            odd = {partition_of(row.key) for row in rows.skipped}
            unknown_keys = [key for key in unknown(unknown_keys) if key not in odd]
        if unknown_keys:
            # Rows of ended shards are deleted at some time.
            self._shards.update(instance.get_materialized_partitions(self.asset))
            unknown_keys = unknown(unknown_keys)
        return unknown_keys

    def _may_go(self, instance: dg.DagsterInstance, key: str, now: float) -> bool:
        attempts = instance.event_log_storage
        attempt = attempts.get_latest_asset_partition_materialization_attempts_without_materializations(
            self.asset
        ).get(key)
        if attempt is None:
            return now - self._seen[key] >= _UNASKED.total_seconds()
        # While the run goes on, its sentence is still to come.
        run = instance.get_run_by_id(attempt[0])
        return run is None or run.is_finished
