"""The Spark source in a script of a user, sent by `spark-submit` to a standalone cluster, whose executors know of the engine only
what is shipped to them."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyspark
import pytest

from headrace.pipeline.lake.spark.session import environment_of_jvm
from headrace.pipeline.local.endpoint import local_aws
from tests.docs.reading_table import HOME, LEFT, make_table
from tests.e2e.cluster import cluster

pytestmark = pytest.mark.slow

_SUBMIT = Path(pyspark.__file__).with_name("bin") / "spark-submit"
_SCRIPT = """
import sys

from pyspark.sql import SparkSession

from headrace import register_spark_source

spark = SparkSession.builder.getOrCreate()
register_spark_source(spark, sys.argv[1])
spark.sparkContext.setLogLevel("ERROR")


def numbers(**options):
    rows = spark.read.format("headrace").options(**options).load().collect()
    ordered = sorted(rows, key=lambda row: (row.shard_generation, row.shard_id, row.sort_key))
    return [(row.sequence_number, bytes(row.data).decode()) for row in ordered]


print("lake", [number for number, _ in numbers(shard=sys.argv[2], after_sequence="98")], flush=True)
print("stream", [payload for _, payload in numbers(source="kinesis")], flush=True)
query = (
    spark.readStream.format("headrace").option("source", "kinesis").load()
    .writeStream.format("parquet").option("checkpointLocation", sys.argv[3] + "/checkpoint")
    .trigger(availableNow=True).start(sys.argv[3] + "/copies")
)
query.awaitTermination()
print("query", spark.read.parquet(sys.argv[3] + "/copies").count(), flush=True)
"""


def test_a_script_by_spark_submit_reads_table_and_stream_on_a_cluster(tmp_path: Path):
    make_table(tmp_path)
    settings, script = tmp_path / "headrace.yaml", tmp_path / "script.py"
    settings.write_text(
        f"application: shop\nstreams: [{{name: orders}}]\nlanding: {{home: {HOME}, table: lake.orders}}\n"
    )
    script.write_text(_SCRIPT)
    with cluster(tmp_path, workers=2) as spark, local_aws("--transition", "0") as aws:
        client: Any = aws.client("kinesis")
        client.create_stream(StreamName="orders", ShardCount=1)
        entries = [{"Data": b"%d" % n, "PartitionKey": "customer"} for n in range(3)]
        client.put_records(StreamName="orders", Records=entries)
        aws.advance(120)
        done = subprocess.run(
            [
                str(_SUBMIT),
                *("--master", spark.master, "--conf", "spark.executor.memory=600m"),
                *("--conf", "spark.driver.host=127.0.0.1"),
                *(str(script), str(settings), LEFT.shard_id, str(tmp_path)),
            ],
            cwd=tmp_path,
            # The driver alone knows where Kinesis is, and by whose keys it is asked. PySpark sets SPARK_CONNECT_MODE_ENABLED in a
            # process that has opened a session of Spark Connect, as other tests do.
            env={
                **{name: value for name, value in os.environ.items() if name != "SPARK_CONNECT_MODE_ENABLED"},
                **environment_of_jvm(None),
                **aws.environment,
                "PYSPARK_PYTHON": sys.executable,
                "SPARK_LOCAL_IP": "127.0.0.1",
            },
            capture_output=True,
            text=True,
            timeout=900,
            check=False,
        )
    # Spark's planning processes print their warnings there, too.
    answers = [line for line in done.stdout.splitlines() if line.startswith(("lake ", "stream ", "query "))]
    assert answers == ["lake ['99', '100']", "stream ['0', '1', '2']", "query 3"], done.stderr[-5000:]
