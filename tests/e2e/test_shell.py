"""The real `dagster asset materialize` claims the row as the sensors' runs do."""

from subprocess import Popen

import pytest

from headrace.assets.names import lineage_key
from headrace.pipeline.core.leases.lease import run_of_claim
from headrace.pipeline.duties.waves.report import WaveStep
from tests.e2e.app import App, key
from tests.e2e.conftest import MakeApp
from tests.eventually import eventually


def _materialize(app: App, shard: int, select: str | None = None) -> Popen[str]:
    select = select or app.records.to_user_string()
    return app.processes.start(
        "asset",
        "materialize",
        "-m",
        "headrace.pipeline.definitions",
        "--select",
        select,
        "--partition",
        key(shard),
    )


def test_the_shell_materializes_the_named_shard_and_no_other(make_app: MakeApp):
    app = make_app()
    app.produce(20)
    app.settle()

    with _materialize(app, 1) as shell:
        assert shell.wait(120) == 0, app.processes.logs()

    [landed] = app.ranges()
    assert (landed.key.shard_id, landed.rows) == (key(1), 10)
    assert run_of_claim(landed.claim) == landed.run == app.instance.get_runs(limit=1)[0].run_id
    row = app.lease(1)
    assert (row.run_claim, row.landed) == (None, landed.upto.checkpoint)
    assert row.counter > app.lease(0).counter, "claimed, checkpointed and released"
    assert app.statuses() == {"MATERIALIZED": [key(1)]}
    app.read_all()
    app.check()


@pytest.mark.slow
def test_the_shell_materializes_all_assets_at_once_without_a_config(make_app: MakeApp):
    app = make_app()
    app.produce(20)
    app.settle()

    with _materialize(app, 1, "*") as shell:
        assert shell.wait(120) == 0, app.processes.logs()

    assert app.statuses() == {"MATERIALIZED": [key(1)]}
    assert app.instance.get_latest_materialization_event(lineage_key(app.settings)) is not None


@pytest.mark.slow
def test_the_shell_waits_for_a_shard_that_a_living_run_reads_and_then_reads_it(make_app: MakeApp):
    app = make_app(times={"linger": "90s"})
    app.produce(20)
    app.settle()
    request = eventually(app.asked, "the sensor asks for a run")
    app.cuts.hold(WaveStep.STAGED)
    with app.start_run(request) as holder:
        app.cuts.await_held()
        holding = app.lease(1).run_claim or ""
        app.produce(20)
        with _materialize(app, 1) as shell:
            wanted = eventually(lambda: app.lease(1).wanted_by, "the row names the waiting run")
            assert app.landed() == []
            app.cuts.let_go()
            assert shell.wait(120) == 0, app.processes.logs()
        assert holder.wait(120) == 0, app.processes.logs()

    of_shard = [each for each in app.ranges() if each.key.shard_id == key(1)]
    assert [each.run for each in of_shard][:2] == [run_of_claim(holding), run_of_claim(wanted)]
    assert app.lease(1).wanted_by is None
    app.read_all()
    app.check()


@pytest.mark.slow
def test_the_shells_run_says_why_it_waited_without_success(make_app: MakeApp):
    app = make_app(times={"linger": "1s"})
    app.produce(20)
    app.settle()
    request = eventually(app.asked, "the sensor asks for a run")
    app.cuts.hold(WaveStep.STAGED)
    with app.start_run(request) as holder:
        app.cuts.await_held()
        with _materialize(app, 1) as shell:
            assert shell.wait(120) != 0
        assert f"run {app.latest_run().run_id} is reading the shard" in app.processes.logs()
        app.cuts.let_go()
        assert holder.wait(120) == 0

    app.read_all()
    app.check()


def test_a_job_without_a_worker_in_its_config_fails_with_a_sentence_and_no_stack_trace(make_app: MakeApp):
    app = make_app()

    shell = app.processes.start("job", "execute", "-m", "headrace.pipeline.definitions", "-j", app.job_name)

    assert shell.wait(120) == 1
    printed = app.processes.logs()
    assert "a run without partitions needs `worker` in its config" in printed
    assert "nothing was read" in printed
    assert "Traceback" not in printed
    assert "Stack Trace" not in printed
