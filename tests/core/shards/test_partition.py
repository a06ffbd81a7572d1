"""The names of shards in Dagster and on the command line."""

import string

import pytest
from dagster._core.definitions.partitions.utils.base import INVALID_PARTITION_SUBSTRINGS
from hypothesis import example, given
from hypothesis import strategies as st

from headrace.pipeline.core.shards.partition import ShardName, lease_key_of, meant_by, partition_of, read_name
from headrace.pipeline.core.shards.stream import ShardKey, StreamId, lease_key
from tests.core.strategies import SHARD_IDS

ACCOUNTS = st.integers(0, 10**12 - 1).map("{:012d}".format)
KEYS = st.builds(
    lambda account, region, name, epoch, shard: ShardKey(
        StreamId(f"arn:aws:kinesis:{region}:{account}:stream/{name}", epoch), shard
    ),
    ACCOUNTS,
    st.sampled_from(["eu-west-1", "us-east-1"]),
    st.text(f"{string.ascii_letters}{string.digits}_.-", min_size=1, max_size=12) | st.just("a......b"),
    st.integers(1, 2**63 - 1),
    SHARD_IDS | st.sampled_from(["7", "007", "shardId-7", "...", "shardId-1000000000000"]),
)
ORDERS = "123456789012:orders:1764160000:shardId-000000000001"
OF_ORDERS = "orders@123456789012:1764160000/1"


def test_a_name_has_the_stream_at_its_front_and_the_shard_at_its_end():
    assert partition_of(ORDERS) == OF_ORDERS
    assert lease_key_of(OF_ORDERS) == ORDERS


def test_the_shards_of_a_single_stream_are_called_by_their_ids():
    assert (
        partition_of("shardId-000000000001") == lease_key_of("shardId-000000000001") == "shardId-000000000001"
    )


@given(KEYS)
@example(
    ShardKey(StreamId("arn:aws:kinesis:eu-west-1:123456789012:stream/a......b", 1), "shardId-000000000000")
)
def test_a_name_gives_back_its_lease_key(key: ShardKey):
    for multi in (False, True):
        text = lease_key(key, multi=multi)
        assert lease_key_of(partition_of(text)) == text


@given(KEYS, KEYS)
def test_shards_of_two_lives_accounts_or_streams_have_different_names(one: ShardKey, other: ShardKey):
    keys = {lease_key(each, multi=True) for each in (one, other)}
    assert len(set(map(partition_of, keys))) == len(keys)


@given(KEYS)
@example(
    ShardKey(StreamId("arn:aws:kinesis:eu-west-1:123456789012:stream/a....b", 1), "shardId-000000000000")
)
def test_dagster_allows_each_name(key: ShardKey):
    """The tag of failed shards also joins names by commas, and Dagster's UI gives brackets a meaning."""
    name = partition_of(lease_key(key, multi=True))
    assert not [each for each in (*INVALID_PARTITION_SUBSTRINGS, ",", "[", "]", "|", " ") if each in name]


@given(st.text())
def test_a_text_of_another_form_is_its_own_name(text: str):
    assert lease_key_of(partition_of(text)) == text


@pytest.mark.parametrize(
    "text",
    [
        "orders@123456789012:1764160000/01",
        "orders@123456789012:1764160000/shardId-000000000001",
        "orders@123456789012/1",
        "orders/1",
        "",
    ],
)
def test_a_name_in_a_second_form_stands_for_no_lease_key(text: str):
    """Else Dagster would show one shard as two partitions."""
    assert lease_key_of(text) == text


@pytest.mark.parametrize(
    "text", [ORDERS, OF_ORDERS, "orders/1", "orders/shardId-000000000001", "shardId-000000000001"]
)
def test_a_person_may_shorten_a_name_as_long_as_it_means_one_shard(text: str):
    others = [
        "123456789012:orders:1764160000:shardId-000000000002",
        "123456789012:returns:1764160000:shardId-000000000003",
    ]
    assert meant_by(text, [*others, ORDERS], only_stream=None) == (ORDERS,)
    assert meant_by(text, others, only_stream=None) == ()


def test_a_short_name_means_all_lives_of_a_stream():
    later = "123456789012:orders:1764170000:shardId-000000000001"
    assert meant_by("orders/1", [ORDERS, later], only_stream=None) == (ORDERS, later)
    assert meant_by(OF_ORDERS, [ORDERS, later], only_stream=None) == (ORDERS,)


@pytest.mark.parametrize("text", ["orders/1", "orders/shardId-000000000001", "shardId-000000000001"])
def test_a_name_with_the_stream_means_a_shard_of_an_application_that_reads_this_stream_alone(text: str):
    keys = ["shardId-000000000000", "shardId-000000000001"]
    assert meant_by(text, keys, only_stream="orders") == ("shardId-000000000001",)


@pytest.mark.parametrize("text", ["returns/1", "orders/7", OF_ORDERS])
def test_a_name_of_another_stream_or_shard_means_none_of_an_application_that_reads_one_stream(text: str):
    assert meant_by(text, ["shardId-000000000000", "shardId-000000000001"], only_stream="orders") == ()


def test_what_a_name_says_is_compared_with_a_shard():
    key = ShardKey(
        StreamId("arn:aws:kinesis:eu-west-1:123456789012:stream/orders", 1764160000), "shardId-000000000001"
    )
    assert read_name(OF_ORDERS) == ShardName("shardId-000000000001", "orders", "123456789012", 1764160000)
    assert all(read_name(text).fits(key) for text in (ORDERS, OF_ORDERS, "orders/1", "shardId-000000000001"))
    for text in ("returns/1", "orders/2", "orders@123456789012:1/1", "orders@000000000000:1764160000/1", "1"):
        assert not read_name(text).fits(key)
