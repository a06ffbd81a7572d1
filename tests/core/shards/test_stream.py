"""The names and keys of streams and shards."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.pipeline.core.shards.stream import (
    ShardKey,
    StreamId,
    epoch_of_serialized,
    is_stream_arn,
    lease_key,
    shard_of_lease_key,
)
from headrace.pipeline.errors import WrongShape
from tests.core.strategies import KEYS, SHARD_IDS, STREAMS


@given(STREAMS)
def test_an_arn_holds_name_account_and_region(stream: StreamId):
    assert stream.arn == f"arn:aws:kinesis:{stream.region}:{stream.account}:stream/{stream.name}"
    assert is_stream_arn(stream.arn)


@given(STREAMS)
def test_a_serialized_stream_has_kcls_form_and_gives_back_its_epoch(stream: StreamId):
    assert stream.serialized == f"{stream.account}:{stream.name}:{stream.epoch}"
    assert epoch_of_serialized(stream.serialized) == stream.epoch


@given(key=KEYS, multi=st.booleans())
def test_a_lease_key_gives_back_its_shard(key: ShardKey, *, multi: bool):
    assert shard_of_lease_key(lease_key(key, multi=multi)) == key.shard_id


@given(STREAMS, STREAMS, SHARD_IDS)
def test_in_multi_mode_shards_of_two_streams_or_lives_have_different_keys(
    one: StreamId, other: StreamId, shard_id: str
):
    keys = {lease_key(ShardKey(stream, shard_id), multi=True) for stream in (one, other)}
    assert len(keys) == len({one, other})


def test_a_lease_key_of_a_single_stream_is_the_bare_shard_id():
    stream = StreamId("arn:aws:kinesis:eu-west-1:123456789012:stream/orders", 17)
    key = ShardKey(stream, "shardId-000000000001")
    assert lease_key(key, multi=False) == "shardId-000000000001"
    assert lease_key(key, multi=True) == "123456789012:orders:17:shardId-000000000001"


@pytest.mark.parametrize("partition", ["aws", "aws-cn", "aws-us-gov"])
def test_arns_of_every_aws_partition_are_accepted(partition: str):
    arn = f"arn:{partition}:kinesis:eu-west-1:123456789012:stream/orders"
    assert is_stream_arn(arn)
    assert StreamId(arn, 1).name == "orders"


@pytest.mark.parametrize(
    "text",
    [
        "orders",
        "",
        "arn:aws:s3:::orders",
        "arn:aws:kinesis:eu-west-1:12:stream/orders",
        "arn:aws:kinesis:eu-west-1:123456789012:stream/",
    ],
)
def test_a_text_that_is_no_stream_arn_is_refused_by_name(text: str):
    assert not is_stream_arn(text)
    with pytest.raises(WrongShape):
        _ = StreamId(text, 1).name


@pytest.mark.parametrize(
    "text",
    [
        "orders",
        "1:orders",
        "1:orders:0",
        "x:orders:1",
        "1:or:ders:1",
        "1:orders:1.5",
        "",
        f"1:orders:{2**63}",
        f"1:orders:{'9' * 5000}",
    ],
)
def test_a_text_that_is_no_serialized_stream_has_no_epoch(text: str):
    assert epoch_of_serialized(text) is None


def test_people_read_when_a_stream_was_created_as_a_time():
    assert str(StreamId("arn:aws:kinesis:eu-west-1:123456789012:stream/orders", 1_769_000_000)).endswith(
        " (created 2026-01-21 12:53:20Z)"
    )
    assert str(StreamId("arn:aws:kinesis:eu-west-1:123456789012:stream/orders", 2**63 - 1)).endswith(
        f" (created {2**63 - 1})"
    )


def test_first_shards_of_many_streams_have_different_hashes():
    """Otherwise each look-up in a table of a thousand streams' positions would compare a thousand names."""
    streams = (StreamId(f"arn:aws:kinesis:eu-west-1:123456789012:stream/{n}", 17) for n in range(500))
    hashes = {hash(ShardKey(stream, "shardId-000000000000")) for stream in streams}
    assert len(hashes) > 490
