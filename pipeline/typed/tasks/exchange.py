"""Files of a quarantine table or a typed table that lose rows: the rows that stay are written into new files, as
they are.

A redrive and a replacement take whole files. Before the commit, those rows of the files that stay are copied. The
typed table's commit removes files of the typed table at once. Files of the quarantine table leave it after that
commit. Where a compaction has rewritten one of them in between, its rows are found by their numbers in the files
that are there now.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any
from uuid import uuid4

import pyarrow as pa
import pyarrow.compute as pc

from headrace.pipeline.core.ledger.batch import StagedFile
from headrace.pipeline.core.shards.stream import ShardKey, StreamId
from headrace.pipeline.errors import WrongShape
from headrace.pipeline.lake.files.file_rows import opened, rows_of
from headrace.pipeline.lake.files.sort_key import SORT_KEY, sort_keys
from headrace.pipeline.lake.files.stage_files import CantWrite, TaskFiles
from headrace.pipeline.lake.files.stage_place import StagePlace, file_system
from headrace.pipeline.ports.staging import StagingSpec
from headrace.pipeline.typed.account import aside_name
from headrace.pipeline.typed.ports import Exchange
from headrace.pipeline.typed.tasks.read import bounds_by_shard, conditions_of
from headrace.pipeline.typed.tasks.write import by_shard
from headrace.pipeline.typed.values import Bound, Parsed, ShardCount

_SMALL = {pa.large_string(): pa.string(), pa.large_binary(): pa.binary()}
"""The types of rows as they are read, in place of those of pyiceberg's schema: sort keys are made of these."""
_ROW = ["stream", "stream_epoch", "shard_id", "sequence_number", "sub_sequence_number"]
"""What tells the rows of a quarantine table apart."""


def copy_unselected(
    paths: Sequence[str],
    selected: Iterable[Bound],
    *,
    spec: StagingSpec,
    schema: pa.Schema,
    streams: Sequence[StreamId],
    now: Callable[[], datetime],
) -> Parsed:
    """Copy the rows of these files that aren't selected. `schema`: all columns of the table."""
    files, root = file_system(spec)
    place = StagePlace(files, root, spec, schema)
    streams_by_name = {(stream.name, stream.epoch): stream for stream in streams}
    bounds = bounds_by_shard(selected)
    counts: dict[ShardKey, int] = {}

    def staying_rows(rows: pa.Table) -> Iterator[tuple[ShardKey, pa.RecordBatch]]:
        for batch in rows.to_batches():
            for key, rows_of_shard in by_shard(batch, streams_by_name):
                bound = bounds.get((key.stream.name, key.stream.epoch, key.shard_id))
                staying = (
                    rows_of_shard
                    if bound is None
                    else rows_of_shard.filter(pc.invert(is_in(rows_of_shard, bound)))
                )
                if staying.num_rows:
                    counts[key] = counts.get(key, 0) + staying.num_rows
                    yield key, staying

    copied = copied_anew(paths, place, staying_rows, now)
    return Parsed((), copied, tuple(ShardCount(key, aside=rows) for key, rows in sorted(counts.items())))


def is_in(rows: pa.RecordBatch, bound: Bound) -> Any:
    """Whether each row is within the bound, as a column of booleans. A row without a sequence number or without a
    reason isn't.
    """
    keys: Any = sort_keys(rows["sequence_number"], rows["sub_sequence_number"])
    selected = pc.greater(keys, pa.scalar(bound.low))
    if bound.high is not None:
        selected = pc.and_kleene(selected, pc.less(keys, pa.scalar(bound.high)))
    for condition in conditions_of(bound.aside, rows):
        selected = pc.and_kleene(selected, condition)
    return pc.fill_null(selected, pa.scalar(value=False))


