"""EnableEnhancedMonitoring and DisableEnhancedMonitoring: which metrics are kept for each shard. None is measured here."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from headrace.pipeline.local.fields import Request, choice, sequence_of
from headrace.pipeline.local.kinesis.region import Region

_METRICS = (
    "IncomingBytes",
    "IncomingRecords",
    "OutgoingBytes",
    "OutgoingRecords",
    "WriteProvisionedThroughputExceeded",
    "ReadProvisionedThroughputExceeded",
    "IteratorAgeMilliseconds",
)
_ALL = "ALL"


def enable_monitoring(region: Region, request: Request) -> dict[str, Any]:
    """Keep more metrics."""
    return _change(region, request, "EnableEnhancedMonitoring", lambda kept, given: kept | given)


def disable_monitoring(region: Region, request: Request) -> dict[str, Any]:
    """Keep fewer metrics."""
    return _change(region, request, "DisableEnhancedMonitoring", lambda kept, given: kept - given)


def _change(
    region: Region, request: Request, operation: str, then: Callable[[set[str], set[str]], set[str]]
) -> dict[str, Any]:
    given = sequence_of(request, "ShardLevelMetrics", most=len(_METRICS) + 1)
    allowed = frozenset({*_METRICS, _ALL})
    names = {choice({"ShardLevelMetrics": name}, "ShardLevelMetrics", allowed) for name in given}
    stream = region.active_stream(request, operation, region.clock())
    before = stream.shard_metrics
    after = then(set(before), set(_METRICS) if _ALL in names else names)
    stream.shard_metrics = [name for name in _METRICS if name in after]
    return {
        "StreamName": stream.name,
        "StreamARN": stream.arn,
        "CurrentShardLevelMetrics": before,
        "DesiredShardLevelMetrics": stream.shard_metrics,
    }
