"""The shard filter of KCL's first listing of a stream."""

from __future__ import annotations

from headrace.pipeline.core.shards.checkpoint import AT_TIMESTAMP, LATEST, TRIM_HORIZON, Checkpoint
from headrace.pipeline.errors import WrongShape

_FILTERS = {AT_TIMESTAMP: "AT_TIMESTAMP", TRIM_HORIZON: "AT_TRIM_HORIZON", LATEST: "AT_LATEST"}


def shard_filter(initial: Checkpoint) -> str:
    """The ShardFilter type that the first listing of an empty table asks for."""
    if initial not in _FILTERS:
        raise WrongShape(f"{initial} is no position that a stream can start at")
    return _FILTERS[initial]
