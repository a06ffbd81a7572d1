"""The ports of an application, made from the Dagster resources that an asset was given."""

from collections.abc import Iterable
from dataclasses import dataclass, field

from headrace.pipeline.clock import SystemClock, SystemIds, SystemTimer
from headrace.pipeline.ports.base import Clock, Ids, Timer
from headrace.pipeline.ports.landing import LakeTable
from headrace.pipeline.ports.leases import LeaderLock, LeaseStore, Tables, WorkerStore
from headrace.pipeline.ports.lineage import LineageTable
from headrace.pipeline.ports.pages import Pages
from headrace.pipeline.ports.reading import ShardSource
from headrace.pipeline.ports.staging import Stage
from headrace.pipeline.proof.other_side import ConsumerRows
from headrace.pipeline.proof.ports import OtherSide, ProofTable, TargetPorts
from headrace.pipeline.settings.parse_block import ParseSettings
from headrace.pipeline.typed.ports import ParsePorts
from headrace.pipeline.upkeep.ports import LiveTable, Rewriter, TableFiles
from headrace.pipeline.windows.ports import ReplayPorts, UnpackPorts, WindowStore
from headrace.resources.lake import LakeResource
from headrace.resources.lease_tables import LeaseTablesResource
from headrace.resources.spark import SparkResource
from headrace.resources.stream import StreamResource


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourcePorts:
    lease_tables: LeaseTablesResource
    stream: StreamResource
    lake: LakeResource
    spark: SparkResource
    clock: Clock = field(default_factory=SystemClock)
    ids: Ids = field(default_factory=SystemIds)
    timer: Timer = field(default_factory=SystemTimer)

    def leases(self) -> LeaseStore:
        return self.lease_tables.leases()

    def workers(self) -> WorkerStore:
        return self.lease_tables.workers()

    def lock(self) -> LeaderLock:
        return self.lease_tables.lock()

    def tables(self) -> Tables:
        return self.lease_tables.tables()

    def source(self, user: str) -> ShardSource:
        return self.stream.source(user)

    def pages(self) -> Pages:
        return self.stream.pages()

    def table(self, writer: str) -> LakeTable:
        return self.lake.landing_table(writer)

    def files(self, user: str) -> TableFiles:
        return self.lake.table_files(user)

    def lineage_files(self, user: str) -> TableFiles:
        return self.lake.lineage_files(user)

    def live(self, writer: str) -> LiveTable:
        return self.lake.live_table(writer)

    def rewriter(self) -> Rewriter:
        return self.spark.rewriter()

    def proof(self) -> ProofTable:
        return self.spark.proof()

    def other_side(self, rows: ConsumerRows, *, files: str | None, table: str | None) -> OtherSide:
        return self.spark.other_side(rows, files=files, table=table)

    def proved_tables(self) -> Iterable[TargetPorts]:
        return self.spark.proved_tables()

    def parsing(self, target: ParseSettings, run: str) -> ParsePorts:
        return self.spark.parsing(target, run)

    def windows(self) -> WindowStore:
        return self.lake.windows()

    def replaying(self, window: str, run: str) -> ReplayPorts:
        return self.spark.replaying(window, run)

    def unpacking(self, window: str) -> UnpackPorts:
        return self.spark.unpacking(window)

    def lineage(self, writer: str) -> LineageTable:
        return self.lake.lineage_table(writer)

    def stage(self, worker_id: str) -> Stage:
        return self.spark.stage(worker_id)

    def close(self) -> None:
        """Does nothing: Dagster tears the Spark resource down by itself, which stops the session."""
