"""Everything is real: Dagster's daemon ticks the sensors, queues and launches runs; daemon and runs are killed and
cancelled."""

from subprocess import Popen

import dagster as dg
import pytest

from headrace.pipeline.duties.waves.report import WaveStep
from headrace.resources.runs import worker_tag
from tests.e2e.app import App, keys
from tests.e2e.conftest import MakeApp
from tests.eventually import eventually

pytestmark = pytest.mark.slow

PATIENCE = 280.0
"""In seconds. On a busy machine Dagster's daemon and then a run need minutes to start."""


def _stop(daemon: Popen[str]) -> None:
    daemon.terminate()
    daemon.wait(60)


def _await_landed(app: App) -> None:
    eventually(
        lambda: len(app.landed()) >= len(app.put), "every record that was put has landed", within=PATIENCE
    )


def _an_app(make_app: MakeApp) -> App:
    """An application with ticks as often as Dagster's loop makes them, and a grace that suits a busy machine."""
    return make_app(
        times={
            "worker_tick": "5s",
            "leader_tick": "5s",
            "lease_duration": "15s",
            "launch_grace": "20s",
        }
    )


def _runs(app: App, *statuses: dg.DagsterRunStatus) -> set[str]:
    wanted = dg.RunsFilter(tags=worker_tag(app.name, "w1"), statuses=list(statuses))
    return {run.run_id for run in app.instance.get_runs(wanted)}


def _held_run(app: App) -> str:
    app.cuts.await_held(within=PATIENCE)
    [run] = _runs(app, dg.DagsterRunStatus.STARTED)
    return run


def test_under_the_daemon_no_record_is_lost_or_doubled_by_a_killed_and_a_cancelled_run(make_app: MakeApp):
    app = _an_app(make_app)
    app.cuts.kill(WaveStep.COMMITTED)
    app.produce(20)
    daemon = app.start_daemon()
    app.cuts.await_killed(within=PATIENCE)
    app.produce(20)
    _await_landed(app)
    killed = eventually(lambda: _runs(app, dg.DagsterRunStatus.FAILURE), "Dagster calls the run failed")
    app.cuts.hold(WaveStep.STAGED)
    app.produce(20)
    cancelled = _held_run(app)

    assert app.instance.run_launcher.terminate(cancelled)

    eventually(lambda: _runs(app, dg.DagsterRunStatus.CANCELED) == {cancelled}, "the run is cancelled")
    app.cuts.let_go()
    _await_landed(app)
    assert len(killed) == 1
    _stop(daemon)
    app.check()
    assert app.statuses() == {"MATERIALIZED": keys(range(2))}
    assert all(row.run_claim is None for row in app.leases.scan().leases)
    asked = [run.tags["dagster/run_key"] for run in app.instance.get_runs()]
    assert len(asked) == len(set(asked)), "two runs have the same run key"


@pytest.mark.parametrize("step", [WaveStep.CLAIMED, WaveStep.STAGED, WaveStep.CHECKPOINTED])
def test_under_the_daemon_no_record_is_lost_or_doubled_if_run_after_run_is_killed_at_a_step(
    make_app: MakeApp, step: WaveStep
):
    app = _an_app(make_app)
    daemon = app.start_daemon()
    for _ in range(3):
        app.cuts.kill(step)
        app.produce(20)
        app.cuts.await_killed(within=PATIENCE)
    _await_landed(app)
    _stop(daemon)
    app.check()
    assert len(_runs(app, dg.DagsterRunStatus.FAILURE)) == 3


def test_after_a_daemon_was_killed_with_its_runs_another_daemon_goes_on(make_app: MakeApp):
    app = _an_app(make_app)
    app.produce(20)
    app.cuts.hold(WaveStep.COMMITTED)
    first = app.start_daemon()
    held = _held_run(app)
    first.kill()
    first.wait(30)
    app.produce(20)
    second = app.start_daemon()

    app.cuts.let_go()
    _await_landed(app)

    eventually(
        lambda: held not in _runs(app, dg.DagsterRunStatus.STARTED), "no run stays started", within=PATIENCE
    )
    _stop(second)
    app.check()
