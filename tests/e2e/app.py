"""One application with a stream of its own on the stand-in, a DAGSTER_HOME and a lake table, driven as Dagster
drives it."""

import json
import subprocess
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import dagster as dg
import yaml

from headrace.assets.names import slug
from headrace.pipeline.app.adapters import Adapters
from headrace.pipeline.core.leases.lease import Lease
from headrace.pipeline.core.leases.worker import Worker
from headrace.pipeline.core.ledger.ledger import Kind, Range
from headrace.pipeline.core.shards.stream import ShardKey
from headrace.pipeline.lake.table.lake_table import IcebergTable
from headrace.pipeline.lake.table.plain_read import ledger, rows
from headrace.pipeline.local.endpoint import LocalAws
from headrace.pipeline.settings.file import read_settings
from headrace.pipeline.settings.model import Settings
from headrace.resources.runs import worker_tag
from tests.dagster.partition_status import partition_statuses
from tests.e2e.processes import CUT, Cuts, Processes
from tests.eventually import eventually
from tests.killed import KILLED

ROOT = Path(__file__).parents[2]
_HASHES = 2**128

TIMES = {
    "worker_tick": "1s",
    "leader_tick": "1s",
    "lease_duration": "3s",
    "launch_grace": "1s",
    "linger": "3s",
    "idle": "10ms",
    "probe": "10ms",
    "shard_sync": "10ms",
    "assignment": "10ms",
    "materialize": "10ms",
}
"""Short times, so that a death is noticed within a test. Their proportions are as in production."""


