"""Spark, by the settings of each worker. A run starts it when it first needs it; a sensor never does."""

from collections.abc import Iterable

import dagster as dg
from dagster_pyspark import LazyPySparkResource

from headrace.pipeline.app.ports import Ports
from headrace.pipeline.ports.staging import Stage
from headrace.pipeline.proof.other_side import ConsumerRows
from headrace.pipeline.proof.ports import OtherSide, ProofTable, TargetPorts
from headrace.pipeline.settings.model import Settings
from headrace.pipeline.settings.parse_block import ParseSettings
from headrace.pipeline.typed.ports import ParsePorts
from headrace.pipeline.upkeep.ports import Rewriter
from headrace.pipeline.windows.ports import ReplayPorts, UnpackPorts


class SparkResource(LazyPySparkResource):
    """dagster-pyspark's lazy resource, with sessions by the settings of the run's worker."""

    workers: dict[str, str]
    """Worker id -> address of its Spark, for Dagster to show."""
    ports: dg.ResourceDependency[Ports]

    @classmethod
    def of(cls, settings: Settings, ports: dg.ResourceDefinition) -> "SparkResource":
        return cls(
            spark_config={},
            workers={w.id: w.spark.master or w.spark.remote or "" for w in settings.workers},
            ports=ports,
        )

    def stage(self, worker_id: str) -> Stage:
        """The Stage port on this worker's Spark. The session is made for the first job."""
        return self.ports.stage(worker_id)

    def rewriter(self) -> Rewriter:
        return self.ports.rewriter()

    def proof(self) -> ProofTable:
        return self.ports.proof()

    def other_side(self, rows: ConsumerRows, *, files: str | None, table: str | None) -> OtherSide:
        return self.ports.other_side(rows, files=files, table=table)

    def proved_tables(self) -> Iterable[TargetPorts]:
        return self.ports.proved_tables()

    def parsing(self, target: ParseSettings, run: str) -> ParsePorts:
        """The tables of a target, and its parser on the first worker's Spark."""
        return self.ports.parsing(target, run)

    def replaying(self, window: str, run: str) -> ReplayPorts:
        """The table of a window, and what copies into it on the first worker's Spark."""
        return self.ports.replaying(window, run)

    def unpacking(self, window: str) -> UnpackPorts:
        """The lake table, and what takes its aggregates apart on the first worker's Spark."""
        return self.ports.unpacking(window)

    def teardown_after_execution(self, context: dg.InitResourceContext) -> None:
        # Dagster calls this at the end of a run. The base class has no such hook, and the sessions belong to the ports.
        self.ports.close()
