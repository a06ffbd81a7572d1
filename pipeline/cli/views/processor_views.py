"""How far processors have come, for people and as JSON."""

from typing import TYPE_CHECKING

from headrace.pipeline.cli.views.json_output import time_json
from headrace.pipeline.core.shards.partition import partition_of

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from headrace.pipeline.core.leases.lease import Lease
    from headrace.pipeline.processors.application.standing import ApplicationStanding
    from headrace.pipeline.processors.standing import ShardStanding, Standing


def standing_json(standing: "Standing") -> "dict[str, Any]":
    processor = standing.processor
    return {
        "processor": processor.name,
        "mode": processor.mode.value,
        "table": processor.table,
        "stopped": {str(shard.key): shard.stopped for shard in standing.stopped},
        "shards": [_shard_json(shard) for shard in standing.shards],
    }


def application_json(standing: "ApplicationStanding") -> "dict[str, Any]":
    processor = standing.processor
    return {
        "processor": processor.name,
        "mode": processor.mode.value,
        "application": processor.application,
        "stopped": standing.stops,
        "shards": [_row_json(row) for row in standing.rows],
    }


def standing_lines(standing: "Standing") -> "Iterator[str]":
    """A line about how far the processor has come, and one more for each shard at which it has stopped."""
    yield f"processor {standing}"
    for shard in standing.stopped:
        yield f"processor {standing.processor.name} has stopped at {shard.key}: {shard.stopped}"


def _row_json(row: "Lease") -> "dict[str, Any]":
    from headrace.pipeline.processors.application.standing import is_read_on

    return {
        "shard": partition_of(row.key),
        "checkpoint": str(row.checkpoint),
        "worker": row.holder,
        # Headrace's last look tells nothing of a shard that KCL has read on.
        "behind_ms": None if is_read_on(row) else row.behind_ms,
        "stopped": None if row.failure is None else row.failure.why,
    }


def _shard_json(shard: "ShardStanding") -> "dict[str, Any]":
    done, landed = shard.arrivals
    return {
        "stream": shard.key.stream.name,
        "shard": shard.key.shard_id,
        "position": None if shard.position is None else str(shard.position),
        "landed": None if shard.landed is None else str(shard.landed),
        "is_behind": shard.is_behind,
        "arrival": time_json(done),
        "landed_arrival": time_json(landed),
        "stopped": shard.stopped or None,
    }
