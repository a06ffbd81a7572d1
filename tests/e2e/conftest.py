"""One stand-in of AWS and one Spark server for all these tests. Each test has an application and a stream of its
own."""

import itertools
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

from pipeline.lake.session import DISCOVERY, spark_session, stop_local_server
from pipeline.local.endpoint import LocalAws, local_aws
from pipeline.settings.model import SparkSettings
from tests.dagster.fixtures import definitions_module
from tests.e2e.app import App

__all__ = ["definitions_module"]

MakeApp = Callable[..., App]
_NUMBERS = itertools.count(1)


@pytest.fixture(scope="package")
def aws() -> Iterator[LocalAws]:
    with local_aws("--transition", "0") as served:
        yield served


@pytest.fixture(scope="package")
def _spark_server(aws: LocalAws, tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """All processes of the tests find the one Spark Connect server by their environment. It runs by then."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in aws.environment.items():
            patch.setenv(name, value)
        patch.setenv(DISCOVERY, str(tmp_path_factory.mktemp("spark") / "connect.json"))
        spark_session(SparkSettings(remote="local[2]"), "headrace-e2e").stop()
        yield
        stop_local_server()


@pytest.fixture
def make_app(
    aws: LocalAws, _spark_server: None, definitions_module: None, tmp_path: Path
) -> Iterator[MakeApp]:
    with _apps(aws, tmp_path) as make:
        yield make


@pytest.fixture(scope="module")
def shared_app(
    aws: LocalAws, _spark_server: None, definitions_module: None, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[App]:
    """One application for tests that each add to its stream and check all that is there."""
    with _apps(aws, tmp_path_factory.mktemp("shared")) as make:
        app = make()
        app.settle()
        yield app


@contextmanager
def _apps(aws: LocalAws, folder: Path) -> Iterator[MakeApp]:
    with ExitStack() as stack:

        def make(**how: Any) -> App:
            name = f"app{next(_NUMBERS)}"
            home = folder / name
            home.mkdir()
            app = App(name=name, home=home, aws=aws, **how)
            stack.callback(app.close)
            return app

        yield make
