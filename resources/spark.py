"""Spark, with the settings of each worker. A run starts it when it is first needed; a sensor never does."""

from typing import TYPE_CHECKING, Any

import dagster as dg
from dagster_pyspark import LazyPySparkResource
from pydantic import Field

from headrace.pipeline.app.wiring import Wiring
from headrace.pipeline.settings.model import Settings
from headrace.resources.stated import refuse_changes

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class SparkResource(LazyPySparkResource):
    """Spark, with the settings of each worker. Leave it out of the launchpad, or as it is there: its values come
    from the settings file, and a run with other values is refused before it reads anything.
    """

    # Dagster's launchpad offers both fields of each run that may use Spark.
    spark_config: dict[str, Any] = Field(
        description="Leave it out: a value is refused. Spark's settings are `workers.N.spark` of the settings file."
    )
    workers: dict[str, str] = Field(
        description="Worker id -> address of its Spark, by the settings file (`workers`). Leave it out: another value is "
        "refused."
    )
    wiring: dg.ResourceDependency[Wiring]

    @classmethod
    def of(cls, settings: Settings, wiring: dg.ResourceDefinition) -> "SparkResource":
        return cls(**_stated(settings), wiring=wiring)

    @property
    def spark_session(self) -> "SparkSession":
        """The Spark of the first worker in the settings, on which typed tables, compaction and proofs run. It is
        started, or joined, at the first use, and closed when the run ends."""
        return self.session_of(self.wiring.settings.workers[0].id)

    @property
    def spark_context(self) -> Any:
        """Spark's context, where the worker has a classic Spark; Spark Connect has none, and says so."""
        return self.spark_session.sparkContext

    def session_of(self, worker: str) -> "SparkSession":
        """The Spark of this worker."""
        session: SparkSession = self.wiring.ports.session(worker)
        return session

    def setup_for_execution(self, context: dg.InitResourceContext) -> None:
        refuse_changes(self, _stated(self.wiring.settings))

    def teardown_after_execution(self, context: dg.InitResourceContext) -> None:
        # Dagster calls this at the end of a run. The base class has no such hook, and the sessions belong to the ports.
        self.wiring.ports.close()


def _stated(settings: Settings) -> dict[str, Any]:
    return {
        "spark_config": {},
        "workers": {
            worker.id: worker.spark.master or worker.spark.remote or "" for worker in settings.workers
        },
    }
