"""A run's process dies by SIGKILL between two steps of a wave. No record is lost or doubled."""

import signal

import dagster as dg
import pytest

from headrace.pipeline.duties.waves.report import WaveStep
from tests.e2e.app import App, keys
from tests.e2e.conftest import MakeApp
from tests.eventually import eventually


@pytest.mark.parametrize(
    "step",
    [
        pytest.param(WaveStep.CLAIMED, marks=pytest.mark.slow),
        WaveStep.STAGED,
        pytest.param(WaveStep.COMMITTED, marks=pytest.mark.slow),
        pytest.param(WaveStep.CHECKPOINTED, marks=pytest.mark.slow),
    ],
)
def test_after_a_killed_run_that_dagster_calls_failed_its_shards_are_read_at_the_next_tick(
    shared_app: App, step: WaveStep
):
    app = shared_app
    before = len(app.put)
    app.produce(20)

    run = app.killed_run(step)

    landed_by_then = step in {WaveStep.COMMITTED, WaveStep.CHECKPOINTED}
    assert len(app.landed()) == before + 20 * landed_by_then
    if step is not WaveStep.CLAIMED:  # partitions are announced while the Spark job runs
        assert app.statuses() == {"IN PROGRESS": keys(range(2))}
    app.produce(10)
    app.instance.report_run_failed(run)
    if step is not WaveStep.CLAIMED:
        assert app.statuses() == {"FAILED": keys(range(2))}, "the run has failed and isn't pending"
    request = app.asked()
    assert request is not None
    assert app.execute(request).success
    app.check()
    assert app.statuses() == {"MATERIALIZED": keys(range(2))}


@pytest.mark.slow
def test_after_a_killed_run_that_dagster_calls_started_its_shards_are_read_after_the_lease_duration(
    shared_app: App,
):
    app = shared_app
    app.produce(40)
    run = app.killed_run(WaveStep.COMMITTED)
    assert _status(app, run) is dg.DagsterRunStatus.STARTED
    first = app.tick("worker_w1")
    assert not first.run_requests
    assert f"run {run.run_id} is at work" in str(first.skip_reason)
    app.produce(10)

    request = eventually(app.asked, "the dead run's shards are due")

    assert _status(app, run) is dg.DagsterRunStatus.FAILURE
    assert "showed no beat for longer than the lease duration" in _failure_message(app, run)
    assert app.execute(request).success
    app.check()
    assert app.statuses() == {"MATERIALIZED": keys(range(2))}
    assert app.tick("worker_w1").run_requests == []
    assert app.worker().run_beats == {}, "the beats of runs that are over are removed"


@pytest.mark.slow  # tests/simulation/interleavings shows it of D3, and each batch of seeds freezes runs
def test_a_run_that_was_frozen_for_longer_than_the_lease_duration_doubles_no_record(shared_app: App):
    app = shared_app
    app.produce(20)
    request = eventually(app.asked, "the sensor asks for a run")
    app.cuts.hold(WaveStep.STAGED)
    with app.start_run(request) as sleeper:
        app.cuts.await_held()
        sleeper.send_signal(signal.SIGSTOP)
        app.cuts.let_go()
        slept = app.latest_run()
        app.produce(10)
        assert app.read().success
        assert _status(app, slept) is dg.DagsterRunStatus.FAILURE
        assert len(app.landed()) == len(app.put)

        sleeper.send_signal(signal.SIGCONT)

        sleeper.wait(120)
    app.check()


@pytest.mark.slow
@pytest.mark.parametrize("step", [WaveStep.STAGED, WaveStep.COMMITTED])
def test_a_living_run_that_dagster_calls_failed_doubles_no_record(shared_app: App, step: WaveStep):
    app = shared_app
    app.produce(20)
    request = eventually(app.asked, "the sensor asks for a run")
    app.cuts.hold(step)
    with app.start_run(request) as zombie:
        app.cuts.await_held()
        app.instance.report_run_failed(app.latest_run())
        app.produce(10)
        assert app.read().success
        assert len(app.landed()) == len(app.put)

        app.cuts.let_go()

        zombie.wait(120)
    app.check()


@pytest.mark.slow
def test_the_end_of_a_shard_that_a_killed_run_committed_is_completed_by_the_next_run(make_app: MakeApp):
    app = make_app(shards=1)
    app.produce(20)
    app.split(0)
    app.produce(20)
    app.settle()
    app.instance.report_run_failed(app.killed_run(WaveStep.COMMITTED))
    assert not app.lease(0).has_ended, "the table holds the shard's END, and the row doesn't say SHARD_END"

    app.read_all()

    app.check()
    assert app.lease(0).has_ended
    assert app.lease(0).children == {*keys([1, 2])}


def _status(app: App, run: dg.DagsterRun) -> dg.DagsterRunStatus:
    found = app.instance.get_run_by_id(run.run_id)
    assert found is not None
    return found.status


def _failure_message(app: App, run: dg.DagsterRun) -> str:
    failures = app.instance.all_logs(run.run_id, of_type=dg.DagsterEventType.PIPELINE_FAILURE)
    return " ".join(each.message for each in failures)
