"""The tables of the lake on Iceberg, and the Spark sessions that work on them, as an application's settings name them."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from headrace.pipeline.lake_ports import LiveTable, OnWaiting, Rewriter, TableFiles
from headrace.pipeline.made_once import MadeOnce
from headrace.pipeline.ports import Clock, ShardSource
from headrace.pipeline.settings.model import Settings
from headrace.pipeline.settings.parse_block import ParseSettings
from headrace.pipeline.task_identity import DriverIdentity, TaskIdentity

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from headrace.pipeline.lake.iceberg import IcebergTable
    from headrace.pipeline.lake.lineage_table import IcebergLineage
    from headrace.pipeline.lake.parsed_table import IcebergQuarantine, IcebergTyped
    from headrace.pipeline.lake.sessions import Sessions

_Table = TypeVar("_Table", bound="IcebergTable")


class LakeAdapters:
    def __init__(
        self, settings: Settings, *, clock: Clock, made: MadeOnce, source: Callable[[str], ShardSource]
    ) -> None:
        """`source`: Kinesis as the writer of a table asks it, for the time of AWS."""
        self.settings = settings
        self.made = made
        self._clock = clock
        self._source = source
        self._sessions: Sessions | None = None

    def identity(self) -> TaskIdentity:
        """Who a Spark task is to AWS that begins now."""
        return self.made.get(lambda: DriverIdentity(self.settings.aws.profile), "identity").now()

    def table(self, writer: str) -> IcebergTable:
        from headrace.pipeline.lake.iceberg import IcebergTable

        return self._table(IcebergTable, self.settings.landing.table, writer)

    def _table(self, kind: type[_Table], name: str, writer: str) -> _Table:
        from headrace.pipeline.core.applications import application_name
        from headrace.pipeline.lake.aws_access import with_aws
        from headrace.pipeline.lake.catalog import embedded_catalog
        from headrace.pipeline.lake.state_files import KeptStates

        def make() -> _Table:
            landing, private = self.settings.landing, self.settings.private_files
            catalog = landing.catalog or embedded_catalog(Path(landing.home), private=private)
            return kind(
                with_aws(catalog, self.settings.aws),
                name,
                state=landing.state or str(Path(landing.home).resolve() / "state"),
                clock=self._clock,
                writer=writer,
                application=application_name(self.settings),
                # Before each commit, this host's clock is compared with AWS's.
                date_of_aws=lambda: self._source(writer).aws_now(),
                private=private,
                kept=self.made.get(KeptStates, "state"),
                aggregates=landing.aggregates,
                identity=self.identity,
            )

        return self.made.get(make, "table", name, writer)

    def typed(self, target: ParseSettings, writer: str) -> IcebergTyped:
        from headrace.pipeline.lake.parsed_table import IcebergTyped

        return self._table(IcebergTyped, target.table, writer)

    def quarantine(self, target: ParseSettings, writer: str) -> IcebergQuarantine:
        from headrace.pipeline.lake.parsed_table import IcebergQuarantine

        return self._table(IcebergQuarantine, target.quarantine, writer)

    def window_table(self, window: str, writer: str) -> IcebergTable:
        """The own table of a window."""
        from headrace.pipeline.core.window import window_table
        from headrace.pipeline.lake.window_table import IcebergWindowCopy

        return self._table(IcebergWindowCopy, window_table(self.settings.landing.table, window), writer)

    def lineage(self, writer: str) -> IcebergLineage:
        from headrace.pipeline.lake.lineage_table import IcebergLineage

        return self.made.get(lambda: IcebergLineage(self.table(writer), writer=writer), "lineage", writer)

    def files(self, user: str) -> TableFiles:
        from headrace.pipeline.lake.table_files import IcebergFiles

        return self.made.get(lambda: IcebergFiles(self.table(user)), "files", user)

    def lineage_files(self, user: str) -> TableFiles:
        from headrace.pipeline.lake.table_files import LineageFiles

        return self.made.get(lambda: LineageFiles(self.lineage(user)), "lineage files", user)

    def live(self, writer: str) -> LiveTable:
        from headrace.pipeline.lake.live_table import IcebergLive

        return self.made.get(lambda: IcebergLive(self.table(writer)), "live", writer)

    def rewriter(self) -> Rewriter:
        """Compaction's part on Spark."""
        from headrace.pipeline.lake.rewrite import SparkRewriter

        return SparkRewriter(self.session, self.table("upkeep"))

    # -- Spark -----------------------------------------------------------------------------------------------------

    @property
    def sessions(self) -> Sessions:
        from headrace.pipeline.lake.sessions import Sessions

        if self._sessions is None:
            self._sessions = Sessions(self.settings)
        return self._sessions

    @property
    def session(self) -> Callable[[OnWaiting], SparkSession]:
        """The Spark of the first worker in the settings: for compaction, typed tables, windows and proofs."""
        return partial(self.sessions.of, self.settings.workers[0].id)

    def close(self) -> None:
        """Close the Spark sessions. Tables hold nothing that outlives the process."""
        if self._sessions is not None:
            self._sessions.close()
