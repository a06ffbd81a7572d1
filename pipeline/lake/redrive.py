"""A redrive on Spark: the quarantine table is read in the place of the lake table, and rows that aren't parsed again are copied."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import pyarrow as pa

from pipeline.core.parse_account import joined
from pipeline.core.parse_values import Bound, Parsed
from pipeline.core.redrive_plan import RedrivePlan
from pipeline.core.stream import StreamId
from pipeline.lake.parse import SparkParser, packed
from pipeline.lake.spark_job import run_tasks
from pipeline.lake.stage_codec import decode_parsed
from pipeline.lake_ports import Redriver, StagingSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class SparkRedriver(SparkParser, Redriver):
    """For a redrive, `source` is the quarantine table."""

    def copy_unselected(self, plan: RedrivePlan, streams: Sequence[StreamId]) -> Parsed:
        parts = packed([each.path for each in plan.taken], cores=self.tasks)
        work = _copying(
            parts,
            tuple(each.bound for each in plan.wave.ranges),
            self.quarantine.staging_spec(),
            self.quarantine.file_schema(),
            tuple(streams),
        )
        return joined(map(decode_parsed, self.asked(lambda session: run_tasks(session, len(parts), work))))


def _copying(
    parts: Sequence[Sequence[str]],
    selected: Sequence[Bound],
    spec: StagingSpec,
    schema: pa.Schema,
    streams: Sequence[StreamId],
) -> Callable[[int], bytes]:
    def work(number: int) -> bytes:
        from datetime import UTC, datetime

        from pipeline.lake.quarantine_exchange import copy_unselected
        from pipeline.lake.stage_codec import encode_parsed

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
