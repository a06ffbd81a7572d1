"""One plain row for each lease, for CSV, JSON and data frames. The columns have KCL's names, which scripts may know."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from headrace.pipeline.core.leases.lease import Lease
from headrace.pipeline.inspect.balance import cluster_by_rule
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
"""Name of a column -> its type in pandas. Sequence numbers and hash keys are text: they have more digits than
an Int64."""

Plain = tuple[str | int | float | bool | None, ...]


def lease_rows_of(observation: Observation) -> Iterator[Plain]:
    failing = {failure.lease: failure for failure in observation.failing}
    # In the order of the keys: a script may compare two answers line by line.
    for lease in sorted(observation.last.leases, key=lambda lease_row: lease_row.key):
        moved = None if observation.watched is None else lease.key not in observation.stood
        yield (*_row(lease, observation.cluster_by, moved=moved), *_failure(failing.get(lease.key)))


def _row(lease: Lease, cluster_by: re.Pattern[str], *, moved: bool | None) -> Plain:
    hash_range = lease.hash_range
    return (
        lease.key,
        lease.stream,
        lease.shard_id,
        lease_state(lease),
        lease.owner,
        None if lease.owner is None else cluster_by_rule(lease.owner, cluster_by),
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


def _failure(failure: FailingShard | None) -> Plain:
    return (
        (None, None) if failure is None else (failure.since.isoformat(timespec="milliseconds"), failure.why)
    )


def lease_state(lease: Lease) -> str:
    if lease.has_ended:
        return "ended"
    if lease.checkpoint_owner is not None:
        return "handover"
    return "unowned" if lease.owner is None else "open"
