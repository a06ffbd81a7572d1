"""The statements `valid-through` as a text in a snapshot's summary, which people and other programs can read, too."""

from __future__ import annotations

import json
from datetime import UTC, datetime

from headrace.pipeline.core.landing.valid_through import Through
from headrace.pipeline.core.shards.stream import StreamId


def time_text(when: datetime) -> str:
    """The time in UTC with milliseconds. Such texts sort as the times do."""
    return when.astimezone(UTC).isoformat(timespec="milliseconds")


def write_through(stated: Through) -> str:
    rows = [[stream.arn, stream.epoch, time_text(when)] for stream, when in sorted(stated.items())]
    return json.dumps(rows, separators=(",", ":"))


def read_through(text: str) -> dict[StreamId, datetime]:
    """The `valid-through` time of each stream; none where the text has another form. A lost statement is made
    again at the leader's next clean-up.
    """
    try:
        return {StreamId(str(arn), int(epoch)): _time(when) for arn, epoch, when in json.loads(text)}
    except (ValueError, TypeError, RecursionError):
        return {}


def _time(text: str) -> datetime:
    when = datetime.fromisoformat(text)
    # Any engine may write a summary; a time without a zone can't be compared with those of Kinesis.
    if when.tzinfo is None:
        raise ValueError("the time has no time zone")
    return when
