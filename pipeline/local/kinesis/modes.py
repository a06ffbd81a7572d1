"""Capacity of a stream: provisioned and on-demand mode, warm throughput, the account's commitment to a minimum
throughput, and how records are spread over shards.

An on-demand stream has 4 shards at first. With `--throttle` it grows: a shard that was written to faster than it
takes records is split, as soon as the stream is ACTIVE. It never shrinks by itself.
"""

from __future__ import annotations

from typing import Any

from headrace.pipeline.local.errors import invalid, over_limit
from headrace.pipeline.local.fields import (
    Request,
    broken,
    choice,
    maybe_mapping,
    maybe_number,
    number_field,
    text_field,
)
from headrace.pipeline.local.kinesis.region import Region
from headrace.pipeline.local.kinesis.scaling import scale
from headrace.pipeline.local.kinesis.shard import LocalShard
from headrace.pipeline.local.kinesis.stream import ON_DEMAND, PROVISIONED, State, Stream

_MODES = frozenset({PROVISIONED, ON_DEMAND})
_STRATEGIES = frozenset({"AUTO", "USER_PARTITION_KEY"})
_COMMITMENTS = frozenset({"ENABLED", "DISABLED"})
_FIRST_SHARDS = 4
_MOST_CHANGES_A_DAY = 2
_DAY = 24 * 3600
# A shard takes one MiB a second, so that a wish in MiB is also a number of shards.
_MOST_MIB = 10_000


def chosen_mode(request: Request) -> str:
    """Give the mode of a request to create a stream."""
    details = maybe_mapping(request, "StreamModeDetails")
    return PROVISIONED if details is None else choice(details, "StreamMode", _MODES)


def first_shards(region: Region, request: Request, mode: str) -> int:
    """Give the number of shards with which a stream begins."""
    warm = _warm(region, request, mode)
    if mode == ON_DEMAND:
        return max(_FIRST_SHARDS, warm or 0)
    return number_field(request, "ShardCount", least=1)


def update_stream_mode(region: Region, request: Request) -> dict[str, Any]:
    """Change the mode. The shards stay."""
    now = region.clock()
    text_field(request, "StreamARN")
    if maybe_mapping(request, "StreamModeDetails") is None:
        raise broken("streamModeDetails", None, "Member must not be null")
    mode = chosen_mode(request)
    warm = _warm(region, request, mode)
    stream = region.active_stream(request, "UpdateStreamMode", now)
    recent = [moment for moment in stream.mode_changes if moment > now - _DAY]
    if mode != stream.mode and region.limits.enforced and len(recent) >= _MOST_CHANGES_A_DAY:
        raise over_limit(
            f"Stream {stream.name} changed its mode {_MOST_CHANGES_A_DAY} times in 24 hours already."
        )
    if mode != stream.mode:
        stream.mode_changes = [*recent, now]

    def change(moment: float) -> None:
        stream.mode = mode
        _warm_up(stream, warm, moment)

    stream.begin(State.UPDATING, now, change)
    return {}


def update_warm_throughput(region: Region, request: Request) -> dict[str, Any]:
    """Make an on-demand stream ready for so many MiB a second, one for each shard."""
    now = region.clock()
    mib = number_field(request, "WarmThroughputMiBps", least=0, most=_MOST_MIB)
    stream = region.active_stream(request, "UpdateStreamWarmThroughput", now)
    _warm(region, request, stream.mode)
    current = len(stream.open_shards)
    stream.begin(State.UPDATING, now, lambda moment: _warm_up(stream, mib, moment))
    return {
        "StreamName": stream.name,
        "StreamARN": stream.arn,
        "WarmThroughput": {"TargetMiBps": mib, "CurrentMiBps": current},
    }


def update_distribution(region: Region, request: Request) -> dict[str, Any]:
    """Spread an on-demand stream's records by their keys, or evenly."""
    now = region.clock()
    text_field(request, "StreamARN")
    strategy = choice(request, "RecordDistributionStrategy", _STRATEGIES)
    stream = region.active_stream(request, "UpdateStreamRecordDistributionStrategy", now)
    if stream.mode != ON_DEMAND:
        raise _on_demand_only(f"stream {stream.name}")
    stream.ignores_keys = strategy == "AUTO"
    return {}


def describe_account(region: Region, _request: Request) -> dict[str, Any]:
    """Tell whether the account has committed itself to a minimum throughput."""
    region.limits.call("DescribeAccountSettings", "", region.clock())
    return _commitment(region)


def update_account(region: Region, request: Request) -> dict[str, Any]:
    """Commit the account to a minimum throughput, or end that at once: AWS would wait for the end of the term."""
    now = region.clock()
    region.limits.call("UpdateAccountSettings", "", now)
    given = maybe_mapping(request, "MinimumThroughputBillingCommitment")
    if given is None:
        raise broken("minimumThroughputBillingCommitment", None, "Member must not be null")
    if choice(given, "Status", _COMMITMENTS) == "DISABLED":
        region.committed_at = None
    elif region.committed_at is None:
        region.committed_at = now
    return _commitment(region)


def split_when_full(stream: Stream, shard: LocalShard, now: float) -> None:
    """Split a shard of an on-demand stream that has got as many records as it can take."""
    middle = (shard.first_hash + shard.last_hash + 1) // 2
    if stream.mode == ON_DEMAND and stream.state is State.ACTIVE and shard.first_hash < middle:
        stream.begin_split(shard, middle, now)


def _warm(region: Region, request: Request, mode: str) -> int | None:
    mib = maybe_number(request, "WarmThroughputMiBps", least=0, most=_MOST_MIB)
    if mib is not None and mode != ON_DEMAND:
        raise _on_demand_only("a provisioned stream")
    if mib is not None and region.committed_at is None:
        raise invalid("Warm throughput needs an account whose MinimumThroughputBillingCommitment is ENABLED.")
    return mib


def _warm_up(stream: Stream, mib: int | None, moment: float) -> None:
    stream.warm_mib = mib if mib is not None else stream.warm_mib
    if mib is not None and mib > len(stream.open_shards):
        scale(stream, mib, moment)


def _commitment(region: Region) -> dict[str, Any]:
    if region.committed_at is None:
        return {"MinimumThroughputBillingCommitment": {"Status": "DISABLED"}}
    began = {"Status": "ENABLED", "StartedAt": round(region.committed_at, 3)}
    return {"MinimumThroughputBillingCommitment": began}


def _on_demand_only(what: str) -> Exception:
    return invalid(f"The operation is for streams in on-demand capacity mode only, and not for {what}.")
