"""One stream and one worker without sensors: what syncs, waves and clean-ups do with the stream's shards."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from headrace.pipeline.core.leases.change import Applied, assign
from headrace.pipeline.core.leases.lease import Lease
from headrace.pipeline.core.ledger.ledger import Kind, Range
from headrace.pipeline.core.shards.position import Position, Positions, Start
from headrace.pipeline.core.shards.shard import Shard
from headrace.pipeline.core.shards.stream import ShardKey, StreamId
from headrace.pipeline.duties.fleet.shard_sync import ShardSync
from headrace.pipeline.duties.policy.policy import Policy
from headrace.pipeline.duties.streams.origin import ensure_origin
from headrace.pipeline.duties.waves.attempt import Attempt
from headrace.pipeline.duties.waves.report import WaveReport
from headrace.pipeline.errors import Throttled
from headrace.pipeline.settings.choices import InitialPosition, OnDataLoss
from headrace.pipeline.settings.model import Settings, StreamSettings
from tests.duties.reading import an_attempt, wiring_of
from tests.duties.world import MadeTables
from tests.memory.clock import CountingIds, MemoryClock
from tests.memory.consumers import MemoryConsumers
from tests.memory.leader_lock import MemoryLeaderLock
from tests.memory.leases import MemoryLeaseStore
from tests.memory.runs import MemoryRuns
from tests.memory.source import MemorySource
from tests.memory.stage import MemoryStage
from tests.memory.table import MemoryTable
from tests.memory.workers import MemoryWorkerStore

STREAM = "orders"
DAY = timedelta(hours=24)


class LateSource(MemorySource):
    """Listings can leave shards out for a while."""

    hidden: frozenset[str] = frozenset()
    fails_to_list: bool = False

    def list_shards(self, stream: StreamId, since: Start | None = None) -> tuple[Shard, ...]:
        if self.fails_to_list:
            raise Throttled("ListShards is throttled")
        return tuple(s for s in super().list_shards(stream, since) if s.shard_id not in self.hidden)


@dataclass
class Life:
    """One stream with one worker. `check` compares the table with the records that were put."""

    shards: int = 1
    on_data_loss: OnDataLoss = OnDataLoss.STOP
    position: InitialPosition = InitialPosition.TRIM_HORIZON
    timestamp: datetime | None = None
    """Of AT_TIMESTAMP."""
    clock: MemoryClock = field(default_factory=MemoryClock)
    put: list[tuple[ShardKey, int]] = field(default_factory=list)

    def __post_init__(self) -> None:
        stream = StreamSettings(
            name=STREAM,
            initial_position=self.position,
            timestamp=self.timestamp,
            on_data_loss=self.on_data_loss,
        )
        self.settings = Settings(application="app", streams=(stream,))
        self.source = LateSource(self.clock)
        self.stream = self.source.create_stream(STREAM, self.shards)
        self.leases = MemoryLeaseStore()
        self.rows = MemoryWorkerStore(clock=self.clock)
        self.runs = MemoryRuns(self.clock)
        self.table = MemoryTable(self.clock)
        self.stage = MemoryStage(self.source, self.clock)
        self.ids = CountingIds()
        self.lock = MemoryLeaderLock()
        self.tables = MadeTables()

    @property
    def policy(self) -> Policy:
        return wiring_of(self).policy()

    # -- what happens --------------------------------------------------------------------------------------------

    def key(self, number: int) -> ShardKey:
        return ShardKey(self.stream, f"shardId-{number:012d}")

    def row(self, number: int) -> Lease | None:
        """The lease row of this shard."""
        return self.leases.get(self.key(number).shard_id)

    def at(self, number: int) -> Position | None:
        """The position of this shard; None if it has none."""
        return self.positions.of(self.key(number))

    @property
    def positions(self) -> Positions:
        return self.table.load().positions

    def produce(self, shard: int, count: int = 3) -> None:
        for _ in range(count):
            self.put.append((self.key(shard), self.source.put(self.key(shard))))
        self.clock.advance(timedelta(milliseconds=10))

    def sync(self) -> list[str]:
        """Sync as a leader does, and assign all new rows to the worker. Returns why each row was written."""
        facts = self.source.describe(self.settings.streams[0].name)
        listing = self.leases.scan()
        state = ensure_origin(
            self.table, self.table.load(), facts, stream=self.settings.streams[0], leases=listing.leases
        )
        plan = self.syncing.plan(self.settings.streams[0], facts, listing, state=state)
        told = [f"{c.key[-1]}: {c.why}" for c in plan if isinstance(self.leases.apply(c), Applied)]
        for row in self.leases.scan().leases:
            if row.owner is None:
                self.leases.apply(assign(row, "w1", "for the test"))
        return told

    @property
    def syncing(self) -> ShardSync:
        return ShardSync(
            settings=self.settings,
            rows=self.policy.rows,
            leases=self.leases,
            source=self.source,
            table=self.table,
            consumers=lambda _: MemoryConsumers(),
        )

    def run(self, name: str | None = None) -> Attempt:
        run = name or self.ids.fresh()
        self.runs.launch(run, "w1")
        self.runs.start(run)
        return an_attempt(self, run)

    def wave(self, keys: Iterable[str] | None = None) -> WaveReport:
        """One run with one wave."""
        run = self.run()
        report = run.wave(keys)
        run.let_go()
        self.runs.end(run.run_id)
        return report

    def later(self, by: timedelta) -> None:
        """Let time pass."""
        self.clock.advance(by)

    def lose_rows(self, *numbers: int) -> None:
        """Delete the lease rows of these shards, as a person may."""
        for number in numbers:
            self.leases.wipe(self.key(number).shard_id)

    def put_row(self, number: int, **more: object) -> None:
        """Make a row, as a leader that was frozen or a person with another tool may do."""
        row = Lease(self.key(number).shard_id, owner="w1", stream_epoch=self.stream.epoch)
        self.leases = MemoryLeaseStore([*self.leases.scan().leases, replace(row, **more)])  # type: ignore[arg-type]

    # -- what can be seen ----------------------------------------------------------------------------------------

    def landed(self) -> list[tuple[ShardKey, int]]:
        """The rows of the lake table, in the order of the commits."""
        snapshots = list(self.table.history(self.table.head))[::-1]
        return [row[:2] for s in snapshots for f in s.files for row in self.stage.rows[f.path]]

    def ledger(self, kind: Kind) -> list[Range]:
        """The ranges of this kind, oldest first."""
        snapshots = list(self.table.history(self.table.head))[::-1]
        return [r for s in snapshots for r in s.page.ranges if r.kind is kind]

    def skipped(self) -> list[tuple[str, datetime | None, datetime | None]]:
        """Each recorded gap: the last digit of the shard, and the gap's bounds."""
        return [(r.key.shard_id[-1], r.first_arrival, r.last_arrival) for r in self.ledger(Kind.SKIPPED)]

    def check(self, *, lost: Iterable[tuple[ShardKey, int]] = ()) -> None:
        """Every record that was put has landed once, except the lost ones; and the ranges of each shard form one
        chain."""
        landed = self.landed()
        assert [row for row, n in Counter(landed).items() if n > 1] == []
        assert set(landed) == set(self.put) - set(lost)
        at: dict[ShardKey, object] = {}
        for snapshot in list(self.table.history(self.table.head))[::-1]:
            for each in snapshot.page.ranges:
                assert at.get(each.key) == (each.after.token if each.after else None)
                at[each.key] = each.upto.token
