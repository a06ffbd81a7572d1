"""A small world in memory: a stream, tables, workers and runs, with the real duties.

`World.check` checks what every test of the duties relies on.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from headrace.pipeline.core.leases.lease import Lease
from headrace.pipeline.core.ledger.ledger import Kind
from headrace.pipeline.core.shards.stream import ShardKey, StreamId
from headrace.pipeline.duties.fleet.leader_report import LeaderMemory, LeaderReport
from headrace.pipeline.duties.fleet.leader_tick import LeaderDuty
from headrace.pipeline.duties.fleet.worker_report import WorkerMemory, WorkerReport
from headrace.pipeline.duties.fleet.worker_tick import WorkerDuty
from headrace.pipeline.duties.policy.policy import Policy
from headrace.pipeline.duties.streams.streams import stream_as_written
from headrace.pipeline.duties.waves.attempt import Attempt
from headrace.pipeline.duties.waves.report import WaveReport, WaveStep
from headrace.pipeline.kcl.migration import AgreedVersion, ClientVersion
from headrace.pipeline.settings.choices import Beat, InitialPosition, StreamsMode
from headrace.pipeline.settings.model import Settings, StreamSettings, WaveSettings, WorkerSettings
from tests.duties.reading import an_attempt, wiring_of
from tests.memory.clock import CountingIds, MemoryClock
from tests.memory.consumers import MemoryConsumers
from tests.memory.files import MemoryFiles
from tests.memory.leader_lock import MemoryLeaderLock
from tests.memory.leases import MemoryLeaseStore
from tests.memory.lineage import MemoryLineage
from tests.memory.live import MemoryLive, MemoryRewriter
from tests.memory.runs import MemoryRuns
from tests.memory.source import MemorySource
from tests.memory.stage import MemoryStage
from tests.memory.table import MemoryTable
from tests.memory.workers import MemoryWorkerStore

TICK = timedelta(seconds=5)
STREAM = "orders"


class Cut(BaseException):
    """Stands for the death of a process between two steps of a wave: the process does nothing more, not even
    release its claims."""


@dataclass
class MadeTables:
    """Coordination tables that exist, or that the first call of `ensure` makes."""

    missing: bool = False
    version: ClientVersion | None = None
    """The client version that KCL's workers have written."""
    version_since: datetime | None = None

    def ensure(self) -> bool:
        was, self.missing = self.missing, False
        return was

    def client_version(self) -> ClientVersion | None:
        return self.version

    def agreed_version(self) -> AgreedVersion | None:
        return None if self.version is None else AgreedVersion(self.version, self.version_since)


