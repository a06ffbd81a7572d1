"""A lease row: which worker reads a shard, and how far KCL's readers may think it got."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

from pipeline.core.checkpoint import TRIM_HORIZON, Checkpoint
from pipeline.core.failure import Failure
from pipeline.core.shard import HashRange
from pipeline.core.stream import shard_of_lease_key


@dataclass(frozen=True, slots=True)
class Lease:
    key: str
    """KCL's leaseKey; the Dagster partition key too."""
    counter: int = 0
    checkpoint: Checkpoint = TRIM_HORIZON
    owner: str | None = field(default=None, kw_only=True)
    """Who will read."""
    checkpoint_owner: str | None = field(default=None, kw_only=True)
    """Set while a handover is pending: who reads until then."""
    owner_switches: int = field(default=0, kw_only=True)
    pending: Checkpoint | None = field(default=None, kw_only=True)
    pending_state: bytes | None = field(default=None, kw_only=True)
    parents: frozenset[str] = field(default=frozenset(), kw_only=True)
    children: frozenset[str] = field(default=frozenset(), kw_only=True)
    hash_range: HashRange | None = field(default=None, kw_only=True)
    throughput_kbps: float | None = field(default=None, kw_only=True)
    stream: str | None = field(default=None, kw_only=True)
    """KCL's streamName: the serialized stream, multi-stream only."""
    shard: str | None = field(default=None, kw_only=True)
    """KCL's shardId attribute, multi-stream only."""
    # What follows is ours; KCL's readers pass over it.
    stream_epoch: int | None = field(default=None, kw_only=True)
    run_claim: str | None = field(default=None, kw_only=True)
    """`<run id>/<id of this attempt>` of who may write now."""
    wanted_by: str | None = field(default=None, kw_only=True)
    landed: Checkpoint | None = field(default=None, kw_only=True)
    """The last checkpoint that we ourselves wrote: ahead of the table, it betrays a rollback."""
    looked_at: datetime | None = field(default=None, kw_only=True)
    behind_ms: int | None = field(default=None, kw_only=True)
    assigned_at: datetime | None = field(default=None, kw_only=True)
    """By the clock of the leader that gave it to its owner: a hint, so that it isn't moved again at once."""
    failure: Failure | None = field(default=None, kw_only=True)
    """Set while waves fail for this shard."""

    @property
    def holder(self) -> str | None:
        """Who may read now."""
        return self.checkpoint_owner or self.owner

    @property
    def shard_id(self) -> str:
        return self.shard or shard_of_lease_key(self.key)

    @property
    def parent_keys(self) -> frozenset[str]:
        """Lease keys of its parents: they are of the same stream."""
        return frozenset(self.key.removesuffix(self.shard_id) + parent for parent in self.parents)

    @property
    def child_keys(self) -> frozenset[str]:
        return frozenset(self.key.removesuffix(self.shard_id) + child for child in self.children)

    @property
    def has_ended(self) -> bool:
        return self.checkpoint.is_end


FIELDS: Final = frozenset(Lease.__dataclass_fields__)


def run_of_claim(claim: str) -> str:
    """The run that a claim belongs to."""
    return claim.partition("/")[0]
