"""Operations that change a stream: create, delete, reshard, retention, record size, mode, tags."""

from __future__ import annotations

import re
from typing import Any

from headrace.pipeline.local.errors import (
    AwsError,
    in_use,
    invalid,
    invalid_argument,
    over_limit,
    resource_not_found,
)
from headrace.pipeline.local.fields import (
    HASH_KEY,
    SHARD_ID,
    STREAM_NAME,
    Request,
    broken,
    choice,
    maybe_mapping,
    maybe_number,
    maybe_text,
    number_field,
    sequence_of,
    text_field,
)
from headrace.pipeline.local.kinesis.limits import MOST_CREATING
from headrace.pipeline.local.kinesis.region import Region
from headrace.pipeline.local.kinesis.shard import LocalShard
from headrace.pipeline.local.kinesis.stream import ACCOUNT, State, Stream

_LEAST_HOURS, _MOST_HOURS = 24, 8760
_LEAST_KIB, _MOST_KIB = 1024, 10_240
_MOST_TAGS = 50
_TAG_LETTERS = re.compile(r"[\w\s./=+\-@:,]*")
_MODES = frozenset({"PROVISIONED", "ON_DEMAND"})


def create_stream(region: Region, request: Request) -> dict[str, Any]:
    """Create a stream, which stays CREATING for a while."""
    now = region.clock()
    region.limits.call("CreateStream", "", now)
    name = text_field(request, "StreamName", STREAM_NAME)
    _check_mode(maybe_mapping(request, "StreamModeDetails") or {"StreamMode": "PROVISIONED"})
    count = number_field(request, "ShardCount", least=1)
    kib = maybe_number(request, "MaxRecordSizeInKiB", least=_LEAST_KIB, most=_MOST_KIB) or _LEAST_KIB
    tags = _tags(request) if request.get("Tags") is not None else {}
    if region.find(name, now) is not None:
        raise in_use(f"Stream {name} under account {ACCOUNT} already exists.")
    check_shard_limit(region, count, now)
    if region.limits.enforced and _creating(region, now) >= MOST_CREATING:
        raise over_limit(f"More than {MOST_CREATING} streams are in the CREATING state.")
    stream = region.add(name, now)
    stream.max_record_kib, stream.tags = kib, tags
    stream.begin_creating(count, now)
    return {}


def delete_stream(region: Region, request: Request) -> dict[str, Any]:
    """Delete a stream, which stays DELETING for a while. Meanwhile it can be read and written, as on AWS."""
    now = region.clock()
    stream = _active(region, request, "DeleteStream", now)
    stream.begin_deleting(now)
    return {}


def split_shard(region: Region, request: Request) -> dict[str, Any]:
    """Split a shard in two at a hash key."""
    now = region.clock()
    shard_id = text_field(request, "ShardToSplit", SHARD_ID)
    second_start = int(text_field(request, "NewStartingHashKey", HASH_KEY))
    stream = _active(region, request, "SplitShard", now)
    shard = _open_shard(stream, shard_id)
    if not shard.first_hash + 1 < second_start < shard.last_hash:
        raise invalid_argument(
            f"NewStartingHashKey {second_start} used in SplitShard() on shard {shard_id} in stream {stream.name} under "
            f"account {ACCOUNT} is not both greater than one plus the shard's StartingHashKey {shard.first_hash} and "
            f"less than the shard's EndingHashKey {shard.last_hash}."
        )
    check_shard_limit(region, 1, now)
    stream.begin_split(shard, second_start, now)
    return {}


def merge_shards(region: Region, request: Request) -> dict[str, Any]:
    """Merge two shards whose hash ranges touch."""
    now = region.clock()
    ids = text_field(request, "ShardToMerge", SHARD_ID), text_field(request, "AdjacentShardToMerge", SHARD_ID)
    stream = _active(region, request, "MergeShards", now)
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
    stream = _active(region, request, "UpdateMaxRecordSize", now)

    def resize(_at: float) -> None:
        stream.max_record_kib = kib

    stream.begin(State.UPDATING, now, resize)
    return {}


