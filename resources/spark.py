"""Spark, as each worker's settings have it; started when a run first needs it and never by a sensor."""

from typing import Any

from dagster import InitResourceContext
from dagster_pyspark import LazyPySparkResource
from pydantic import PrivateAttr

from pipeline.errors import Unknown
from pipeline.ports import Pages, Stage
from pipeline.settings import Settings, SparkSettings
from resources.told import told


class SparkResource(LazyPySparkResource):
    """dagster-pyspark's lazy session, made by the settings of the worker that a run is of."""

    workers: dict[str, dict[str, Any]]
    """Worker id -> its Spark settings."""
    _worker: str | None = PrivateAttr(default=None)

    @classmethod
    def of(cls, settings: Settings) -> "SparkResource":
        return cls(spark_config={}, workers={w.id: told(w.spark) for w in settings.workers})

    def stage(self, worker_id: str, pages: Pages) -> Stage:
        """Work for this worker's Spark. The session is made with the first job."""
        from pipeline.lake.stage import SparkStage

        if worker_id not in self.workers:
            raise Unknown(
                f"no worker {worker_id!r} is configured here; there are {', '.join(sorted(self.workers))}"
            )
        spark = SparkSettings(**self.workers[worker_id])
        return SparkStage(
            lambda: self._session_of(worker_id), pages, threads=spark.threads, tasks=spark.tasks
        )

    def _session_of(self, worker_id: str) -> Any:
        if self._worker != worker_id:
            self._close()  # a run by partitions may read for one worker after the other
            self._worker = worker_id
        return self.spark_session

    def _init_session(self) -> None:
        from pipeline.lake.session import spark_session

        if self._spark_session is None and self._worker is not None:
            self._spark_session = spark_session(
                SparkSettings(**self.workers[self._worker]), f"headrace {self._worker}"
            )

    def teardown_after_execution(self, context: InitResourceContext) -> None:
        self._close()

    def _close(self) -> None:
        if self._spark_session is not None:
            self._spark_session.stop()
            self._spark_session = None
