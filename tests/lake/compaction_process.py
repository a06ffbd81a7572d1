"""A compaction that tells when Spark has written, and then waits until a test kills it."""

import sys
import threading
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path

from pipeline.core.rewriting import Replaced, Rewritten
from pipeline.duties.compacting import Compacting
from pipeline.lake.live_table import IcebergLive
from pipeline.lake.rewrite import SparkRewriter
from pipeline.lake.session import spark_session
from pipeline.settings.model import SparkSettings
from pipeline.settings.upkeep_block import UpkeepSettings
from tests.lake.tables import IcebergLake


class _Stopping(IcebergLive):
    def replace(self, rewritten: Sequence[Rewritten]) -> Replaced:
        print("written", flush=True)
        threading.Event().wait()
        return super().replace(rewritten)


def run(folder: str, now: str) -> None:
    lake = IcebergLake(Path(folder))
    lake.clock.at = datetime.fromisoformat(now)
    spark = spark_session(SparkSettings(), "headrace-test")
    rewriter = SparkRewriter(lambda _: spark, lake.iceberg)
    Compacting(
        table=_Stopping(lake.iceberg), rewriter=lambda: rewriter, settings=UpkeepSettings(), clock=lake.clock
    ).run()


if __name__ == "__main__":
    run(sys.argv[1], sys.argv[2])
