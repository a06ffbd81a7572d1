"""What Spark pickles into its tasks: their part of a range, without a catalog's password; and which stream they read."""

from dataclasses import replace
from typing import Any

import pytest
from pyspark.cloudpickle import dumps
from pyspark.sql.types import StructField, StructType, _parse_datatype_json_value

from headrace.pipeline.core.shards.stream import ShardKey, StreamId
from headrace.pipeline.errors import BadSetting, HeadraceError
from headrace.pipeline.settings.model import LandingSettings, Settings, StreamSettings
from headrace.pipeline.source.application import application_of
from headrace.pipeline.source.columns import RECORD_KINDS
from headrace.pipeline.source.data_source import bound_source
from headrace.pipeline.source.options import RangeOptions
from headrace.pipeline.source.shard_read import read_shard
from tests.aws.pages_world import World
from tests.source.test_stream_range import parts_of

PASSWORD = "correct-horse"
TABLE = "arn:aws:dynamodb:us-east-1:123456789012:table/orders/stream/2026-11-27T05:00:00.000"


@pytest.mark.parametrize("streaming", [False, True])
def test_a_source_that_has_planned_a_query_is_pickled_without_its_application(*, streaming: bool):
    catalog = {"type": "sql", "uri": f"postgresql+psycopg2://headrace:{PASSWORD}@db/lake"}
    settings = Settings(
        application="shop", streams=(StreamSettings(name="orders"),), landing=LandingSettings(catalog=catalog)
    )
    source: Any = bound_source(application_of(settings))({"source": "lake"})
    # Spark's driver gets the application: it opens the catalog.
    assert PASSWORD.encode() in dumps(source)
    names = {"bigint": "long", "int": "integer"}
    schema = StructType(
        [
            StructField(name, _parse_datatype_json_value(names.get(kind, kind)))
            for name, kind in RECORD_KINDS.items()
        ]
    )
    reader = source.streamReader(schema) if streaming else source.reader(schema)
    assert PASSWORD.encode() not in dumps(source)
    assert PASSWORD.encode() not in dumps(reader)


def test_a_task_that_finds_another_stream_than_the_driver_reads_nothing():
    world = World()
    world.put(b"1")
    (part,) = parts_of(world)
    other = StreamId(world.stream.arn, world.stream.epoch - 3600)
    part = replace(part, batch=replace(part.batch, key=ShardKey(other, part.batch.key.shard_id)))
    with pytest.raises(HeadraceError, match="created"):
        list(read_shard(part, world.reader()))
    assert not any("ShardIterator" in request for request in world.requests)


@pytest.mark.parametrize("named", [None, TABLE])
def test_the_stream_of_a_table_is_no_data_frame_and_the_refusal_names_the_lake_table(named: str | None):
    settings = Settings(application="shop", streams=(StreamSettings(name=TABLE),))

    # Before Spark runs a task, and before anybody is asked.
    with pytest.raises(
        BadSetting, match=r"stream of a DynamoDB table.* nothing was read\. Read the lake table instead"
    ):
        application_of(settings).stream_range(RangeOptions(stream=named))
