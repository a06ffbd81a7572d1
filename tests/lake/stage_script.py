"""A reader whose answers a test writes as a script, and helpers to stage them."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import count
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from headrace.pipeline.aws.reading.pages_decode import record_schema
from headrace.pipeline.core.ledger.batch import Batch, BatchLimits, Manifest, Staged
from headrace.pipeline.core.shards.position import TRIM, Position
from headrace.pipeline.core.shards.shard import Child
from headrace.pipeline.core.shards.stream import ShardKey
from headrace.pipeline.lake.files.sort_key import SORT_KEY
from headrace.pipeline.lake.staging.stage_task import stage_batches
from headrace.pipeline.ports.pages import Pages, RecordPage
from headrace.pipeline.ports.staging import StagingSpec
from tests.lake.samples import NOON, StandingClock, a_key

DAY = timedelta(days=1)
ROOMY = BatchLimits(records=1_000_000, bytes=1 << 30, seconds=60.0)

Step = RecordPage | Exception | Callable[[], object]


@dataclass
class Script:
    """For each shard id, its answers in order. An exception among them is raised; a function is called before the
    next answer."""

    steps: dict[str, Sequence[Step]]
    asked: list[str] = field(default_factory=list)
    """The shard ids of all answers so far, in order."""

    def pages(self, batch: Batch) -> Iterator[RecordPage]:
        for step in self.steps[batch.key.shard_id]:
            if isinstance(step, RecordPage):
                self.asked.append(batch.key.shard_id)
                yield step
            elif isinstance(step, Exception):
                raise step
            else:
                step()


def script(**steps: Sequence[Any]) -> Script:
    """A script by shards: `s0=[...]` is shard 0."""
    return Script({a_key(int(name[1:])).shard_id: each for name, each in steps.items()})


def a_page(
    *numbers: int,
    key: ShardKey | None = None,
    arrival: datetime = NOON,
    answered: datetime = NOON,
    behind: float = 0,
    children: tuple[str, ...] | None = None,
    payload: bytes = b"payload",
) -> RecordPage:
    found = [Child(child, ("shardId-000000000000",)) for child in children] if children is not None else None
    return RecordPage(
        records=_records(key or a_key(), numbers, [arrival] * len(numbers), payload) if numbers else None,
        rows=len(numbers),
        bytes=len(payload) * len(numbers),
        answered=answered,
        behind=timedelta(seconds=behind),
        last_sequence=numbers[-1] if numbers else None,
        first_arrival=arrival if numbers else None,
        last_arrival=arrival if numbers else None,
        children=tuple(found) if found is not None else None,
    )


def across_midnight(*arrivals: datetime) -> RecordPage:
    """A page whose records 1, 2, 3... arrived at these times."""
    numbers = range(1, len(arrivals) + 1)
    return RecordPage(
        records=_records(a_key(), numbers, arrivals, b"payload"),
        rows=len(arrivals),
        bytes=7 * len(arrivals),
        answered=arrivals[0],
        behind=timedelta(0),
        last_sequence=numbers[-1],
        first_arrival=arrivals[0],
        last_arrival=arrivals[-1],
        children=None,
    )


def a_batch(
    shard: int = 0,
    after: Position | int | None = None,
    *,
    witness: datetime = NOON,
    retention: timedelta = DAY,
    weight: float = 1.0,
) -> Batch:
    at = Position(after, arrival=NOON) if isinstance(after, int) else after
    return Batch(a_key(shard), at, TRIM, witness, retention, weight=weight)


def a_spec(folder: Path | str) -> StagingSpec:
    """Field ids other than 1, 2, 3, as in a table whose schema was changed."""
    names = (*record_schema().names, SORT_KEY)
    return StagingSpec(str(folder), tuple((name, 10 + i) for i, name in enumerate(names)))


def stage(
    batches: Sequence[Batch],
    pages: Pages,
    folder: Path | str,
    *,
    limits: BatchLimits = ROOMY,
    threads: int = 1,
) -> Manifest:
    """Stage with one thread, so that the order of reads is that of the script."""
    numbers = count()
    return stage_batches(
        batches,
        pages,
        spec=a_spec(folder),
        limits=limits,
        threads=threads,
        clock=StandingClock(),
        fresh=lambda: f"file-{next(numbers)}",
    )


def staged_of(manifest: Manifest, shard: int = 0) -> Staged:
    return next(each for each in manifest.staged if each.key == a_key(shard))


def rows_of(manifest: Manifest) -> list[tuple[str, int]]:
    """Shard ids and sequence numbers in the order in which they are in the files."""
    found: list[tuple[str, int]] = []
    for file in manifest.files:
        table = pq.ParquetFile(file.path).read().to_pydict()
        found += zip(table["shard_id"], map(int, table["sequence_number"]), strict=True)
    return found


def files_in(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


def _records(
    key: ShardKey, numbers: Sequence[int], arrivals: Sequence[datetime], payload: bytes
) -> pa.RecordBatch:
    size = len(numbers)
    rows: dict[str, list[Any]] = {
        "stream": [key.stream.name] * size,
        "stream_epoch": [key.stream.epoch] * size,
        "shard_id": [key.shard_id] * size,
        "sequence_number": [str(number) for number in numbers],
        "sub_sequence_number": [0] * size,
        "partition_key": ["customer"] * size,
        "explicit_hash_key": [None] * size,
        "arrival_ts": [arrival.astimezone(UTC) for arrival in arrivals],
        "data": [payload] * size,
        "decode_error": [None] * size,
    }
    return pa.RecordBatch.from_pydict(rows, record_schema())
