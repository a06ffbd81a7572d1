"""The product's own definitions on a real Dagster instance, with everything behind the ports in memory.

`tests/duties/world.py` has the stream, the tables and the lake; here Dagster drives them.
"""

import itertools
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from functools import cached_property
from typing import Any

import dagster as dg

from headrace.assets.names import partitions_name, records_key
from headrace.pipeline.clock import SystemClock, SystemIds, thread_timer
from headrace.pipeline.duties.waves.report import OnStep
from headrace.pipeline.ports.base import Timer
from headrace.pipeline.ports.described_table import TableDescription
from headrace.pipeline.ports.usage import ProcessUsage
from headrace.pipeline.settings.choices import Create
from headrace.pipeline.settings.model import Settings, TimeSettings
from headrace.sensors.results import state_of_cursor
from tests.dagster.partition_status import partition_statuses
from tests.duties.world import World
from tests.memory.clock import MemoryClock

_NUMBERS = itertools.count(1)
AN_HOUR = timedelta(hours=1)

TIMES = TimeSettings(
    # A look adds at most one and a half ticks of credit. With ticks this long `later` can let any time pass at once.
    worker_tick=AN_HOUR,
    leader_tick=AN_HOUR,
    launch_grace=timedelta(0),
    idle=timedelta(milliseconds=200),
    probe=timedelta(0),
    shard_sync=timedelta(0),
    assignment=timedelta(0),
)


@dataclass
class Ports:
    """The ports of the small world, with the host's clock, which Dagster uses too."""

    world: World
    clock: SystemClock = field(default_factory=SystemClock)
    ids: SystemIds = field(default_factory=SystemIds)
    timer: Timer = thread_timer

    def close(self) -> None: ...

    def spending(self) -> Callable[[], ProcessUsage]:
        return ProcessUsage

    def leases(self) -> Any:
        return self.world.leases

    def workers(self) -> Any:
        return self.world.rows

    def lock(self) -> Any:
        return self.world.lock

    def tables(self) -> Any:
        return self.world.tables

    def source(self, _user: str) -> Any:
        return self.world.source

    def pages(self) -> Any:
        return None

    def consumers(self, _stream: str) -> Any:
        return self.world.consumers

    def table(self, _writer: str) -> Any:
        return self.world.table

    def table_facts(self, name: str) -> TableDescription | None:
        if name != self.world.settings.landing.table:
            return None
        return TableDescription(
            name=name, location="memory://lake/orders", rows=len(self.world.landed()), files=1, bytes=1200
        )

    def files(self, _user: str) -> Any:
        return self.world.files

    def lineage_files(self, _user: str) -> Any:
        return self.world.lineage_files

    def live(self, _writer: str) -> Any:
        return self.world.live

    def rewriter(self) -> Any:
        return self.world.rewriter

    def proof(self) -> Any:
        raise AssertionError("the memory table has no Parquet files that a proof could read")

    def other_side(self, _rows: Any, *, files: Any, table: Any) -> Any:
        raise AssertionError(f"nothing is compared with {files or table} here")

    def proved_tables(self) -> Any:
        raise AssertionError("no target is parsed here")

    def parsing(self, _target: Any, _run: str) -> Any:
        raise AssertionError("no target is parsed here")

    def processing(self, _processor: Any, _run: str) -> Any:
        raise AssertionError("no processor works here")

    def windows(self) -> Any:
        raise AssertionError("no window is kept here")

    def replaying(self, _window: str, _run: str) -> Any:
        raise AssertionError("no window is copied here")

    def unpacking(self, _window: str) -> Any:
        raise AssertionError("no aggregate is taken apart here")

    def lineage(self, _writer: str) -> Any:
        return self.world.lineage

    def stage(self, _worker: str) -> Any:
        return self.world.stage

    def session(self, worker: str) -> Any:
        return f"the Spark of {worker}"


