"""The rewriting of a compaction as one Spark job: one task for each group of files."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from pyiceberg.io.pyarrow import schema_to_pyarrow

from headrace.pipeline.errors import Unreachable
from headrace.pipeline.lake.spark.spark_job import cause_of, is_of_spark, run_tasks
from headrace.pipeline.lake.spark.waiting import warn
from headrace.pipeline.lake.table.lake_table import IcebergTable
from headrace.pipeline.ports.staging import OnWaiting
from headrace.pipeline.upkeep.codec import decode_rewritten, encode_rewritten
from headrace.pipeline.upkeep.ports import Rewriter
from headrace.pipeline.upkeep.rewrite_plan import FileGroup, Rewritten
from headrace.pipeline.upkeep.rewrite_task import RewriteSpec

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class SparkRewriter(Rewriter):
    """The session is made for the first group: most looks find nothing to compact."""

    def __init__(self, session: Callable[[OnWaiting], SparkSession], lake: IcebergTable) -> None:
        self._session = session
        self._lake = lake

    def rewrite(self, groups: Sequence[FileGroup]) -> tuple[Rewritten, ...]:
        if not groups:
            return ()
        schema = schema_to_pyarrow(self._lake.open().schema())
        work = _work(tuple(groups), RewriteSpec(self._lake.staging_spec(), schema))
        session = self._session(warn)
        try:
            found = [decode_rewritten(each) for each in run_tasks(session, len(groups), work)]
        except Exception as error:
            if not is_of_spark(error):
                raise
            raise Unreachable(
                f"the Spark job that compacts data files failed: {cause_of(str(error))}. Nothing was replaced; upkeep deletes the files "
                "that the job left behind, and the next upkeep tries again"
            ) from error
        # A group that no task returned must not pass for one that is done.
        by_group = {each.group: each for each in found}
        return tuple(
            by_group.get(group) or Rewritten(group, error="Spark returned no result") for group in groups
        )


def _work(groups: tuple[FileGroup, ...], spec: RewriteSpec) -> Callable[[int], bytes]:
    def work(number: int) -> bytes:
        from datetime import UTC, datetime
        from uuid import uuid4

        import pyarrow as pa

        from headrace.pipeline.errors import HeadraceError
        from headrace.pipeline.upkeep.rewrite_plan import Rewritten
        from headrace.pipeline.upkeep.rewrite_task import rewrite_group

        group = groups[number]
        try:
            made = rewrite_group(group, spec, now=lambda: datetime.now(UTC), fresh=lambda: uuid4().hex)
        except (HeadraceError, OSError, pa.ArrowException) as error:
            # The other groups go on. Only the error's first line: pyarrow's may quote values of the rows.
            made = Rewritten(group, error=f"{type(error).__name__}: {str(error).partition(chr(10))[0][:200]}")
        return encode_rewritten(made)

    return work
