"""Operations that change a stream: create, delete, reshard, retention, record size."""

from __future__ import annotations

from typing import Any

from headrace.pipeline.local.errors import (
    AwsError,
    in_use,
    invalid_argument,
    over_limit,
    resource_not_found,
)
from headrace.pipeline.local.fields import (
    HASH_KEY,
    SHARD_ID,
    STREAM_NAME,
    Request,
    maybe_number,
    number_field,
    tags_field,
    text_field,
)
from headrace.pipeline.local.kinesis.limits import MOST_CREATING
from headrace.pipeline.local.kinesis.modes import chosen_mode, first_shards
from headrace.pipeline.local.kinesis.region import Region
from headrace.pipeline.local.kinesis.shard import LocalShard
from headrace.pipeline.local.kinesis.stream import ACCOUNT, State, Stream

_LEAST_HOURS, _MOST_HOURS = 24, 8760
_LEAST_KIB, _MOST_KIB = 1024, 10_240


def create_stream(region: Region, request: Request) -> dict[str, Any]:
    """Create a stream, which stays CREATING for a while."""
    now = region.clock()
    region.limits.call("CreateStream", "", now)
    name = text_field(request, "StreamName", STREAM_NAME)
    mode = chosen_mode(request)
    count = first_shards(region, request, mode)
    kib = maybe_number(request, "MaxRecordSizeInKiB", least=_LEAST_KIB, most=_MOST_KIB) or _LEAST_KIB
    tags = tags_field(request) if request.get("Tags") is not None else {}
    # After the request was judged, as on AWS: a request with a wrong field is told so, whether the
    # stream is there or not.
    if region.find(name, now) is not None:
        raise in_use(f"Stream {name} under account {ACCOUNT} already exists.")
    region.check_shard_limit(count, now)
    if region.limits.enforced and _creating(region, now) >= MOST_CREATING:
        raise over_limit(f"More than {MOST_CREATING} streams are in the CREATING state.")
    stream = region.add(name, now)
    stream.max_record_kib, stream.tags, stream.mode = kib, tags, mode
    stream.begin_creating(count, now)
    return {}


def delete_stream(region: Region, request: Request) -> dict[str, Any]:
    """Delete a stream, which stays DELETING for a while. Meanwhile it can be read and written, as on AWS."""
    now = region.clock()
    stream = region.active_stream(request, "DeleteStream", now)
    stream.begin_deleting(now)
    return {}


def split_shard(region: Region, request: Request) -> dict[str, Any]:
    """Split a shard in two at a hash key."""
    now = region.clock()
    shard_id = text_field(request, "ShardToSplit", SHARD_ID)
    second_start = int(text_field(request, "NewStartingHashKey", HASH_KEY))
    stream = region.active_stream(request, "SplitShard", now)
    stream.need_provisioned()
    shard = _open_shard(stream, shard_id)
    if not shard.first_hash + 1 < second_start < shard.last_hash:
        raise invalid_argument(
            f"NewStartingHashKey {second_start} used in SplitShard() on shard {shard_id} in stream {stream.name} under "
            f"account {ACCOUNT} is not both greater than one plus the shard's StartingHashKey {shard.first_hash} and "
            f"less than the shard's EndingHashKey {shard.last_hash}."
        )
    region.check_shard_limit(1, now)
    stream.begin_split(shard, second_start, now)
    return {}


def merge_shards(region: Region, request: Request) -> dict[str, Any]:
    """Merge two shards whose hash ranges touch."""
    now = region.clock()
    ids = text_field(request, "ShardToMerge", SHARD_ID), text_field(request, "AdjacentShardToMerge", SHARD_ID)
    stream = region.active_stream(request, "MergeShards", now)
    stream.need_provisioned()
    lower, upper = (_open_shard(stream, shard_id) for shard_id in ids)
    # A request may name the two shards in either order.
    if lower.first_hash > upper.first_hash:
        lower, upper = upper, lower
    if lower.last_hash + 1 != upper.first_hash:
        raise invalid_argument(
            f"Shards {ids[0]} and {ids[1]} in stream {stream.name} under account {ACCOUNT} are not an adjacent pair of "
            "shards eligible for merging"
        )
    stream.begin_merge(lower, upper, now)
    return {}


def increase_retention(region: Region, request: Request) -> dict[str, Any]:
    """Make the retention longer."""
    stream, hours = _retention(region, request, "IncreaseStreamRetentionPeriod")
    if hours < stream.retention_hours:
        raise invalid_argument(f"Requested retention period ({hours} hours) {_not_than(stream, 'shorter')}")
    stream.retention_hours = hours
    return {}


def decrease_retention(region: Region, request: Request) -> dict[str, Any]:
    """Make the retention shorter. Records that are older than it are gone at once."""
    stream, hours = _retention(region, request, "DecreaseStreamRetentionPeriod")
    if hours > stream.retention_hours:
        raise invalid_argument(f"Requested retention period ({hours} hours) {_not_than(stream, 'longer')}")
    stream.retention_hours = hours
    return {}


def update_max_record_size(region: Region, request: Request) -> dict[str, Any]:
    """Change the largest allowed size of a record."""
    now = region.clock()
    kib = number_field(request, "MaxRecordSizeInKiB", least=_LEAST_KIB, most=_MOST_KIB)
    stream = region.active_stream(request, "UpdateMaxRecordSize", now)

    def resize(_at: float) -> None:
        stream.max_record_kib = kib

    stream.begin(State.UPDATING, now, resize)
    return {}


def _open_shard(stream: Stream, shard_id: str) -> LocalShard:
    try:
        shard = stream.shard(shard_id)
    except AwsError as error:
        place = f"stream {stream.name} under account {ACCOUNT}."
        raise resource_not_found(f"Could not find shard {shard_id} in {place}") from error
    if shard.closed_at is not None:
        raise invalid_argument(
            f"Shard {shard_id} in stream {stream.name} under account {ACCOUNT} has already been merged or split, and "
            "thus is not eligible for merging or splitting."
        )
    return shard


def _retention(region: Region, request: Request, operation: str) -> tuple[Stream, int]:
    hours = number_field(request, "RetentionPeriodHours")
    stream = region.active_stream(request, operation, region.clock())
    if not _LEAST_HOURS <= hours <= _MOST_HOURS:
        bound = f"Minimum allowed retention period is {_LEAST_HOURS} hours, maximum {_MOST_HOURS}."
        raise invalid_argument(f"{bound} Requested retention period ({hours} hours) is out of it.")
    return stream, hours


def _not_than(stream: Stream, than: str) -> str:
    have = f"existing retention period ({stream.retention_hours} hours)"
    opposite = {"shorter": "Decrease", "longer": "Increase"}[than]
    return f"for stream {stream.name} can not be {than} than {have}. Use {opposite}RetentionPeriod API."


def _creating(region: Region, now: float) -> int:
    streams = (region.find(name, now) for name in region.names(now))
    return sum(stream is not None and stream.state is State.CREATING for stream in streams)
