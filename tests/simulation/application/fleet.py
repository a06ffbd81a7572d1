"""A processor that is a KCL application of its own, beside the fleet that lands. Its sensors tick on two of the hosts, the real engine goes wave
after wave by the lease rows of the application, and the real delivery lets a simulated processor work on the records.

Nothing here draws from the fleet's random generator or writes to what the fleet writes to. So a plan lands the same records with and without
the processor. To its deployments this is the world: it has what they look for there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial
from random import Random
from typing import TYPE_CHECKING, Any

from headrace.pipeline.core.shards.position import Start
from headrace.pipeline.core.shards.shard import Shard
from headrace.pipeline.core.shards.stream import ShardKey, StreamId
from headrace.pipeline.settings.blocks.processors import ProcessorSettings
from headrace.pipeline.settings.choices import (
    InitialPosition,
    OnProcessorError,
    ProcessorMode,
    Retrieval,
)
from headrace.pipeline.settings.model import Settings
from headrace.pipeline.settings.processor_application import application_settings
from tests.kcl.kpl import entry, message, sealed
from tests.memory.clock import CountingIds
from tests.memory.leader_lock import MemoryLeaderLock
from tests.memory.source import MemoryRecord
from tests.memory.workers import MemoryWorkerStore
from tests.simulation.application.deployment import ApplicationDeployment
from tests.simulation.application.keeping import Keeping
from tests.simulation.application.watch import ApplicationRows, ApplicationWatch
from tests.simulation.kinesis import StreamOfWindows, WatchedSource
from tests.simulation.scheduler import Process
from tests.simulation.stretches import TICK
from tests.simulation.troubles.call_faults import CallFaults
from tests.simulation.troubles.thief import Thief
from tests.simulation.watch.waiting_watch import WaitingWatch

if TYPE_CHECKING:
    from tests.simulation.machine import Host
    from tests.simulation.world import World

_HOSTS = 2
_STARTS_AGAIN = 15.0
_DEPLOYS = 150.0
_STALE = 10.0
"""Seconds: the mean age of what a late scan shows."""


class ApplicationStream(StreamOfWindows):
    """The stream with payloads that are aggregates where the record says so."""

    def __init__(self, source: WatchedSource) -> None:
        super().__init__(source)
        self._aggregates: dict[int, MemoryRecord] = {}
        """By sequence number: the record with its payload, which is read again and again."""

    def records(self, key: ShardKey, at: Start | int) -> tuple[MemoryRecord, ...]:
        found = super().records(key, at)
        return tuple(record if record.users == 1 else self._with_payload(key, record) for record in found)

    def _with_payload(self, key: ShardKey, record: MemoryRecord) -> MemoryRecord:
        known = self._aggregates.get(record.sequence)
        if known is None:
            hashes = self._fleets.hash_range(key)
            # KCL hands out no user record whose hash key is outside of the shard.
            inside = b"0" if hashes is None else str(hashes.start).encode()
            entries = (entry(0, b"{}", hash_key=0) for _ in range(record.users))
            payload = sealed(message(*entries, keys=(b"user",), hash_keys=(inside,)))
            known = self._aggregates[record.sequence] = replace(record, data=payload)
        return known


class ForeignRecords(dict[ShardKey, int]):
    """How far a worker of KCL has come in each shard, as it tells before it moves the row. What it has processed counts as given."""

    def __init__(self, fleet: ApplicationFleet) -> None:
        super().__init__()
        self._fleet = fleet

    def __setitem__(self, key: ShardKey, number: int) -> None:
        self._fleet.watch.note_foreign(key, number)
        super().__setitem__(key, number)


class ApplicationFleet:
    def __init__(self, world: World) -> None:
        plan = world.plan
        self.world = world
        self.plan = replace(plan, foreign=True)
        """Workers of KCL checkpoint what they process, as everybody may in such an application."""
        self.drawn = plan.application
        self.rng = Random(f"application {plan.seed}")
        self.sim, self.clock, self.truth, self.note = world.sim, world.clock, world.truth, world.note
        self.a_process, self.key_of = world.a_process, world.key_of
        mix = replace(plan.mix, cut=plan.application.cut, half_done=0.0, cold=0.0)
        self.call_faults = CallFaults(world.sim, self.rng, mix, world.note, down=world.call_faults.down)
        self.call_faults.happened = world.call_faults.happened
        self.script = None
        self.tables_missing = False
        self.ids = CountingIds("app", seed=plan.seed)
        self.pace = TICK
        self.is_open = True
        self.is_over = False
        """Whether no further fault happens."""
        self.source = ApplicationStream(world.source)
        self.leases, self.workers = ApplicationRows(self), MemoryWorkerStore(clock=world.clock)
        self.lock = MemoryLeaderLock()
        self.watch, self.keeping = ApplicationWatch(self), Keeping(self)
        # Never started: how soon the processor's application reads isn't judged.
        self.waiting = WaitingWatch(self.as_world)
        self.version = 1
        """The processor's code that is deployed."""
        self.thieves: set[str] = set()
        self.foreign = ForeignRecords(self)
        self.runs: dict[Process, None] = {}
        """The runs at work."""
        self._run_ids = 0
        self.deployments: list[ApplicationDeployment] = []

    @property
    def processor(self) -> ProcessorSettings:
        return ProcessorSettings(
            name="processor",
            mode=ProcessorMode.APPLICATION,
            application="processing",
            callable="counting:Counting",
            records=self.drawn.call_records,
            on_error=OnProcessorError.RETRY if self.drawn.retries else OnProcessorError.HALT,
            failover=timedelta(seconds=20) if self.drawn.is_joined else None,
            leases=self.drawn.leases,
        )

    def settings(self, workers: tuple[str, ...]) -> Settings:
        own = application_settings(self.world.settings(workers), self.processor)
        streams = tuple(
            replace(
                stream,
                initial_position=self.drawn.position,
                timestamp=self.since if self.drawn.position is InitialPosition.AT_TIMESTAMP else None,
                on_data_loss=self.plan.on_data_loss,
                retrieval=Retrieval.POLLING,
            )
            for stream in own.streams
        )
        discovery = replace(
            own.discovery,
            initial_position=self.drawn.position,
            timestamp=self.since if self.drawn.position is InitialPosition.AT_TIMESTAMP else None,
            on_data_loss=self.plan.on_data_loss,
        )
        return replace(own, streams=streams, discovery=discovery)

    @property
    def since(self) -> datetime:
        """With AT_TIMESTAMP: when the first record arrived that the processor is to get, by Kinesis's clock."""
        return (self.world.start_of_time + timedelta(seconds=self.drawn.since)).replace(microsecond=0)

    # -- what happens ------------------------------------------------------------------------------------------------

    def start(self) -> None:
        hosts: list[Host] = self.world.hosts[:_HOSTS]
        self.deployments = [
            ApplicationDeployment(self, host, self.settings((f"a{number + 1}",)), [host])
            for number, host in enumerate(hosts)
        ]
        for deployment in self.deployments:
            self.sim.after(
                self.drawn.begins + self.rng.uniform(1.0, 20.0), partial(self._keep_up, deployment)
            )
        self.call_faults.are_on = True
        self._now_and_then(_STALE if self.plan.mix.stale else 0.0, self.leases.keep_stale_copy)
        self._now_and_then(self.drawn.kills, self._kill_a_run)
        self._now_and_then(_DEPLOYS if self.drawn.keeps else 0.0, self._deploy)
        self._now_and_then(self.drawn.steals, self._steal)
        self.sim.at(self.plan.fault_seconds, self._end)

    def learn(self) -> None:
        """Give each deployment the settings of now, each a little later than the others."""
        for deployment in self.deployments:
            self.sim.after(self.rng.uniform(0.0, 30.0), deployment.learn)

    @property
    def as_world(self) -> Any:
        return self

    def _keep_up(self, deployment: ApplicationDeployment) -> None:
        """Start the deployment whenever its host is there again."""
        deployment.start()
        self.sim.after(_STARTS_AGAIN, partial(self._keep_up, deployment))

    def _now_and_then(self, mean: float, act: Callable[[], None]) -> None:
        def happen() -> None:
            if not self.is_over:
                act()
                self.sim.after(self.rng.expovariate(1.0 / mean), happen)

        if mean:
            self.sim.after(self.rng.expovariate(1.0 / mean), happen)

    def _kill_a_run(self) -> None:
        if at_work := [process for process in self.runs if process.alive]:
            process = self.rng.choice(at_work)
            self.note("trouble", f"SIGKILL of {process}")
            self.sim.kill(process)

    def _deploy(self) -> None:
        self.version += 1

    def _steal(self) -> None:
        counts = {row.key: row.owner_switches for row in self.leases.rows.values()}
        Thief(self.as_world).steal()
        self.call_faults.happened["lease_taken"] += any(
            row.owner_switches != counts[row.key] for row in self.leases.rows.values()
        )

    def _end(self) -> None:
        self.call_faults.are_on, self.is_over = False, True

    # -- the end -----------------------------------------------------------------------------------------------------

    def unsettled(self) -> Iterator[tuple[str, str]]:
        living = {worker for d in self.deployments if d.is_up for worker in d.workers}
        if not living:
            return
        for shard in self.truth.shards.values():
            is_wanted = shard.key.stream.name not in self.truth.taken_out
            if is_wanted and self.truth.lives(shard.key.stream) and (why := self.watch.left_of(shard)):
                yield shard.key.shard_id, f"application: {why}"
        for row in self.leases.rows.values():
            stream = self.truth.stream_of(row)
            if stream is None or not self.truth.lives(stream) or row.stream_epoch != stream.epoch:
                yield (
                    row.key,
                    f"application: its row is of another life of the stream ({row.stream_epoch} of {stream})",
                )
            elif stream.name in self.truth.taken_out:
                yield (
                    row.key,
                    f"application: the settings don't name {stream.name} any more, and the row still exists",
                )
            if not row.has_ended and row.holder not in living:
                yield row.key, f"application: its row is held by {row.holder}, which is dead"

    # -- what a world has --------------------------------------------------------------------------------------------

    def a_run_id(self) -> str:
        self._run_ids += 1
        return f"app-run{self._run_ids}"

    def ensure_tables(self) -> bool:
        return False

    def client_version(self) -> None:
        """None: no worker of KCL has agreed on a version."""

    def require_reported(self, *_: Any, **__: Any) -> None:
        """Nothing: rows that aren't understood are judged where records are landed."""

    def count_read(self, _key: ShardKey) -> None:
        """Nothing: reads are counted where records are landed."""

    def as_listed(self, stream: StreamId, shards: tuple[Shard, ...]) -> tuple[Shard, ...]:
        from tests.simulation.world import World

        return World.as_listed(self.as_world, stream, shards)
