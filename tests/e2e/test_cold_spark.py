"""`dagster job execute` without a Spark server: the run starts a server, and claims its shards when the server
works."""

import os
from collections.abc import Iterator
from pathlib import Path

import dagster as dg
import pytest

from headrace.pipeline.lake.spark.session import DISCOVERY, stop_local_server
from tests.e2e.app import App
from tests.e2e.conftest import MakeApp
from tests.eventually import eventually

pytestmark = pytest.mark.slow

JAVA = Path(os.environ.get("JAVA_HOME", "/usr"), "bin", "java")


@pytest.fixture
def cold(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder for runs that find no Spark server; their JAVA_HOME is a folder in it whose `java` a test writes."""
    (tmp_path / "jvm" / "bin").mkdir(parents=True)
    with monkeypatch.context() as patch:
        patch.setenv(DISCOVERY, str(tmp_path / "spark" / "connect.json"))
        patch.setenv("JAVA_HOME", str(tmp_path / "jvm"))
        yield tmp_path
        stop_local_server()


def write_java(folder: Path, script: str) -> None:
    java = folder / "jvm" / "bin" / "java"
    java.write_text(f"#!/bin/bash\n{script}\n")
    java.chmod(0o755)


def a_request(app: App) -> dg.RunRequest:
    app.produce(20)
    app.settle()
    return eventually(app.asked, "a run is asked for")


def log_of(app: App) -> str:
    """The log of the latest run as Dagster shows it, with errors."""
    runs = app.instance.get_runs(limit=1)
    events = app.instance.all_logs(runs[0].run_id) if runs else ()
    return "\n".join(f"{event.user_message} {_error_of(event)}" for event in events)


def _error_of(entry: dg.EventLogEntry) -> str:
    event = entry.dagster_event
    return event.step_failure_data.error_display_string if event is not None and event.is_step_failure else ""


def test_no_shard_is_claimed_while_spark_starts_and_the_runs_log_tells_of_the_wait(
    make_app: MakeApp, cold: Path
):
    go = cold / "go"
    write_java(cold, f'[ "$1" = -version ] || while [ ! -e {go} ]; do sleep 0.2; done; exec {JAVA} "$@"')
    app = make_app()
    request = a_request(app)
    process = app.start_run(request)
    eventually(
        lambda: "still waiting for the local Spark server" in log_of(app), "the run's log tells of the wait"
    )
    assert [row.run_claim for row in app.leases.scan().leases] == [None, None]
    assert len(app.worker().run_beats) == 1, "the run beats while Spark starts"
    assert app.asked() is None, "the sensor asks for no second run while the first one waits"
    go.touch()
    assert process.wait(180) == 0, app.processes.logs()
    app.check()


def test_a_run_whose_spark_doesnt_start_fails_and_claims_no_shard(make_app: MakeApp, cold: Path):
    write_java(cold, "echo no memory is left >&2; exit 1")
    app = make_app()
    request = a_request(app)
    assert app.start_run(request).wait(180) != 0
    assert app.latest_run().status is dg.DagsterRunStatus.FAILURE
    assert "the local Spark server didn't start: " in log_of(app)
    rows = app.leases.scan().leases
    assert [row.run_claim for row in rows] == [None, None]
    assert all("the local Spark server didn't start" in row.failure.why for row in rows)
    assert app.landed() == []
