"""Projects side by side on one host, as two teams or a staging and a production account have them: each has a stand-in of AWS of its own,
which only its environment names, and all names in it are the same."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from headrace.pipeline.aws.leases.leases import DynamoLeaseStore
from headrace.pipeline.aws.leases.tables import DynamoTables
from headrace.pipeline.aws.reading.kinesis import KinesisSource
from headrace.pipeline.core.leases import change
from headrace.pipeline.core.shards.checkpoint import TRIM_HORIZON
from headrace.pipeline.core.shards.position import Positions
from headrace.pipeline.core.sharing.sync_plan import a_lease
from headrace.pipeline.demo.reading import the_table
from headrace.pipeline.lake.spark.server.facts import LocalServer, servers_of_user
from headrace.pipeline.lake.spark.server.process import end
from headrace.pipeline.lake.spark.session import DISCOVERY
from headrace.pipeline.lake.table.plain_read import rows
from headrace.pipeline.local.endpoint import LocalAws, local_aws
from headrace.pipeline.settings.file import read_settings
from tests.e2e.app import ROOT, keys
from tests.ports import free_port

NAME = "shop"
"""The application and the stream of each project."""
SHARDS = 2
TYPED = "lake.typed"


@dataclass
class Project:
    """Ids of records begin with the project's name, so that a record of the other project is seen."""

    name: str
    folder: Path
    aws: LocalAws
    temporary: Path
    """The folder for temporary files, in which the project's processes find their Spark server."""
    put: list[str] = field(default_factory=list)
    dagster: "list[subprocess.Popen[bytes]]" = field(default_factory=list)

    def __post_init__(self) -> None:
        self.folder.mkdir()
        self.config.write_text(yaml.safe_dump(self._document()))
        self.dagster_home.mkdir()
        (self.dagster_home / "dagster.yaml").write_text((ROOT / "dagster.yaml").read_text())
        self.aws.client("kinesis").create_stream(StreamName=NAME, ShardCount=SHARDS)

    @property
    def config(self) -> Path:
        return self.folder / "headrace.yaml"

    @property
    def dagster_home(self) -> Path:
        return self.folder / ".dagster"

    def _document(self) -> dict[str, Any]:
        times = {
            "worker_tick": "2s",
            "leader_tick": "2s",
            "lease_duration": "15s",
            "launch_grace": "60s",
            "linger": "5s",
        }
        return {
            "application": NAME,
            "streams": [{"name": NAME}],
            "landing": {"home": "lake"},
            "parse": [{"name": "typed", "table": TYPED, "schema": "id STRING"}],
            "wave": {"every": "1s"},
            "times": times,
        }

    @property
    def environment(self) -> dict[str, str]:
        """That of the project's shell: its own AWS, and nothing that names a Spark server."""
        usual = {name: value for name, value in os.environ.items() if name != DISCOVERY}
        own = {"HEADRACE_CONFIG": str(self.config), "DAGSTER_HOME": str(self.dagster_home)}
        return {
            **usual,
            **self.aws.environment,
            **own,
            "TMPDIR": str(self.temporary),
            "PYTHONPATH": str(ROOT),
            "DAGSTER_DISABLE_TELEMETRY": "yes",
        }

    def make_leases(self) -> None:
        """The tables and lease rows that a leader would have made."""
        settings = read_settings(str(self.config), {}).settings
        dynamodb, source = self.aws.client("dynamodb"), KinesisSource(self.aws.client("kinesis"))
        DynamoTables(dynamodb, settings).create()
        self.table.ensure(create=True)
        stream = source.describe(NAME).stream
        for shard in source.list_shards(stream):
            row = a_lease(
                stream, shard, multi=False, positions=Positions(), sentinel=TRIM_HORIZON, owner=None
            )
            DynamoLeaseStore(dynamodb, settings.lease_table).apply(change.create(row, "for the test"))

    def produce(self, count: int) -> None:
        new = [f"{self.name}-{len(self.put) + number}" for number in range(count)]
        records = [{"Data": json.dumps({"id": name}).encode(), "PartitionKey": name} for name in new]
        assert (
            self.aws.client("kinesis").put_records(StreamName=NAME, Records=records)["FailedRecordCount"] == 0
        )
        self.put += new

    # -- commands ------------------------------------------------------------------------------------------------

    def headrace(self, *words: str, code: int = 0) -> str:
        """What a command prints, which must end with this exit code."""
        done = subprocess.run(
            [sys.executable, "-P", "-m", "headrace.pipeline.cli", *words],
            cwd=self.folder,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            timeout=300,
        )
        assert done.returncode == code, f"{self.name}: headrace {' '.join(words)}: {done.stdout}{done.stderr}"
        return done.stdout

    def consume(self) -> None:
        self.headrace("consume", "--shard", *keys(range(SHARDS)))

    @contextmanager
    def headrace_dev(self) -> "Iterator[subprocess.Popen[bytes]]":
        with self._started("-m", "headrace.pipeline.cli", "dev", "--port", str(free_port())) as process:
            yield process

    @contextmanager
    def dagster_dev(self) -> "Iterator[subprocess.Popen[bytes]]":
        module = ("-m", "headrace.pipeline.definitions")
        with self._started("-m", "dagster", "dev", *module, "-p", str(free_port())) as process:
            yield process

    @contextmanager
    def _started(self, *words: str) -> "Iterator[subprocess.Popen[bytes]]":
        with (
            (self.folder / "dev.log").open("ab") as log,
            subprocess.Popen(
                [sys.executable, "-P", *words],
                cwd=self.folder,
                env=self.environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            ) as process,
        ):
            self.dagster.append(process)
            try:
                yield process
            finally:
                self.dagster.remove(process)
                self._stop(process)

    def _stop(self, process: "subprocess.Popen[bytes]") -> None:
        process.send_signal(signal.SIGINT)
        with suppress(subprocess.TimeoutExpired):
            process.wait(120)
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)

    @contextmanager
    def user_of_the_server(self) -> "Iterator[subprocess.Popen[str]]":
        """A process that has a session on the project's server, as a command that works for long."""
        program = (
            "import signal, warnings; warnings.simplefilter('ignore')\n"
            "from headrace.pipeline.lake.spark.session import spark_session\n"
            "from headrace.pipeline.settings.model import SparkSettings\n"
            "session = spark_session(SparkSettings(), 'a command'); print(session.range(3).count(), flush=True); signal.pause()"
        )
        with subprocess.Popen(
            [sys.executable, "-P", "-c", program],
            cwd=self.folder,
            env=self.environment,
            stdout=subprocess.PIPE,
            text=True,
        ) as process:
            try:
                assert process.stdout is not None
                assert process.stdout.readline() == "3\n"
                yield process
            finally:
                process.kill()

    def _died(self) -> bool:
        return any(process.poll() is not None for process in self.dagster)

    def log(self) -> str:
        return (self.folder / "dev.log").read_text(errors="replace")

    # -- what is there -------------------------------------------------------------------------------------------

    @property
    def table(self) -> Any:
        return the_table(self.folder / "lake")

    def landed(self) -> list[str]:
        """The ids of the landed records, sorted."""
        return sorted(
            json.loads(data or b"")["id"] for data in rows(self.table, ["data"])["data"].to_pylist()
        )

    def parsed(self) -> list[str]:
        ids = self.table.catalog.load_table(TYPED).scan().to_arrow()["id"].to_pylist()
        return sorted(ids)

    def has_landed_all(self) -> bool:
        assert not self._died(), self.log()
        return self.table.catalog.table_exists("lake.records") and len(self.landed()) >= len(self.put)

    def servers(self) -> list[LocalServer]:
        """The Spark servers of this project."""
        return [
            server for server in servers_of_user() if server.key and server.key.settings == str(self.config)
        ]

    def check(self) -> None:
        assert self.landed() == sorted(self.put), f"{self.name} has its own records once"


@contextmanager
def two_projects(folder: Path) -> Iterator[tuple[Project, Project]]:
    """Their stand-ins have one account, as those of any two people: AWS itself would refuse the other account's stream."""
    temporary = folder / "t"
    temporary.mkdir()
    with local_aws("--transition", "0") as one, local_aws("--transition", "0") as other:
        projects = (
            Project("a", folder / "a", one, temporary),
            Project("b", folder / "b", other, temporary),
        )
        try:
            yield projects
        finally:
            for server in (server for project in projects for server in project.servers()):
                assert server.process.folder is not None
                end(server.process.folder)
