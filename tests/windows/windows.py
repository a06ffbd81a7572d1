"""Windows over a real lake table, and the copying of them. What Spark's tasks do is done in this process."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

from headrace.pipeline.clock import SystemIds
from headrace.pipeline.core.ledger.batch import BatchLimits
from headrace.pipeline.core.shards.position import Position, Start
from headrace.pipeline.lake.table import plain_read as read
from headrace.pipeline.lake.table.lake_table import IcebergTable
from headrace.pipeline.lineage.table import IcebergLineage
from headrace.pipeline.ports.reading import ShardSource
from headrace.pipeline.ports.staging import Stage
from headrace.pipeline.settings.model import Settings, StreamSettings
from headrace.pipeline.typed.source import IcebergSource
from headrace.pipeline.typed.values import Parsed, Survey, SurveyOrder, WaveLimits, WavePlan
from headrace.pipeline.windows.copier import TaskCopier
from headrace.pipeline.windows.copy import Replaying
from headrace.pipeline.windows.make import Asked
from headrace.pipeline.windows.ports import Copier, ReplayPorts
from headrace.pipeline.windows.read_stream import WindowReading
from headrace.pipeline.windows.table import IcebergWindows
from headrace.pipeline.windows.window import ReplayWindow, WindowRange, window_table
from headrace.pipeline.windows.windows import Windowing, WindowRequest
from tests.lake.samples import NOON, a_key
from tests.memory.tasks import LocalTasks
from tests.typed.parsings import Bed, Killed

SETTINGS = Settings(application="windows-app", streams=(StreamSettings(name="orders"),))


def a_window(name: str) -> ReplayWindow:
    first = Position(10**55 + 7, 3, arrival=NOON)
    last = Position(10**55 + 9, ended=True, children=("shardId-2",), start=Start(NOON))
    return ReplayWindow(
        id=name,
        application="app",
        made=datetime(2026, 1, 31, 12, 0, 0, 123456, UTC),
        by="somebody on a host",
        how="what run r landed",
        ranges=(
            WindowRange(a_key(0), None, last, rows=3, bytes=30),
            WindowRange(a_key(1), first, last, ("shardId-0",), is_whole=False),
        ),
        missing=("something is out of reach",),
        oldest_day=date(2026, 1, 30),
    )


@dataclass
class InProcess(Copier):
    """The real copier, whose tasks run in this process: a task for each row group, as on a large Spark."""

    bed: "WindowBed"
    table: IcebergTable

    def survey(self, order: SurveyOrder) -> Survey:
        self.bed.looked_into_by_windows.update(order.files)
        return self._copier().survey(order)

    def copy(self, plan: WavePlan) -> Parsed:
        return self._copier().copy(plan)

    def _copier(self) -> TaskCopier:
        tasks = LocalTasks(self.bed.clock, cores=1_000)
        return TaskCopier(tasks=tasks, source=self.bed.lake.iceberg, table=self.table)


class WindowBed(Bed):
    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.looked_into_by_windows: set[str] = set()
        """Files of the lake table that the copying of windows has looked into."""

    def windowing(self, settings: Settings = SETTINGS) -> Windowing:
        return Windowing(
            settings=settings,
            windows=IcebergWindows(self.lake.handle()),
            lineage=IcebergLineage(self.lake.handle()),
            clock=self.clock,
            ids=SystemIds(),
            by="a test",
            source=self.source,
            kept_from=lambda: self.lake.handle().load().kept_from,
        )

    def source(self) -> ShardSource:
        raise AssertionError("a window of landed records asks Kinesis for nothing")

    def stage(self) -> Stage:
        raise AssertionError("a window of landed records reads nothing from the stream")

    def window(self, asked: Asked) -> ReplayWindow:
        return self.windowing().create(WindowRequest(asked, how="a test"))

    def table_of(self, window: ReplayWindow) -> IcebergTable:
        return self.own_table(window.id)

    def own_table(self, window: str) -> IcebergTable:
        name = window_table(self.lake.name, window)
        return IcebergTable(self.lake.properties, name, state=self.state, clock=self.clock)

    def ports_of(self, window: str) -> ReplayPorts:
        table = self.own_table(window)
        return ReplayPorts(
            source=IcebergSource(self.lake.handle()),
            table=table,
            copier=InProcess(bed=self, table=table),
            lineage=IcebergLineage(table),
            stage=self.stage,
            landed=IcebergLineage(self.lake.handle()),
        )

    def replaying(
        self,
        window: ReplayWindow,
        *,
        limits: WaveLimits | None = None,
        records: int = 1_000_000,
        kill: str = "",
        at: Callable[[str], None] = lambda _: None,
    ) -> Replaying:
        def on_step(arrow: str) -> None:
            at(arrow)
            if arrow == kill:
                raise Killed(arrow)

        return Replaying(
            id=window.id,
            windows=IcebergWindows(self.lake.handle()),
            ports=self.ports_of(window.id),
            reading=WindowReading(
                source=self.source, stage=self.stage, limits=BatchLimits(records, 2**30, 60.0)
            ),
            limits=limits or WaveLimits(1_000_000, 2**30),
            clock=self.clock,
            run=f"run-{next(self._runs)}",
            on_step=on_step,
        )

    def copy(self, window: ReplayWindow, **how: Any) -> list[str]:
        """Copy the window as a whole. Returns what each wave told."""
        return [f"{wave}" for wave in self.replaying(window, **how).waves()]

    def copied(self, window: ReplayWindow) -> list[tuple[str, int, int, int]]:
        """Epoch, shard, sequence number and sub-sequence number of each row of the window's table."""
        return _rows(self.table_of(window))

    def lake_rows(self) -> list[tuple[str, int, int, int]]:
        return _rows(self.lake.handle())


def _rows(table: IcebergTable) -> list[tuple[str, int, int, int]]:
    columns = ("stream_epoch", "shard_id", "sequence_number", "sub_sequence_number")
    found = read.rows(table, columns).to_pylist()
    return sorted(
        (r["shard_id"], r["stream_epoch"], int(r["sequence_number"]), r["sub_sequence_number"]) for r in found
    )
