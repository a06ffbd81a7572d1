"""Rows that leave a typed table or its quarantine table, on Spark: that table is read in the place of the lake table, and the other rows of the
files that leave it are copied. A redrive also parses what it reads."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import pyarrow as pa
from pyiceberg.io.pyarrow import schema_to_pyarrow

from headrace.pipeline.core.parse_account import one_report
from headrace.pipeline.core.parse_values import Bound, Parsed, SourceFile
from headrace.pipeline.core.stream import StreamId
from headrace.pipeline.lake.parse import SparkParser, packed
from headrace.pipeline.lake.spark_job import run_tasks
from headrace.pipeline.lake.stage_codec import decode_parsed
from headrace.pipeline.lake_ports import StagingSpec
from headrace.pipeline.target_ports import Redriver


@dataclass(frozen=True, slots=True, kw_only=True)
class SparkRedriver(SparkParser, Redriver):
    """`source` is the table whose rows leave: the quarantine table, or the typed table."""

    def copy_unselected(
        self, files: Sequence[SourceFile], selected: Sequence[Bound], streams: Sequence[StreamId]
    ) -> Parsed:
        parts = packed([each.path for each in files], cores=self.tasks)
        # All columns, also those that others have added to the table.
        schema = schema_to_pyarrow(self.source.open().schema())
        work = _copying(parts, tuple(selected), self.source.staging_spec(), schema, tuple(streams))
        return one_report(
            map(decode_parsed, self.asked(lambda session: run_tasks(session, len(parts), work)))
        )


def _copying(
    parts: Sequence[Sequence[str]],
    selected: Sequence[Bound],
    spec: StagingSpec,
    schema: pa.Schema,
    streams: Sequence[StreamId],
) -> Callable[[int], bytes]:
    def work(number: int) -> bytes:
        from datetime import UTC, datetime

        from headrace.pipeline.lake.quarantine_exchange import copy_unselected
        from headrace.pipeline.lake.stage_codec import encode_parsed

        return encode_parsed(
            copy_unselected(
                parts[number],
                selected,
                spec=spec,
                schema=schema,
                streams=streams,
                now=lambda: datetime.now(UTC),
            )
        )

    return work
