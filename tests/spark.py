"""A local Spark server for all tests that need a real one, because its start takes a core for 10 s or more, and it works
slowly until Java has compiled what it runs often. The processes of one `make test` share it."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from fcntl import LOCK_EX, flock
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from headrace.pipeline.lake.spark.session import DISCOVERY, spark_session, stop_local_server
from headrace.pipeline.settings.model import SparkSettings
from tests.spark_classes import OPTIONS, options_of_tests

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(scope="session", autouse=True)
def a_jvm_that_starts_soon() -> Iterator[None]:
    """Spark servers of tests start with little CPU time, also those that commands start (`spark_classes.py`)."""
    given = os.environ.get(OPTIONS, "")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(OPTIONS, f"{given} {options_of_tests()}".strip())
        yield


@dataclass(frozen=True)
class SparkServer:
    """Where the server is found, and the AWS configuration that its tasks see."""

    discovery: Path
    """The file by which processes find the server."""
    aws_config: Path
    """AWS's configuration file of the server's processes, with the profile `streaming`. The command that prints the profile's keys
    also writes the file `was-asked` beside it."""


@pytest.fixture(scope="session")
def spark_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkServer]:
    """Spark may repeat a task once, and runs as many tasks at once as two processes of tests start.

    The server has the stand-ins' AWS credentials and no endpoint. An endpoint travels with each task, so the tasks of one
    server reach several stand-ins. The server starts in an empty folder with a Python path that doesn't have this project on it,
    so its workers know of the engine only what is shipped to them.
    """
    folder = _folder_of_all_processes(tmp_path_factory)
    server = SparkServer(folder / "spark" / "connect.json", folder / "aws" / "config")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(DISCOVERY, str(server.discovery))
        patch.setenv("AWS_CONFIG_FILE", str(server.aws_config))
        patch.delenv("AWS_ENDPOINT_URL", raising=False)
        patch.delenv("PYTHONPATH", raising=False)
        with _alone_in(folder):
            if not server.aws_config.exists():
                _write_aws_configuration(server.aws_config)
        (folder / "elsewhere").mkdir(exist_ok=True)
        patch.chdir(folder / "elsewhere")
        # The first process starts the server, and the others join it.
        spark_session(SparkSettings(remote="local[4,2]"), "headrace-tests").stop()
    try:
        yield server
    finally:
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv(DISCOVERY, str(server.discovery))
            stop_local_server(if_unused=True)


def _folder_of_all_processes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of one `make test`. A process of pytest-xdist has its folders in one that all of them share, which is deleted after the
    last test: the server's folders would go with those of the process that started it."""
    own = tmp_path_factory.getbasetemp()
    folder = (own.parent if "PYTEST_XDIST_WORKER" in os.environ else own) / "of-all-processes"
    folder.mkdir(exist_ok=True)
    return folder


@contextmanager
def _alone_in(folder: Path) -> Iterator[None]:
    with (folder / "lock").open("w") as lock:
        flock(lock, LOCK_EX)
        yield


def _write_aws_configuration(configuration: Path) -> None:
    folder = configuration.parent
    folder.mkdir()
    keys = '{"Version": 1, "AccessKeyId": "local", "SecretAccessKey": "local"}'
    command = folder / "keys"
    command.write_text(f"#!/bin/sh\ntouch {folder}/was-asked\necho '{keys}'\n")
    command.chmod(0o755)
    configuration.write_text(f"[profile streaming]\ncredential_process = {command}\n")


@pytest.fixture(autouse=True)
def discovery_stays() -> Iterator[None]:
    """A command that runs in the test's own process says there which Spark server it uses, and would say so to the tests after it."""
    before = os.environ.get(DISCOVERY)
    yield
    if before is None:
        os.environ.pop(DISCOVERY, None)
    else:
        os.environ[DISCOVERY] = before


@pytest.fixture
def joined_spark(spark_server: SparkServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """This process and its children use the shared Spark server as their local server."""
    monkeypatch.setenv(DISCOVERY, str(spark_server.discovery))


@pytest.fixture(scope="module")
def spark(spark_server: SparkServer) -> Iterator["SparkSession"]:
    """A session on the shared Spark server."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(DISCOVERY, str(spark_server.discovery))
        session = spark_session(SparkSettings(), "headrace-test")
        try:
            yield session
        finally:
            session.stop()
