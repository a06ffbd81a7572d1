"""Dagster as it is lived in: two daemons work on one instance by mistake, and the code location is reloaded in mid run."""

import json
import urllib.request

import dagster as dg
import pytest

from headrace.pipeline.duties.waves.report import WaveStep
from headrace.resources.runs import worker_tag
from tests.chaos.graphql import DagsterUi
from tests.e2e.app import App, keys
from tests.e2e.conftest import MakeApp
from tests.eventually import eventually
from tests.ports import free_port

pytestmark = pytest.mark.slow

PATIENCE = 280.0
"""In seconds. On a busy machine Dagster's daemon and then a run need minutes to start."""
TIMES = {"worker_tick": "5s", "leader_tick": "5s", "lease_duration": "15s", "launch_grace": "60s"}


def _await_landed(app: App) -> None:
    eventually(
        lambda: app.table.exists() and set(app.landed()) >= set(app.put),
        "every record that was put has landed",
        within=PATIENCE,
    )


def _runs(app: App, *statuses: dg.DagsterRunStatus) -> list[dg.DagsterRun]:
    return list(
        app.instance.get_runs(dg.RunsFilter(tags=worker_tag(app.name, "w1"), statuses=list(statuses)))
    )


def test_two_daemons_on_one_instance_double_no_record_and_dagster_says_that_there_are_two(make_app: MakeApp):
    app = make_app(times=TIMES)
    app.produce(20)
    for _ in range(2):
        app.start_daemon()
    _await_landed(app)
    app.split(0)
    app.produce(20)
    _await_landed(app)
    eventually(
        lambda: "Another SENSOR daemon is still sending heartbeats" in app.processes.logs(),
        "the second daemon is told of the first one",
        within=PATIENCE,
    )
    app.check()
    failed = _runs(app, dg.DagsterRunStatus.FAILURE)
    assert not failed, "a run that finds its shards claimed waits, and ends with a sentence"
    assert set(app.statuses()["MATERIALIZED"]) >= set(keys([1, 2, 3]))


def _started_with_a_code_server(app: App) -> DagsterUi:
    """A daemon and a webserver that share one code server, as people deploy them."""
    _ = app.instance
    code, web = free_port(), free_port()
    workspace = app.home / "workspace.yaml"
    server = {"host": "127.0.0.1", "port": code, "location_name": "headrace"}
    workspace.write_text(json.dumps({"load_from": [{"grpc_server": server}]}))
    module = ("-m", "tests.e2e.cut_definitions", "-h", "127.0.0.1", "-p", str(code))
    app.processes.start("code-server", "start", *module)
    app.processes.start("run", "-w", str(workspace), program="dagster-daemon")
    place = ("-h", "127.0.0.1", "-p", str(web))
    app.processes.start("-w", str(workspace), *place, program="dagster-webserver")
    return DagsterUi(web)


def _answers(ui: DagsterUi) -> bool:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{ui.port}/server_info", timeout=10) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False


def test_a_reload_of_the_code_location_in_mid_run_leaves_the_run_and_its_shards_alone(make_app: MakeApp):
    app = make_app(times=TIMES)
    app.produce(20)
    app.cuts.hold(WaveStep.STAGED)
    ui = _started_with_a_code_server(app)
    app.cuts.await_held(within=PATIENCE)
    [held] = _runs(app, dg.DagsterRunStatus.STARTED)
    eventually(lambda: _answers(ui), "Dagster's webserver answers", within=PATIENCE)
    claims = {row.key: row.run_claim for row in app.leases.scan().leases}

    assert ui.reload() == "WorkspaceLocationEntry"

    app.produce(20)
    before = app.worker().beat
    eventually(
        lambda: app.worker().beat > before + 1, "the worker's sensor ticks by the new code", within=PATIENCE
    )
    assert {row.key: row.run_claim for row in app.leases.scan().leases} == claims
    assert [run.run_id for run in _runs(app, dg.DagsterRunStatus.STARTED)] == [held.run_id]
    app.cuts.let_go()
    _await_landed(app)
    eventually(
        lambda: held.run_id in {run.run_id for run in _runs(app, dg.DagsterRunStatus.SUCCESS)},
        "the run has ended well",
        within=PATIENCE,
    )
    app.check()
    assert _runs(app, dg.DagsterRunStatus.FAILURE) == []
