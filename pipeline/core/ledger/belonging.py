"""Checks that records belong to the stream and to the shard from which they seem to come, by two facts that
Kinesis sets and no reader can change: when it received them, and their sequence numbers. Pure functions; each
returns the reason why records don't belong, or None.

    created ............ first arrival ......... last arrival ............ now
       └─ BEFORE: a minute earlier at most            an hour later at most: AHEAD ─┘

    StartingSequenceNumber <= each number <= EndingSequenceNumber, which an open shard doesn't have (both by ListShards)

So records of another stream of the same name, in another account or behind another endpoint, are noticed unless
they arrived after this stream was made and have fitting numbers. A task that reads therefore proves first that
its stream is the driver's (`headrace.pipeline.aws.reading.pages_proof`).
"""

from __future__ import annotations

from datetime import datetime, timedelta

from headrace.pipeline.core.ledger.ledger import Kind
from headrace.pipeline.core.shards.shard import NumberRange
from headrace.pipeline.core.shards.stream import StreamId

# Ranges of other kinds tell arrivals of records that nobody read here, or none.
READ_FROM_STREAMS = frozenset({Kind.LANDED, Kind.READ})
"""The kinds of ranges whose records a task has read from a stream."""
BEFORE = timedelta(minutes=1)
"""How far an arrival may lie before the creation of its stream. Both times are by Kinesis's clocks, and arrivals are
approximate."""
AHEAD = timedelta(hours=1)
"""How far an arrival may lie after the time at which it is judged."""


def why_too_early(stream: StreamId, first: datetime | None) -> str | None:
    """Why records can't be of this stream, because they arrived before it was made.

    `first`: the earliest arrival that is known.
    """
    if first is None or first.timestamp() >= stream.epoch - BEFORE.total_seconds():
        return None
    return (
        f"a record arrived at {_text(first)}, "
        f"before its stream was created at {_text(stream.created)}: it is another stream's"
    )


def why_too_late(last: datetime | None, now: datetime) -> str | None:
    # An hour, because the host's clock may be wrong by minutes, and a refusal of right records would stop the landing.
    if last is None or last <= now + AHEAD:
        return None
    return f"a record arrived at {_text(last)}, more than an hour after {_text(now)}"


def what_to_do(why: str) -> str:
    """The sentence that tells a person what to do after a commit has refused records for one of these reasons."""
    return (
        f"{why}. Nothing of this range was committed, and no position moved. "
        "Something answers that isn't Headrace's Kinesis, or its clock and "
        "the one of Headrace's host differ: look at aws.endpoint, at proxies, and look at the clocks of both"
    )


def why_outside(numbers: NumberRange | None, *sequences: int | None) -> str | None:
    """Why one of these sequence numbers can't be of the shard; None where all can be.

    `numbers`: the sequence numbers that the shard can have, where a list of shards has told them.
    """
    for number in sequences:
        if numbers is not None and number is not None and not numbers.has(number):
            return (
                f"the sequence number {number} isn't one of the shard's, "
                f"which are {numbers}: the record is another shard's"
            )
    return None


def _text(when: datetime) -> str:
    return f"{when:%Y-%m-%d %H:%M:%S}Z"
