"""A standalone cluster of Spark, which the settings name by `spark.master`, lands, parses, compacts and proves.

Its executors are killed in the middle of waves, and one of its workers is lost for good. Dagster's daemon starts the runs. Elsewhere than
beside Dagster, `headrace consume` reads as a job of Dagster Pipes, which spark-submit brings to the cluster.
"""

import json
import sys
from collections.abc import Iterator

import dagster as dg
import pytest

from tests.e2e.app import App
from tests.e2e.cluster import SPARK_SUBMIT, Cluster, cluster
from tests.e2e.conftest import MakeApp
from tests.eventually import eventually

pytestmark = pytest.mark.slow

_PATIENCE = 280.0
"""In seconds. On a busy machine a run needs minutes to start."""


@pytest.fixture(scope="module")
def spark_cluster(_environment: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with cluster(tmp_path_factory.mktemp("cluster"), workers=2) as started:
        yield started


def _headrace(app: App, *words: str) -> str:
    """What a command prints that has to succeed."""
    with app.processes.start(*words, program="headrace") as process:
        assert process.wait(2 * _PATIENCE) == 0, app.processes.logs()
    (log,) = sorted(app.home.glob("process-*.log"))[-1:]
    return log.read_text()


_TIMES = {
    "worker_tick": "5s",
    "leader_tick": "5s",
    "lease_duration": "30s",
    "launch_grace": "120s",
    "linger": "60s",
}
"""A run waits for a driver and executors of its own, a minute or more on a busy machine. With shorter times another run is started meanwhile,
which waits for the same cores."""
_CONF = {"spark.executor.memory": "600m", "spark.driver.host": "127.0.0.1"}


def test_a_cluster_whose_executors_and_worker_die_in_mid_wave_lands_each_record_once(
    make_app: MakeApp, spark_cluster: Cluster
) -> None:
    app = make_app(
        shards=4,
        spark={
            "master": spark_cluster.master,
            "conf": _CONF,
        },
        wave={"records": 100},
        times=_TIMES,
    )
    app.settle()
    app.start_daemon()

    killed = 0

    def goes_on() -> bool:
        """Puts records, until four executors have died while they were read."""
        nonlocal killed
        if killed < 4:
            app.produce(200)
            killed += spark_cluster.kill_executor()
        return killed == 4

    eventually(goes_on, "four executors were killed", within=_PATIENCE, every=2)
    spark_cluster.kill_worker()
    app.produce(200)
    eventually(
        lambda: set(app.landed()) >= set(app.put), "every record that was put has landed", within=_PATIENCE
    )
    app.check()


def test_a_cluster_parses_compacts_and_proves(make_app: MakeApp, spark_cluster: Cluster) -> None:
    app = make_app(
        shards=2,
        spark={"master": spark_cluster.master, "conf": _CONF},
        # One run lands all waves: the start of each takes a minute on a busy machine.
        times=_TIMES | {"linger": "280s", "idle": "30s"},
        more={
            # The records aren't JSON, so that all of them go to quarantine.
            "parse": [{"name": "typed", "table": "lake.typed", "schema": "n INT", "stop_above": 1}],
            "upkeep": {"compact_after": "1s"},
        },
    )
    app.settle()
    with app.processes.start("consume", "--worker", "w1", program="headrace") as process:
        # Each wave leaves a file, and fewer than five aren't compacted.
        for _ in range(6):
            app.produce(20)
            eventually(lambda: set(app.landed()) >= set(app.put), "all records have landed", within=_PATIENCE)
        assert process.wait(_PATIENCE) == 0, app.processes.logs()
    app.check()

    _headrace(app, "parse")
    assert "compacted into" in _headrace(app, "upkeep")
    said = _headrace(app, "prove", "--json")
    # Spark's lines on stderr are in the same log.
    report, _ = json.JSONDecoder().raw_decode(said, said.index("{\n"))
    assert report["holds"], report
    assert report["records"] == len(app.put)
    assert [table["table"] for table in report["tables"]] == ["lake.typed"]


_JOB = """
import sys
from headrace.pipeline.cli import main
sys.exit(main(["consume", *sys.argv[1:]]))
"""


# Dagster's own client asks so.
@pytest.mark.filterwarnings("ignore:AssetExecutionContext.run_id is deprecated:DeprecationWarning")
def test_consume_is_a_job_of_dagster_pipes_that_spark_submit_brings_to_the_cluster(
    make_app: MakeApp, spark_cluster: Cluster
) -> None:
    app = make_app(shards=4, spark={"master": spark_cluster.master, "conf": _CONF})
    app.settle()
    app.produce(200)
    job = app.home / "job.py"
    job.write_text(_JOB)
    conf = [word for name, value in _CONF.items() for word in ("--conf", f"{name}={value}")]

    @dg.asset
    def landed(
        context: dg.AssetExecutionContext, pipes: dg.PipesSubprocessClient
    ) -> dg.MaterializeResult[None]:
        # Spark takes the first `python3` of the path otherwise, which may lack the packages.
        env = {**app.variables(), "PYSPARK_PYTHON": sys.executable}
        command = [str(SPARK_SUBMIT), "--master", spark_cluster.master, *conf, str(job), "--worker", "w1"]
        return pipes.run(command=command, context=context, env=env).get_materialize_result()

    done = dg.materialize([landed], resources={"pipes": dg.PipesSubprocessClient()}, instance=app.instance)

    app.check()
    [event] = done.asset_materializations_for_node("landed")
    assert event.metadata["records"].value == len(app.put)
    assert event.metadata["shards"].value == 4
    assert event.metadata["failed shards"].value == 0
    said = [log.user_message for log in app.instance.all_logs(done.run_id)]
    assert any("200 records of 4 shards landed" in sentence for sentence in said), said
    assert all(row.run_claim is None for row in app.leases.scan().leases), "the job has released its shards"
