"""`spark.read.format("headrace")` on a stream, through a real Spark Connect server: tests/spark.py."""

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from headrace import register_spark_source
from headrace.pipeline.local.endpoint import LocalAws, local_aws

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas:FutureWarning"),
]

PARENT = "shardId-000000000000"


@pytest.fixture(scope="module")
def own_aws() -> Iterator[LocalAws]:
    """A stand-in whose clock the tests move."""
    with local_aws("--transition", "0") as served:
        yield served


class Stream:
    def __init__(self, aws: LocalAws, spark: "SparkSession", folder: Path, name: str) -> None:
        self.aws, self.spark, self.name = aws, spark, name
        self.client: Any = aws.client("kinesis")
        self.client.create_stream(StreamName=name, ShardCount=1)
        settings = folder / "headrace.yaml"
        settings.write_text(
            f"application: shop\nstreams: [{{name: {name}}}]\naws: {{region: {aws.region}, endpoint: '{aws.endpoint}'}}\n"
        )
        register_spark_source(spark, settings)

    def put(self, *payloads: str) -> list[str]:
        entries = [{"Data": text.encode(), "PartitionKey": text} for text in payloads]
        answer = self.client.put_records(StreamName=self.name, Records=entries)
        self.aws.advance(2)
        return [record["SequenceNumber"] for record in answer["Records"]]

    def split(self) -> None:
        self.client.split_shard(StreamName=self.name, ShardToSplit=PARENT, NewStartingHashKey=str(2**127))

    def now(self) -> str:
        return datetime.fromtimestamp(self.aws.now(), UTC).isoformat()

    def read(self, **options: str) -> "DataFrame":
        return self.spark.read.format("headrace").options(source="kinesis", **options).load()

    def run(self, folder: Path) -> list[str]:
        query = (
            self.spark.readStream.format("headrace")
            .option("source", "kinesis")
            .load()
            .writeStream.format("parquet")
            .option("checkpointLocation", str(folder / "checkpoint"))
            .trigger(availableNow=True)
            .start(str(folder / "out"))
        )
        query.awaitTermination()
        return payloads(self.spark.read.parquet(str(folder / "out")))


def payloads(frame: "DataFrame") -> list[str]:
    rows = frame.orderBy("shard_generation", "shard_id", "sort_key").select("data").collect()
    return [bytes(row.data).decode() for row in rows]


def test_a_range_of_a_stream_has_each_record_with_children_after_their_parents(
    own_aws: LocalAws, spark: "SparkSession", tmp_path: Path
):
    stream = Stream(own_aws, spark, tmp_path, "range")
    stream.put("a", "b")
    own_aws.advance(120)
    since = stream.now()
    stream.put("c")
    stream.split()
    stream.put("d", "e", "f")

    every = payloads(stream.read())
    assert every[:3] == ["a", "b", "c"]
    assert sorted(every[3:]) == ["d", "e", "f"]
    assert payloads(stream.read(**{"from": since})) == every[2:]
    assert payloads(stream.read(to=since)) == ["a", "b"]


def test_records_that_left_the_stream_stop_the_query_and_are_named_by_the_losses(
    own_aws: LocalAws, spark: "SparkSession", tmp_path: Path
):
    stream = Stream(own_aws, spark, tmp_path, "losses")
    since = stream.now()
    stream.put("lost")
    own_aws.advance(25 * 3600)
    stream.put("there")

    with pytest.raises(Exception, match="may have left the stream"):
        stream.read(**{"from": since}).collect()
    assert payloads(stream.read(**{"from": since, "on_data_loss": "continue"})) == ["there"]
    (loss,) = stream.read(**{"from": since, "view": "losses"}).collect()
    assert (loss.stream, loss.shard_id, loss.kind) == ("losses", PARENT, "retention")


def test_a_stream_query_with_available_now_has_each_record_once_over_a_reshard(
    own_aws: LocalAws, spark: "SparkSession", tmp_path: Path
):
    stream = Stream(own_aws, spark, tmp_path, "queries")
    stream.put("a", "b")
    own_aws.advance(120)
    assert stream.run(tmp_path) == ["a", "b"]
    stream.put("c")
    stream.split()
    stream.put("d")
    assert stream.run(tmp_path) == ["a", "b"]
    own_aws.advance(120)
    assert stream.run(tmp_path) == ["a", "b", "c", "d"]
