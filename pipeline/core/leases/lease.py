"""A lease row: which worker reads a shard, and the checkpoint from which KCL's workers read on."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

from headrace.pipeline.core.leases.failure import Failure
from headrace.pipeline.core.shards.checkpoint import TRIM_HORIZON, Checkpoint
from headrace.pipeline.core.shards.shard import HashRange
from headrace.pipeline.core.shards.stream import shard_of_lease_key


@dataclass(frozen=True, slots=True)
class Lease:
    key: str
    """KCL's leaseKey. `pipeline.core.partition` makes the shard's name in Dagster of it."""
    counter: int = 0
    checkpoint: Checkpoint = TRIM_HORIZON
    owner: str | None = field(default=None, kw_only=True)
    """The worker that is to read the shard. During a handover it is the next one."""
    checkpoint_owner: str | None = field(default=None, kw_only=True)
    """Set during a handover: the worker that reads the shard until the handover is complete."""
    owner_switches: int = field(default=0, kw_only=True)
    """KCL's ownerSwitchesSinceCheckpoint."""
    pending: Checkpoint | None = field(default=None, kw_only=True)
    """KCL's pendingCheckpoint: a checkpoint that a worker is about to write."""
    pending_state: bytes | None = field(default=None, kw_only=True)
    parents: frozenset[str] = field(default=frozenset(), kw_only=True)
    children: frozenset[str] = field(default=frozenset(), kw_only=True)
    hash_range: HashRange | None = field(default=None, kw_only=True)
    throughput_kbps: float | None = field(default=None, kw_only=True)
    stream: str | None = field(default=None, kw_only=True)
    """KCL's streamName, as `account:name:epoch`. Set only in an application with several streams."""
    shard: str | None = field(default=None, kw_only=True)
    """KCL's shardId attribute. Set only in an application with several streams."""
    # The fields from here on are Headrace's; KCL's workers ignore the attributes.
    stream_epoch: int | None = field(default=None, kw_only=True)
    run_claim: str | None = field(default=None, kw_only=True)
    """The claim of the run that reads the shard now: `<run id>/<id of this attempt>`."""
    wanted_by: str | None = field(default=None, kw_only=True)
    """The claim of a run that waits for the shard."""
    landed: Checkpoint | None = field(default=None, kw_only=True)
    """The last checkpoint that Headrace itself wrote, or from which a wave has read on. If it is ahead of the lake
    table, the table was rolled back."""
    looked_at: datetime | None = field(default=None, kw_only=True)
    """Up to when the last wave read this shard, by Kinesis's clock: when it found nothing newer, else its last record's
    arrival."""
    behind_ms: int | None = field(default=None, kw_only=True)
    """How far behind the tip the last wave left the shard, in milliseconds."""
    assigned_at: datetime | None = field(default=None, kw_only=True)
    """When the leader gave the lease to its owner, by the leader's clock. Assignment then leaves the lease there for a
    while."""
    failure: Failure | None = field(default=None, kw_only=True)
    """Set while waves fail for this shard."""

    @property
    def holder(self) -> str | None:
        """The worker that may read the shard now."""
        # KCL's rule of a handover: until it is complete the former owner writes checkpoints,
        # although `owner` names the next one already.
        return self.checkpoint_owner or self.owner

    @property
    def shard_id(self) -> str:
        return self.shard or shard_of_lease_key(self.key)

    @property
    def parent_keys(self) -> frozenset[str]:
        """The lease keys of the shard's parents."""
        # Parents belong to the same stream and life, so their keys begin as this one does.
        return frozenset(self.key.removesuffix(self.shard_id) + parent for parent in self.parents)

    @property
    def child_keys(self) -> frozenset[str]:
        return frozenset(self.key.removesuffix(self.shard_id) + child for child in self.children)

    @property
    def has_foreign_checkpoint(self) -> bool:
        """Whether another program wrote the checkpoint, and no wave has read on from there yet."""
        return self.checkpoint.is_digits and self.checkpoint != self.landed

    @property
    def has_ended(self) -> bool:
        return self.checkpoint.is_end


FIELDS: Final = frozenset(Lease.__dataclass_fields__)


def run_of_claim(claim: str) -> str:
    """The id of the run that a claim belongs to."""
    return claim.partition("/")[0]
