"""Observations of tables for the tests of the inspector: a fleet of two workers that each read half of the hash
keys, and changes to it."""

import re
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from headrace.pipeline.core.leases.election import LockRow
from headrace.pipeline.core.leases.lease import Lease
from headrace.pipeline.core.leases.worker import Worker
from headrace.pipeline.core.shards.checkpoint import Checkpoint
from headrace.pipeline.core.shards.shard import MAX_HASH_KEY, HashRange
from headrace.pipeline.inspect.compare import observation_of
from headrace.pipeline.inspect.finding import Finding
from headrace.pipeline.inspect.findings import findings_of
from headrace.pipeline.inspect.layout import LayoutFacts, OtherRows
from headrace.pipeline.inspect.observation import Observation, TablesRead

AT = datetime(2026, 1, 31, 12, tzinfo=UTC)
CLUSTER_RULE = re.compile("^[^-]*")
MIDDLE = MAX_HASH_KEY // 2
LEFT = Lease("left", 10, Checkpoint("100"), owner="w1", hash_range=HashRange(0, MIDDLE))
RIGHT = Lease("right", 20, Checkpoint("100"), owner="w2", hash_range=HashRange(MIDDLE + 1, MAX_HASH_KEY))
LOCK = LockRow("w1", "v1", timedelta(seconds=120))
W1, W2 = Worker("w1", AT), Worker("w2", AT)


def a_look(*leases: Lease, workers: tuple[Worker, ...] = (W1, W2), **more: Any) -> TablesRead:
    """A look at the tables of a healthy fleet; `more` changes single values."""
    lock = more.setdefault("lock", LOCK)
    tables = LayoutFacts(
        lease_table="app",
        state_table="s",
        state=OtherRows(lock=lock),
        worker_rows=len(workers),
        typed_leases=True,
    )
    return replace(TablesRead(read_at=AT, tables=tables, leases=leases, workers=workers), **more)


def later(look: TablesRead, *, passed: timedelta = timedelta(seconds=30), **more: Any) -> TablesRead:
    """The same fleet later: each owned lease was renewed, each worker has stamped its row, and the leader its lock."""
    at = look.read_at + passed
    moved: dict[str, Any] = {
        "read_at": at,
        "leases": tuple(replace(row, counter=row.counter + 1) if row.holder else row for row in look.leases),
        "workers": tuple(replace(row, last_update=at) for row in look.workers),
        "lock": look.lock and replace(look.lock, version=look.lock.version + "'"),
    }
    return replace(look, **(moved | more))


def seen(
    first: TablesRead, last: TablesRead | None = None, *, watched: timedelta = timedelta(seconds=30)
) -> Observation:
    """What two looks show, or one if there is no second."""
    return observation_of(first, last, watched=watched, cluster_by=CLUSTER_RULE)


def found(observation: Observation) -> dict[str, Finding]:
    """The findings of an observation, by their codes."""
    return {finding.code: finding for finding in findings_of(observation)}
