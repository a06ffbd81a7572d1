"""Compares the rows of a table of the latest rows with the landed records, on Spark: all rows and records of one
key are in one task.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyiceberg.io.pyarrow import schema_to_pyarrow

from headrace.pipeline.core.shards.position import Position, Positions, reaches
from headrace.pipeline.core.shards.sort_texts import RowShard
from headrace.pipeline.lake.spark.engine_zip import ship
from headrace.pipeline.lake.spark.tasks import failing_as
from headrace.pipeline.lake.spark.waiting import warn
from headrace.pipeline.lake.staging.stage_codec import decode_all
from headrace.pipeline.lake.table.catalog import asking
from headrace.pipeline.lake.table.lake_table import IcebergTable
from headrace.pipeline.lake.table.live_files import ManifestReader
from headrace.pipeline.ports.staging import OnWaiting
from headrace.pipeline.ports.tasks import Job, packed
from headrace.pipeline.proof.latest.facts import LatestCounts, LatestFacts
from headrace.pipeline.proof.latest.rule import RowKind
from headrace.pipeline.proof.latest.task import RowsOf, RowsPart, end_texts
from headrace.pipeline.settings.blocks.parse import ParseSettings
from headrace.pipeline.settings.choices import Compression, ParseFormat
from headrace.pipeline.typed.latest.table import IcebergLatest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_Task = Callable[[Iterator["pa.RecordBatch"]], Iterator["pa.RecordBatch"]]
_ROWS = "key binary, epoch bigint, sort_key string, kind tinyint, deletes boolean"
_JOB = Job(
    "the Spark job that compares rows by their keys",
    "Nothing is proved, and nothing was changed; run it again",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class SparkLatestProof:
    session: Callable[[OnWaiting], SparkSession]
    settings: ParseSettings
    lake: IcebergTable
    table: IcebergLatest
    aside: IcebergTable
    tasks: int

    def facts(self) -> LatestFacts:
        parts, unproved = self._parts()
        if not parts:
            return LatestFacts(LatestCounts(), unproved)
        packs = packed(parts, cores=self.tasks)
        session = self.session(warn)
        with failing_as(_JOB):
            ship(session)
            rows = session.range(0, len(packs), 1, max(1, len(packs))).mapInArrow(_reading(packs), _ROWS)
            together = rows.repartition(len(packs), "key").sortWithinPartitions(
                "key", "epoch", "sort_key", "kind"
            )
            reports: list[Any] = (
                together.mapInArrow(_counting(), "report binary").toArrow().column(0).to_pylist()
            )
        total = LatestCounts()
        for counts in decode_all(reports, LatestCounts):
            total = total.plus(counts)
        return LatestFacts(total, unproved)

    def _parts(self) -> tuple[list[RowsPart], str]:
        """The files to read, and why those of the lake table aren't among them."""
        if not self.table.exists():
            return [], ""
        # First the table: what the others have beyond its positions isn't looked at.
        positions, files = _looked(self.table)
        parts = [RowsPart(_rows_of(self.table, RowKind.LATEST, self.table.key), path) for path in files]
        if why := why_only_by_keys(self.settings):
            return (
                parts,
                f"{self.table.identifier}: whether the rows are the latest ones can't be told, because {why}",
            )
        followed, aside_files = _looked(self.aside)
        if any(not _reaches(followed.of(key), position) for key, position in positions.shards.items()):
            return parts, (
                f"{self.table.identifier}: whether the rows are the latest ones can't be told "
                f"until {self.aside.identifier} has followed its last commit"
            )
        upto = end_texts(positions)
        tells = self.settings.format is ParseFormat.DYNAMODB
        landed = _rows_of(self.lake, RowKind.LANDED, ("partition_key",), upto=upto, tells_deletions=tells)
        set_aside = _rows_of(self.aside, RowKind.ASIDE, ("partition_key",), upto=upto)
        _, lake_files = _looked(self.lake)
        parts += [RowsPart(set_aside, path) for path in aside_files]
        parts += [RowsPart(landed, path) for path in lake_files]
        return parts, ""


def why_only_by_keys(settings: ParseSettings) -> str:
    """Why the landed records don't tell which rows the table must have, so that only its keys are checked; empty
    where they do tell.
    """
    if settings.latest_key:
        return "the key isn't the partition key, and only the parsed payloads tell it"
    if settings.filter or settings.format is ParseFormat.CALLABLE:
        return "a filter or a function of your own decides which records become rows"
    if settings.deletes_when and settings.format is not ParseFormat.DYNAMODB:
        return "only the parsed payloads tell what they delete"
    if settings.deletes_when and settings.compression is not Compression.NONE:
        return "only the inflated payloads tell what they delete"
    return ""


def _looked(table: IcebergTable) -> tuple[Positions, tuple[str, ...]]:
    base = table.base()
    with asking(f"the storage of {table.identifier}"):
        live, _ = ManifestReader().look(base.table)
    return base.state.positions, tuple(file.path for file in live.files)


def _reaches(position: Position | None, other: Position) -> bool:
    return position is not None and reaches(position, other)


def _rows_of(
    table: IcebergTable,
    kind: RowKind,
    key: tuple[str, ...],
    *,
    upto: tuple[tuple[RowShard, str], ...] | None = None,
    tells_deletions: bool = False,
) -> RowsOf:
    schema = schema_to_pyarrow(table.open().schema())
    return RowsOf(kind, table.staging_spec(), schema, key, upto, tells_deletions)


# Functions inside of functions: Spark pickles such a function whole, with the values that it uses, and its imports run
# on the worker, from the shipped zip.


def _reading(packs: Sequence[Sequence[RowsPart]]) -> _Task:
    def read(numbers: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from headrace.pipeline.proof.latest.task import rows_by_key

        for batch in numbers:
            tasks: list[Any] = batch.column(0).to_pylist()
            for number in tasks:
                yield from rows_by_key(packs[number])

    return read


def _counting() -> _Task:
    def count(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa

        from headrace.pipeline.lake.staging.stage_codec import encode
        from headrace.pipeline.proof.latest.rule import latest_counts

        report = encode(latest_counts(batches))
        yield pa.RecordBatch.from_arrays([pa.array([report], pa.binary())], names=["report"])

    return count
