"""Small real Parquet files for the lake table, and the ranges that land them."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from uuid import uuid4

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import fs

from headrace.pipeline.core.landing.landing import Proposal
from headrace.pipeline.core.ledger.batch import StagedFile
from headrace.pipeline.core.ledger.ledger import Kind, ParentReason, Range
from headrace.pipeline.core.shards.position import TRIM, Origin, Position
from headrace.pipeline.core.shards.stream import ShardKey, StreamId
from headrace.pipeline.ports.staging import StagingSpec

NOON = datetime(2026, 1, 31, 12, tzinfo=UTC)
STREAM = StreamId("arn:aws:kinesis:eu-west-1:123456789012:stream/orders", 1_769_000_000)
ORIGIN = Proposal(origins=((STREAM, Origin(TRIM, NOON - timedelta(hours=1))),))

_TYPES = {
    "stream": pa.string(),
    "stream_epoch": pa.int64(),
    "shard_id": pa.string(),
    "sequence_number": pa.string(),
    "sub_sequence_number": pa.int64(),
    "partition_key": pa.string(),
    "explicit_hash_key": pa.string(),
    "arrival_ts": pa.timestamp("us", tz="UTC"),
    "data": pa.binary(),
    "decode_error": pa.string(),
}


@dataclass
class StandingClock:
    """A clock that stands at noon until a test moves it."""

    at: datetime = NOON

    def now(self) -> datetime:
        return self.at

    def monotonic(self) -> float:
        return self.at.timestamp()

    def pause(self, seconds: float) -> None:
        self.at += timedelta(seconds=seconds)


def a_key(number: int = 0, stream: StreamId = STREAM) -> ShardKey:
    return ShardKey(stream, f"shardId-{number:012d}")


def at(sequence: int) -> Position:
    return Position(sequence, arrival=NOON)


def a_range(
    key: ShardKey,
    after: Position | int | None,
    upto: Position | int,
    *,
    kind: Kind = Kind.LANDED,
    rows: int = 0,
    files: Iterable[StagedFile] = (),
    parents: tuple[ParentReason, ...] = (),
    run: str = "run-1",
) -> Range:
    return Range(
        kind,
        key,
        at(after) if isinstance(after, int) else after,
        at(upto) if isinstance(upto, int) else upto,
        run=run,
        claim=f"{run}/claim",
        rows=rows,
        records=rows,
        files=tuple(Path(file.path).name for file in files),
        parents=parents,
    )


def a_file(
    spec: StagingSpec,
    rows: Mapping[ShardKey, Sequence[int]],
    *,
    arrival: datetime = NOON,
    with_ids: bool = True,
    staged_at: datetime = NOON,
) -> StagedFile:
    """Write a file as a Spark task does: shards and sequence numbers in order, with the field ids of the spec."""
    table = pa.table(_columns(rows, arrival), _schema(spec, with_ids=with_ids))
    path = f"{spec.location}/arrival_ts_day={arrival:%Y-%m-%d}/{uuid4().hex}.parquet"
    storage, inside = _storage(spec, path)
    footers: list[pq.FileMetaData] = []
    with storage.open_output_stream(inside) as out:
        pq.write_table(table, out, compression="zstd", metadata_collector=footers)
    size = storage.get_file_info(inside).size
    footer = pa.BufferOutputStream()
    footers[0].write_metadata_file(footer)
    return StagedFile(
        path,
        frozenset(rows),
        rows=table.num_rows,
        size=size,
        footer=footer.getvalue().to_pybytes(),
        partition=f"{arrival:%Y-%m-%d}",
        staged_at=staged_at,
    )


def a_landing(
    spec: StagingSpec, key: ShardKey, *, after: int | None, numbers: Sequence[int], run: str = "run-1"
) -> Proposal:
    """The rows of one shard in one file, and their range."""
    file = a_file(spec, {key: numbers})
    return Proposal((a_range(key, after, numbers[-1], rows=len(numbers), files=[file], run=run),), (file,))


def with_origin(proposal: Proposal) -> Proposal:
    return replace(proposal, origins=ORIGIN.origins)


def numbers_in(table: pa.Table) -> dict[str, list[int]]:
    """For each shard id, its sequence numbers in order. A number that landed twice is there twice."""
    found: dict[str, list[int]] = {}
    for row in table.select(["shard_id", "sequence_number"]).to_pylist():
        found.setdefault(row["shard_id"], []).append(int(row["sequence_number"]))
    return {shard: sorted(numbers) for shard, numbers in sorted(found.items())}


def _columns(rows: Mapping[ShardKey, Sequence[int]], arrival: datetime) -> dict[str, list[object]]:
    flat = [(key, number) for key, numbers in rows.items() for number in numbers]
    return {
        "stream": [key.stream.name for key, _ in flat],
        "stream_epoch": [key.stream.epoch for key, _ in flat],
        "shard_id": [key.shard_id for key, _ in flat],
        "sequence_number": [str(number) for _, number in flat],
        "sub_sequence_number": [0] * len(flat),
        "partition_key": ["customer"] * len(flat),
        "explicit_hash_key": [None] * len(flat),
        "arrival_ts": [arrival] * len(flat),
        "data": [f"record {number}".encode() for _, number in flat],
        "decode_error": [None] * len(flat),
    }


def _schema(spec: StagingSpec, *, with_ids: bool) -> pa.Schema:
    return pa.schema(
        pa.field(name, _TYPES[name], metadata={b"PARQUET:field_id": str(i).encode()} if with_ids else None)
        for name, i in spec.field_ids
        # Without the sort key, as files of another engine.
        if name in _TYPES
    )


def _storage(spec: StagingSpec, path: str) -> tuple[fs.FileSystem, str]:
    if path.startswith("s3://"):
        options = dict(spec.options)
        return fs.S3FileSystem(endpoint_override=options["endpoint"], region=options["region"]), path[5:]
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    return fs.LocalFileSystem(), path
