"""Operations that describe streams: DescribeStream, DescribeStreamSummary, DescribeLimits, ListStreams,
ListTagsForStream."""

from __future__ import annotations

from typing import Any

from headrace.pipeline.local.errors import invalid_argument
from headrace.pipeline.local.fields import SHARD_ID, STREAM_NAME, Request, maybe_number, maybe_text
from headrace.pipeline.local.kinesis.pages_of_names import continued
from headrace.pipeline.local.kinesis.region import Region
from headrace.pipeline.local.kinesis.stream import ON_DEMAND, Stream
from headrace.pipeline.local.sealed import seal

_SHARDS_A_PAGE = 100
_STREAMS_A_PAGE = 100
_TAGS_A_PAGE = 50


def describe_stream(region: Region, request: Request) -> dict[str, Any]:
    """Describe a stream with its shards, at most 100 a page."""
    now = region.clock()
    stream = _counted(region, request, "DescribeStream", now)
    page = min(maybe_number(request, "Limit", least=1, most=10_000) or _SHARDS_A_PAGE, _SHARDS_A_PAGE)
    after = maybe_text(request, "ExclusiveStartShardId", SHARD_ID) or ""
    rest = [shard for shard in stream.listed() if shard.shard_id > after]
    # Shard ids are in the order of their numbers, so that the last id of a page is where the next
    # one goes on.
    description = _common(stream) | {
        "Shards": [shard.described() for shard in rest[:page]],
        "HasMoreShards": len(rest) > page,
    }
    return {"StreamDescription": description}


def describe_stream_summary(region: Region, request: Request) -> dict[str, Any]:
    """Describe a stream without its shards. `StreamId` is reserved, as the service model says: where it is answered, KCL sends
    it with its calls about consumers, and the Java SDK then asks a host of AWS, whatever its endpoint is."""
    now = region.clock()
    stream = _counted(region, request, "DescribeStreamSummary", now)
    summary = _common(stream) | {
        "OpenShardCount": len(stream.open_shards),
        "ConsumerCount": len(stream.settled_consumers(now)),
        "MaxRecordSizeInKiB": stream.max_record_kib,
    }
    if stream.mode == ON_DEMAND:
        summary["RecordDistributionStrategy"] = "AUTO" if stream.ignores_keys else "USER_PARTITION_KEY"
    if stream.warm_mib is not None:
        summary["WarmThroughput"] = {"TargetMiBps": stream.warm_mib, "CurrentMiBps": len(stream.open_shards)}
    return {"StreamDescriptionSummary": summary}


def describe_limits(region: Region, _request: Request) -> dict[str, Any]:
    """Tell how many shards there are and may be."""
    now = region.clock()
    region.limits.call("DescribeLimits", "", now)
    return {
        "ShardLimit": region.options.shard_limit,
        "OpenShardCount": region.open_shard_count(now),
        "OnDemandStreamCount": sum(stream.mode == ON_DEMAND for stream in region.streams(now)),
        "OnDemandStreamCountLimit": 50,
    }


def list_streams(region: Region, request: Request) -> dict[str, Any]:
    """List streams by name, in pages."""
    now = region.clock()
    region.limits.call("ListStreams", "", now)
    page = maybe_number(request, "Limit", least=1, most=10_000) or _STREAMS_A_PAGE
    after = maybe_text(request, "ExclusiveStartStreamName", STREAM_NAME) or ""
    token = maybe_text(request, "NextToken")
    if token is not None:
        if after:
            raise invalid_argument("NextToken and ExclusiveStartStreamName cannot be provided together.")
        after = continued("streams", token, now)
    rest = [name for name in region.names(now) if name > after]
    streams = [stream for name in rest[:page] if (stream := region.find(name, now)) is not None]
    answer: dict[str, Any] = {
        "StreamNames": rest[:page],
        "HasMoreStreams": len(rest) > page,
        "StreamSummaries": [_summary(stream) for stream in streams],
    }
    if len(rest) > page:
        answer["NextToken"] = seal("streams", rest[page - 1], repr(now))
    return answer


def list_tags_for_stream(region: Region, request: Request) -> dict[str, Any]:
    """List a stream's tags by key, in pages."""
    stream = _counted(region, request, "ListTagsForStream", region.clock())
    page = maybe_number(request, "Limit", least=1, most=_TAGS_A_PAGE) or _TAGS_A_PAGE
    after = maybe_text(request, "ExclusiveStartTagKey") or ""
    rest = sorted(key for key in stream.tags if key > after)
    tags = [{"Key": key, "Value": stream.tags[key]} for key in rest[:page]]
    return {"Tags": tags, "HasMoreTags": len(rest) > page}


def _counted(region: Region, request: Request, operation: str, now: float) -> Stream:
    region.limits.call(operation, "", now)
    return region.stream(request, now)


def _summary(stream: Stream) -> dict[str, Any]:
    return {
        "StreamName": stream.name,
        "StreamARN": stream.arn,
        "StreamStatus": str(stream.state),
        "StreamModeDetails": {"StreamMode": stream.mode},
        "StreamCreationTimestamp": round(stream.created_at, 3),
    }


def _common(stream: Stream) -> dict[str, Any]:
    return _summary(stream) | {
        "RetentionPeriodHours": stream.retention_hours,
        "EnhancedMonitoring": [{"ShardLevelMetrics": stream.shard_metrics}],
        **(
            {"EncryptionType": "KMS", "KeyId": stream.key_id} if stream.key_id else {"EncryptionType": "NONE"}
        ),
    }
