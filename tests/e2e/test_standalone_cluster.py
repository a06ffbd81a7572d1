"""A standalone cluster of Spark, which the settings name by `spark.master`, lands and parses records.

Its executors are killed in the middle of waves, and one of its workers is lost for good. Dagster's daemon starts the runs.
"""

from collections.abc import Iterator

import pytest

from tests.e2e.app import App
from tests.e2e.cluster import Cluster, cluster
from tests.e2e.conftest import MakeApp
from tests.eventually import eventually

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def spark_cluster(_environment: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with cluster(tmp_path_factory.mktemp("cluster"), workers=2) as started:
        yield started


def _headrace(app: App, *words: str) -> str:
    """What a command prints that has to succeed."""
    with app.processes.start(*words, program="headrace") as process:
        assert process.wait(240) == 0, app.processes.logs()
    (log,) = sorted(app.home.glob("process-*.log"))[-1:]
    return log.read_text()


def test_a_cluster_whose_executors_and_worker_die_in_mid_wave_lands_and_parses_each_record_once(
    make_app: MakeApp, spark_cluster: Cluster
) -> None:
    app = make_app(
        shards=4,
        spark={
            "master": spark_cluster.master,
            "conf": {"spark.executor.memory": "600m", "spark.driver.host": "127.0.0.1"},
        },
        wave={"records": 100},
        more={
            "parse": [{"name": "typed", "table": "lake.typed", "schema": "n INT", "stop_above": 1}],
        },
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

    eventually(goes_on, "four executors were killed", every=2)
    spark_cluster.kill_worker()
    app.produce(200)
    eventually(lambda: set(app.landed()) >= set(app.put), "every record that was put has landed")
    app.check()

    _headrace(app, "parse")
