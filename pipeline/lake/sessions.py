"""The Spark session of a run. It is made before the run claims its first shard, by the settings of the run's worker."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from pipeline.errors import Unknown
from pipeline.lake.session import spark_session
from pipeline.lake.stage import SparkStage
from pipeline.lake_ports import OnWaiting, Pages, Stage
from pipeline.settings.model import Settings, WorkerSettings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class Sessions:
    """Keeps one session at a time. A run over named shards may read for several workers, one after the other."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._worker: str | None = None
        self._session: SparkSession | None = None

    def stage(self, worker_id: str, pages: Pages) -> Stage:
        spark = self._settings_of(worker_id).spark
        return SparkStage(partial(self.of, worker_id), pages, threads=spark.threads, tasks=spark.tasks)

    def of(self, worker_id: str, on_waiting: OnWaiting) -> SparkSession:
        if self._worker != worker_id:
            self.close()
        if self._session is None:
            settings = self._settings_of(worker_id).spark
            self._session = spark_session(settings, f"headrace {worker_id}", on_waiting=on_waiting)
            self._worker = worker_id
        return self._session

    def close(self) -> None:
        """Close the session. An open session keeps its memory in the Spark server for an hour after its client has gone."""
        if self._session is not None:
            self._session.stop()
            self._session = None

    def _settings_of(self, worker_id: str) -> WorkerSettings:
        found = self._settings.worker(worker_id)
        if found is None:
            configured = ", ".join(sorted(worker.id for worker in self._settings.workers))
            raise Unknown(
                f"the settings have no worker {worker_id!r}; they have {configured}. Nothing was read"
            )
        return found
