"""Helpers of the stand-in's tests: streams, puts, reads, and the form of an AWS error."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import pytest
from botocore.exceptions import ClientError

STREAM = "orders"
MIB = 1024 * 1024
ALL_HASHES = 1 << 128


def a_stream(client: Any, shards: int = 1, *, name: str = STREAM, **more: Any) -> str:
    client.create_stream(StreamName=name, ShardCount=shards, **more)
    return name


def put(
    client: Any, data: bytes = b"data", key: str = "key", *, stream: str = STREAM, **more: Any
) -> dict[str, Any]:
    answer: dict[str, Any] = client.put_record(StreamName=stream, Data=data, PartitionKey=key, **more)
    return answer


def shards_of(client: Any, stream: str = STREAM, **more: Any) -> list[dict[str, Any]]:
    """All pages of ListShards. Further pages are requested by the token alone, as AWS demands."""
    answer = client.list_shards(StreamName=stream, **more)
    found = list(answer["Shards"])
    while "NextToken" in answer:
        answer = client.list_shards(NextToken=answer["NextToken"])
        found += answer["Shards"]
    return found


def ids_of(client: Any, stream: str = STREAM, **more: Any) -> list[int]:
    return [int(shard["ShardId"][-12:]) for shard in shards_of(client, stream, **more)]


def shard_id(index: int) -> str:
    return f"shardId-{index:012d}"


def an_iterator(
    client: Any, shard: int = 0, kind: str = "TRIM_HORIZON", *, stream: str = STREAM, **more: Any
) -> str:
    answer = client.get_shard_iterator(
        StreamName=stream, ShardId=shard_id(shard), ShardIteratorType=kind, **more
    )
    token: str = answer["ShardIterator"]
    return token


def a_page(client: Any, shard: int = 0, kind: str = "TRIM_HORIZON", **more: Any) -> dict[str, Any]:
    answer: dict[str, Any] = client.get_records(ShardIterator=an_iterator(client, shard, kind, **more))
    return answer


def read_out(client: Any, token: str | None, limit: int = 10_000) -> list[dict[str, Any]]:
    """Read the shard up to its tip or its end."""
    found: list[dict[str, Any]] = []
    while token is not None:
        page = client.get_records(ShardIterator=token, Limit=limit)
        found += page["Records"]
        token = page.get("NextShardIterator") if page["Records"] or page["MillisBehindLatest"] else None
    return found


def data_of(records: list[dict[str, Any]]) -> list[bytes]:
    return [record["Data"] for record in records]


def split(client: Any, shard: int, at: int | None = None, *, stream: str = STREAM) -> None:
    found = next(item for item in shards_of(client, stream) if item["ShardId"] == shard_id(shard))
    first, last = (int(found["HashKeyRange"][key]) for key in ("StartingHashKey", "EndingHashKey"))
    middle = str((first + last) // 2 if at is None else at)
    client.split_shard(StreamName=stream, ShardToSplit=shard_id(shard), NewStartingHashKey=middle)


def merge(client: Any, lower: int, upper: int, *, stream: str = STREAM) -> None:
    client.merge_shards(StreamName=stream, ShardToMerge=shard_id(lower), AdjacentShardToMerge=shard_id(upper))


@contextlib.contextmanager
def refuses(code: str, match: str | None = None) -> Iterator[None]:
    """Check that the call is answered with this AWS error, and not with an internal error of the stand-in."""
    with pytest.raises(ClientError, match=match) as raised:
        yield
    assert raised.value.response["Error"]["Code"] == code
    assert raised.value.response["ResponseMetadata"]["HTTPStatusCode"] == 400
