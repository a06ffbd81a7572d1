"""An archive of the Java classes that a Spark server loads: with it a server starts in half of the CPU time.

python -m tests.spark_classes FILE    write the archive, which takes half a minute

The Makefile keeps it as .venv/spark.jsa. Java takes an archive only where it has the same Java and the same jars as when it
was written, and does without it otherwise.
"""

import os
import signal
import sys
import warnings
from collections.abc import Iterable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from headrace.pipeline.lake.spark.server.process import is_server, pid_of
from headrace.pipeline.lake.spark.session import DISCOVERY, spark_session, stop_local_server
from headrace.pipeline.settings.model import SparkSettings
from tests.eventually import eventually

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

ARCHIVE = Path(__file__).parents[1] / ".venv" / "spark.jsa"
OPTIONS = "SPARK_SUBMIT_OPTS"
"""The environment variable with Java's options of each Spark server that this process or a child of it starts."""
LITTLE_COMPILING = "-Xshare:auto -XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""`-Xshare`: servers of tests write no archive of the user's (`headrace.pipeline.lake.spark.server.classes`). Half of the CPU time of a Spark server that lives for a test is spent on compiling Java code a second time, better."""


def options_of_tests(archive: Path = ARCHIVE) -> str:
    """Java's options of the Spark servers of tests. Java says nothing where it can't use the archive."""
    if not archive.exists():
        return LITTLE_COMPILING
    return f"{LITTLE_COMPILING} -XX:SharedArchiveFile={archive} -Xlog:disable -Xlog:all=error:stderr"


def write(archive: Path) -> None:
    """Start a Spark server, run what the engine's jobs are made of, and let Java write down the classes at its end."""
    with TemporaryDirectory(dir=archive.parent) as folder:
        begun = Path(folder, "spark.jsa")
        os.environ[DISCOVERY] = str(Path(folder, "connect.json"))
        os.environ[OPTIONS] = (
            f"{LITTLE_COMPILING} -XX:ArchiveClassesAtExit={begun} -Xlog:disable -Xlog:all=error:stderr"
        )
        try:
            session = spark_session(SparkSettings(remote="local[2,2]"), "classes")
            _run_jobs(session)
            session.stop()
            _end(Path(folder))
        finally:
            stop_local_server()
        # A Java that can't write one gets an empty file, which it does without.
        begun.touch()
        begun.replace(archive)


def _end(folder: Path) -> None:
    """Ask the server of this folder to end. Java writes the archive before it does, and has as long as it takes."""
    pid = pid_of(folder)
    assert pid is not None
    os.kill(pid, signal.SIGTERM)
    eventually(lambda: not is_server(pid, folder), "Java has written the archive", within=600)


def _run_jobs(session: "SparkSession") -> None:
    from pyspark.sql import functions as F  # noqa: N812 - its usual name

    def same(batches: Iterable["pa.RecordBatch"]) -> Iterator["pa.RecordBatch"]:
        yield from batches

    def of_group(group: "pa.Table") -> "pa.Table":
        return group.slice(0, 1)

    numbers = session.range(0, 4, 1, 2)
    rows = numbers.mapInArrow(same, "id bigint").select(
        "id", F.lit('{"n": 1}').alias("text"), F.col("id").cast("string").cast("binary").alias("data")
    )
    read = rows.select("*", F.from_json("text", "n INT").alias("parsed")).where("parsed.n + 0 > 0")
    together = read.unionByName(read).repartition(2, "id").sortWithinPartitions("id", F.col("text").desc())
    assert together.select("id").mapInArrow(same, "id bigint").toArrow().num_rows == 8
    assert numbers.groupBy("id").applyInArrow(of_group, "id bigint").toArrow().num_rows == 4
    named = session.createDataFrame([(1, "one")], "id BIGINT, name STRING")
    assert numbers.join(named, "id", "left").where("name IS NOT NULL").count() == 1


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    write(Path(sys.argv[1]).absolute())
