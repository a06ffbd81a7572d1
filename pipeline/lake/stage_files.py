"""The data files of one task: one file for each arrival day of its rows, with the rows of many shards.

Each file name has a new uuid, so that a task that Spark runs twice overwrites nothing. Files that no manifest names are
orphans, and orphan removal deletes them by their age.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyarrow import fs

from pipeline.core.batch import StagedFile
from pipeline.core.stream import ShardKey
from pipeline.errors import BadSetting, WrongShape
from pipeline.lake.aws_access import keys_of
from pipeline.lake.file_io import SMALL_FILES
from pipeline.lake.private_files import PrivateFiles
from pipeline.lake.sort_key import SORT_KEY, with_sort_key
from pipeline.lake_ports import StagingSpec

_ROW_GROUP = 64 * 1024 * 1024
"""The least bytes in memory of a row group. A row group for each shard made the footers, and so the manifests, six times
larger.
"""

_DICTIONARY = ["stream", "stream_epoch", "shard_id", "sub_sequence_number", "partition_key"]
_STATISTICS = [
    "stream",
    "stream_epoch",
    "shard_id",
    "sequence_number",
    "sub_sequence_number",
    "arrival_ts",
    SORT_KEY,
]
"""Columns with minimum and maximum in the footer. Not data and partition keys: a record of 1 MiB would be in the footer twice."""

_DAY_ZERO = date(1970, 1, 1)
_ARRIVAL = "arrival_ts"

Rows = Mapping[ShardKey, list[pa.RecordBatch]]


@dataclass(frozen=True, slots=True)
class Target:
    """The file system, folder and schema of the files."""

    files: fs.FileSystem
    root: str
    spec: StagingSpec
    schema: pa.Schema

    def path(self, name: str) -> str:
        return f"{self.root}/{name}"


def write_files(
    rows: Rows, spec: StagingSpec, *, now: Callable[[], datetime], fresh: Callable[[], str]
) -> tuple[StagedFile, ...]:
    """Write all files. On an error, files that were begun are deleted as far as possible, and the error is raised."""
    by_day = _by_day(rows, spec)
    if not by_day:
        return ()
    files, root = file_system(spec)
    target = Target(files, root, spec, _schema_with_ids(next(iter(by_day.values()))[0][1].schema, spec))
    with deleting_on_error(target) as done:
        return tuple(
            _write_day(target, day, by_day[day], done, now=now, fresh=fresh) for day in sorted(by_day)
        )


@contextlib.contextmanager
def deleting_on_error(target: Target) -> Iterator[list[str]]:
    """Yields a list for the names of files that are begun. After an error they are deleted, as far as possible."""
    done: list[str] = []
    try:
        yield done
    except Exception:
        for name in done:
            # The first error is the one to report. A file that can't be deleted stays as an orphan.
            with contextlib.suppress(OSError):
                target.files.delete_file(target.path(name))
        raise


def _by_day(rows: Rows, spec: StagingSpec) -> dict[date, list[tuple[ShardKey, pa.Table]]]:
    """Rows by arrival day (UTC) and shard. The rows of a shard keep the order in which they were read."""
    days: dict[date, list[tuple[ShardKey, pa.Table]]] = {}
    for key in sorted(rows):
        table = with_sort_key(pa.Table.from_batches(rows[key]), spec)
        day_numbers = pc.floor_temporal(table[_ARRIVAL], unit="day").cast(pa.date32()).cast(pa.int32())
        distinct: list[Any] = pc.unique(day_numbers).to_pylist()
        for number in distinct:
            part = (
                table
                if len(distinct) == 1
                else table.filter(pc.equal(day_numbers, pa.scalar(number, pa.int32())))
            )
            days.setdefault(_DAY_ZERO + timedelta(days=number), []).append((key, part))
    return days


def _write_day(
    target: Target,
    day: date,
    parts: list[tuple[ShardKey, pa.Table]],
    done: list[str],
    *,
    now: Callable[[], datetime],
    fresh: Callable[[], str],
) -> StagedFile:
    # Shard after shard, and each shard in the order of its sequence numbers (I12).
    table = pa.concat_tables(part.select(target.schema.names) for _, part in parts).cast(target.schema)
    shards = frozenset(key for key, _ in parts)
    return write_file(target, day, table, done, shards=shards, now=now, fresh=fresh)


def write_file(
    target: Target,
    day: date,
    table: pa.Table,
    done: list[str],
    *,
    shards: frozenset[ShardKey],
    now: Callable[[], datetime],
    fresh: Callable[[], str],
) -> StagedFile:
    """Write one file. `done`: gets its name, before the file exists."""
    folder = f"{_ARRIVAL}_day={day.isoformat()}"
    name = f"{folder}/{fresh()}.parquet"
    own = dict(target.spec.field_ids)  # a compaction also writes the columns that others have added
    groups = max(1, table.nbytes // _ROW_GROUP)
    footers: list[pq.FileMetaData] = []
    options: dict[str, Any] = {
        "compression": target.spec.compression,
        "use_dictionary": _DICTIONARY,
        "write_statistics": [*_STATISTICS, *(name for name in table.column_names if name not in own)],
        # Arrow's own schema in the footer would only make it larger; Iceberg reads Parquet's.
        "store_schema": False,
    }
    # Before the file exists, so that a file that was begun is deleted on an error too.
    done.append(name)
    # Not on S3, which has no folders: pyarrow would leave an empty object there.
    if isinstance(target.files, fs.LocalFileSystem):
        target.files.create_dir(target.path(folder), recursive=True)
    with target.files.open_output_stream(target.path(name)) as out, _first_error():
        pq.write_table(
            table, out, row_group_size=-(-len(table) // groups), metadata_collector=footers, **options
        )
        size = out.tell()
    return StagedFile(
        path=f"{target.spec.location.rstrip('/')}/{name}",
        shards=shards,
        rows=len(table),
        size=size,
        footer=_footer_bytes(footers[0]),
        partition=day.isoformat(),
        staged_at=now().astimezone(UTC),
    )


@contextlib.contextmanager
def _first_error() -> Iterator[None]:
    """After an error of the disk, pyarrow asks for the footer of the file that it couldn't end, and raises a RuntimeError about that
    instead. The error of the disk is the one to report."""
    try:
        yield
    except RuntimeError as second:
        if isinstance(second.__context__, OSError):
            raise second.__context__ from None
        raise


def _footer_bytes(metadata: pq.FileMetaData) -> bytes:
    sink = pa.BufferOutputStream()
    metadata.write_metadata_file(sink)
    return sink.getvalue().to_pybytes()


def _schema_with_ids(read: pa.Schema, spec: StagingSpec) -> pa.Schema:
    """Headrace's columns in the table's order, each with the table's field id, by which Iceberg's readers find columns. Columns
    that a user added to the table aren't written, and read as null.
    """
    if unknown := set(read.names) - {name for name, _ in spec.field_ids}:
        raise WrongShape(
            f"the lake table lacks columns that Headrace writes: {', '.join(sorted(unknown))}. Nothing was staged; restore these "
            "columns"
        )
    return pa.schema(
        read.field(name).with_metadata({b"PARQUET:field_id": str(number).encode()})
        for name, number in spec.field_ids
        if name in read.names
    )


def file_system(spec: StagingSpec) -> tuple[fs.FileSystem, str]:
    location = spec.location.rstrip("/")
    scheme, separator, rest = location.partition("://")
    local = PrivateFiles() if spec.private else fs.LocalFileSystem()
    if not separator:
        return local, location
    if scheme == "file":
        return local, fs.FileSystem.from_uri(location)[1]
    if scheme in {"s3", "s3a"}:
        return _s3(dict(spec.options)), rest
    raise BadSetting(
        f"data files can't be written to {location!r}: Headrace writes to paths, file://, s3:// and s3a:// only"
    )


def _s3(options: Mapping[str, str]) -> fs.FileSystem:
    """The S3 file system. Credentials come from this host: by the named profile, else its environment or role; the spec has none."""
    chosen: dict[str, Any] = dict(SMALL_FILES)
    if region := options.get("region"):
        chosen["region"] = region
    if endpoint := options.get("endpoint"):
        chosen["endpoint_override"] = endpoint
        chosen["scheme"] = endpoint.partition("://")[0] if "://" in endpoint else "https"
    if profile := options.get("profile"):
        chosen |= keys_of(profile)
    return fs.S3FileSystem(**chosen)
