"""The names of series and dimensions in OpenTelemetry. For KCL's series they are the names that KCL 3.5 uses there."""

from __future__ import annotations

import re
from typing import Final

from headrace.pipeline.metrics import kcl_series
from headrace.pipeline.metrics.series import Dimension, Series, Unit

_KCL_PREFIX: Final = "aws.kinesis.client."
_OWN_PREFIX: Final = "headrace."
_LONGEST: Final = 255
_RENAMED: Final = {
    "MillisBehindLatest": "consumer.lag.duration",
    "DataBytesProcessed": "records.size",
    "ActiveStreams.Count": "streams.active",
    "StreamsPendingDeletion.Count": "streams.pending_deletion",
    "NonExistingStreamDelete.Count": "streams.deleted_nonexistent",
    "DeletedStreams.Count": "streams.deleted",
    "NumStreamsToSync": "streams.pending_sync",
    "QueueSize": "stream_id_cache.queue.size",
    "NumWorkers": "workers",
    "NumWorkersWithInvalidEntry": "workers.invalid_entry",
    "NumWorkersWithFailingWorkerMetric": "workers.failing_worker_metric",
}
_ATTRIBUTES: Final = {
    Dimension.OPERATION: "aws.kinesis.operation",
    Dimension.SHARD: "aws.kinesis.shard.id",
    Dimension.STREAM: "aws.kinesis.stream_name",
    Dimension.STREAM_NAME: "aws.kinesis.stream_name",
    Dimension.WORKER: "aws.kinesis.consumer.name",
    Dimension.TARGET: "headrace.target",
    Dimension.CALL: "headrace.call",
}
_UNITS: Final = {Unit.COUNT: "1", Unit.BYTES: "By", Unit.MILLISECONDS: "ms", Unit.SECONDS: "s"}
# Between a small letter or a digit and a capital, and before the last capital of several.
_WORDS = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_ILLEGAL = re.compile(r"[^a-z0-9_./-]")


def transformed(name: str) -> str:
    """A metric's name by KCL's rule for OpenTelemetry, without the prefix."""
    if name in _RENAMED:
        return _RENAMED[name]
    name = re.sub(r"\.Count$", "", re.sub(r"\.Time$", ".duration", name.replace(":", ".")))
    return _ILLEGAL.sub("_", _WORDS.sub("_", name).lower())


def instrument_name(series: Series) -> str:
    prefix = _KCL_PREFIX if series in _OF_KCL else _OWN_PREFIX
    return f"{prefix}{transformed(series.name)}"[:_LONGEST]


def attribute_name(dimension: str) -> str:
    return _ATTRIBUTES[Dimension(dimension)]


def unit_of(series: Series) -> str:
    return _UNITS[series.unit]


_OF_KCL: Final = frozenset(kcl_series.ALL)
