"""The rewriting of a compaction as one job: one task for each group of files."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pyiceberg.io.pyarrow import schema_to_pyarrow

from headrace.pipeline.lake.staging.stage_codec import decode_all, encode
from headrace.pipeline.lake.table.lake_table import IcebergTable
from headrace.pipeline.ports.tasks import Job, Now, Tasks, Work
from headrace.pipeline.upkeep.rewrite_plan import FileGroup, Rewritten
from headrace.pipeline.upkeep.rewrite_task import RewriteSpec

_JOB = Job(
    "the Spark job that compacts data files",
    "Nothing was replaced; upkeep deletes the files that the job left behind, and the next upkeep tries again",
)


@dataclass(frozen=True, slots=True)
class TaskRewriter:
    """A `Rewriter` whose work is done by Spark's tasks."""

    tasks: Tasks
    table: IcebergTable

    def __call__(self, groups: Sequence[FileGroup]) -> tuple[Rewritten, ...]:
        if not groups:
            return ()
        schema = schema_to_pyarrow(self.table.open().schema())
        work = _work(tuple(groups), RewriteSpec(self.table.staging_spec(), schema))
        reports = decode_all(self.tasks.run(len(groups), work, _JOB), Rewritten)
        # A group that no task returned must not pass for one that is done.
        by_group = {report.group: report for report in reports}
        return tuple(
            by_group.get(group) or Rewritten(group, error="Spark returned no result") for group in groups
        )


def _work(groups: tuple[FileGroup, ...], spec: RewriteSpec) -> Work:
    def work(number: int, now: Now) -> bytes:
        from uuid import uuid4

        import pyarrow as pa

        from headrace.pipeline.errors import HeadraceError
        from headrace.pipeline.upkeep.rewrite_plan import Rewritten
        from headrace.pipeline.upkeep.rewrite_task import rewrite_group

        group = groups[number]
        try:
            report = rewrite_group(group, spec, now=now, fresh=lambda: uuid4().hex)
        except (HeadraceError, OSError, pa.ArrowException) as error:
            # The other groups go on. Only the error's first line: pyarrow's may quote values of the rows.
            report = Rewritten(
                group, error=f"{type(error).__name__}: {str(error).partition(chr(10))[0][:200]}"
            )
        return encode(report)

    return work