def update_stream_mode(region: Region, request: Request) -> dict[str, Any]:
    """Confirm provisioned mode; the simulator has no other yet."""
    now = region.clock()
    text_field(request, "StreamARN")
    details = maybe_mapping(request, "StreamModeDetails")
    if details is None:
        raise broken("streamModeDetails", None, "Member must not be null")
    stream = _active(region, request, "UpdateStreamMode", now)
    _check_mode(details)
    stream.begin(State.UPDATING, now, lambda _: None)
    return {}


def add_tags(region: Region, request: Request) -> dict[str, Any]:
    """Set some tags."""
    stream = _tagged(region, request, "AddTagsToStream")
    merged = stream.tags | _tags(request)
    if len(merged) > _MOST_TAGS:
        raise invalid_argument(
            f"Stream {stream.name} cannot have more than {_MOST_TAGS} tags associated with it."
        )
    stream.tags = merged
    return {}


def remove_tags(region: Region, request: Request) -> dict[str, Any]:
    """Remove some tags."""
    stream = _tagged(region, request, "RemoveTagsFromStream")
    for key in sequence_of(request, "TagKeys", most=_MOST_TAGS):
        stream.tags.pop(text_field({"TagKeys": key}, "TagKeys"), None)
    return {}


def _active(region: Region, request: Request, operation: str, now: float) -> Stream:
    region.limits.call(operation, "", now)
    stream = region.stream(request, now)
    stream.need_active()
    return stream


def _tagged(region: Region, request: Request, operation: str) -> Stream:
    now = region.clock()
    region.limits.call(operation, "", now)
    stream = region.stream(request, now)
    if stream.state is State.CREATING:
        raise stream.wrong_state()
    return stream


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
    stream = _active(region, request, operation, region.clock())
    if not _LEAST_HOURS <= hours <= _MOST_HOURS:
        bound = f"Minimum allowed retention period is {_LEAST_HOURS} hours, maximum {_MOST_HOURS}."
        raise invalid_argument(f"{bound} Requested retention period ({hours} hours) is out of it.")
    return stream, hours


def _not_than(stream: Stream, than: str) -> str:
    have = f"existing retention period ({stream.retention_hours} hours)"
    opposite = {"shorter": "Decrease", "longer": "Increase"}[than]
    return f"for stream {stream.name} can not be {than} than {have}. Use {opposite}RetentionPeriod API."


def _check_mode(details: Request) -> None:
    if choice(details, "StreamMode", _MODES) == "ON_DEMAND":
        raise invalid("The stand-in has no on-demand mode yet: use PROVISIONED.")


def check_shard_limit(region: Region, more: int, now: float) -> None:
    """Refuse an operation that would give the account more open shards than its limit."""
    count, limit = region.open_shard_count(now), region.options.shard_limit
    if count + more > limit:
        raise over_limit(
            f"This request would exceed the shard limit for the account {ACCOUNT} in {region.name}. "
            f"Current shard count for the account: {count}. Limit: {limit}. "
            f"Number of additional shards that would have resulted from this request: {more}."
        )


def _creating(region: Region, now: float) -> int:
    streams = (region.find(name, now) for name in region.names(now))
    return sum(stream is not None and stream.state is State.CREATING for stream in streams)


def _tags(request: Request) -> dict[str, str]:
    given = maybe_mapping(request, "Tags")
    if not given:
        raise broken("tags", given, "Member must have length greater than or equal to 1")
    tags = {key: maybe_text(given, key) or "" for key in given}
    for key, value in tags.items():
        if not 1 <= len(key) <= 128 or len(value) > 256:
            raise broken("tags", key, "Map keys must have 1 to 128 letters, values up to 256")
        if not (_TAG_LETTERS.fullmatch(key) and _TAG_LETTERS.fullmatch(value)):
            raise invalid_argument("Some tags contain invalid characters.")
    return tags
