"""Dagster keeps its runs and events in Postgres, as is right above some hundred shards: the daemon starts runs, one dies, and Postgres itself is
stopped and started again."""

import json
import os
from dataclasses import replace
from pathlib import Path

import dagster as dg
import pytest

from headrace.pipeline.duties.waves.report import WaveStep
from headrace.resources.runs import worker_tag
from tests.e2e.app import App, keys
from tests.e2e.conftest import MakeApp
from tests.e2e.dagster_postgres import installed_or_skip
from tests.engines.servers import Postgres, postgres
from tests.eventually import eventually

__all__ = ["postgres"]

pytestmark = pytest.mark.slow

PATIENCE = 280.0


@pytest.fixture
def storage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder with Dagster's storage on Postgres, in the version of this Dagster. Headrace itself doesn't need it."""
    folder = installed_or_skip(tmp_path / "storage")
    monkeypatch.syspath_prepend(str(folder))
    return folder


def _on_postgres(app: App, postgres: Postgres, storage: Path) -> None:
    """Let this application's Dagster keep everything in a database of its own."""
    paths = (app.processes.variables["PYTHONPATH"], str(storage))
    variables = {**app.processes.variables, "PYTHONPATH": os.pathsep.join(paths)}
    app.processes = replace(app.processes, variables=variables)
    url = json.dumps(postgres.uri(postgres.new_database()))
    file = app.dagster_home / "dagster.yaml"
    file.write_text(f"{file.read_text()}\nstorage: {{postgres: {{postgres_url: {url}}}}}\n")


def _await_landed(app: App) -> None:
    eventually(
        lambda: set(app.landed()) >= set(app.put), "every record that was put has landed", within=PATIENCE
    )


def test_on_postgres_no_record_is_lost_or_doubled_by_a_killed_run_and_a_postgres_that_was_away(
    make_app: MakeApp, postgres: Postgres, storage: Path
):
    app = make_app(
        shards=3,
        times={"worker_tick": "5s", "leader_tick": "5s", "lease_duration": "15s", "launch_grace": "60s"},
    )
    _on_postgres(app, postgres, storage)
    assert "Postgres" in type(app.instance.event_log_storage).__name__
    app.cuts.kill(WaveStep.COMMITTED)
    app.produce(30)
    daemon = app.start_daemon()
    app.cuts.await_killed(within=PATIENCE)
    app.split(0)
    app.produce(30)
    _await_landed(app)

    postgres.stop()
    app.produce(30)
    postgres.start()
    # What supervises the daemon starts it again where it has ended.
    if daemon.poll() is not None:
        app.start_daemon()
    _await_landed(app)

    app.check()
    wanted = dg.RunsFilter(tags=worker_tag(app.name, "w1"), statuses=[dg.DagsterRunStatus.FAILURE])
    assert app.instance.get_runs(wanted), "Dagster calls the killed run failed"
    assert set(app.statuses()["MATERIALIZED"]) >= set(keys([1, 2]))
