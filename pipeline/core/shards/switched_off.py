"""Streams of DynamoDB tables that were switched off. A shard of such a stream ends without a child, which no
other shard does. Later changes of the table are in no stream, or in a new one with another ARN.
"""

from __future__ import annotations

from collections.abc import Collection

from headrace.pipeline.core.shards.position import Positions
from headrace.pipeline.core.shards.stream import StreamId
from headrace.pipeline.settings.stream_names import table_and_label

SWITCHED_OFF = (
    "was switched off, so that no change comes from it any more. What it had before isn't lost. What the table does since then "
    "can only be in a stream of the table with another ARN, which nobody reads yet: docs/use/dynamodb-streams.md (switched off "
    "and on again) tells how to go on with that one"
)
"""The rest of a sentence that begins with the stream."""


def switched_off(positions: Positions, asked_for: Collection[str]) -> tuple[StreamId, ...]:
    """The streams that were switched off while no later stream of the same table is read. Oldest first.

    `asked_for`: the names of the streams that the settings name. Streams of other tables don't count.
    """
    read = {stream.name for stream in positions.streams()} & set(asked_for)
    over = {
        key.stream
        for key, position in positions.shards.items()
        if key.stream.is_dynamodb and position.ended and not position.children
    }
    left = [
        stream
        for stream in over
        if _of_table(stream.name, asked_for) and max(_of_table(stream.name, read), default="") <= stream.name
    ]
    return tuple(sorted(left, key=lambda stream: (stream.epoch, stream.arn)))


def _of_table(stream: str, names: Collection[str]) -> list[str]:
    """The names of this stream's table. They sort by the time at which the stream was switched on."""
    return [name for name in names if table_of(name) == table_of(stream)]


def table_of(stream: str) -> str | None:
    """The name of the DynamoDB table whose stream has this name; None where it is no stream of a table."""
    parts = table_and_label(stream)
    return None if parts is None else parts[0]
