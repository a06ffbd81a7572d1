"""One plain row a lease, for CSV and data frames: KCL's own names, so that scripts written for KCL's tables go on."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from pipeline.core.lease import Lease
from pipeline.core.observation import Observation
from pipeline.core.observe_balance import cluster_of

COLUMNS: Final = {
    "leaseKey": "string",
    "streamName": "string",
    "shardId": "string",
    "state": "string",
    "leaseOwner": "string",
    "clusterName": "string",
    "checkpointOwner": "string",
    "leaseCounter": "Int64",
    "moved": "boolean",
    "checkpoint": "string",
    "checkpointSubSequenceNumber": "Int64",
    "ownerSwitchesSinceCheckpoint": "Int64",
    "parentShardId": "string",
    "childShardIds": "string",
    "startingHashKey": "string",
    "endingHashKey": "string",
    "throughputKBps": "Float64",
}
"""Name -> pandas's type. Sequence numbers and hash keys are text: no number of pandas holds their digits."""

Plain = tuple[str | int | float | bool | None, ...]


def rows_of(seen: Observation, *, cluster_by: re.Pattern[str]) -> Iterator[Plain]:
    for lease in sorted(seen.last.leases, key=lambda each: each.key):
        moved = None if seen.watched is None else lease.key not in seen.stood
        yield _row(lease, cluster_by, moved=moved)


def _row(lease: Lease, cluster_by: re.Pattern[str], *, moved: bool | None) -> Plain:
    hash_range = lease.hash_range
    return (
        lease.key,
        lease.stream,
        lease.shard_id,
        state_of(lease),
        lease.owner,
        None if lease.owner is None else cluster_of(lease.owner, cluster_by),
        lease.checkpoint_owner,
        lease.counter,
        moved,
        lease.checkpoint.sequence,
        lease.checkpoint.sub,
        lease.owner_switches,
        ", ".join(sorted(lease.parents)) or None,
        ", ".join(sorted(lease.children)) or None,
        None if hash_range is None else str(hash_range.start),
        None if hash_range is None else str(hash_range.end),
        lease.throughput_kbps,
    )


def state_of(lease: Lease) -> str:
    if lease.has_ended:
        return "ended"
    if lease.checkpoint_owner is not None:
        return "handover"
    return "unowned" if lease.owner is None else "open"
