"""Dagster's code server imports nothing heavy, and no sensor starts Spark."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.dagster.fixtures import SMALLEST, MakeWorld

HEAVY = ("pyspark.sql.connect", "pandas", "pyarrow", "grpc", "pyiceberg")
_LOAD = """
import sys, json, warnings
shown = warnings.catch_warnings(record=True)
warned = shown.__enter__()
from dagster._core.workspace.autodiscovery import loadable_targets_from_python_module
[target] = loadable_targets_from_python_module("headrace.pipeline.definitions", working_directory=None)
repository = target.target_definition.get_repository_def()
json.dump({"warnings": [str(each.message) for each in warned], "loaded": sorted(sys.modules), "sensors": sorted(s.name for s in repository.sensor_defs)}, sys.stdout)
"""


@pytest.fixture(scope="module")
def loaded(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[str]]:
    """Load the definitions in a new process, as Dagster does."""
    folder = tmp_path_factory.mktemp("loading")
    (folder / "headrace.yaml").write_text(SMALLEST)
    env = {**os.environ, "HEADRACE_CONFIG": str(folder / "headrace.yaml")}
    env["PYTHONPATH"] = str(Path(__file__).parents[2])
    done = subprocess.run(
        [sys.executable, "-c", _LOAD],
        check=False,
        env=env,
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    found: dict[str, list[str]] = json.loads(done.stdout)
    return found


@pytest.mark.parametrize("module", HEAVY)
def test_loading_the_definitions_imports_nothing_heavy(loaded: dict[str, list[str]], module: str):
    assert [name for name in loaded["loaded"] if name == module or name.startswith(f"{module}.")] == []


def test_loading_the_definitions_warns_of_nothing_that_a_user_cannot_change(loaded: dict[str, list[str]]):
    assert loaded["warnings"] == []


def test_loading_the_definitions_reaches_no_network_and_needs_no_table(loaded: dict[str, list[str]]):
    assert loaded["sensors"] == ["my_app_leader", "my_app_watch", "my_app_worker_w1"]


def test_sensors_use_no_dagster_resource(make_world: MakeWorld):
    """Dagster would make each resource, and an instance, again at every tick. And sensors must not start Spark."""
    world = make_world(workers=("w1", "w2"))
    repository, app = world.defs.get_repository_def(), world.settings.application

    needed = {sensor.name: sensor.required_resource_keys for sensor in repository.sensor_defs}

    names = (f"{app}_leader", f"{app}_worker_w1", f"{app}_worker_w2", f"{app}_watch")
    assert needed == dict.fromkeys(names, frozenset())
