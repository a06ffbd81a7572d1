"""The Kinesis simulator: from a request to an answer, one operation at a time. It does no I/O; clock and
random numbers are given to it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from random import Random
from typing import Any

from headrace.pipeline.local.clock import Clock
from headrace.pipeline.local.errors import AwsError
from headrace.pipeline.local.faults import Call, FaultPlan
from headrace.pipeline.local.fields import Request
from headrace.pipeline.local.kinesis import (
    changing,
    consumers,
    describing,
    encrypting,
    modes,
    monitoring,
    resources,
    tagging,
)
from headrace.pipeline.local.kinesis.listing import list_shards
from headrace.pipeline.local.kinesis.reading import Iterator, get_records, get_shard_iterator
from headrace.pipeline.local.kinesis.region import Options, Region
from headrace.pipeline.local.kinesis.scaling import update_shard_count
from headrace.pipeline.local.kinesis.subscribing import Subscription, subscribe
from headrace.pipeline.local.kinesis.writing import put_record, put_records
from headrace.pipeline.local.wires import JSON, Wire

DEFAULT_REGION = "us-east-1"

OPERATIONS: dict[str, Callable[[Region, Request], dict[str, Any]]] = {
    "AddTagsToStream": tagging.add_tags,
    "CreateStream": changing.create_stream,
    "DecreaseStreamRetentionPeriod": changing.decrease_retention,
    "DeleteResourcePolicy": resources.delete_policy,
    "DeleteStream": changing.delete_stream,
    "DeregisterStreamConsumer": consumers.deregister_consumer,
    "DescribeAccountSettings": modes.describe_account,
    "DescribeLimits": describing.describe_limits,
    "DescribeStream": describing.describe_stream,
    "DescribeStreamConsumer": consumers.describe_consumer,
    "DescribeStreamSummary": describing.describe_stream_summary,
    "DisableEnhancedMonitoring": monitoring.disable_monitoring,
    "EnableEnhancedMonitoring": monitoring.enable_monitoring,
    "GetRecords": get_records,
    "GetResourcePolicy": resources.get_policy,
    "GetShardIterator": get_shard_iterator,
    "IncreaseStreamRetentionPeriod": changing.increase_retention,
    "ListShards": list_shards,
    "ListStreamConsumers": consumers.list_consumers,
    "ListStreams": describing.list_streams,
    "ListTagsForResource": tagging.list_tags_for_resource,
    "ListTagsForStream": describing.list_tags_for_stream,
    "MergeShards": changing.merge_shards,
    "PutRecord": put_record,
    "PutRecords": put_records,
    "PutResourcePolicy": resources.put_policy,
    "RegisterStreamConsumer": consumers.register_consumer,
    "RemoveTagsFromStream": tagging.remove_tags,
    "SplitShard": changing.split_shard,
    "StartStreamEncryption": encrypting.start_encryption,
    "StopStreamEncryption": encrypting.stop_encryption,
    "TagResource": tagging.tag_resource,
    "UntagResource": tagging.untag_resource,
    "UpdateAccountSettings": modes.update_account,
    "UpdateMaxRecordSize": changing.update_max_record_size,
    "UpdateShardCount": update_shard_count,
    "UpdateStreamMode": modes.update_stream_mode,
    "UpdateStreamRecordDistributionStrategy": modes.update_distribution,
    "UpdateStreamWarmThroughput": modes.update_warm_throughput,
}
# The answers of these operations have no body.
_SILENT = frozenset({
    "AddTagsToStream", "CreateStream", "DecreaseStreamRetentionPeriod", "DeleteResourcePolicy", "DeleteStream",
    "DeregisterStreamConsumer", "IncreaseStreamRetentionPeriod", "MergeShards", "PutResourcePolicy",
    "RemoveTagsFromStream", "SplitShard", "StartStreamEncryption", "StopStreamEncryption", "TagResource",
    "UntagResource", "UpdateMaxRecordSize", "UpdateStreamMode", "UpdateStreamRecordDistributionStrategy",
})  # fmt: skip


class Kinesis:
    """The simulator of Kinesis, with the streams of all regions."""

    def __init__(self, clock: Clock, dice: Random, options: Options = Options()) -> None:  # noqa: B008 (it is frozen)
        """Make a simulator without streams."""
        self.clock = clock
        self.faults = FaultPlan(dice)
        self._dice = dice
        self._options = options
        self._regions: dict[str, Region] = {}

    def answer(
        self, operation: str, body: bytes, region: str = DEFAULT_REGION, *, wire: Wire = JSON
    ) -> bytes:
        """Carry out an operation, from request bytes to answer bytes. Raises AwsError where AWS would answer
        with an error."""
        do = OPERATIONS.get(operation)
        if do is None:
            raise AwsError("UnknownOperationException", f"Unknown operation {operation}")
        answered = do(self._region(region), wire.read(body))
        return b"" if operation in _SILENT else wire.written(answered)

    def subscribe(self, body: bytes, region: str = DEFAULT_REGION, *, wire: Wire = JSON) -> Subscription:
        """Carry out SubscribeToShard, whose answer is a stream of events."""
        return subscribe(self._region(region), wire.read(body))

    def call(self, operation: str, request: Request, region: str = DEFAULT_REGION) -> dict[str, Any]:
        """Carry out an operation with dictionaries as request and answer. Blobs are base64 text in both."""
        return dict(JSON.read(self.answer(operation, JSON.written(request), region)))

    def reads(self) -> list[dict[str, Any]]:
        """Tell for each shard what its readers have asked for and got since the shard was first read."""
        return [
            {"region": name, "stream": stream, "shard": shard, **asdict(reads)}
            for name, region in self._regions.items()
            for (stream, shard), reads in region.limits.reads.items()
        ]

    def reset(self) -> None:
        """Forget every stream."""
        self._regions.clear()

    def call_of(self, operation: str, body: bytes, wire: Wire = JSON) -> Call:
        """Tell which stream and shard a request names, so that faults can be matched with it. A request that
        can't be read names none.
        """
        try:
            return self._call_of(operation, wire.read(body))
        except AwsError:
            return Call(service="kinesis", operation=operation)

    def _call_of(self, operation: str, request: Request) -> Call:
        of_consumer = str(request.get("ConsumerARN") or request.get("ResourceARN") or "")
        arn = request.get("StreamARN") or of_consumer.partition("/consumer/")[0]
        # An ARN ends in the stream's name.
        name = request.get("StreamName") or (str(arn).rpartition("/")[2] if arn else "")
        shard = request.get("ShardId") or request.get("ShardToSplit") or request.get("ShardToMerge") or ""
        token = request.get("ShardIterator")
        if isinstance(token, str):
            iterator = Iterator.unsealed(token)
            name, shard = iterator.stream_name, f"shardId-{iterator.shard:012d}"
        return Call(service="kinesis", operation=operation, resource=str(name), shard=str(shard))

    def _region(self, name: str) -> Region:
        region = self._regions.get(name)
        if region is None:
            region = Region(name, self.clock, self._dice, self._options, self.faults)
            self._regions[name] = region
        return region
