"""Each test has an application and a stream of its own. All tests of a process share one stand-in of AWS and one
Spark server."""

import itertools
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

from headrace.pipeline.lake.spark.session import DISCOVERY
from headrace.pipeline.local.endpoint import LocalAws
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
