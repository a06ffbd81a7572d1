"""The Spark sessions of an application, beside its ports on AWS."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.pipeline.app.aws_adapters import AwsAdapters
from headrace.pipeline.ports.base import Clock
from headrace.pipeline.settings.model import Settings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from headrace.pipeline.lake.staging.sessions import Sessions


class SparkAdapters(AwsAdapters):
    def __init__(self, settings: Settings, clock: Clock | None = None) -> None:
        super().__init__(settings, clock)
        self._sessions: Sessions | None = None

    @property
    def sessions(self) -> Sessions:
        from headrace.pipeline.lake.staging.sessions import Sessions

        # At the first use: sensors have these adapters, too, and must not import PySpark's client.
        if self._sessions is None:
            self._sessions = Sessions(self.settings)
        return self._sessions

    def session(self, worker_id: str) -> SparkSession:
        from headrace.pipeline.lake.spark.waiting import warn

        return self.sessions.of(worker_id, warn)

    def close(self) -> None:
        """Close the Spark sessions. Tables need no closing."""
        if self._sessions is not None:
            self._sessions.close()
