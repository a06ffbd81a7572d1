"""Each test has an application and a stream of its own. All tests of a process share one stand-in of AWS, and
all processes one Spark server."""

import itertools
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

from headrace.pipeline.lake.spark.session import DISCOVERY
from headrace.pipeline.local.endpoint import LocalAws, local_aws
from tests.contract.dynamodb_local.__main__ import NotAtHand, fetch, served
from tests.dagster.fixtures import migrations_are_read_once
from tests.e2e.app import App
from tests.spark import SparkServer

__all__ = ["migrations_are_read_once"]

MakeApp = Callable[..., App]
_NUMBERS = itertools.count(1)


@pytest.fixture(scope="package")
def _environment(aws: LocalAws, spark_server: SparkServer) -> Iterator[None]:
    """Variables by which the processes of these tests find the stand-in of AWS and the Spark server."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in aws.environment.items():
            patch.setenv(name, value)
        patch.setenv(DISCOVERY, str(spark_server.discovery))
        yield


@pytest.fixture
def folder_with_spark(tmp_path: Path, spark_server: SparkServer, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working folder of the test, from which the Spark server is found."""
    monkeypatch.setenv(DISCOVERY, str(spark_server.discovery))
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def own_aws(folder_with_spark: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[LocalAws]:
    """A stand-in of AWS for this test alone."""
    with local_aws("--transition", "0", "--heartbeat", "0.2") as aws:
        for variable, value in aws.environment.items():
            monkeypatch.setenv(variable, value)
        yield aws


@pytest.fixture
def dynamodb_local(folder_with_spark: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The address of AWS's DynamoDB Local, for this test alone."""
    for variable in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(variable, "local")
    try:
        fetch()
        with served() as endpoint:
            yield endpoint
    except NotAtHand as reason:
        pytest.skip(f"DynamoDB Local isn't at hand ({reason})")


@pytest.fixture
def make_app(aws: LocalAws, _environment: None, tmp_path: Path) -> Iterator[MakeApp]:
    with apps(aws, tmp_path) as make:
        yield make


@pytest.fixture(scope="module")
def shared_app(aws: LocalAws, _environment: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[App]:
    """One application for tests that each add to its stream and check all that is there."""
    with apps(aws, tmp_path_factory.mktemp("shared")) as make:
        app = make()
        app.settle()
        yield app


@contextmanager
def apps(aws: LocalAws, folder: Path) -> Iterator[MakeApp]:
    with ExitStack() as stack:

        def make(**how: Any) -> App:
            name = f"app{next(_NUMBERS)}"
            home = folder / name
            home.mkdir()
            app = App(name=name, home=home, aws=aws, **how)
            stack.callback(app.close)
            return app

        yield make
