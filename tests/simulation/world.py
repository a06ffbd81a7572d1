"""Everything around a seed's fleet: streams, coordination tables, the lake table, hosts, and the history."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from random import Random
from typing import TYPE_CHECKING

from headrace.pipeline.core.leases.change import Change
from headrace.pipeline.core.leases.lease import Lease
from headrace.pipeline.core.shards.shard import Shard
from headrace.pipeline.core.shards.stream import ShardKey, StreamId, lease_key
from headrace.pipeline.duties.fleet.sensor_turn import Turn
from headrace.pipeline.settings.blocks.assignment import AssignmentSettings
from headrace.pipeline.settings.blocks.discovery import DiscoverySettings
from headrace.pipeline.settings.blocks.kcl import KclSettings
from headrace.pipeline.settings.blocks.upkeep import UpkeepSettings
from headrace.pipeline.settings.choices import FormerStreams, InitialPosition, Retrieval, StreamsMode
from headrace.pipeline.settings.model import (
    Settings,
    StreamSettings,
    TimeSettings,
    WaveSettings,
    WorkerSettings,
)
from tests.memory.clock import START, CountingIds
from tests.memory.leader_lock import MemoryLeaderLock
from tests.memory.live import MemoryLive, MemoryRewriter
from tests.memory.stage import MemoryStage
from tests.simulation.adoption import Adoption
from tests.simulation.fan_out.kinesis_side import KinesisSide
from tests.simulation.hosts import Deployment
from tests.simulation.kinesis import WatchedSource
from tests.simulation.machine import Host, MachineClock
from tests.simulation.made.beaten_fleet import BeatenFleet
from tests.simulation.made.typed_fleet import TypedFleet
from tests.simulation.plan import HEALTHY, Plan
from tests.simulation.ports import Script
from tests.simulation.runs import RunAtWork
from tests.simulation.scheduler import Process, Scheduler
from tests.simulation.streams import Streams
from tests.simulation.stretches import TICK, AllHostsOff
from tests.simulation.tally import Tally
from tests.simulation.troubles.call_faults import CallFaults
from tests.simulation.troubles.elsewhere import Elsewhere
from tests.simulation.troubles.losses import Losses
from tests.simulation.troubles.people import People
from tests.simulation.watch.file_watch import WatchedFiles
from tests.simulation.watch.kept_watch import KeptWatch
from tests.simulation.watch.lag_watch import LagWatch
from tests.simulation.watch.lease_watch import ODD, WatchedLeases
from tests.simulation.watch.lineage_watch import WatchedLineage
from tests.simulation.watch.release_watch import ReleaseWatch
from tests.simulation.watch.table_watch import WatchedTable
from tests.simulation.watch.truth import History, ShardTruth, Truth, Violation
from tests.simulation.watch.waiting_watch import WaitingWatch
from tests.simulation.watch.worker_watch import WatchedWorkers

if TYPE_CHECKING:
    from tests.simulation.application.fleet import ApplicationFleet

NAMES = ("orders", "orders-b", "orders-c")
STREAM = NAMES[0]
_READS_A_SECOND = 5
_MOST_LINES = 200_000
_UPKEEP = UpkeepSettings(
    keep_snapshots=10, keep_for=timedelta(minutes=1), compact_after=timedelta(seconds=10)
)
"""So that snapshots expire, and files are compacted, within minutes."""
_KEEPS = timedelta(seconds=20)
"""Where days are dropped, the day before goes so long after midnight."""
_CLEANUP = _FORMER_WAIT = timedelta(seconds=60)
"""Shorter than the defaults, so that clean-ups happen within minutes in a plan without a quiet stretch. All other
times are the defaults."""


def _times(plan: Plan) -> TimeSettings:
    if plan.quiet:
        return TimeSettings()
    # Every sixth clean-up also looks for what Kinesis has forgotten. These come often where it forgets something, or says so.
    forgets = plan.retention <= 3600.0 or "deny" in plan.troubles
    return TimeSettings(cleanup=_CLEANUP / 4 if forgets else _CLEANUP)


class World:
    """The fleet of one plan with all that it works on."""

    quiet_until = 0.0
    """When the quiet stretch ends in which sensors tick less often."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.rng = Random(plan.seed)
        self.sim = Scheduler()
        self.history: History = []
        self.script: Script | None = None
        self.call_faults = CallFaults(self.sim, self.rng, plan.mix, self.note)
        self.start_of_time = (
            START if not plan.midnight else START + timedelta(seconds=86_400.0 - plan.midnight)
        )
        self.clock = MachineClock(self.sim, start=self.start_of_time)
        self.ids = CountingIds("id", seed=plan.seed)
        self.truth = Truth()
        self.source = WatchedSource(self)
        self.losses = Losses(self)
        self.fan_out = KinesisSide(self)
        # Sequence numbers get one digit longer after some records, so that their order as text would be wrong.
        self.source._next = 10**21 - self.rng.randrange(5, 200)
        self.kept, self.releases, self.waiting = KeptWatch(self), ReleaseWatch(self), WaitingWatch(self)
        self.late_claims: set[tuple[str, str]] = set()
        """Claims of runs and the keys of rows that were claimed by a request which arrived late."""
        self.thieves: set[str] = set()
        """KCL workers that take leases although no setting provides for them."""
        self.foreign: dict[ShardKey, int] = {}
        """By shard: the last record that such a worker has processed, where the settings allow its checkpoints."""
        self.leases, self.workers, self.lock = WatchedLeases(self), WatchedWorkers(self), MemoryLeaderLock()
        self.table = WatchedTable(self)
        self.lineage = WatchedLineage(self.table)
        self.lineage.most = lambda new: (
            self.rng.randrange(new) + 1 if plan.short_recordings and new > 1 else new
        )
        self.files = WatchedFiles(self)
        self.stage = self._a_stage()
        self.live = MemoryLive(self.table)
        self.rewriter = MemoryRewriter(self.stage.rows, self.clock)
        self.tables_missing = False
        self.runs: dict[str, RunAtWork] = {}
        """The runs by claim."""
        self.tally = Tally()
        self.pace = TICK
        """Seconds between two ticks of a sensor."""
        self.puts_until = plan.fault_seconds + (
            HEALTHY if plan.traffic_ends_early is None else -plan.traffic_ends_early
        )
        self.hosts_off_until = 0.0
        """Until this time no host starts."""
        self.jumps: list[tuple[float, Host]] = []
        """Each jump of a host's clock: when, and on which host."""
        self.listeners: list[Callable[[Lease, Lease, Change, Process], None]] = []
        """Called with each claim and each move of a lease, and when a run begins to wait for one."""
        self._reads: dict[ShardKey, list[float]] = {}
        self._run_ids = 0
        self.people, self.adoption = People(self), Adoption(self)
        for name in NAMES[: 1 if plan.streams == 1 else plan.streams - plan.added]:
            self.create_stream(name)
        self.hosts = self._some_hosts()
        self.deployments = self._deployments()
        self.typed = TypedFleet(self)
        self.application = self._an_application() if plan.application.is_on else None

    def _a_stage(self) -> MemoryStage:
        stage, most_files = MemoryStage(self.source, self.clock), self.plan.files
        stage.files = lambda _: self.rng.randrange(most_files) + 1 if most_files > 1 else 1
        stage.tells_end = lambda _: not self.call_faults.occurs("end_untold")
        stage.answers = Elsewhere(self).answers
        return stage

    def _an_application(self) -> ApplicationFleet:
        # Only here: few plans have one, and its pages bring Arrow with them.
        from tests.simulation.application.fleet import ApplicationFleet

        return ApplicationFleet(self)

    def _offset(self) -> float:
        return self.rng.uniform(-60.0, 60.0) if self.plan.skewed else 0.0

    def _some_hosts(self) -> list[Host]:
        names = (f"h{number + 1}" for number in range(self.plan.hosts))
        return [Host(name, self.sim, self._offset(), self.start_of_time) for name in names]

    def _deployments(self) -> list[Deployment]:
        plan = self.plan
        each = [
            tuple(f"w{i * plan.workers_each + j + 1}" for j in range(plan.workers_each))
            for i in range(plan.hosts)
        ]
        if plan.shared:
            everybody = tuple(worker for its in each for worker in its)
            return [Deployment(self, self.hosts[0], self.settings(everybody), self.hosts)]
        return [
            Deployment(self, host, self.settings(workers), [host])
            for host, workers in zip(self.hosts, each, strict=True)
        ]

    def settings(self, workers: tuple[str, ...]) -> Settings:
        plan = self.plan
        at = (
            self.start_of_time + timedelta(seconds=plan.starts_at)
            if plan.position is InitialPosition.AT_TIMESTAMP
            else None
        )
        named = [name for name in self.truth.living if name not in self.truth.taken_out]
        several = plan.streams > 1
        return Settings(
            application="app",
            streams=tuple(
                StreamSettings(
                    name=name,
                    initial_position=plan.position,
                    timestamp=at,
                    on_data_loss=plan.on_data_loss,
                    retrieval=Retrieval.FANOUT if self.fan_out.is_on else Retrieval.POLLING,
                )
                for name in (named[:1] if plan.discovered else named)
            ),
            streams_mode=StreamsMode.MULTI if several else StreamsMode.SINGLE,
            discovery=DiscoverySettings(
                prefix=STREAM if plan.discovered else None,
                initial_position=plan.position,
                timestamp=at,
                on_data_loss=plan.on_data_loss,
            ),
            former_streams=FormerStreams.AUTO if several else FormerStreams.KEEP,
            former_streams_wait=self.former_wait,
            workers=tuple(WorkerSettings(id=worker) for worker in workers),
            kcl=KclSettings(mode=plan.mode, heartbeat=plan.heartbeat, allow_foreign_checkpoints=plan.foreign),
            times=_times(plan),
            assignment=AssignmentSettings(graceful=plan.graceful),
            wave=WaveSettings(records=plan.wave_records, every=timedelta(seconds=plan.wave_every)),
            # The same for all: who makes and reads windows goes by the retention of those who drop days.
            upkeep=replace(_UPKEEP, retention=_KEEPS if plan.midnight else None),
        )

    # -- for processes -----------------------------------------------------------------------------

    @property
    def former_wait(self) -> timedelta:
        return timedelta(hours=1) if self.plan.quiet else _FORMER_WAIT

    @property
    def is_open(self) -> bool:
        """Whether deployments may start; False while KCL reads the stream."""
        return not self.plan.adopted or self.sim.now >= self.plan.opens

    def a_process(self, name: str, host: Host, worker: str = "") -> Process:
        made = self.sim.a_process(name, host, worker)
        host.processes[made] = None
        return made

    def a_run_id(self) -> str:
        self._run_ids += 1
        return f"run{self._run_ids}"

    def note(self, who: str, what: object) -> None:
        """Add an entry to the history. `what` is turned into text only when the history is read, which is rare."""
        self.history.append((self.sim.now, who, what))
        if len(self.history) > _MOST_LINES:
            raise Violation(
                "I30", f"the history has more than {_MOST_LINES} entries, lately of {who}: {what}"
            )

    def require_reported(self, turn: Turn, by: Process) -> None:
        """I23: a leader tick that has read all rows says that one of them isn't understood."""
        if self.plan.odd_rows and turn.partitions and "1 row not understood" not in turn.sentence:
            raise Violation("I23", f"{by} doesn't report the row {ODD}: {turn.sentence}", ODD)

    def ensure_tables(self) -> bool:
        missing, self.tables_missing = self.tables_missing, False
        return missing

    def client_version(self) -> None:
        """The version that KCL's workers have agreed on. There are none, so that nobody has written one."""

    def key_of(self, shard: ShardKey) -> str:
        """The key of the shard's lease row."""
        return lease_key(shard, multi=self.plan.streams > 1)

    def as_listed(self, stream: StreamId, shards: tuple[Shard, ...]) -> tuple[Shard, ...]:
        """A listing as a process gets it: now and then without some shards, and in any order."""
        if not self.call_faults.occurs("late_listing"):
            return shards
        horizon = self.clock.now() - timedelta(seconds=30.0)
        fresh, old = 0.5, self.rng.choice((0.0, 0.0, 0.3))
        known = self.truth.shards
        out = []
        for shard in shards:
            its = known.get(ShardKey(stream, shard.shard_id))
            is_fresh = its is not None and its.opened > horizon
            hidden = fresh if is_fresh else old
            # A list that lags shows an old shard as open. Left out and denied at once, with its children shown, is one that is gone.
            is_sure = (
                not is_fresh
                and its is not None
                and its.closed
                and self.sim.now < self.source.denied.get(its.key, 0.0)
            )
            if self.rng.random() >= hidden or is_sure:
                out.append(shard)
        self.rng.shuffle(out)
        return tuple(out)

    def is_unlisted(self, key: ShardKey) -> bool:
        return self.source.has_forgotten(key)

    def count_read(self, key: ShardKey) -> None:
        """I28: a shard is read at most five times in a second, by all readers together."""
        times = self._reads.setdefault(key, [])
        times.append(self.sim.now)
        if len(times) > _READS_A_SECOND and self.sim.now - times.pop(0) < 1.0:
            raise Violation(
                "I28", f"more than {_READS_A_SECOND} reads of {key} within a second", key.shard_id
            )

    def call_listeners(self, before: Lease, after: Lease, change: Change, by: Process) -> None:
        for listener in self.listeners:
            listener(before, after, change, by)

    # -- the stream --------------------------------------------------------------------------------------------

    def create_stream(self, name: str = STREAM) -> None:
        retention = timedelta(seconds=self.plan.retention)
        stream = self.source.create_stream(
            name, self.plan.shards, retention=retention, has_hash_keys=not self.plan.of_a_table
        )
        self.truth.streams.append(stream)
        self.truth.living[name] = stream
        for shard in self.source.list_shards(stream):
            self.truth.opened(ShardKey(stream, shard.shard_id), (), self.clock.now(), shard.hash_range)

    def put(self, shard: ShardTruth, count: int = 1) -> None:
        for _ in range(count):
            users = self.rng.choice((1, 1, 2, 5)) if self.plan.aggregates else 1
            odd = len(shard.sequences) % 3 == 0 if self.plan.keeps else False
            inner, is_broken = 2 if odd and users > 1 else None, odd and users == 1
            number = self.source.put(shard.key, users=users, inner=inner, is_broken=is_broken)
            self.truth.put(shard.key, number, self.source.arrival_now(), users)

    def split(self, shard: ShardTruth) -> None:
        if self.plan.of_a_table:
            self.note("dynamodb", f"{shard.key.shard_id} rolls over")
            self._resharded((shard,), (self.source.roll_over(shard.key),))
            return
        self.note("kinesis", f"{shard.key.shard_id} splits")
        self._resharded((shard,), self.source.split(shard.key))

    def merge(self, one: ShardTruth, other: ShardTruth) -> None:
        self.note("kinesis", f"{one.key.shard_id} and {other.key.shard_id} merge")
        self._resharded((one, other), (self.source.merge(one.key, other.key),))

    def neighbours(self) -> list[tuple[ShardTruth, ShardTruth]]:
        """Pairs of open shards that can be merged."""
        ranges = {}
        stream = self._a_stream_in_the_settings()
        for shard in self.source.list_shards(stream):
            its = self.truth.shards[ShardKey(stream, shard.shard_id)]
            if its.closed is None and shard.hash_range is not None:
                ranges[shard.hash_range.start] = (its, shard.hash_range.end)
        return [(one, ranges[end + 1][0]) for one, end in ranges.values() if end + 1 in ranges]

    def _a_stream_in_the_settings(self) -> StreamId:
        asked = [stream for name, stream in self.truth.living.items() if name not in self.truth.taken_out]
        return self.rng.choice(asked) if len(asked) > 1 else asked[0]

    def recreate(self) -> None:
        now, stream = self.clock.now(), self._a_stream_in_the_settings()
        if now.timestamp() < stream.epoch + 2:
            return  # lives are told apart by whole seconds
        self.note("kinesis", f"stream {stream.name} is deleted and created again")
        for shard in self.truth.open_shards():
            if shard.key.stream == stream:
                shard.closed = now
        self.source.delete_stream(stream.name)
        self.create_stream(stream.name)

    def _resharded(self, parents: tuple[ShardTruth, ...], children: tuple[ShardKey, ...]) -> None:
        now, names = self.clock.now(), tuple(child.shard_id for child in children)
        for parent in parents:
            self.truth.closed(parent.key, now, names)
        for child in children:
            hash_range = self.source.hash_range(child)
            self.truth.opened(child, tuple(parent.key.shard_id for parent in parents), now, hash_range)

    def reshard(self) -> None:
        pairs = self.neighbours()
        if pairs and self.rng.random() < 0.4:
            self.merge(*self.rng.choice(pairs))
        else:
            self.split(self.rng.choice(self.truth.open_shards()))

    # -- hosts -------------------------------------------------------------------------------------------------

    def lose(self, host: Host) -> None:
        host.alive = False
        for process in list(host.processes):
            self.sim.kill(process)
        host.processes.clear()

    def revive(self, host: Host, *, lost: bool = False) -> None:
        """Start the host again. `lost`: its Dagster storage is lost."""
        host.alive = True
        for deployment in self.deployments:
            if deployment.host is host:
                if lost:
                    deployment.forget()
                deployment.start()

    # -- start and end ----------------------------------------------------------------------------------

    def start(self) -> None:
        if self.plan.fan_out:
            from tests.simulation.fan_out.stage import forget_processes

            forget_processes()
        for deployment in self.deployments:
            self.sim.after(self.plan.opens + self.rng.uniform(0.0, 10.0), deployment.start)
        if self.plan.adopted:
            self.adoption.start()
        if self.plan.streams > 1:
            Streams(self).start()
        if self.plan.hosts_off:
            AllHostsOff(self).start()
        self.typed.start()
        BeatenFleet(self).start()
        LagWatch(self).start()
        self.waiting.start()
        if self.application is not None:
            self.application.start()
        self.sim.after(1.0, self.produce)

    def produce(self) -> None:
        if self.sim.now > self.puts_until:
            return
        self.put(self.rng.choice(self.truth.open_shards()), self.rng.choice((1, 1, 2, 5)))
        self.sim.after(self.rng.expovariate(1.0 / self.plan.puts_every), self.produce)

    def close(self) -> None:
        self.sim.close()
