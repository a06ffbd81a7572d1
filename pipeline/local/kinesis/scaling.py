"""UpdateShardCount: splits and merges that lead to the wanted number of equally large shards.

        0         1/4        1/2        3/4         1
4       |----------|----------|----------|----------|
splits  |------|---|--|-------|------|---|--|-------|     at each wanted border that doesn't exist
merges  |------|------|-------|------|------|-------|     over each border that isn't wanted
6

Shards that exist only between the two steps stay empty, as on AWS.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from typing import Any

from headrace.pipeline.local.errors import invalid_argument, over_limit
from headrace.pipeline.local.fields import Request, choice, number_field
from headrace.pipeline.local.kinesis.region import Region
from headrace.pipeline.local.kinesis.shard import MAX_HASH
from headrace.pipeline.local.kinesis.stream import State, Stream

_MOST_SHARDS = 10_000
_MOST_A_DAY = 10
_DAY = 24 * 3600
# Two borders this close are the same (of 2^128): they differ a little if a range is divided in two steps
# instead of one.
_SAME_BORDER = 1 << 64


def update_shard_count(region: Region, request: Request) -> dict[str, Any]:
    """Begin to scale: the stream is UPDATING until the new shards are open."""
    now = region.clock()
    target = number_field(request, "TargetShardCount", least=1)
    choice(request, "ScalingType", frozenset({"UNIFORM_SCALING"}))
    region.limits.call("UpdateShardCount", "", now)
    stream = region.stream(request, now)
    stream.need_active()
    stream.need_provisioned()
    current = len(stream.open_shards)
    _check_target(target, current)
    region.check_shard_limit(max(0, target - current), now)
    _check_day(region, stream, now)
    stream.begin(State.UPDATING, now, lambda moment: scale(stream, target, moment))
    return {
        "StreamName": stream.name,
        "StreamARN": stream.arn,
        "CurrentShardCount": current,
        "TargetShardCount": target,
    }


def scale(stream: Stream, target: int, moment: float) -> None:
    """Make the open shards `target` in number and alike in size."""
    starts = [shard.first_hash for shard in stream.open_shards]
    borders = [_snapped(index * (MAX_HASH + 1) // target, starts) for index in range(target)]
    for border in borders:
        shard = stream.route(border)
        if shard.first_hash != border:
            stream.split(shard, border, moment)
    for first, end in zip(borders, [*borders[1:], MAX_HASH + 1], strict=True):
        while (shard := stream.route(first)).last_hash + 1 < end:
            stream.merge(shard, stream.route(shard.last_hash + 1), moment)


def _snapped(border: int, starts: Sequence[int]) -> int:
    place = bisect_left(starts, border)
    near = starts[max(0, place - 1) : place + 1]
    return next((start for start in near if abs(start - border) < _SAME_BORDER), border)


def _check_target(target: int, current: int) -> None:
    counts = f"Current open shard count: {current} Target shard count: {target}"
    if target > 2 * current:
        raise invalid_argument(
            f"UpdateShardCount cannot scale up over double your current open shard count. {counts}"
        )
    if 2 * target < current:
        raise invalid_argument(
            f"UpdateShardCount cannot scale down below half your current open shard count. {counts}"
        )
    if target > _MOST_SHARDS:
        raise invalid_argument(f"UpdateShardCount cannot scale over {_MOST_SHARDS} shards. {counts}")


def _check_day(region: Region, stream: Stream, now: float) -> None:
    recent = [moment for moment in stream.scaled_at if moment > now - _DAY]
    if region.limits.enforced and len(recent) >= _MOST_A_DAY:
        raise over_limit(
            f"Stream {stream.name} has been scaled {_MOST_A_DAY} times in 24 hours already: it can't be again now."
        )
    stream.scaled_at = [*recent, now]
