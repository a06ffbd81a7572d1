"""The real ports of an application: DynamoDB, Kinesis, Iceberg and Spark, as its settings name them.

    Adapters ──► leases, workers, lock, tables, source, pages    here: on DynamoDB and Kinesis
             ├─► table, lineage, files, live, rewriter, stage    `headrace.pipeline.app.lake_adapters`
             ├─► parsing, windows, replaying, unpacking          `headrace.pipeline.app.typed_adapters`
             └─► proof, proved_tables, other_side                `headrace.pipeline.app.proof_adapters`

Each port is made when it is first needed, and kept as long as the process uses the settings (`headrace.pipeline.app.made_once`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING

from headrace.pipeline.app.lake_adapters import LakeAdapters
from headrace.pipeline.app.made_once import MadeOnce
from headrace.pipeline.app.proof_adapters import ProofAdapters
from headrace.pipeline.app.typed_adapters import TargetAdapters
from headrace.pipeline.clock import SystemClock, SystemIds, SystemTimer
from headrace.pipeline.core.landing.pace import FIRST_PAGE_OF_A_WINDOW, MOST_RECORDS, window_share
from headrace.pipeline.ports.base import Clock
from headrace.pipeline.ports.leases import LeaderLock, LeaseStore, Tables, WorkerStore
from headrace.pipeline.ports.pages import Pages
from headrace.pipeline.ports.reading import ShardSource
from headrace.pipeline.ports.staging import Stage
from headrace.pipeline.proof.other_side import ConsumerRows
from headrace.pipeline.proof.ports import OtherSide, ProofTable, TargetPorts
from headrace.pipeline.settings.model import Settings
from headrace.pipeline.settings.parse_block import ParseSettings
from headrace.pipeline.typed.ports import ParsePorts
from headrace.pipeline.upkeep.ports import LiveTable, Rewriter, TableFiles
from headrace.pipeline.windows.ports import ReplayPorts, UnpackPorts, WindowStore

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient
    from mypy_boto3_kinesis import KinesisClient
    from pyspark.sql import SparkSession

    from headrace.pipeline.aws.leases.table_layout import KnownPlaces
    from headrace.pipeline.lake.table.lake_table import IcebergTable
    from headrace.pipeline.lineage.table import IcebergLineage

_PATIENCE = timedelta(seconds=30)
"""How long one tick waits for tables that DynamoDB is creating, which is less than a leader's tick may take (40 s). The next tick
goes on waiting."""


class Adapters:
    """The ports of one application. Dagster runs sensors in several threads, and all of them may share this object."""

    def __init__(self, settings: Settings, clock: Clock | None = None) -> None:
        self.settings = settings
        self.clock = clock or SystemClock()
        self.ids = SystemIds()
        self.timer = SystemTimer()
        self._made = MadeOnce(self.clock.monotonic)
        self.lake_tables = LakeAdapters(settings, clock=self.clock, made=self._made, source=self.source)
        self._targets = TargetAdapters(self.lake_tables, self._pages_of_windows)
        self._proofs = ProofAdapters(self.lake_tables, self.windows)

    # -- coordination tables ---------------------------------------------------------------------------------------

    def leases(self) -> LeaseStore:
        from headrace.pipeline.aws.leases.leases import DynamoLeaseStore

        def make() -> LeaseStore:
            places = self._places()
            return DynamoLeaseStore(
                self.dynamodb(),
                self.settings.lease_table,
                clock=self.clock,
                entity_type=lambda: not places().arrangement.lease_rows_only,
            )

        return self._made.get(make, "leases")

    def workers(self) -> WorkerStore:
        from headrace.pipeline.aws.leases.workers import DynamoWorkerStore

        def make() -> WorkerStore:
            places = self._places()
            # A function, because KCL may move the workers' rows to another table while this process runs.
            return DynamoWorkerStore(
                self.dynamodb(),
                lambda: places().workers,
                clock=self.clock,
                also=lambda: places().also_workers,
            )

        return self._made.get(make, "workers")

    def lock(self) -> LeaderLock:
        from headrace.pipeline.aws.leases.leader_lock import DynamoLeaderLock

        def make() -> LeaderLock:
            places = self._places()
            return DynamoLeaderLock(self.dynamodb(), lambda: places().lock)

        return self._made.get(make, "lock")

    def tables(self) -> Tables:
        from headrace.pipeline.aws.leases.tables import DynamoTables

        return self._made.get(
            lambda: DynamoTables(self.dynamodb(), self.settings, patience=_PATIENCE, places=self._places()),
            "tables",
        )

    def _places(self) -> KnownPlaces:
        from headrace.pipeline.aws.leases.table_layout import KnownPlaces

        return self._made.get(lambda: KnownPlaces(self.dynamodb(), self.settings, self.clock), "places")

    # -- Kinesis ---------------------------------------------------------------------------------------------------

    def source(self, user: str) -> ShardSource:
        from headrace.pipeline.aws.reading.kinesis import KinesisSource

        return self._made.get(lambda: KinesisSource(self.kinesis()), "source", user)

    def pages(self) -> Pages:
        return self._pages(self.settings.wave.shard_share)

    def _pages_of_windows(self) -> Pages:
        share = window_share(self.settings.wave.shard_share)
        return self._pages(share, first_page=FIRST_PAGE_OF_A_WINDOW)

    def _pages(self, share: float, first_page: int = MOST_RECORDS) -> Pages:
        from headrace.pipeline.aws.clients.clients import kinesis_access
        from headrace.pipeline.aws.reading.pages import KinesisPages

        access = self._made.get(lambda: kinesis_access(self.settings.aws), "kinesis access")
        # Not kept: it is pickled to Spark's executors, with the keys of this moment.
        return KinesisPages(
            access=replace(access, identity=self.lake_tables.identity()),
            share=share,
            first_page=first_page,
            wire=self.settings.wire,
        )

    # -- the lake --------------------------------------------------------------------------------------------------

    def table(self, writer: str) -> IcebergTable:
        return self.lake_tables.table(writer)

    def lineage(self, writer: str) -> IcebergLineage:
        return self.lake_tables.lineage(writer)

    def files(self, user: str) -> TableFiles:
        return self.lake_tables.files(user)

    def lineage_files(self, user: str) -> TableFiles:
        return self.lake_tables.lineage_files(user)

    def live(self, writer: str) -> LiveTable:
        return self.lake_tables.live(writer)

    def rewriter(self) -> Rewriter:
        return self.lake_tables.rewriter()

    def stage(self, worker_id: str) -> Stage:
        return self.lake_tables.sessions.stage(worker_id, self.pages)

    def session(self, worker_id: str) -> SparkSession:
        from headrace.pipeline.lake.spark.waiting import warn

        return self.lake_tables.sessions.of(worker_id, warn)

    def close(self) -> None:
        """Stop the Spark session. Clients and tables hold nothing that outlives the process."""
        self.lake_tables.close()

    # -- typed tables, windows and proofs --------------------------------------------------------------------------

    def parsing(self, target: ParseSettings, run: str) -> ParsePorts:
        return self._targets.parsing(target, run)

    def windows(self) -> WindowStore:
        return self._targets.windows()

    def replaying(self, window: str, run: str) -> ReplayPorts:
        return self._targets.replaying(window, run)

    def unpacking(self, window: str) -> UnpackPorts:
        return self._targets.unpacking(window)

    def proof(self) -> ProofTable:
        return self._proofs.proof()

    def proved_tables(self) -> Iterator[TargetPorts]:
        return self._proofs.proved_tables()

    def other_side(self, rows: ConsumerRows, *, files: str | None, table: str | None) -> OtherSide:
        return self._proofs.other_side(rows, files=files, table=table)

    # -- clients ---------------------------------------------------------------------------------------------------

    def dynamodb(self) -> DynamoDBClient:
        from headrace.pipeline.aws.clients.clients import dynamodb_client

        return self._made.get(lambda: dynamodb_client(self.settings.aws), "dynamodb")

    def kinesis(self) -> KinesisClient:
        from headrace.pipeline.aws.clients.clients import kinesis_client

        return self._made.get(lambda: kinesis_client(self.settings.aws), "kinesis")
