"""Two projects on one host, with streams of one name in two places that have the same account id, and one Spark server: each lands its own
records only. The server has the environment of the project that started it.
"""

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from headrace.pipeline.aws.clients.clients import dynamodb_client, kinesis_client
from headrace.pipeline.aws.leases.leases import DynamoLeaseStore
from headrace.pipeline.aws.leases.tables import DynamoTables
from headrace.pipeline.aws.reading.kinesis import KinesisSource
from headrace.pipeline.cli.beside.own_spark import spark_of_its_own
from headrace.pipeline.core.leases import change
from headrace.pipeline.core.shards.checkpoint import TRIM_HORIZON
from headrace.pipeline.core.shards.position import Positions
from headrace.pipeline.core.sharing.sync_plan import a_lease
from headrace.pipeline.demo.reading import the_table
from headrace.pipeline.lake.spark.server.joining import AUTHENTICATION
from headrace.pipeline.lake.spark.session import DISCOVERY
from headrace.pipeline.lake.table import plain_read as read
from headrace.pipeline.local.endpoint import LocalAws, local_aws
from headrace.pipeline.settings.blocks.aws import AwsSettings
from headrace.pipeline.settings.file import read_settings

ROOT = Path(__file__).parents[2]
SHARDS = 2


@dataclass
class Project:
    """A folder with settings that name no endpoint: it is in the environment, as are the keys."""

    folder: Path
    aws: LocalAws
    discovery: Path
    keys: list[str] = field(default_factory=list)
    more: dict[str, str] = field(default_factory=dict)
    """Further variables of its environment."""

    @property
    def name(self) -> str:
        return self.folder.name

    @property
    def environment(self) -> Mapping[str, str]:
        names = {"PATH", "HOME", "LANG", "JAVA_HOME", "TMPDIR", "SPARK_SUBMIT_OPTS", "COVERAGE_PROCESS_START"}
        plain = {name: value for name, value in os.environ.items() if name in names}
        own = {"AWS_ACCESS_KEY_ID": self.name, "PYTHONPATH": str(ROOT), DISCOVERY: str(self.discovery)}
        return {**plain, **self.aws.environment, **own, **self.more}

    def begin(self, records: int) -> None:
        """What the leader would have made, and records of this project."""
        aws = AwsSettings(region=self.aws.region, endpoint=self.aws.endpoint)
        dynamodb = dynamodb_client(aws)
        kinesis_client(aws).create_stream(StreamName="clicks", ShardCount=SHARDS)
        self.put(records)
        self.folder.mkdir()
        self.write_settings()
        settings = read_settings(str(self.folder / "headrace.yaml"), {}).settings
        DynamoTables(dynamodb, settings).create()
        the_table(self.folder / "lake").ensure(create=True)
        source = KinesisSource(kinesis_client(aws))
        stream = source.describe("clicks").stream
        for shard in source.list_shards(stream):
            row = a_lease(
                stream, shard, multi=False, positions=Positions(), sentinel=TRIM_HORIZON, owner=None
            )
            DynamoLeaseStore(dynamodb, settings.lease_table).apply(change.create(row, "for the test"))
            self.keys.append(shard.shard_id)

    def write_settings(self, *lines: str) -> None:
        text = ("application: shop", "streams: [{name: clicks}]", "landing: {home: lake}", *lines)
        (self.folder / "headrace.yaml").write_text("\n".join(text), encoding="utf-8")

    def put(self, records: int) -> None:
        kinesis = kinesis_client(AwsSettings(region=self.aws.region, endpoint=self.aws.endpoint))
        for n in range(records):
            kinesis.put_record(StreamName="clicks", Data=f"{self.name}-{n}".encode(), PartitionKey=f"k{n}")

    def use_remote(self, discovery: Path) -> None:
        """Name the server of another project as a remote one."""
        server = json.loads(discovery.read_text(encoding="utf-8"))
        self.write_settings(f"workers: [{{id: w1, spark: {{remote: 'sc://localhost:{server['port']}'}}}}]")
        self.more[AUTHENTICATION] = server["token"]

    def run(self, *arguments: str) -> str:
        done = subprocess.run(
            [sys.executable, "-P", "-m", "headrace.pipeline.cli", *arguments],
            cwd=self.folder,
            env=dict(self.environment),
            capture_output=True,
            text=True,
            check=False,
            timeout=300,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def consume(self) -> str:
        return self.run("consume", "--shard", *self.keys)

    def landed(self) -> list[bytes]:
        return sorted(row["data"] for row in read.rows(the_table(self.folder / "lake"), ["data"]).to_pylist())


@pytest.fixture
def projects(tmp_path: Path) -> Iterator[tuple[Project, Project]]:
    with ExitStack() as stack:
        served = [stack.enter_context(local_aws("--transition", "0")) for _ in range(2)]
        stack.enter_context(spark_of_its_own(tmp_path))
        discovery = Path(os.environ[DISCOVERY])
        first, second = (
            Project(tmp_path / name, aws, discovery) for name, aws in zip("ab", served, strict=True)
        )
        yield first, second


def test_a_project_lands_its_own_records_on_a_spark_server_that_another_project_has_started(
    projects: tuple[Project, Project],
):
    first, second = projects
    first.begin(30)
    second.begin(10)
    first.consume()
    assert first.landed() == sorted(b"a-%d" % n for n in range(30))
    server = first.discovery.read_bytes()

    second.consume()
    assert second.landed() == sorted(b"b-%d" % n for n in range(10))
    assert first.discovery.read_bytes() == server, "the second project has joined the server of the first one"
    assert "proved: 10 records of 2 shards" in second.run("prove")

    second.use_remote(first.discovery)
    second.put(5)
    second.consume()
    assert second.landed() == sorted([b"b-%d" % n for n in range(10)] + [b"b-%d" % n for n in range(5)])
