"""Iterators and GetRecords."""

from __future__ import annotations

import datetime as dt

import pytest

from tests.local.builders import (
    MIB,
    STREAM,
    a_page,
    a_stream,
    an_iterator,
    data_of,
    put,
    refuses,
    split,
)


def at(seconds):
    return dt.datetime.fromtimestamp(seconds, dt.UTC)


@pytest.fixture
def numbers(local, client):
    """A shard with three records, 10 seconds apart."""
    a_stream(client)
    found = []
    for data in (b"1", b"2", b"3"):
        found.append(put(client, data)["SequenceNumber"])
        local.clock.advance(10)
    return found


def test_trim_horizon_begins_at_the_oldest_and_latest_after_the_newest(client, numbers):
    token = an_iterator(client, 0, "LATEST")
    put(client, b"4")
    assert data_of(a_page(client)["Records"]) == [b"1", b"2", b"3", b"4"]
    assert data_of(client.get_records(ShardIterator=token)["Records"]) == [b"4"]
    assert len(numbers) == 3


def test_at_sequence_number_includes_the_record_and_after_sequence_number_doesnt(client, numbers):
    def payloads_from(kind, number):
        return data_of(a_page(client, 0, kind, StartingSequenceNumber=number)["Records"])

    assert payloads_from("AT_SEQUENCE_NUMBER", numbers[1]) == [b"2", b"3"]
    assert payloads_from("AFTER_SEQUENCE_NUMBER", numbers[1]) == [b"3"]
    assert payloads_from("AFTER_SEQUENCE_NUMBER", numbers[2]) == []


def test_the_shards_starting_and_ending_sequence_numbers_are_accepted(client, numbers):
    split(client, 0)
    parent = client.list_shards(StreamName=STREAM)["Shards"][0]["SequenceNumberRange"]

    def payloads_from(kind, number):
        return data_of(a_page(client, 0, kind, StartingSequenceNumber=number)["Records"])

    for kind in ("AT_SEQUENCE_NUMBER", "AFTER_SEQUENCE_NUMBER"):
        assert payloads_from(kind, parent["StartingSequenceNumber"]) == [b"1", b"2", b"3"]
        assert payloads_from(kind, parent["EndingSequenceNumber"]) == []
    assert parent["EndingSequenceNumber"] not in numbers


@pytest.mark.parametrize("change", [1, -1, 1 << 80, 1 << 90, 1 << 160, 10**55])
def test_a_sequence_number_that_the_shard_never_gave_is_refused(client, numbers, change):
    with refuses("InvalidArgumentException", "StartingSequenceNumber"):
        an_iterator(client, 0, "AFTER_SEQUENCE_NUMBER", StartingSequenceNumber=str(int(numbers[2]) + change))


def test_a_sequence_number_of_another_shard_is_refused(client):
    a_stream(client, 2)
    number = put(client, ExplicitHashKey="0")["SequenceNumber"]
    with refuses("InvalidArgumentException", "StartingSequenceNumber"):
        an_iterator(client, 1, "AT_SEQUENCE_NUMBER", StartingSequenceNumber=number)


@pytest.mark.parametrize(("offset", "expected"), [
    (-3600, [b"1", b"2", b"3"]),
    (0, [b"1", b"2", b"3"]),
    (1, [b"2", b"3"]),
    (10, [b"2", b"3"]),
    (25, []),
])  # fmt: skip
def test_at_timestamp_begins_with_the_first_record_from_then_on(local, client, numbers, offset, expected):
    start = local.clock() - 30
    assert data_of(a_page(client, 0, "AT_TIMESTAMP", Timestamp=at(start + offset))["Records"]) == expected
    assert len(numbers) == 3


def test_a_timestamp_in_the_future_is_refused(local, client, numbers):
    with refuses("InvalidArgumentException", "currentTimestamp"):
        an_iterator(client, 0, "AT_TIMESTAMP", Timestamp=at(local.clock() + 1))
    assert len(numbers) == 3


