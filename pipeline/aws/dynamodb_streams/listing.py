"""The shards of a DynamoDB table's stream, by DescribeStream: pages of at most 100 shards, without hash keys.

A listing lags: it may show a shard as closed before it shows the shard that goes on after it. Each shard takes writes for
about four hours, so a family is a chain, and the open shards are its leaves.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from headrace.pipeline.aws.reading.stream_source import numbers_told
from headrace.pipeline.core.shards.shard import Shard

_MOST_SHARDS = 100
"""In one answer, by DynamoDB's API."""
_DISABLED = "DISABLED"

Describe = Callable[..., Any]
"""DescribeStream of a client, with the errors of whoever asks."""


def listed_shards(describe: Describe, arn: str) -> tuple[Shard, ...]:
    raw: dict[str, Mapping[str, Any]] = {}
    status = ""
    for description in _pages(describe, arn):
        status = description["StreamStatus"]
        raw |= {shard["ShardId"]: shard for shard in description["Shards"]}
    with_child = {shard.get("ParentShardId") for shard in raw.values()}
    return tuple(
        _shard(shard, has_child=shard_id in with_child, is_over=status == _DISABLED)
        for shard_id, shard in raw.items()
    )


def children_of(describe: Describe, arn: str, shard_id: str, *, filters: bool) -> tuple[str, ...] | None:
    """The shards that go on after this closed one. None where the listing shows none yet; no shard where the stream is
    switched off, so that none will come. `filters`: whether the client knows DescribeStream's filter."""
    asked = {"ShardFilter": {"Type": "CHILD_SHARDS", "ShardId": shard_id}} if filters else {}
    children: set[str] = set()
    status = ""
    for description in _pages(describe, arn, **asked):
        status = description["StreamStatus"]
        # Not every server knows the filter, and then all shards are in the answer.
        children |= {s["ShardId"] for s in description["Shards"] if s.get("ParentShardId") == shard_id}
    if not children and status != _DISABLED:
        return None
    return tuple(sorted(children))


def _pages(describe: Describe, arn: str, **asked: Any) -> Iterator[Mapping[str, Any]]:
    request: dict[str, Any] = {"StreamArn": arn, "Limit": _MOST_SHARDS, **asked}
    while True:
        description: Mapping[str, Any] = describe(**request)["StreamDescription"]
        yield description
        last = description.get("LastEvaluatedShardId")
        if not last:
            return
        request["ExclusiveStartShardId"] = last


def _shard(shard: Mapping[str, Any], *, has_child: bool, is_over: bool) -> Shard:
    numbers: Mapping[str, str] = shard.get("SequenceNumberRange", {})
    # A parent may be listed as open for a moment after its child is listed.
    is_closed = "EndingSequenceNumber" in numbers or has_child
    parent = shard.get("ParentShardId")
    return Shard(
        shard["ShardId"],
        (parent,) if parent else (),
        closed=is_closed,
        numbers=numbers_told(numbers),
        is_last=is_closed and not has_child and is_over,
    )
