"""The Spark session of a run. It is made before the run claims its first shard, by the settings of the run's worker."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from headrace.pipeline.errors import Unknown
from headrace.pipeline.lake.spark.engine_zip import is_connect, send_zip
from headrace.pipeline.lake.spark.session import spark_session
from headrace.pipeline.lake.spark.user_code import UserCode
from headrace.pipeline.lake.staging.stage import SparkStage
from headrace.pipeline.ports.pages import Pages
from headrace.pipeline.ports.staging import OnWaiting, Stage
from headrace.pipeline.settings.model import Settings, WorkerSettings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class Sessions:
    """Keeps the Spark session of one worker at a time. A run over named shards may read for several workers, one
    after the other.
    """

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._worker: str | None = None
        self._open: dict[bool, SparkSession] = {}
        """The session for Headrace's own tasks, and by True the one for code of the user."""
        self._modules: dict[str, str] = {}
        """The user's modules that the workers of that session may have imported, each with the digest of its
        sources."""

    def stage(self, worker_id: str, pages: Callable[[], Pages]) -> Stage:
        """The stage of a worker: it stages batches in a session with the worker's settings.

        `pages`: called for each Spark job, because the reader of pages has the credentials of its moment.
        """
        spark = self._settings_of(worker_id).spark
        return SparkStage(partial(self.of, worker_id), pages, threads=spark.threads, tasks=spark.tasks)

    def of(self, worker_id: str, on_waiting: OnWaiting) -> SparkSession:
        return self._session(worker_id, on_waiting, isolated=False)

    def for_user_code(
        self, worker_id: str, code: Callable[[], UserCode | None], on_waiting: OnWaiting
    ) -> SparkSession:
        """A session whose Python workers import the user's modules as this run has read them. A Python worker
        keeps a module that it has imported, so that a changed module gets a session with new workers. `code`: the
        modules beside the settings file, if the target has some.
        """
        user = code()
        modules = user.modules if user else {}
        if any(self._modules.get(name, digest) != digest for name, digest in modules.items()):
            self._close_user_session()
        session = self._session(worker_id, on_waiting, isolated=True)
        if user is not None:
            send_zip(session, user.zipped())
            self._modules |= modules
        return session

    def _close_user_session(self) -> None:
        session = self._open.get(True)
        if session is not None and not is_connect(session):
            # A process has one classic session, also for Headrace's own tasks; it ends with its workers.
            self.close()
        elif session is not None:
            self._open.pop(True).stop()
        self._modules.clear()

    def _session(self, worker_id: str, on_waiting: OnWaiting, *, isolated: bool) -> SparkSession:
        if self._worker != worker_id:
            self.close()
        if isolated not in self._open:
            settings = self._settings_of(worker_id).spark
            self._open[isolated] = spark_session(
                settings, f"headrace {worker_id}", on_waiting=on_waiting, isolated=isolated
            )
            self._worker = worker_id
        return self._open[isolated]

    def close(self) -> None:
        """Close the sessions. An open session keeps its memory in the Spark server for an hour after its client has
        gone."""
        while self._open:
            self._open.popitem()[1].stop()
        self._modules.clear()

    def _settings_of(self, worker_id: str) -> WorkerSettings:
        worker_settings = self._settings.worker(worker_id)
        if worker_settings is None:
            configured = ", ".join(sorted(worker.id for worker in self._settings.workers))
            raise Unknown(
                f"the settings have no worker {worker_id!r}; they have {configured}. Nothing was read"
            )
        return worker_settings