def test_each_iterator_type_takes_its_own_parameters_only(client, numbers):
    for kind in ("TRIM_HORIZON", "LATEST"):
        with refuses("InvalidArgumentException"):
            an_iterator(client, 0, kind, StartingSequenceNumber=numbers[0])
    for kind in ("AT_SEQUENCE_NUMBER", "AFTER_SEQUENCE_NUMBER", "AT_TIMESTAMP"):
        with refuses("InvalidArgumentException"):
            an_iterator(client, 0, kind)
    with refuses("ValidationException"):
        an_iterator(client, 0, "SOMEWHERE")


def test_an_iterator_works_for_300_seconds_and_may_be_used_again(local, client, numbers):
    token = an_iterator(client)
    local.clock.advance(300)
    pages = [client.get_records(ShardIterator=token, Limit=2) for _ in range(2)]
    assert [data_of(page["Records"]) for page in pages] == [[b"1", b"2"]] * 2
    local.clock.advance(1)
    with refuses("ExpiredIteratorException", "300000 milliseconds"):
        client.get_records(ShardIterator=token)
    fresh = client.get_records(ShardIterator=pages[0]["NextShardIterator"])
    assert data_of(fresh["Records"]) == [b"3"]
    assert len(numbers) == 3


@pytest.mark.parametrize("spoil", [
    lambda token: "x",
    lambda token: "AAAA",
    lambda token: "é" * 40,
    lambda token: token[:-4],
    lambda token: token[:20] + "AAAA" + token[24:],
    lambda token: token + token,
])  # fmt: skip
def test_an_invalid_iterator_is_refused(client, spoil):
    a_stream(client)
    with refuses("InvalidArgumentException", "Invalid ShardIterator"):
        client.get_records(ShardIterator=spoil(an_iterator(client)))


def test_a_token_of_a_listing_is_refused_as_an_iterator(client):
    a_stream(client, 2)
    token = client.list_shards(StreamName=STREAM, MaxResults=1)["NextToken"]
    with refuses("InvalidArgumentException", "Invalid ShardIterator"):
        client.get_records(ShardIterator=token)
    with refuses("InvalidArgumentException", "Invalid NextToken"):
        client.list_shards(NextToken=an_iterator(client))


def test_behind_is_the_age_of_the_next_unread_record_and_0_at_the_tip(client, numbers):
    token = an_iterator(client)
    behind = []
    for _ in range(4):
        page = client.get_records(ShardIterator=token, Limit=1)
        token = page["NextShardIterator"]
        behind.append(page["MillisBehindLatest"])
    assert behind == [20_000, 10_000, 0, 0]
    assert len(numbers) == 3


def test_a_page_has_at_most_10000_records(client):
    a_stream(client)
    records = [{"Data": b"x", "PartitionKey": "k"}] * 500
    for _ in range(21):
        client.put_records(StreamName=STREAM, Records=records)
    token = an_iterator(client)
    page = client.get_records(ShardIterator=token)
    rest = client.get_records(ShardIterator=page["NextShardIterator"])
    assert (len(page["Records"]), len(rest["Records"])) == (10_000, 500)
    with refuses("ValidationException", "10000"):
        client.get_records(ShardIterator=token, Limit=10_001)


def test_a_page_has_at_most_10_mib(client):
    a_stream(client)
    for _ in range(12):
        put(client, b"x" * (MIB - 3), key="key")
    page = a_page(client)
    rest = client.get_records(ShardIterator=page["NextShardIterator"])
    assert (len(page["Records"]), len(rest["Records"])) == (10, 2)


def test_an_empty_page_behind_the_tip_doesnt_move_the_iterator(local, client, numbers):
    local.inject("empty", count=2, resource=STREAM)
    token, pages = an_iterator(client), []
    for _ in range(3):
        pages.append(client.get_records(ShardIterator=token))
        token = pages[-1]["NextShardIterator"]
    assert [len(page["Records"]) for page in pages] == [0, 0, len(numbers)]
    assert [page["MillisBehindLatest"] for page in pages] == [30_000, 30_000, 0]
