"""A lake table with many small files, and a compaction of it."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import pyarrow as pa

from headrace.pipeline.core.landing.landing import Proposal
from headrace.pipeline.core.ledger.live_files import LiveFile
from headrace.pipeline.core.shards.stream import ShardKey
from headrace.pipeline.lake.table import plain_read as read
from headrace.pipeline.lake.table.lake_table import IcebergTable
from headrace.pipeline.settings.blocks.upkeep import UpkeepSettings
from headrace.pipeline.upkeep.compact import Compacting
from headrace.pipeline.upkeep.live_table import IcebergLive
from headrace.pipeline.upkeep.rewrite_plan import FileGroup, Rewritten
from headrace.pipeline.upkeep.rewriter import TaskRewriter
from tests.lake.samples import NOON, ORIGIN, StandingClock, a_file, a_key, a_range
from tests.lake.tables import IcebergLake
from tests.memory.tasks import LocalTasks

A, B = a_key(0), a_key(1)
SETTINGS = UpkeepSettings()
KEYS = ["stream", "stream_epoch", "shard_id", "sequence_number", "sub_sequence_number"]


@dataclass
class InProcess:
    """The real rewriter, whose tasks run in this process. `meanwhile` is called between the writing and the commit."""

    lake: IcebergTable
    meanwhile: Callable[[], object] = lambda: None
    spoil: Callable[[Rewritten], Rewritten] = lambda rewritten: rewritten
    groups: list[FileGroup] = field(default_factory=list)

    def __call__(self, groups: Sequence[FileGroup]) -> tuple[Rewritten, ...]:
        self.groups += groups
        rewritten = TaskRewriter(LocalTasks(self.lake.clock), self.lake)(groups)
        self.meanwhile()
        return tuple(map(self.spoil, rewritten))


class Small:
    """A table into which `waves` waves of two shards have landed, each with a file of its own."""

    def __init__(self, folder: Path, waves: int = 6) -> None:
        self.lake = IcebergLake(folder)
        self.lake.clock.at = datetime.now(UTC) + timedelta(hours=1)
        self.lake.iceberg.commit(ORIGIN)
        self.arrival = NOON
        for _ in range(waves):
            self.land()
        self.rewriter = InProcess(self.lake.iceberg)

    @property
    def clock(self) -> StandingClock:
        return self.lake.clock

    @property
    def table(self) -> IcebergTable:
        return self.lake.iceberg

    def land(self, keys: Sequence[ShardKey] = (A, B), *, arrival: datetime | None = None) -> str:
        """One wave. The sequence numbers go over from one digit to two, so that their order as text is wrong."""
        positions = self.lake.handle().load().positions
        stands = {key: at.sequence or 0 if (at := positions.of(key)) else 7 for key in keys}
        rows = {key: [n + 1, n + 2] for key, n in stands.items()}
        file = a_file(self.table.staging_spec(), rows, arrival=arrival or self.arrival)
        file = replace(file, staged_at=self.clock.at)
        ranges = tuple(
            a_range(key, n if positions.of(key) else None, n + 2, rows=2, files=[file])
            for key, n in stands.items()
        )
        committed = self.lake.handle().commit(Proposal(ranges, (file,)))
        assert not committed.landing.refused
        return file.path

    def compacting(self, settings: UpkeepSettings = SETTINGS) -> Compacting:
        live = IcebergLive(self.lake.handle())
        return Compacting(table=live, rewriter=lambda: self.rewriter, settings=settings, clock=self.clock)

    def live(self) -> tuple[LiveFile, ...]:
        return IcebergLive(self.lake.handle()).live().files

    def rows(self) -> pa.Table:
        """All rows with all columns, in one order."""
        found = read.rows(self.lake.handle()).cast(self.table.open().schema().as_arrow())
        return found.sort_by([(name, "ascending") for name in KEYS]).combine_chunks()

    def operation(self) -> str:
        head = self.lake.handle().open().current_snapshot()
        assert head is not None
        assert head.summary is not None
        return head.summary.operation.value

    def parquet(self) -> set[str]:
        root = Path(self.table.open().location().removeprefix("file://"))
        return {str(each) for each in (root / "data").rglob("*.parquet")}

    def add_column(self, name: str = "note") -> None:
        from pyiceberg.types import StringType

        with self.table.open().update_schema() as update:
            update.add_column(name, StringType())


def day(text: str) -> date:
    return date.fromisoformat(text)
