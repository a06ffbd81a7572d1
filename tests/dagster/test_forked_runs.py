"""Runs of a real code server of Dagster: they are forks of a process that has imported packages, and nothing that may change."""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import dagster as dg
import pytest
from dagster._cli.job import _create_run
from dagster._core.workspace.context import WorkspaceProcessContext
from dagster._core.workspace.load_target import PythonFileTarget

from headrace.resources.forked_runs import PACKAGES
from tests.dagster.fixtures import SMALLEST
from tests.eventually import eventually

_IMPORT = """
import gc, importlib, json, os, sys, threading
for name in sys.argv[1:]:
    importlib.import_module(name)
threads = [open(f"/proc/self/task/{n}/comm").read().strip() for n in sorted(os.listdir("/proc/self/task"), key=int)]
frozen = gc.get_freeze_count()
json.dump({"threads": threads, "frozen": frozen, "modules": sorted(sys.modules)}, sys.stdout)
"""
_LOCATION = """
import json, os, sys
from pathlib import Path

before = sorted(sys.modules)

import dagster as dg
from datetime import timedelta
from headrace.resources import ended_runs

# Longer than a run takes to tell of its end on a busy machine.
ended_runs.AT_MOST = timedelta(seconds=15)

import headrace.pipeline.definitions

CONTENT = "{content}"


@dg.asset
def told():
    parent = Path(f"/proc/{{os.getppid()}}")
    Path("{told}").write_text(json.dumps({{
        "content": CONTENT,
        "modules": before,
        "parent": (parent / "cmdline").read_text(),
        "process": os.getpid(),
    }}))
    if CONTENT == "endless":
        import time
        time.sleep(600)
    if CONTENT == "held up before its end":
        import time
        try:
            time.sleep(600)
        finally:
            time.sleep(600)
    if CONTENT == "held up at its end":
        import threading, time
        threading.Thread(target=time.sleep, args=(600,)).start()
        time.sleep(600)


defs = dg.Definitions.merge(
    headrace.pipeline.definitions.defs,
    dg.Definitions(assets=[told], jobs=[dg.define_asset_job("tell", [told])]),
)
"""
Launch = Callable[[str], str]


@pytest.fixture(scope="module")
def imported() -> dict[str, Any]:
    """What a process tells of itself after it has imported the packages."""
    done = subprocess.run(
        [sys.executable, "-c", _IMPORT, *PACKAGES],
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
        env={**os.environ, "OPENBLAS_NUM_THREADS": "1"},
    )
    facts: dict[str, Any] = json.loads(done.stdout)
    return facts | {"stderr": done.stderr}


def test_the_packages_print_nothing_that_a_user_would_take_for_trouble(imported: dict[str, Any]):
    """PySpark warns of pandas 3, and the fork server's output is that of `headrace dev`."""
    assert imported["stderr"] == ""


def test_the_packages_start_only_threads_that_end_or_wait_before_a_fork(imported: dict[str, Any]):
    """OpenBLAS, which numpy brings, ends its threads before a fork. jemalloc, which pyarrow brings, takes its locks."""
    assert len(imported["threads"]) <= 2
    assert set(imported["threads"][1:]) <= {"jemalloc_bg_thd"}


def test_the_packages_import_neither_the_users_code_nor_modules_that_read_settings(imported: dict[str, Any]):
    modules = imported["modules"]

    assert not [name for name in modules if name.startswith(("headrace.assets", "headrace.sensors"))]
    assert "headrace.pipeline.definitions" not in modules
    assert {name for name in modules if name.startswith("headrace.resources")} == {
        "headrace.resources",
        "headrace.resources.imported",
    }


def test_the_garbage_collector_of_runs_leaves_out_what_was_imported(imported: dict[str, Any]):
    assert imported["frozen"] > 100_000


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("forked") / "told.json"


