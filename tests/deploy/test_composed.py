"""The services of Compose as processes of this host: their commands, settings, workspace and instance are those in `deploy`. Only ports and
folders are the test's own, because a container has its own and processes of one host don't."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal
from urllib.error import URLError
from urllib.request import Request, urlopen

import boto3
import pytest
import yaml
from botocore.exceptions import EndpointConnectionError
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.exceptions import NoSuchTableError
from sqlalchemy.exc import OperationalError

from headrace.pipeline.lake.spark.session import DISCOVERY
from tests.e2e.dagster_postgres import installed_or_skip
from tests.e2e.processes import Processes
from tests.engines.servers import Postgres, postgres
from tests.eventually import eventually
from tests.ports import free_port

__all__ = ["postgres"]

pytestmark = pytest.mark.slow

DEPLOY = Path(__file__).parents[2] / "deploy"
SERVICES = yaml.safe_load((DEPLOY / "compose.yaml").read_text())["services"]
PATIENCE = 600.0
"""In seconds: four processes of Dagster and a Spark start one after the other, on a machine that may be busy."""
_STOP_SPARK = "from headrace.pipeline.lake.spark.session import stop_local_server; stop_local_server()"
_LOCATIONS = "{workspaceOrError {... on Workspace {locationEntries {name loadStatus locationOrLoadError {__typename}}}}}"


@dataclass(frozen=True)
class Composed:
    """The services and where this host has what a container has in its own folders and under its own name."""

    processes: Processes
    places: dict[str, str]

    def start(self, service: str) -> subprocess.Popen[str]:
        program, *words = self.command(service)
        return self.processes.start(*words, program=program)

    def command(self, service: str) -> list[str]:
        """That of Compose, or of the image where Compose has none."""
        words = SERVICES[service].get("command") or _command_of_the_image()
        return [self._here(word) for word in words]

    def is_healthy(self, service: str) -> bool:
        """Whether Compose's health check of the service succeeds."""
        program, *words = (self._here(word) for word in SERVICES[service]["healthcheck"]["test"][1:])
        check = (str(Path(sys.executable).with_name(program)), *words)
        environment = {**os.environ, **self.processes.variables}
        return subprocess.run(check, env=environment, capture_output=True, check=False).returncode == 0

    def write(self, file: str, into: Path) -> None:
        into.write_text(self._here((DEPLOY / file).read_text()))

    def _here(self, text: str) -> str:
        for there, here in self.places.items():
            text = re.sub(rf"{re.escape(there)}(?![\w])", here, text)
        return text

    @property
    def ui(self) -> str:
        return f"http://127.0.0.1:{self.places['3000']}"

    def aws(self, service: Literal["kinesis", "dynamodb"]) -> Any:
        clients: Any = boto3
        return clients.client(
            service,
            region_name="eu-west-1",
            endpoint_url=f"http://127.0.0.1:{self.places['4567']}",
            aws_access_key_id="local",
            aws_secret_access_key="local",
        )

    def landed(self) -> list[bytes]:
        lake = Path(self.places["/data"]) / "lake"
        if not (lake / "catalog.db").exists():
            return []
        catalog = SqlCatalog(
            "headrace", uri=f"sqlite:///{lake / 'catalog.db'}", warehouse=str(lake / "warehouse")
        )
        try:
            rows = catalog.load_table("lake.orders").scan(selected_fields=("data",)).to_arrow()
        except (NoSuchTableError, OperationalError):
            return []
        finally:
            catalog.engine.dispose()
        return [bytes(each or b"") for each in rows["data"].to_pylist()]


def _command_of_the_image() -> list[str]:
    words: list[str] = json.loads((DEPLOY / "Dockerfile").read_text().rpartition("CMD ")[2])
    return words


@pytest.fixture
def composed(postgres: Postgres, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Composed]:
    for name in [name for name in os.environ if name.startswith(("AWS_", "HEADRACE_", "DAGSTER_"))]:
        monkeypatch.delenv(name)
    instance, data, settings = tmp_path / "dagster", tmp_path / "data", tmp_path / "headrace.yaml"
    instance.mkdir()
    data.mkdir()
    places = {str(port): str(free_port()) for port in (3000, 4000, 4567)}
    places |= {
        "/opt/dagster": str(instance),
        "/data": str(data),
        "host: code": "host: 127.0.0.1",
        "0.0.0.0": "127.0.0.1",
    }
    variables = {
        "PYTHONPATH": str(installed_or_skip(tmp_path / "storage")),
        "DAGSTER_HOME": str(instance),
        "DAGSTER_DISABLE_TELEMETRY": "yes",
        "DAGSTER_POSTGRES_URL": postgres.uri(postgres.new_database()),
        "HEADRACE_CONFIG": str(settings),
        "AWS_ACCESS_KEY_ID": "local",
        "AWS_SECRET_ACCESS_KEY": "local",
        DISCOVERY: str(tmp_path / "spark" / "connect.json"),
    }
    services = Composed(Processes(data, variables), places)
    for file, place in (("dagster.yaml", instance), ("workspace.yaml", instance), ("local.yaml", settings)):
        services.write(file, place / file if place is instance else place)
    try:
        yield services
    finally:
        services.processes.close()
        print(services.processes.logs()[-20_000:])
        subprocess.run([sys.executable, "-c", _STOP_SPARK], env={**os.environ, **variables}, check=False)


def _asked(address: str, query: str | None = None) -> Any:
    body = json.dumps({"query": query}).encode() if query else None
    with urlopen(Request(address, body, {"Content-Type": "application/json"}), timeout=30) as answer:
        return json.load(answer)


def _answers(ask: Callable[[], Any]) -> bool:
    try:
        ask()
    except (URLError, EndpointConnectionError, ConnectionError):
        return False
    return True


def test_the_services_of_compose_land_each_record_once_and_show_the_code_location(composed: Composed):
    composed.start("aws")
    kinesis = composed.aws("kinesis")
    eventually(lambda: _answers(kinesis.list_streams), "the stand-in answers", within=PATIENCE)
    kinesis.create_stream(StreamName="orders", ShardCount=2)
    kinesis.get_waiter("stream_exists").wait(StreamName="orders")
    put = [b"order %d" % number for number in range(40)]
    kinesis.put_records(
        StreamName="orders", Records=[{"Data": each, "PartitionKey": each.decode()} for each in put]
    )

    code = composed.start("code")
    eventually(
        lambda: composed.is_healthy("code"), "the health check of the code location succeeds", within=PATIENCE
    )
    daemon, web = composed.start("daemon"), composed.start("web")

    eventually(
        lambda: len(composed.landed()) >= len(put), "every record that was put has landed", within=PATIENCE
    )
    assert sorted(composed.landed()) == sorted(put)
    eventually(
        lambda: _answers(lambda: _asked(f"{composed.ui}/server_info")),
        "the web server answers",
        within=PATIENCE,
    )
    [location] = _asked(f"{composed.ui}/graphql", _LOCATIONS)["data"]["workspaceOrError"]["locationEntries"]
    assert location == {
        "name": "headrace",
        "loadStatus": "LOADED",
        "locationOrLoadError": {"__typename": "RepositoryLocation"},
    }
    workers = {
        row["wid"]["S"]
        for row in composed.aws("dynamodb").scan(TableName="orders-WorkerMetricStats")["Items"]
    }
    assert workers == {"orders-1", "orders-2"}
    assert [each.poll() for each in (code, daemon, web)] == [None, None, None], "none has ended"
