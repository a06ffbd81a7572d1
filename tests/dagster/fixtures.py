"""Fixtures of tests/dagster, tests/assets and tests/sensors; their conftest files import them."""

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from tests.dagster.world import DagsterWorld

MakeInstance = Callable[[], dg.DagsterInstance]
MakeWorld = Callable[..., DagsterWorld]
SMALLEST = "{application: my-app, streams: [{name: my-stream}]}"


@pytest.fixture(scope="session", autouse=True)
def migrations_are_read_once() -> Iterator[None]:
    """Dagster marks each new storage with the newest of its ninety migrations, which alembic imports anew each time: a third of
    the time of a test that has a Dagster of its own.
    """
    import alembic.util

    read, kept = alembic.util.load_python_file, dict[tuple[str, str], Any]()

    def load(folder: str | os.PathLike[str], name: str) -> Any:
        if name == "env.py":  # importing env.py runs the migration, so it is imported each time
            return read(folder, name)
        if (key := (str(folder), name)) not in kept:
            kept[key] = read(folder, name)
        return kept[key]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(alembic.util, "load_python_file", load)
        yield


@pytest.fixture
def make_instance(tmp_path: Path) -> Iterator[MakeInstance]:
    """A Dagster instance for one test, with its storage in memory."""
    with ExitStack() as stack:

        def make() -> dg.DagsterInstance:
            return stack.enter_context(dg.DagsterInstance.ephemeral(tempdir=str(tmp_path)))

        yield make


@pytest.fixture
def make_world(make_instance: MakeInstance) -> MakeWorld:
    def make(**how: Any) -> DagsterWorld:
        return DagsterWorld(instance=make_instance(), **how)

    return make
