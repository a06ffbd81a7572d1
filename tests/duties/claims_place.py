"""One run of a worker and the lease rows that it finds, for the tests of `Claims`."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from headrace.pipeline.core.leases.change import (
    Applied,
    Change,
    Refused,
    initiate_handover,
)
from headrace.pipeline.core.leases.lease import Lease
from headrace.pipeline.core.ledger.batch import Staged
from headrace.pipeline.core.shards.position import Position
from headrace.pipeline.core.shards.stream import ShardKey, StreamId
from headrace.pipeline.duties.waves.claims import Claims
from headrace.pipeline.duties.waves.kept_claims import KeptClaims
from headrace.pipeline.duties.waves.report import Landed, WaveLog
from headrace.pipeline.errors import HeadraceError
from headrace.pipeline.settings.model import TimeSettings
from tests.memory.clock import MemoryClock
from tests.memory.leases import MemoryLeaseStore
from tests.memory.runs import MemoryRuns
from tests.memory.workers import MemoryWorkerStore

STREAM = StreamId("arn:aws:kinesis:us-east-1:123456789012:stream/orders", 1_700_000_000)
MINE = "run/1"
MINUTE = timedelta(minutes=1)
TIMES = TimeSettings()


class Rows(MemoryLeaseStore):
    """Records all writes, and raises an error at the rows and at the kinds of changes that a test names."""

    def __init__(self, rows: tuple[Lease, ...]) -> None:
        super().__init__(rows)
        self.writes: list[Change] = []
        self.trouble: dict[str, HeadraceError] = {}
        """By lease key, or by kind of change."""

    def apply(self, change: Change) -> Applied | Refused:
        self.writes.append(change)
        for named in {change.key, change.kind} & self.trouble.keys():
            raise self.trouble[named]
        return super().apply(change)


class Place:
    """One run of worker w1, and the rows that the run finds."""

    def __init__(self, *rows: Lease, dead_claims: tuple[str, ...] = ()) -> None:
        self.clock = MemoryClock()
        self.rows = Rows(rows)
        self.workers = MemoryWorkerStore(clock=self.clock)
        self.runs = MemoryRuns(self.clock)
        self.log = WaveLog()
        self.claims = Claims(
            me="w1",
            claim=MINE,
            leases=self.rows,
            workers=self.workers,
            runs=self.runs,
            clock=self.clock,
            times=TIMES,
            dead_claims=frozenset(dead_claims),
        )
        self.kept = KeptClaims(claims=self.claims, times=TIMES)

    def take(self, *rows: Lease) -> None:
        """Claim what the run may claim of these rows."""
        streams: dict[str | None, StreamId] = {None: STREAM}
        free = self.claims.claimable(self.log, streams, rows or self.rows.scan().leases)
        self.claims.take(self.log, streams, free)

    def taken(self, *rows: Lease) -> tuple[str, ...]:
        """Claim as `take` does, and return the keys of the claimed rows."""
        self.take(*rows)
        return self.claims.keys

    def ask_for_handover(self, key: str = "s1") -> None:
        """The leader asks the run to hand the shard over to worker w2."""
        assert isinstance(self.rows.apply(initiate_handover(self.row(key), "w2", "a test")), Applied)
        self.rows.writes.clear()

    def row(self, key: str = "s1") -> Lease:
        found = self.rows.get(key)
        assert found is not None
        return found


def a_row(key: str = "s1", **more: Any) -> Lease:
    return Lease(key, 5, **{"owner": "w1", "stream_epoch": STREAM.epoch, **more})


def a_key(shard: str = "s1") -> ShardKey:
    return ShardKey(STREAM, shard)


def landed(shard: str = "s1", **more: Any) -> Landed:
    upto = more.pop("upto", Position(9))
    staged = Staged(a_key(shard), None, upto, **{"behind": timedelta(0), "pages": 1, **more})
    return Landed(shard, staged, 1, (), ())
