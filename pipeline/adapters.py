"""The real ports of an application: DynamoDB, Kinesis, Iceberg and Spark, as its settings name them.

Each port is made when it is first needed, and kept as long as the process uses the settings: making a boto3 client costs
a tenth of a second of CPU, which was most of what a deployment without traffic used. When the AWS credentials or the
endpoint of the process may have changed, all kept ports are dropped together and made anew.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from pipeline.aws.identity import Identity
from pipeline.clock import SystemClock, SystemIds, SystemTimer
from pipeline.core.pace import FIRST_PAGE_OF_A_WINDOW, MOST_RECORDS, window_share
from pipeline.core.shadow import ConsumerRows
from pipeline.core.window import ReplayWindow
from pipeline.lake_ports import LiveTable, Pages, Rewriter, Stage, TableFiles
from pipeline.ports import Clock, LeaderLock, LeaseStore, ShardSource, Tables, WorkerStore
from pipeline.proof_ports import OtherSide, ProofTable, ProvedTable, TargetPorts
from pipeline.settings.choices import ParseFormat
from pipeline.settings.model import Settings
from pipeline.settings.parse_block import ParseSettings
from pipeline.target_ports import KeptTable, ParsePorts, ReplayPorts, Thinned, UnpackPorts, WindowStore

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient
    from mypy_boto3_kinesis import KinesisClient

    from pipeline.aws.table_layout import KnownPlaces
    from pipeline.lake.compare_task import SideSpec
    from pipeline.lake.iceberg import IcebergTable
    from pipeline.lake.lineage_table import IcebergLineage
    from pipeline.lake.parsed_table import IcebergQuarantine, IcebergTyped
    from pipeline.lake.sessions import Sessions

_T = TypeVar("_T")
_Table = TypeVar("_Table", bound="IcebergTable")
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
        self._sessions: Sessions | None = None
        self._making = threading.RLock()
        self._identity = Identity(self.clock.monotonic)
        self._made_for: tuple[object, ...] = ()
        self._made: dict[tuple[str, ...], object] = {}

    # -- coordination tables ---------------------------------------------------------------------------------------

    def leases(self) -> LeaseStore:
        from pipeline.aws.leases import DynamoLeaseStore

        def make() -> LeaseStore:
            places = self._places()
            return DynamoLeaseStore(
                self.dynamodb(),
                self.settings.lease_table,
                clock=self.clock,
                entity_type=lambda: not places().arrangement.lease_rows_only,
            )

        return self._kept(make, "leases")

    def workers(self) -> WorkerStore:
        from pipeline.aws.workers import DynamoWorkerStore

        def make() -> WorkerStore:
            places = self._places()
            # A function, because KCL may move the workers' rows to another table while this process runs.
            return DynamoWorkerStore(
                self.dynamodb(),
                lambda: places().workers,
                clock=self.clock,
                also=lambda: places().also_workers,
            )

        return self._kept(make, "workers")

    def lock(self) -> LeaderLock:
        from pipeline.aws.leader_lock import DynamoLeaderLock

        def make() -> LeaderLock:
            places = self._places()
            return DynamoLeaderLock(self.dynamodb(), lambda: places().lock)

        return self._kept(make, "lock")

    def tables(self) -> Tables:
        from pipeline.aws.tables import DynamoTables

        return self._kept(
            lambda: DynamoTables(self.dynamodb(), self.settings, patience=_PATIENCE, places=self._places()),
            "tables",
        )

    def _places(self) -> KnownPlaces:
        from pipeline.aws.table_layout import KnownPlaces

        return self._kept(lambda: KnownPlaces(self.dynamodb(), self.settings, self.clock), "places")

    # -- Kinesis ---------------------------------------------------------------------------------------------------

    def source(self, user: str) -> ShardSource:
        from pipeline.aws.kinesis import KinesisSource

        return self._kept(lambda: KinesisSource(self.kinesis()), "source", user)

    def pages(self) -> Pages:
        return self._pages(self.settings.wave.shard_share)

    def _pages(self, share: float, first_page: int = MOST_RECORDS) -> Pages:
        from pipeline.aws.pages import KinesisPages

        # Not kept: it holds no connection, and is pickled to Spark's executors.
        settings = self.settings
        return KinesisPages(
            region=self.kinesis().meta.region_name,
            endpoint=settings.aws.endpoint,
            profile=settings.aws.profile,
            share=share,
            first_page=first_page,
            wire=settings.wire,
        )

    # -- the lake --------------------------------------------------------------------------------------------------

    def table(self, writer: str) -> IcebergTable:
        from pipeline.lake.iceberg import IcebergTable

        return self._table(IcebergTable, self.settings.landing.table, writer)

    def _table(self, kind: type[_Table], name: str, writer: str) -> _Table:
        from pipeline.lake.aws_access import with_aws
        from pipeline.lake.catalog import embedded_catalog
        from pipeline.lake.state_files import KeptStates

        def make() -> _Table:
            landing, private = self.settings.landing, self.settings.private_files
            catalog = landing.catalog or embedded_catalog(Path(landing.home), private=private)
            return kind(
                with_aws(catalog, self.settings.aws),
                name,
                state=landing.state or str(Path(landing.home).resolve() / "state"),
                clock=self.clock,
                writer=writer,
                # Before each commit, this host's clock is compared with AWS's.
                date_of_aws=lambda: self.source(writer).aws_now(),
                private=private,
                kept=self._kept(KeptStates, "state"),
                aggregates=landing.aggregates,
            )

        return self._kept(make, "table", name, writer)

    def typed(self, target: ParseSettings, writer: str) -> IcebergTyped:
        from pipeline.lake.parsed_table import IcebergTyped

        return self._table(IcebergTyped, target.table, writer)

    def quarantine(self, target: ParseSettings, writer: str) -> IcebergQuarantine:
        from pipeline.lake.parsed_table import IcebergQuarantine

        return self._table(IcebergQuarantine, target.quarantine, writer)

    def parsing(self, target: ParseSettings, run: str) -> ParsePorts:
        """On the Spark of the first worker in the settings, as compaction."""
        from pipeline.core.batch_context import BatchContext
        from pipeline.lake.lineage_table import IcebergLineage
        from pipeline.lake.parse_code import code_of
        from pipeline.lake.parse_frame import Frames
        from pipeline.lake.parse_source import IcebergSource
        from pipeline.lake.redrive import SparkRedriver
        from pipeline.lake.table_files import IcebergFiles, LineageFiles, QuarantineFiles

        writer = f"parse {target.name}"
        worker = self.settings.workers[0]
        lake, table, quarantine = (
            self.table(writer),
            self.typed(target, writer),
            self.quarantine(target, writer),
        )
        frames = Frames(target, BatchContext(target.name, target.version, run))
        parser = SparkRedriver(
            session=partial(self.sessions.for_user_code, worker.id),
            frames=frames,
            source=lake,
            table=table,
            quarantine=quarantine,
            tasks=worker.spark.tasks,
        )
        return ParsePorts(
            # Kept, because it remembers the manifests that it has read.
            source=self._kept(lambda: IcebergSource(lake), "parse source", writer),
            table=table,
            quarantine=quarantine,
            parser=parser,
            dropped_as=frames.dropped_as,
            set_aside=IcebergSource(quarantine),
            redriver=replace(parser, source=quarantine),
            inferrer=parser if target.format is ParseFormat.JSON else None,
            code=lambda: code_of(target),
            typed=Thinned(
                table=self._kept(lambda: IcebergSource(table), "parsed rows", writer),
                leaver=replace(parser, source=table),
            ),
            lineage=IcebergLineage(table),
            kept=(
                self._kept_table(table, lambda _: (IcebergFiles(table), LineageFiles(IcebergLineage(table)))),
                self._kept_table(
                    quarantine,
                    lambda settle: (
                        QuarantineFiles(quarantine, table, settle),
                        LineageFiles(IcebergLineage(quarantine)),
                    ),
                ),
            ),
        )

    def _kept_table(
        self, table: IcebergTable, files: Callable[[Callable[[], object]], tuple[TableFiles, ...]]
    ) -> KeptTable:
        from pipeline.lake.lineage_table import IcebergLineage
        from pipeline.lake.live_table import IcebergLive
        from pipeline.lake.rewrite import SparkRewriter

        return KeptTable(
            name=table.identifier,
            table=table,
            files=files,
            live=IcebergLive(table),
            rewriter=lambda: SparkRewriter(partial(self.sessions.of, self.settings.workers[0].id), table),
            lineage=lambda: IcebergLineage(table),
        )

    def windows(self) -> WindowStore:
        from pipeline.lake.window_table import IcebergWindows

        return IcebergWindows(self.table("window"))

    def window_table(self, window: str, writer: str) -> IcebergTable:
        """The own table of a window."""
        from pipeline.core.window import window_table
        from pipeline.lake.window_table import IcebergWindowCopy

        return self._table(IcebergWindowCopy, window_table(self.settings.landing.table, window), writer)

    def replaying(self, window: str, run: str) -> ReplayPorts:
        """On the Spark of the first worker in the settings, as compaction."""
        from pipeline.lake.lineage_table import IcebergLineage
        from pipeline.lake.parse_source import IcebergSource
        from pipeline.lake.window_copy import SparkCopier

        worker, writer = self.settings.workers[0], f"window {window}"
        lake, table = self.table(writer), self.window_table(window, writer)
        return ReplayPorts(
            source=IcebergSource(lake),
            table=table,
            copier=SparkCopier(
                session=partial(self.sessions.of, worker.id),
                source=lake,
                table=table,
                cores=worker.spark.tasks,
            ),
            lineage=IcebergLineage(table),
            stage=self._window_stage,
            landed=IcebergLineage(lake),
        )

    def unpacking(self, window: str) -> UnpackPorts:
        """On the Spark of the first worker in the settings, as compaction."""
        from pipeline.lake.lineage_table import IcebergLineage
        from pipeline.lake.parse_source import IcebergSource
        from pipeline.lake.unpack import SparkUnpacker

        worker, writer = self.settings.workers[0], f"window {window}"
        lake = self.table(writer)
        return UnpackPorts(
            source=IcebergSource(lake),
            table=lake,
            unpacker=SparkUnpacker(
                session=partial(self.sessions.of, worker.id), table=lake, cores=worker.spark.tasks
            ),
            lineage=IcebergLineage(lake),
            typed={target.name: self.typed(target, writer) for target in self.settings.parse},
        )

    def files(self, user: str) -> TableFiles:
        from pipeline.lake.table_files import IcebergFiles

        return self._kept(lambda: IcebergFiles(self.table(user)), "files", user)

    def lineage_files(self, user: str) -> TableFiles:
        from pipeline.lake.table_files import LineageFiles

        return self._kept(lambda: LineageFiles(self.lineage(user)), "lineage files", user)

    def live(self, writer: str) -> LiveTable:
        from pipeline.lake.live_table import IcebergLive

        return self._kept(lambda: IcebergLive(self.table(writer)), "live", writer)

    def rewriter(self) -> Rewriter:
        """Compaction's part on Spark: on that of the first worker in the settings."""
        from pipeline.lake.rewrite import SparkRewriter

        worker = self.settings.workers[0].id
        return SparkRewriter(partial(self.sessions.of, worker), self.table("upkeep"))

    def proof(self) -> ProofTable:
        """The proof's part on Spark: on that of the first worker in the settings."""
        from pipeline.lake.prove import IcebergProof, on_spark

        session = partial(self.sessions.of, self.settings.workers[0].id)
        return IcebergProof(self.table("prove"), on_spark(session))

    def proved_tables(self) -> Iterator[TargetPorts]:
        """The typed tables, and the tables of all windows, as a proof reads them. On the Spark of the first worker in the settings."""
        user = "prove"
        for target in self.settings.parse:
            ports = self._proved(self.typed(target, user), self.quarantine(target, user))
            yield replace(ports, stream=target.stream)
        for each in self.windows().all():
            yield self._proved(self.window_table(each.window.id, user), window=each.window)

    def _proved(
        self, table: IcebergTable, aside: IcebergTable | None = None, window: ReplayWindow | None = None
    ) -> TargetPorts:
        from pipeline.lake.compare import ShufflingComparer
        from pipeline.lake.compare import on_spark as shuffled_on_spark
        from pipeline.lake.lineage_table import IcebergLineage
        from pipeline.lake.parse_source import IcebergSource
        from pipeline.lake.prove import IcebergProof, on_spark

        session = partial(self.sessions.of, self.settings.workers[0].id)
        lake = self.table("prove")

        def proved(of: IcebergTable) -> ProvedTable:
            return ProvedTable(
                of.identifier, of.exists, IcebergProof(of, on_spark(session)), IcebergLineage(of)
            )

        sides = (lake, table) if aside is None else (lake, table, aside)
        return TargetPorts(
            table=proved(table),
            aside=None if aside is None else proved(aside),
            source=IcebergSource(lake),
            lake=IcebergProof(lake, on_spark(session)),
            comparer=ShufflingComparer(shuffled_on_spark(session), [partial(_side, each) for each in sides]),
            window=window,
        )

    def other_side(self, rows: ConsumerRows, *, files: str | None, table: str | None) -> OtherSide:
        """Another consumer's output: files at a path or an address, or a table of the lake table's catalog."""
        from pipeline.lake.compare import OtherFiles
        from pipeline.lake.compare import on_spark as shuffled_on_spark
        from pipeline.lake.other_rows import files_at
        from pipeline.lake.other_table import files_of_table
        from pipeline.lake.prove import on_spark

        session = partial(self.sessions.of, self.settings.workers[0].id)
        lake = self.table("shadow")

        def paths() -> tuple[str, ...]:
            if table is not None:
                return files_of_table(lake.catalog, table)
            return files_at(files or "", lake.staging_spec())

        return OtherFiles(
            table or files or "",
            paths,
            lake.staging_spec,
            rows,
            run=on_spark(session),
            shuffle=shuffled_on_spark(session),
        )

    def lineage(self, writer: str) -> IcebergLineage:
        from pipeline.lake.lineage_table import IcebergLineage

        return self._kept(lambda: IcebergLineage(self.table(writer), writer=writer), "lineage", writer)

    @property
    def sessions(self) -> Sessions:
        from pipeline.lake.sessions import Sessions

        if self._sessions is None:
            self._sessions = Sessions(self.settings)
        return self._sessions

    def stage(self, worker_id: str) -> Stage:
        return self.sessions.stage(worker_id, self.pages())

    def _window_stage(self) -> Stage:
        def make() -> Stage:
            share = window_share(self.settings.wave.shard_share)
            pages = self._pages(share, first_page=FIRST_PAGE_OF_A_WINDOW)
            return self.sessions.stage(self.settings.workers[0].id, pages)

        # Kept, because it remembers where it has stopped in shards with many empty pages.
        return self._kept(make, "window stage")

    def close(self) -> None:
        """Stop the Spark session. Clients and tables hold nothing that outlives the process."""
        if self._sessions is not None:
            self._sessions.close()

    # -- clients ---------------------------------------------------------------------------------------------------

    def dynamodb(self) -> DynamoDBClient:
        from pipeline.aws.clients import dynamodb_client

        return self._kept(lambda: dynamodb_client(self.settings.aws), "dynamodb")

    def kinesis(self) -> KinesisClient:
        from pipeline.aws.clients import kinesis_client

        return self._kept(lambda: kinesis_client(self.settings.aws), "kinesis")

    def _kept(self, make: Callable[[], _T], *name: str) -> _T:
        # Reentrant, because making one port may ask for another. Without the lock two threads would make two clients.
        with self._making:
            identity = self._identity.of(os.environ)
            if identity != self._made_for:
                self._made_for, self._made = identity, {}
            if name not in self._made:
                self._made[name] = make()
            return self._made[name]  # type: ignore[return-value] # each name is made by one function


def _side(table: IcebergTable) -> SideSpec:
    from pipeline.lake.compare_task import SideSpec

    return SideSpec(table.staging_spec())
