"""One stand-in of AWS and one Spark for all tests here; each test has an application and a stream of its own."""

import itertools
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from pipeline.lake.session import DISCOVERY, spark_session, stop_local_server
from pipeline.local.endpoint import LocalAws, local_aws
from pipeline.settings import SparkSettings
from tests.e2e.app import App

MakeApp = Callable[..., App]
_NUMBERS = itertools.count(1)


@pytest.fixture(scope="package")
def aws() -> Iterator[LocalAws]:
    with local_aws("--transition", "0") as served:
        yield served


@pytest.fixture(scope="package")
def spark_server(aws: LocalAws, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """The variables by which every process here finds the one Spark Connect server, which runs by then."""
    found = {**aws.environment, DISCOVERY: str(tmp_path_factory.mktemp("spark") / "connect.json")}
    with pytest.MonkeyPatch.context() as patch:
        _set(patch, found)
        spark_session(SparkSettings(remote="local[2]"), "headrace-e2e").stop()
    yield found
    with pytest.MonkeyPatch.context() as patch:
        _set(patch, found)
        stop_local_server()


@pytest.fixture
def make_app(
    aws: LocalAws, spark_server: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[MakeApp]:
    _set(monkeypatch, spark_server)
    made: list[App] = []

    def make(**how: Any) -> App:
        name = f"app{next(_NUMBERS)}"
        home = tmp_path / name
        home.mkdir()
        app = App(name=name, home=home, aws=aws, **how)
        # This process and those that it starts; the module of the definitions reads the settings when imported.
        _set(monkeypatch, app.variables)
        made.append(app)
        return app

    yield make
    for app in made:
        app.close()


def _set(patch: pytest.MonkeyPatch, variables: dict[str, str]) -> None:
    for name, value in variables.items():
        patch.setenv(name, value)