@dataclass
class World:
    """One application: its stream, coordination tables, lake table, workers and runs, all in memory."""

    workers: tuple[str, ...] = ("w1",)
    position: InitialPosition = InitialPosition.TRIM_HORIZON
    shards: int = 2
    more_streams: tuple[str, ...] = ()
    """More streams of the application, each with as many shards as the first."""
    wave_records: int = 1_000_000
    clock: MemoryClock = field(default_factory=MemoryClock)
    cut_at: WaveStep | None = None
    put: list[tuple[ShardKey, int]] = field(default_factory=list)
    skipped: set[tuple[ShardKey, int]] = field(default_factory=set)
    """Records that were put before a LATEST start, and must not land."""

    def __post_init__(self) -> None:
        self.settings = Settings(
            application="app",
            streams=tuple(
                StreamSettings(name=name, initial_position=self.position)
                for name in (STREAM, *self.more_streams)
            ),
            streams_mode=StreamsMode.MULTI if self.more_streams else StreamsMode.SINGLE,
            workers=tuple(WorkerSettings(id=w) for w in self.workers),
            wave=WaveSettings(records=self.wave_records),
        )
        self.source = MemorySource(self.clock)
        self.stream: StreamId = self.source.create_stream(STREAM, self.shards)
        for name in self.more_streams:
            self.source.create_stream(name, self.shards)
        self.consumers = MemoryConsumers()
        self.leases = MemoryLeaseStore()
        self.rows = MemoryWorkerStore(clock=self.clock)
        self.lock = MemoryLeaderLock()
        self.runs = MemoryRuns(self.clock)
        self.table = MemoryTable(self.clock)
        self.lineage = MemoryLineage(self.table)
        self.files = MemoryFiles(self.table)
        self.stage = MemoryStage(self.source, self.clock)
        self.lineage_files = MemoryFiles(self.table)
        self.live = MemoryLive(self.table)
        self.rewriter = MemoryRewriter(self.stage.rows, self.clock)
        self.ids = CountingIds()
        self.tables = MadeTables()
        self.leader_memory: dict[str, LeaderMemory] = {}
        self.worker_memory: dict[str, WorkerMemory] = {}

    # -- what happens --------------------------------------------------------------------------------------------

    def stream_now(self, name: str) -> StreamId:
        return self.source.describe(name).stream

    def shard(self, number: int, stream: str = STREAM) -> ShardKey:
        life = self.stream if stream == STREAM else self.stream_now(stream)
        return ShardKey(life, f"shardId-{number:012d}")

    def produce(self, shard: int, count: int = 10, *, landed: bool = True, stream: str = STREAM) -> None:
        key = self.shard(shard, stream)
        for _ in range(count):
            record = (key, self.source.put(key))
            self.put.append(record)
            if not landed:
                self.skipped.add(record)
        self.clock.advance(timedelta(milliseconds=10))

    def a_leader(self, leader: str = "w1") -> LeaderDuty:
        return LeaderDuty(
            leader_id=leader,
            settings=self.settings,
            policy=self.policy,
            tables=self.tables,
            leases=wiring_of(self).leases(),
            workers=self.rows,
            lock=self.lock,
            source=self.source,
            table=self.table,
            consumers=lambda _: self.consumers,
            clock=self.clock,
            ids=self.ids,
        )

    @property
    def policy(self) -> Policy:
        """The policy for the present settings."""
        return wiring_of(self).policy()

    def lead(self, leader: str = "w1") -> LeaderReport:
        """One tick of this deployment's leader sensor."""
        report = self.a_leader(leader).tick(self.leader_memory.get(leader, LeaderMemory()))
        self.leader_memory[leader] = report.memory
        return report

    def work(self, worker: str = "w1", *, instance: str = "dagster-1") -> WorkerReport:
        """One tick of this worker's sensor."""
        duty = WorkerDuty(
            worker_id=worker,
            instance=instance,
            leases=wiring_of(self).leases(),
            workers=self.rows,
            source=self.source,
            runs=self.runs,
            clock=self.clock,
            times=self.settings.times,
            policy=self.policy,
            stream=self._stream_of,
            asks_for_beater=self.settings.kcl.beat is Beat.PROCESS,
        )
        memory = self.worker_memory.get(instance + worker, WorkerMemory())
        report = duty.tick(memory)
        self.worker_memory[instance + worker] = report.memory
        return report

    def _stream_of(self, row: Lease) -> tuple[StreamId, timedelta]:
        if row.stream is None:
            return self.stream, timedelta(hours=24)
        facts = self.source.describe(stream_as_written(self.settings, row))
        return facts.stream, facts.retention

    def tick(self, times: int = 1) -> None:
        """Let every sensor tick, and the time between two ticks pass."""
        for _ in range(times):
            self.lead()
            for worker in self.workers:
                self.work(worker)
            self.clock.advance(TICK)

    def settle(self) -> None:
        """Make and assign all leases: two looks at each worker, then an assignment."""
        self.tick(3)

    def a_run(self, worker: str = "w1", run: str = "run", *, dead_claims: Iterable[str] = ()) -> Attempt:
        return an_attempt(self, run, worker=worker, dead_claims=dead_claims, on_step=self._on_step)

    def wave(self, worker: str = "w1", run: str = "run", keys: Iterable[str] | None = None) -> WaveReport:
        """One run of this worker with one wave."""
        self.runs.launch(run, worker)
        self.runs.start(run)
        attempt = self.a_run(worker, run)
        report = attempt.wave(keys)
        attempt.let_go()
        self.runs.end(run)
        return report

    def killed_run(self, step: WaveStep, worker: str = "w1", run: str = "killed") -> None:
        """A run whose process dies at a step. Dagster doesn't notice yet."""
        self.runs.launch(run, worker)
        self.runs.start(run)
        self.cut_at = step
        held = self.leases.apply
        try:
            self.a_run(worker, run).wave()
        except Cut:
            pass
        else:
            raise AssertionError(f"the run never came to {step}")
        finally:
            self.cut_at = None
            self.leases.apply = held  # type: ignore[method-assign]

    def _on_step(self, step: WaveStep, _keys: tuple[str, ...]) -> None:
        if step is self.cut_at:
            self.leases.apply = _dead  # type: ignore[method-assign,assignment]
            raise Cut

    # -- what must hold ------------------------------------------------------------------------------------------

    def landed(self) -> list[tuple[ShardKey, int]]:
        """The rows of the lake table, in the order of the commits."""
        head = self.table.load().snapshot
        snapshots = list(self.table.history(head))[::-1]
        return [row[:2] for s in snapshots for f in s.files for row in self.stage.rows[f.path]]

    def check(self) -> None:
        """Check invariants I1, I3, I4, I8 and I12 of docs/reference/protocol.md on the table and the rows."""
        landed = self.landed()
        doubled = [row for row, n in Counter(landed).items() if n > 1]
        assert not doubled, f"landed more than once: {doubled}"
        assert set(landed) == set(self.put) - self.skipped
        self.check_chains()
        for lease in self.leases.scan().leases:
            position = self.table.load().positions.of(self.key_of(lease))
            stands = position.checkpoint if position else None
            assert not lease.checkpoint.is_digits or (stands is not None and lease.checkpoint <= stands)

    def key_of(self, row: Lease) -> ShardKey:
        """The shard of a row, in the life of the stream that the row belongs to."""
        if row.stream is None:
            return ShardKey(self.stream, row.shard_id)
        known = {stream.serialized: stream for stream in self.table.load().positions.streams()}
        return ShardKey(known[row.stream], row.shard_id)

    def check_chains(self) -> None:
        """Check that each range goes on where the range before it ended."""
        snapshots = list(self.table.history(self.table.load().snapshot))[::-1]
        at: dict[ShardKey, object] = {}
        for snapshot in snapshots:
            ended = {key for key, p in at.items() if p is not None and p[2]}  # type: ignore[index]
            for each in snapshot.page.ranges:
                assert each.kind is Kind.LANDED
                assert at.get(each.key) == (each.after.token if each.after else None)
                stream = each.key.stream
                assert each.after is not None or {
                    ShardKey(stream, p.shard_id) for p in each.parents
                } <= ended | ({ShardKey(stream, p.shard_id) for p in each.parents if p.why != "ended"})
                at[each.key] = each.upto.token


def _dead(_change: object) -> object:
    raise Cut