@dataclass(kw_only=True)
class DagsterWorld:
    """One deployment: its Dagster instance, its definitions, and the cursors that Dagster would keep."""

    instance: dg.DagsterInstance
    workers: tuple[str, ...] = ("w1",)
    shards: int = 2
    more_streams: tuple[str, ...] = ()
    wave_records: int = 1_000_000
    times: TimeSettings = TIMES
    create: Create = Create.AUTO
    on_step: OnStep | None = None
    cursors: dict[str, str | None] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.world = World(
            workers=self.workers,
            shards=self.shards,
            more_streams=self.more_streams,
            wave_records=self.wave_records,
            clock=MemoryClock(datetime.now(UTC)),
        )
        self.settings: Settings = replace(
            self.world.settings,
            application=f"memory{next(_NUMBERS)}",
            times=self.times,
            coordination=replace(self.world.settings.coordination, create=self.create),
            wave=replace(self.world.settings.wave, every=timedelta(milliseconds=50)),
        )
        self.world.settings = self.settings
        self.ports = Ports(self.world)

    @cached_property
    def defs(self) -> dg.Definitions:
        from headrace.pipeline.building import build_definitions

        return build_definitions(self.settings, on_step=self.on_step, ports=self.ports)

    @property
    def job(self) -> dg.JobDefinition:
        return self.defs.resolve_job_def(f"{self.settings.application}_consume")

    @property
    def records(self) -> dg.AssetKey:
        return records_key(self.settings)

    # -- sensors -------------------------------------------------------------------------------------------------

    def tick(self, sensor: str, *, instance: dg.DagsterInstance | None = None) -> dg.SensorResult:
        """`sensor`: the sensor's name after the application's, such as `leader` or `worker_w1`."""
        instance = instance or self.instance
        slot = f"{id(instance)}/{sensor}"
        context = dg.build_sensor_context(
            instance=instance,
            cursor=self.cursors.get(slot),
        )
        result = self.defs.get_repository_def().get_sensor_def(f"{self.settings.application}_{sensor}")(
            context
        )
        assert isinstance(result, dg.SensorResult)
        self.cursors[slot] = result.cursor
        for request in result.dynamic_partitions_requests or ():
            assert isinstance(request, dg.AddDynamicPartitionsRequest)
            instance.add_dynamic_partitions(request.partitions_def_name, request.partition_keys)
        return result

    def later(self, by: timedelta) -> None:
        """Let time pass: every sensor's last look was longer ago."""
        for slot, text in self.cursors.items():
            said = json.loads(state_of_cursor(text) or "{}")
            for name in ("look", "probe", "sync", "assign"):
                if name in said:
                    said[name] -= by.total_seconds()
            self.cursors[slot] = json.dumps(said)

    def settle(self) -> None:
        """Tick until the leases are made and assigned."""
        for _ in range(3):
            self.tick("leader")
            for worker in self.workers:
                self.tick(f"worker_{worker}")

    def asked(self, worker: str = "w1") -> dg.RunRequest | None:
        """The run that a tick of this worker's sensor asks for; None if it asks for none."""
        requests = self.tick(f"worker_{worker}").run_requests or ()
        assert len(requests) <= 1
        return requests[0] if requests else None

    # -- runs ----------------------------------------------------------------------------------------------------

    def read(self, worker: str = "w1") -> dg.ExecuteInProcessResult:
        """Execute the run that the worker's sensor asks for."""
        request = self.asked(worker)
        assert request is not None
        return self.execute(request.run_config, tags=dict(request.tags))

    def execute(
        self, config: Any = None, *, tags: Any = None, partition: str | None = None
    ) -> dg.ExecuteInProcessResult:
        return self.job.execute_in_process(
            instance=self.instance,
            run_config=config,
            tags=tags,
            partition_key=partition,
            raise_on_error=False,
        )

    def config(self, **fields: Any) -> dict[str, Any]:
        """The run's configuration with these fields."""
        return {"ops": {"__".join(self.records.path): {"config": fields}}}

    # -- what Dagster shows --------------------------------------------------------------------------------------

    def statuses(self) -> dict[str, list[str]]:
        partitions = dg.DynamicPartitionsDefinition(name=partitions_name(self.settings))
        return partition_statuses(self.instance, partitions, self.records)

    def known(self) -> Sequence[str]:
        """The partition keys that Dagster knows."""
        return self.instance.get_dynamic_partitions(partitions_name(self.settings))

    def materializations(self, partition: str) -> list[dg.AssetMaterialization]:
        """The materializations, oldest first."""
        wanted = dg.AssetRecordsFilter(self.records, asset_partitions=[partition])
        found = self.instance.fetch_materializations(wanted, limit=100).records
        return [each.asset_materialization for each in found if each.asset_materialization][::-1]


def why_failed(result: dg.ExecuteInProcessResult) -> str:
    """The message of the run's failure."""
    assert not result.success
    (data,) = (event.step_failure_data for event in result.all_events if event.is_step_failure)
    assert data.user_failure_data is not None
    return data.user_failure_data.description or ""


def key(shard: int) -> str:
    return f"shardId-{shard:012d}"


def keys(*shards: int) -> list[str]:
    return [key(shard) for shard in shards]
