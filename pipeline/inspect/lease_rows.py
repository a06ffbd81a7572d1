"""One plain row for each lease, for CSV, JSON and data frames. The columns have KCL's names, which scripts may know."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from headrace.pipeline.core.leases.lease import Lease
from headrace.pipeline.inspect.balance import cluster_of
from headrace.pipeline.inspect.observation import FailingShard, Observation

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
    "failingSince": "string",
    "failure": "string",
}
"""Name of a column -> its type in pandas. Sequence numbers and hash keys are text: they have more digits than an Int64."""

Plain = tuple[str | int | float | bool | None, ...]


def rows_of(seen: Observation) -> Iterator[Plain]:
    failing = {each.lease: each for each in seen.failing}
    for lease in sorted(seen.last.leases, key=lambda each: each.key):
        moved = None if seen.watched is None else lease.key not in seen.stood
        yield (*_row(lease, seen.cluster_by, moved=moved), *_failure(failing.get(lease.key)))


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


def _failure(found: FailingShard | None) -> Plain:
    return (None, None) if found is None else (found.since.isoformat(timespec="milliseconds"), found.why)


def state_of(lease: Lease) -> str:
    if lease.has_ended:
        return "ended"
    if lease.checkpoint_owner is not None:
        return "handover"
    return "unowned" if lease.owner is None else "open"