def exchange(
    taken: frozenset[str],
    live: Sequence[str],
    place: StagePlace,
    *,
    shards: frozenset[ShardKey],
    now: Callable[[], datetime],
) -> Exchange:
    """The exchange of files by which the rows of the files `taken` leave the table. `live`: the paths of the
    table's files. `shards`: those of the commit.
    """
    gone = [path for path in live if aside_name(path) in taken]
    missing = sorted(taken - {aside_name(path) for path in gone})
    # The usual case costs no read at all: the files that the ledger names are still the table's
    # own.
    if not missing:
        return Exchange(tuple(gone))
    rows = pa.concat_tables([_names_of(place, name) for name in missing])
    copied: list[StagedFile] = []
    mark = next(iter(sorted(shards)))
    for path in sorted(set(live) - set(gone)):

        def staying_rows(group: pa.Table) -> Iterator[tuple[ShardKey, pa.RecordBatch]]:
            stays = _without(group, rows).combine_chunks()
            yield from ((mark, batch) for batch in stays.to_batches() if batch.num_rows)

        # Only files that have such a row are written anew. They are found by the columns that tell
        # rows apart, without payloads.
        if _has_any(place, path, rows):
            copied += copied_anew([path], place, staying_rows, now)
            gone.append(path)
    return Exchange(tuple(gone), tuple(replace(file, shards=shards) for file in copied))


def _without(group: pa.Table, rows: pa.Table) -> pa.Table:
    # Arrow joins no tables with lists or structs, which another engine may have added: only what tells the rows apart
    # is joined.
    numbered = group.select(_ROW).append_column("number", pa.array(range(len(group)), pa.int64()))
    return group.take(numbered.join(rows, keys=_ROW, join_type="left anti")["number"])


def _names_of(place: StagePlace, name: str) -> pa.Table:
    path = place.uri(name)
    try:
        with opened(place, path) as file:
            return rows_of(file, _schema_of(place, _ROW))
    except (FileNotFoundError, pa.ArrowException) as error:
        raise WrongShape(
            f"{path} has rows that a redrive has decided about, and can't be read ({type(error).__name__}): something else deleted or changed "
            "the file. Nothing was changed; restore the file"
        ) from error


def _schema_of(place: StagePlace, names: Sequence[str]) -> pa.Schema:
    fields: list[Any] = [place.schema.field(name) for name in names]
    return pa.schema(column.with_type(_SMALL.get(column.type, column.type)) for column in fields)


def _has_any(place: StagePlace, path: str, rows: pa.Table) -> bool:
    with opened(place, path) as file:
        rows_of_file = rows_of(file, _schema_of(place, _ROW))
    return rows_of_file.join(rows, keys=_ROW, join_type="left semi").num_rows > 0


Parts = Callable[[pa.Table], Iterator[tuple[ShardKey, pa.RecordBatch]]]
"""Gets the rows of a row group, and tells which of them are copied, by shard."""


def copied_anew(
    paths: Sequence[str], place: StagePlace, parts: Parts, now: Callable[[], datetime]
) -> tuple[StagedFile, ...]:
    return copied_by_file(paths, place, lambda _: parts, now)


def copied_by_file(
    paths: Sequence[str], place: StagePlace, parts_of: Callable[[str], Parts], now: Callable[[], datetime]
) -> tuple[StagedFile, ...]:
    """Copy rows of these files into new files.

    `parts_of`: gets the path of a file, and then its row groups in their order.
    """
    files = TaskFiles(place.spec, now=now, fresh=lambda: uuid4().hex, place=place)
    # Sort keys are computed anew when the rows are written.
    schema = _schema_of(place, [name for name in place.schema.names if name != SORT_KEY])
    try:
        for path in paths:
            copied_of_group = parts_of(path)
            with opened(place, path) as file:
                for group in range(file.num_row_groups):
                    for key, batch in copied_of_group(rows_of(file, schema, group)):
                        files.add(key, batch)
        return files.finish()
    except BaseException as error:
        files.discard()
        if isinstance(error, CantWrite):
            raise error.error from None
        raise
