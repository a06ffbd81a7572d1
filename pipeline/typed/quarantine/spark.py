"""Removes rows from a typed table or its quarantine table with Spark: the files with the rows are read, and their
other rows are copied into new files. A redrive also parses the rows that leave.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa
from pyiceberg.io.pyarrow import schema_to_pyarrow

from headrace.pipeline.core.shards.stream import StreamId
from headrace.pipeline.lake.staging.stage_codec import decode_all
from headrace.pipeline.lake.table.lake_table import IcebergTable
from headrace.pipeline.ports.staging import StagingSpec
from headrace.pipeline.ports.tasks import Job, Now, Tasks, Work, packed
from headrace.pipeline.typed.account import one_report
from headrace.pipeline.typed.ports import Parser
from headrace.pipeline.typed.spark.parser import SparkParser
from headrace.pipeline.typed.values import Bound, Parsed, SourceFile


@dataclass(frozen=True, slots=True, kw_only=True)
class SparkRedriver(SparkParser, Parser):
    """Redrives and replacements on Spark: payloads are parsed again, and rows that stay are copied. `source`: the
    table that loses rows, which is the quarantine table or the typed table.
    """

    def copy_unselected(
        self, files: Sequence[SourceFile], selected: Sequence[Bound], streams: Sequence[StreamId]
    ) -> Parsed:
        return copied_by(self.numbered, self.source, files, selected, streams, job=self.job)


def copied_by(
    tasks: Tasks,
    table: IcebergTable,
    files: Sequence[SourceFile],
    selected: Sequence[Bound],
    streams: Sequence[StreamId],
    *,
    job: Job,
) -> Parsed:
    """Let Spark's tasks copy the rows of these files of the table that aren't selected."""
    packs = packed([file.path for file in files], cores=tasks.cores)
    # All columns, also those that others have added to the table.
    schema = schema_to_pyarrow(table.open().schema())
    work = _copying(packs, tuple(selected), table.staging_spec(), schema, tuple(streams))
    return one_report(decode_all(tasks.run(len(packs), work, job), Parsed))


def _copying(
    packs: Sequence[Sequence[str]],
    selected: Sequence[Bound],
    spec: StagingSpec,
    schema: pa.Schema,
    streams: Sequence[StreamId],
) -> Work:
    def work(number: int, now: Now) -> bytes:
        # Imports within the function run on Spark's worker, from the shipped zip: the function is pickled without its
        # module.
        from headrace.pipeline.lake.staging.stage_codec import encode
        from headrace.pipeline.typed.tasks.exchange import copy_unselected

        return encode(
            copy_unselected(
                packs[number],
                selected,
                spec=spec,
                schema=schema,
                streams=streams,
                now=now,
            )
        )

    return work