@dataclass(kw_only=True)
class App:
    """One application whose sensors tick in this process and whose runs are started here or in processes."""

    name: str
    home: Path
    aws: LocalAws
    shards: int = 2
    workers: tuple[str, ...] = ("w1",)
    spark: Mapping[str, Any] = field(default_factory=dict)
    times: Mapping[str, str] = field(default_factory=dict)
    wave: Mapping[str, Any] = field(default_factory=dict)
    stream: Mapping[str, Any] = field(default_factory=dict)
    landing: Mapping[str, Any] = field(default_factory=dict)
    more: Mapping[str, Any] = field(default_factory=dict)
    """More lines of the settings file."""
    put: list[str] = field(default_factory=list)
    cursors: dict[str, str | None] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.kinesis = self.aws.client("kinesis")
        self.kinesis.create_stream(StreamName=self.name, ShardCount=self.shards)
        self.config = self.home / "headrace.yaml"
        self.config.write_text(yaml.safe_dump(self._document()))
        self.cuts = Cuts(self.home / "cut")
        self.cuts.folder.mkdir()
        self.dagster_home = self.home / "dagster"
        self.dagster_home.mkdir()
        (self.dagster_home / "dagster.yaml").write_text((ROOT / "dagster.yaml").read_text())
        self.settings: Settings = read_settings(self.config, {}).settings
        self.processes = Processes(self.home, self.variables())

    def _document(self) -> dict[str, Any]:
        return {
            "application": self.name,
            "streams": [{"name": self.name, **self.stream}],
            "workers": [
                {"id": worker, **({"spark": dict(self.spark)} if self.spark else {})}
                for worker in self.workers
            ],
            "landing": {"home": str(self.home / "lake"), **self.landing},
            "aws": {"region": self.aws.region, "endpoint": self.aws.endpoint},
            "times": {**TIMES, **self.times},
            "wave": {"every": "100ms", **self.wave},
            **self.more,
        }

    def close(self) -> None:
        """End all processes that the test started."""
        self.processes.close()
        if "instance" in self.__dict__:
            self.instance.dispose()

    # -- the stream ----------------------------------------------------------------------------------------------

    def produce(
        self, count: int = 40, *, within: tuple[float, float] = (0.0, 1.0), stream: str | None = None
    ) -> None:
        """Put numbered records, evenly spread over the hash keys or a part of them."""
        new = [f"{self.name}-{len(self.put) + n}" for n in range(count)]
        low, high = (int(share * _HASHES) for share in within)
        records = [
            {
                "Data": each.encode(),
                "PartitionKey": each,
                "ExplicitHashKey": str(low + (high - low) * n // count),
            }
            for n, each in enumerate(new)
        ]
        answer = self.kinesis.put_records(StreamName=stream or self.name, Records=records)
        assert answer["FailedRecordCount"] == 0
        self.put += new

    def split(self, shard: int, *, stream: str | None = None) -> None:
        start = shard * (_HASHES // self.shards)
        middle = start + _HASHES // self.shards // 2
        self.kinesis.split_shard(
            StreamName=stream or self.name, ShardToSplit=key(shard), NewStartingHashKey=str(middle)
        )

    # -- Dagster in this process ---------------------------------------------------------------------------------

    @cached_property
    def instance(self) -> dg.DagsterInstance:
        return dg.DagsterInstance.from_config(str(self.dagster_home))

    @cached_property
    def defs(self) -> dg.Definitions:
        from headrace.pipeline.building import build_definitions

        return build_definitions(self.settings)

    def reload(self) -> None:
        """Do what a reload of the code location in Dagster's UI does: the cursors stay, and the memory of the
        process is gone."""
        del self.defs

    @property
    def job(self) -> dg.JobDefinition:
        return self.defs.resolve_job_def(self.job_name)

    @property
    def job_name(self) -> str:
        return f"{slug(self.name)}_consume"

    @property
    def records(self) -> dg.AssetKey:
        return dg.AssetKey([slug(self.name), "records"])

    @property
    def partitions(self) -> str:
        return f"{self.name}_shards"

    def tick(self, sensor: str) -> dg.SensorResult:
        """Tick as the daemon does: the cursor is kept, and partitions are added. `sensor`: its name after the application's."""
        context = dg.build_sensor_context(instance=self.instance, cursor=self.cursors.get(sensor))
        result = self.defs.get_repository_def().get_sensor_def(f"{slug(self.name)}_{sensor}")(context)
        assert isinstance(result, dg.SensorResult)
        self.cursors[sensor] = result.cursor
        for request in result.dynamic_partitions_requests or ():
            assert isinstance(request, dg.AddDynamicPartitionsRequest)
            self.instance.add_dynamic_partitions(request.partitions_def_name, request.partition_keys)
        return result

    def asked(self, worker: str = "w1") -> dg.RunRequest | None:
        """The run that a tick of this worker's sensor asks for."""
        requests = self.tick(f"worker_{worker}").run_requests or ()
        return requests[0] if requests else None

    def settle(self) -> None:
        """Tick until the tables, the leases with their owners, and the partitions exist."""

        def settled() -> bool:
            self.tick("leader")
            for worker in self.workers:
                self.tick(f"worker_{worker}")
            found = self.leases.scan().leases
            return bool(found) and all(row.owner for row in found)

        eventually(settled, "each lease has an owner", every=0.01)

    def read(self, worker: str = "w1") -> dg.ExecuteInProcessResult:
        """The next run that the worker's sensor asks for."""
        request = eventually(lambda: self.asked(worker), f"{worker} asks for a run")
        return self.execute(request)

    def execute(self, request: dg.RunRequest) -> dg.ExecuteInProcessResult:
        return self.job.execute_in_process(
            instance=self.instance,
            run_config=request.run_config,
            tags=dict(request.tags),
            raise_on_error=False,
        )

    def materialize(self, partition: str, **config: Any) -> dg.ExecuteInProcessResult:
        """Materialize one partition, as Dagster's UI does."""
        return self.job.execute_in_process(
            instance=self.instance, partition_key=partition, run_config=config, raise_on_error=False
        )

    def read_all(self) -> None:
        """Start one run after another, until every record that was put has landed."""

        def landed_all() -> bool:
            self.tick("leader")
            for worker in self.workers:
                if (request := self.asked(worker)) is not None:
                    assert self.execute(request).success
            return set(self.landed()) >= set(self.put)

        eventually(landed_all, "every record that was put has landed")

    # -- Dagster in processes of its own -------------------------------------------------------------------------

    def variables(self) -> dict[str, str]:
        """The environment of a process that works for this application."""
        return {
            "HEADRACE_CONFIG": str(self.config),
            "DAGSTER_HOME": str(self.dagster_home),
            "DAGSTER_DISABLE_TELEMETRY": "yes",
            CUT: str(self.cuts.folder),
            "PYTHONPATH": str(ROOT),
        }

    def start_daemon(self) -> subprocess.Popen[str]:
        """Start Dagster's daemon on the definitions that `Cuts` can stop.

        The test opens the Dagster instance first: two processes that create Dagster's tables in the same SQLite file
        at the same time fail with "table already exists".
        """
        _ = self.instance
        return self.processes.start("run", "-m", "tests.e2e.cut_definitions", program="dagster-daemon")

    def start_run(self, request: dg.RunRequest) -> subprocess.Popen[str]:
        """Start the requested run in a process of its own that stops or dies at the steps which `Cuts` names."""
        return self.start_job(self.job_name, request.run_config, request.tags)

    def start_job(
        self, job: str, run_config: Mapping[str, Any], tags: Mapping[str, str]
    ) -> subprocess.Popen[str]:
        """Start a run of any job in such a process."""
        config = self.home / "run.yaml"
        config.write_text(yaml.safe_dump(dict(run_config)))
        module = ("-m", "tests.e2e.cut_definitions")
        return self.processes.start(
            "job", "execute", *module, "-j", job, "-c", str(config), "--tags", json.dumps(dict(tags))
        )

    def killed_run(self, arrow: str, worker: str = "w1") -> dg.DagsterRun:
        """A run that died by SIGKILL at this step, as Dagster knows it."""
        request = eventually(lambda: self.asked(worker), f"{worker} asks for a run")
        self.cuts.kill(arrow)
        with self.start_run(request) as process:
            code = process.wait(120)
        assert code == KILLED, self.processes.logs()
        self.cuts.await_killed()
        return self.latest_run(worker)

    def latest_run(self, worker: str = "w1") -> dg.DagsterRun:
        return self.instance.get_runs(dg.RunsFilter(tags=worker_tag(self.name, worker)), limit=1)[0]

    # -- what the tables and Dagster hold ----------------------------------------------------------------------------

    @cached_property
    def _ports(self) -> Adapters:
        """The adapters of the test, made once: making a client takes a tenth of a second of CPU time that the
        tested processes need."""
        return Adapters(self.settings)

    @property
    def leases(self) -> Any:
        return self._ports.leases()

    def lease(self, shard: int) -> Lease:
        found = self.leases.get(key(shard))
        assert isinstance(found, Lease)
        return found

    def worker(self, worker: str = "w1") -> Worker:
        found = self._ports.workers().get(worker)
        assert found is not None
        return found

    @property
    def table(self) -> IcebergTable:
        return self._ports.table("test")

    def landed(self) -> list[str]:
        return [bytes(each or b"").decode() for each in rows(self.table, ["data"])["data"].to_pylist()]

    def ranges(self) -> list[Range]:
        return [each for entry in ledger(self.table) for each in entry.page.ranges]

    def snapshots(self) -> set[int]:
        return {entry.snapshot for entry in ledger(self.table)}

    def check(self) -> None:
        """Check that each record that was put has landed once (I1), and that each shard's ranges form one chain
        (I4)."""
        counts = Counter(self.landed())
        assert {each: n for each, n in counts.items() if n > 1} == {}, "records landed more than once"
        assert set(counts) == set(self.put)
        at: dict[ShardKey, object] = {}
        for each in self.ranges():
            assert each.kind is Kind.LANDED
            assert at.get(each.key) == (each.after.token if each.after else None)
            at[each.key] = each.upto.token
        for row in self.leases.scan().leases:
            stream = next(k.stream for k in at if row.stream in {None, k.stream.serialized})
            stands = at.get(ShardKey(stream, row.shard_id))
            assert stands is not None or not row.checkpoint.is_digits

    def statuses(self) -> dict[str, list[str]]:
        return partition_statuses(
            self.instance, dg.DynamicPartitionsDefinition(name=self.partitions), self.records
        )

    def materializations(self, partition: str) -> Sequence[dg.AssetMaterialization]:
        """The materializations, newest first."""
        wanted = dg.AssetRecordsFilter(self.records, asset_partitions=[partition])
        found = self.instance.fetch_materializations(wanted, limit=100).records
        return [each.asset_materialization for each in found if each.asset_materialization is not None]


def key(shard: int) -> str:
    return f"shardId-{shard:012d}"


def keys(shards: Iterable[int]) -> list[str]:
    return [key(shard) for shard in shards]
