"""Windows that read from the stream what the lake table lacks: the stream is in this process, and so is what Spark's tasks do."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from headrace.pipeline.aws.reading.kinesis import KinesisSource
from headrace.pipeline.core.landing.landing import Proposal
from headrace.pipeline.core.ledger.batch import Batch, BatchLimits, Manifest
from headrace.pipeline.core.ledger.ledger import Kind, LedgerEntry, Range
from headrace.pipeline.core.shards.position import TRIM, Origin, Position, Start
from headrace.pipeline.lake.staging.stage_task import stage_batches
from headrace.pipeline.lake.table.lake_table import IcebergTable
from headrace.pipeline.lineage.table import IcebergLineage
from headrace.pipeline.ports.pages import Pages
from headrace.pipeline.ports.reading import ShardSource
from headrace.pipeline.ports.staging import OnWaiting, Stage, StagingSpec
from headrace.pipeline.settings.choices import Aggregates
from headrace.pipeline.windows.make import Asked
from headrace.pipeline.windows.window import ReplayWindow
from headrace.pipeline.windows.windows import WindowRequest
from tests.aws.pages_world import World
from tests.windows.windows import WindowBed


@dataclass
class InProcessStage(Stage):
    bed: "StreamBed"

    def open(self, on_waiting: OnWaiting) -> None: ...

    def stage(self, batches: Sequence[Batch], spec: StagingSpec, limits: BatchLimits) -> Manifest:
        self.bed.on_stage()
        return stage_batches(
            batches, self.bed.pages(), spec=spec, limits=limits, threads=1, clock=self.bed.clock
        )


class StreamBed(WindowBed):
    def __init__(self, folder: Path, *, older: int = 0) -> None:
        """`older`: records that the stream has before the application begins to read, at its newest record."""
        super().__init__(folder)
        self.on_stage: Callable[[], object] = lambda: None
        """What happens while a wave is read."""
        self.world = World()
        self.pages: Callable[[], Pages] = self.world.reader
        self.older = self.world.put(*(b"%d" % n for n in range(older))) if older else []
        origin = Origin(Start(self.tick()) if older else TRIM, self.world.now())
        self.lake.handle().commit(Proposal(origins=((self.world.stream, origin),)))

    def tick(self, seconds: float = 0) -> datetime:
        self.world.aws.clock.advance(seconds)
        self.clock.at = self.world.now()
        return self.clock.at

    def source(self) -> ShardSource:
        return KinesisSource(self.world.client)

    def stage(self) -> Stage:
        return InProcessStage(self)

    def put(self, many: int, *, key: str = "customer") -> list[int]:
        numbers = self.world.put(*(b"%d" % n for n in range(many)), key=key)
        self.tick()
        return numbers

    def put_large(self, many: int) -> list[int]:
        """So large records that Kinesis gives only a few of them in a page."""
        numbers = self.world.put(*(bytes(900_000) for _ in range(many)))
        self.tick()
        return numbers

    def land_put(self, many: int, shard: int = 0, *, ended: Sequence[str] | None = None) -> list[int]:
        """Records that are put and that Headrace lands."""
        numbers = self.put(many) if many else []
        payloads = {number: b"%d" % n for n, number in enumerate(numbers)}
        self.land(self.world.key(shard), payloads, arrival=self.clock.at, ended=ended)
        return numbers

    def leave_out(
        self, kind: Kind, upto: Position, shard: int = 0, *, arrival: datetime | None = None
    ) -> None:
        """A range whose records don't land."""
        key, table = self.world.key(shard), self.lake.handle()
        before = table.load().positions.of(key)
        left = Range(
            kind, key, before, upto, run="person", claim="person/1", last_arrival=arrival, why="a reason"
        )
        assert not table.commit(Proposal((left,))).landing.refused
        self.tick()

    def window_from_stream(self, asked: Asked) -> ReplayWindow:
        return self.windowing().create(WindowRequest(asked, how="a test", from_stream=True))

    def keep_aggregates(self, window: ReplayWindow) -> None:
        """Make the window's table as settings with `landing.aggregates: keep` do."""
        name = self.table_of(window).identifier
        kept = IcebergTable(
            self.lake.properties, name, state=self.state, clock=self.clock, aggregates=Aggregates.KEEP
        )
        kept.ensure(create=True)

    def numbers(self, window: ReplayWindow) -> list[int]:
        return [number for _, _, number, _ in self.copied(window)]

    def ledger(self, window: ReplayWindow) -> list[Range]:
        entries = IcebergLineage(self.table_of(window)).entries()
        return [each for entry in entries if isinstance(entry, LedgerEntry) for each in entry.page.ranges]
