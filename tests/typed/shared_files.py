"""A lake table of which each file has rows of all shards, as the files of waves do, and a typed table of it."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from pathlib import Path

from headrace.pipeline.core.landing.landing import Proposal
from headrace.pipeline.core.ledger.batch import StagedFile
from headrace.pipeline.core.ledger.ledger import Kind, Range
from headrace.pipeline.core.shards.position import Position
from headrace.pipeline.core.shards.stream import ShardKey
from headrace.pipeline.lake.table.data_files import data_files
from headrace.pipeline.settings.blocks.upkeep import UpkeepSettings
from headrace.pipeline.upkeep.compact import Compacting
from headrace.pipeline.upkeep.live_table import IcebergLive
from tests.lake.samples import NOON, a_key
from tests.typed.parsings import batch_of, good, staged_together
from tests.upkeep.compactions import InProcess as InProcessRewriter
from tests.windows.replacements import ReplaceBed

SHARDS = tuple(a_key(n) for n in range(4))


class SharedFiles(ReplaceBed):
    """A lake table of which each file has rows of all shards, as those of waves do. Of Kinesis's sequence numbers the highest digits tell of the
    shard."""

    def __init__(self, folder: Path, shards: Sequence[ShardKey] = SHARDS) -> None:
        super().__init__(folder)
        self.shards = shards
        self.landings = 0

    def wave(self) -> str:
        """One landing of all shards, in one file. Returns its path."""
        (path,) = self.waves(1)
        return path

    def waves(self, count: int) -> list[str]:
        """Files as of so many landings, in one commit. Returns their paths."""
        files = [self.staged({key: [self._number(key)] for key in self.shards}) for _ in self._next(count)]
        last = self.landings
        self._land({key: self._number(key, last) for key in self.shards}, files, rows=count, arrival=NOON)
        return [file.path for file in files]

    def _next(self, count: int) -> Iterator[int]:
        for _ in range(count):
            self.landings += 1
            yield self.landings

    def _number(self, key: ShardKey, landing: int | None = None) -> int:
        return 10_000 * (1 + self.shards.index(key)) + (landing or self.landings)

    def land_rows(self, rows: Mapping[ShardKey, list[int]], *, arrival: datetime = NOON) -> str:
        # At the earliest when the records arrive.
        was, self.clock.at = self.clock.at, max(self.clock.at, arrival)
        file = self.staged(rows, arrival=arrival)
        (count,) = {len(numbers) for numbers in rows.values()}
        self._land({key: numbers[-1] for key, numbers in rows.items()}, [file], rows=count, arrival=arrival)
        self.clock.at = was
        return file.path

    def _land(
        self, last: Mapping[ShardKey, int], files: Sequence[StagedFile], *, rows: int, arrival: datetime
    ) -> None:
        """`last`: the highest number of each shard. `rows`: of each shard."""
        table = self.lake.handle()
        before = table.load().positions
        ranges = tuple(
            Range(
                Kind.LANDED,
                key,
                before.of(key),
                Position(number, arrival=arrival),
                run="run",
                claim="run/1",
                rows=rows,
                first_arrival=arrival,
                last_arrival=arrival + timedelta(milliseconds=rows),
                files=tuple(file.path.rsplit("/", 1)[-1] for file in files),
            )
            for key, number in last.items()
        )
        assert not table.commit(Proposal(ranges, tuple(files))).landing.refused

    def staged(self, rows: Mapping[ShardKey, list[int]], *, arrival: datetime = NOON) -> StagedFile:
        batches = {
            key: batch_of(key, [(n, 0) for n in numbers], {n: good(n) for n in numbers}, arrival=arrival)
            for key, numbers in rows.items()
        }
        (file,) = staged_together(self, batches)
        return file

    def looked_into(self) -> set[str]:
        """The files that a wave looks into, in a process that knows of none."""
        self.parser.surveyed.clear()
        self.parsing().wave()
        return {path for order in self.parser.surveyed for path in order.files}

    def insert_as_others(self, rows: Mapping[ShardKey, list[int]]) -> None:
        table, file = self.lake.handle().open(), self.staged(rows)
        with table.transaction() as change, change.update_snapshot().fast_append() as append:
            for each in data_files((file,), table.metadata):
                append.append_data_file(each)

    def compact(self) -> None:
        self.clock.at += timedelta(hours=2)
        lake = self.lake.handle()
        done = Compacting(
            table=IcebergLive(lake),
            rewriter=lambda: InProcessRewriter(lake),
            settings=UpkeepSettings(),
            clock=self.clock,
        ).run()
        assert done.done

    def set_head(self, snapshot: int) -> None:
        self.lake.handle().open().manage_snapshots().set_current_snapshot(snapshot).commit()

    @property
    def head(self) -> int:
        head = self.lake.handle().open().current_snapshot()
        assert head is not None
        return head.snapshot_id
