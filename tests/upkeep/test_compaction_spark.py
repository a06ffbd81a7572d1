"""Compaction through a real Spark Connect server, and processes that are killed in it."""

from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from headrace.pipeline.errors import Unreachable
from headrace.pipeline.lake.spark.tasks import SparkTasks
from headrace.pipeline.upkeep.compact import Compacting
from headrace.pipeline.upkeep.live_table import IcebergLive
from headrace.pipeline.upkeep.rewriter import TaskRewriter
from headrace.pipeline.upkeep.table_files import IcebergFiles
from tests.killed import killed
from tests.lake.samples import NOON
from tests.spark import SparkServer
from tests.upkeep.compactions import SETTINGS, Small

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas:FutureWarning")


def compacting(small: Small, spark: "SparkSession") -> Compacting:
    table = small.lake.handle()
    rewriter = TaskRewriter(SparkTasks(lambda _: spark, 2), table)
    return Compacting(
        table=IcebergLive(table), rewriter=lambda: rewriter, settings=SETTINGS, clock=small.clock
    )


def test_spark_rewrites_several_groups_and_all_rows_stay(spark: "SparkSession", tmp_path: Path):
    small = Small(tmp_path, waves=7)
    small.add_column()
    for _ in range(6):
        small.land(arrival=NOON + timedelta(days=1))
    small.clock.at = NOON + timedelta(days=3)
    rows = small.rows()
    done = compacting(small, spark).run()
    assert done.trouble is None
    assert [len(group.files) for group in done.done] == [7, 6]
    assert len(small.live()) == 2
    assert small.rows().equals(rows)
    small.land()
    assert small.rows().num_rows == rows.num_rows + 4


def test_a_group_whose_file_is_gone_is_left_and_the_other_is_done(spark: "SparkSession", tmp_path: Path):
    small = Small(tmp_path, waves=5)
    first = small.live()[0].path
    for _ in range(5):
        small.land(arrival=NOON + timedelta(days=1))
    small.clock.at = NOON + timedelta(days=3)
    kept = Path(first).read_bytes()
    Path(first).unlink()
    done = compacting(small, spark).run()
    assert [group.day for group in done.done] == ["2026-02-01"]
    assert "FileNotFoundError" in done.left[0].why
    Path(first).write_bytes(kept)
    assert small.rows().num_rows == 40


def test_a_spark_that_fails_is_told_and_changes_nothing(tmp_path: Path):
    small = Small(tmp_path)

    def no_session(_: object) -> "SparkSession":
        raise Unreachable("Spark gave no session; nothing was read")

    rewriter = TaskRewriter(SparkTasks(no_session, 2), small.table)
    duty = Compacting(
        table=IcebergLive(small.table), rewriter=lambda: rewriter, settings=SETTINGS, clock=small.clock
    )
    done = duty.run()
    assert isinstance(done.trouble, Unreachable)
    assert len(small.live()) == 6


def test_an_upkeep_that_is_killed_before_its_commit_leaves_orphans_and_nothing_else(
    spark_server: SparkServer, tmp_path: Path
):
    small = Small(tmp_path)
    rows, files, head = small.rows(), small.parquet(), small.table.load().snapshot
    killed("tests.upkeep.compaction_process", tmp_path, small.clock.at.isoformat(), server=spark_server)
    orphans = small.parquet() - files
    assert len(orphans) == 1
    assert small.table.load().snapshot == head
    assert small.rows().equals(rows)
    look = IcebergFiles(small.table).look()
    assert orphans <= {each.path for each in look.stored} - set(look.named)
    assert len(small.compacting().run().done) == 1
    assert small.rows().equals(rows)
