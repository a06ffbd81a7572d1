"""A compaction that SIGKILL ends when Spark has written, before the commit.

python -m tests.upkeep.compaction_process FOLDER NOW
"""

import sys
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path

from headrace.pipeline.lake.spark.tasks import SparkTasks
from headrace.pipeline.settings.blocks.upkeep import UpkeepSettings
from headrace.pipeline.upkeep.compact import Compacting
from headrace.pipeline.upkeep.live_table import IcebergLive
from headrace.pipeline.upkeep.rewrite_plan import Replaced, Rewritten
from headrace.pipeline.upkeep.rewriter import TaskRewriter
from tests.killed import a_session, die
from tests.lake.tables import IcebergLake


class _Dying(IcebergLive):
    def replace(self, rewritten: Sequence[Rewritten]) -> Replaced:
        die()
        return super().replace(rewritten)


def run(folder: str, now: str) -> None:
    lake = IcebergLake(Path(folder))
    lake.clock.at = datetime.fromisoformat(now)
    with a_session("spark") as spark:
        assert spark is not None
        rewriter = TaskRewriter(SparkTasks(lambda _: spark, 2), lake.iceberg)
        Compacting(
            table=_Dying(lake.iceberg), rewriter=lambda: rewriter, settings=UpkeepSettings(), clock=lake.clock
        ).run()


if __name__ == "__main__":
    run(sys.argv[1], sys.argv[2])
