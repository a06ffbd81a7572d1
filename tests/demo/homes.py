"""The folder of a finished demo with a small real table, made without Spark, Dagster and AWS."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from headrace.pipeline.aws.reading.pages_decode import record_schema
from headrace.pipeline.clock import SystemClock
from headrace.pipeline.core.landing.landing import Proposal
from headrace.pipeline.core.ledger.ledger import Kind, ParentIs, ParentReason, Range
from headrace.pipeline.core.shards.position import Position
from headrace.pipeline.core.shards.shard import Shard
from headrace.pipeline.core.shards.stream import ShardKey
from headrace.pipeline.demo.evidence import Put
from headrace.pipeline.demo.home import Home
from headrace.pipeline.demo.reading import the_table, write_puts, write_shards
from headrace.pipeline.lake.table import plain_read as read
from tests.lake.samples import NOON, ORIGIN, STREAM, a_key
from tests.lake.written import write_files

PARENT, OTHER, CHILD = (a_key(n) for n in range(3))
"""The child is the merge of the two parents."""
SHARDS = (
    Shard(PARENT.shard_id, closed=True),
    Shard(OTHER.shard_id, closed=True),
    Shard(CHILD.shard_id, (PARENT.shard_id, OTHER.shard_id)),
)

Rows = list[dict[str, object]]


def a_home(folder: Path) -> Home:
    """Make three commits: half of both parents in one file, the rest of both to their end, and the child."""
    home = Home(folder)
    table = the_table(home.lake)
    table.ensure(create=True)
    table.commit(ORIGIN)
    end = (CHILD.shard_id,)
    _land(home, [(PARENT, None, range(10, 14)), (OTHER, None, range(20, 24))])
    _land(home, [(PARENT, Position(13), range(14, 17)), (OTHER, Position(23), range(24, 27))], children=end)
    _land(home, [(CHILD, None, range(30, 36))])
    numbers = {PARENT: range(10, 17), OTHER: range(20, 27), CHILD: range(30, 36)}
    puts = [Put(f"r{n}", key.shard_id, n) for key, its in numbers.items() for n in its]
    write_puts(home.puts, {put.id: put for put in puts})
    write_shards(home.shards, SHARDS)
    return home


def rewrite(home: Home, change: Callable[[Rows], Rows], *, with_row: str) -> None:
    """Change the rows of the data file that holds this record, on disk, without a commit."""
    for path in data_files(home):
        found = pq.read_table(path)
        rows = found.to_pylist()
        if row_number(rows, with_row) is not None:
            pq.write_table(pa.Table.from_pylist(change(rows), found.schema), path)
            return
    raise AssertionError(f"no data file holds {with_row}")


def row_number(rows: Rows, record_id: str) -> int | None:
    ids = [json.loads(str(row["data"], "utf-8"))["id"] for row in rows if isinstance(row["data"], bytes)]
    return ids.index(record_id) if record_id in ids else None


def data_files(home: Home) -> Iterator[str]:
    for file in read.landed_files(the_table(home.lake)):
        yield file.path.removeprefix("file://")


def _land(
    home: Home, parts: list[tuple[ShardKey, Position | None, range]], *, children: tuple[str, ...] = ()
) -> None:
    table = the_table(home.lake)
    rows = {key: [_records(key, numbers)] for key, _, numbers in parts}
    names = iter(["part"])
    spec = table.staging_spec()
    snapshot = table.load().snapshot
    files = write_files(rows, spec, now=SystemClock().now, fresh=lambda: f"{next(names)}-{snapshot}")
    ranges = tuple(_range(key, after, numbers, children) for key, after, numbers in parts)
    assert not table.commit(Proposal(ranges, files)).landing.refused


def _range(key: ShardKey, after: Position | None, numbers: range, children: tuple[str, ...]) -> Range:
    upto = Position(numbers[-1], ended=bool(children), children=children, arrival=NOON)
    ended = tuple(ParentReason(parent.shard_id, ParentIs.ENDED) for parent in (PARENT, OTHER))
    parents = ended if key == CHILD else ()
    return Range(
        Kind.LANDED,
        key,
        after,
        upto,
        run="run-1",
        claim="run-1/c",
        rows=len(numbers),
        records=len(numbers),
        parents=parents,
    )


def _records(key: ShardKey, numbers: range) -> pa.RecordBatch:
    rows = [
        {
            "stream": STREAM.name,
            "stream_epoch": STREAM.epoch,
            "shard_id": key.shard_id,
            "sequence_number": str(number),
            "sub_sequence_number": 0,
            "partition_key": "customer",
            "arrival_ts": NOON,
            "data": json.dumps({"id": f"r{number}"}).encode(),
        }
        for number in numbers
    ]
    return pa.RecordBatch.from_pylist(rows, record_schema())