@pytest.fixture(scope="module")
def instance(told: Path) -> Iterator[dg.DagsterInstance]:
    home = told.parent / "dagster"
    home.mkdir()
    (home / "dagster.yaml").write_text("telemetry: {enabled: false}\n")
    with dg.DagsterInstance.from_config(str(home)) as found:
        yield found


@pytest.fixture(scope="module")
def launch(told: Path, instance: dg.DagsterInstance) -> Iterator[Launch]:
    """Writes the content into the code location's file, and launches a run there. The code server stays the same."""
    settings, location = told.parent / "headrace.yaml", told.parent / "location.py"
    settings.write_text(SMALLEST)
    location.write_text(_LOCATION.format(told=told, content="at the start"))
    with pytest.MonkeyPatch.context() as patch, ExitStack() as stack:
        patch.setenv("HEADRACE_CONFIG", str(settings))
        patch.setenv("PYTHONPATH", str(Path(__file__).parents[2]))
        target = PythonFileTarget(
            python_file=str(location), attribute=None, working_directory=None, location_name="here"
        )
        process = stack.enter_context(WorkspaceProcessContext(instance, target))
        workspace = process.create_request_context()

        def launched(content: str) -> str:
            told.unlink(missing_ok=True)
            location.write_text(_LOCATION.format(told=told, content=content))
            code = workspace.get_code_location("here")
            (repository,) = code.get_repositories().values()
            run = _create_run(instance, code, repository, repository.get_full_job("tell"), {}, {}, None, None)
            instance.launch_run(run.run_id, workspace)
            return str(run.run_id)

        yield launched


def end_of(run_id: str, instance: dg.DagsterInstance) -> dg.DagsterRunStatus:
    """Wait until the run has ended, and return how."""

    def ended() -> dg.DagsterRunStatus | None:
        run = instance.get_run_by_id(run_id)
        return run.status if run is not None and run.is_finished else None

    return eventually(ended, "the run ends")


def test_a_run_is_a_fork_of_the_fork_server_with_the_packages(
    launch: Launch, instance: dg.DagsterInstance, told: Path
):
    assert end_of(launch("first"), instance) is dg.DagsterRunStatus.SUCCESS
    found: dict[str, Any] = json.loads(told.read_text())

    assert "multiprocessing.forkserver" in found["parent"]
    assert set(PACKAGES) <= set(found["modules"])


def test_a_run_has_the_users_code_as_it_is_now(launch: Launch, instance: dg.DagsterInstance, told: Path):
    for content in ("second", "third"):
        assert end_of(launch(content), instance) is dg.DagsterRunStatus.SUCCESS
        found = json.loads(told.read_text())

        assert found["content"] == content
        assert not [
            name for name in found["modules"] if name.startswith(("headrace.assets", "headrace.sensors"))
        ]


def test_a_forked_run_can_be_terminated(launch: Launch, instance: dg.DagsterInstance, told: Path):
    run = launch("endless")
    eventually(told.exists, "the run has begun its asset")

    assert instance.run_launcher.terminate(run)
    assert end_of(run, instance) is dg.DagsterRunStatus.CANCELED


@pytest.mark.parametrize(
    ("content", "status"),
    [
        # It hasn't told Dagster that it has ended: the code server does.
        ("held up before its end", dg.DagsterRunStatus.FAILURE),
        ("held up at its end", dg.DagsterRunStatus.CANCELED),
    ],
)
def test_the_process_of_a_cancelled_run_ends_although_something_holds_it_up(
    launch: Launch,
    instance: dg.DagsterInstance,
    told: Path,
    content: str,
    status: dg.DagsterRunStatus,
):
    run = launch(content)
    facts = eventually(lambda: told.read_text() if told.exists() else "", "the run has begun its asset")
    process = Path(f"/proc/{json.loads(facts)['process']}")

    assert instance.run_launcher.terminate(run)
    assert end_of(run, instance) is status
    eventually(lambda: not process.exists(), "the run's process has ended", within=60)
