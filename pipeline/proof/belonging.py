"""Checks that the records of a table are those of the streams and shards that its ledgers name, by the ledgers
and Kinesis's list of shards. Pure functions.

A table can have records of another stream although its ranges form right chains: a reader was led to the other
stream, and the ledger states both streams as one. The arrival times and the sequence numbers of the records show
the difference.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from headrace.pipeline.core.ledger.belonging import (
    READ_FROM_STREAMS,
    why_outside,
    why_too_early,
    why_too_late,
)
from headrace.pipeline.core.ledger.story import Step, Story, counted_ranges
from headrace.pipeline.core.shards.shard import NumberRange
from headrace.pipeline.core.shards.stream import ShardKey, StreamId
from headrace.pipeline.core.words.words import counted
from headrace.pipeline.proof.families import ListedShards
from headrace.pipeline.proof.verdict import Wrong


def strange_ranges(story: Story, listed: Mapping[StreamId, ListedShards]) -> Iterator[Wrong]:
    """The ranges with records that can't be of their stream or shard."""
    for step in _read(story):
        recorded = step.range
        # By the time of the commit and not by the present one: a record from the future is wrong also once
        # that time has come.
        late = None if step.at is None else why_too_late(recorded.last_arrival, step.at)
        why = (
            why_too_early(recorded.key.stream, recorded.first_arrival)
            or late
            or why_outside(_numbers(recorded.key, listed), recorded.upto.sequence)
        )
        if why is not None:
            yield Wrong(f"{step}: {why}")


def what_was_judged(story: Story, listed: Mapping[StreamId, ListedShards] | None) -> str:
    """A part of a sentence: how many ranges had their records compared with their shards. `listed`: None where
    only their arrivals were checked.
    """
    steps = tuple(_read(story))
    if listed is None:
        return counted(counted_ranges(steps), "range")
    unlisted = {step.range.key for step in steps if _numbers(step.range.key, listed) is None}
    ranges = counted(counted_ranges(steps), "range")
    if not unlisted:
        return ranges
    return f"{ranges}; those of {counted(len(unlisted), 'shard')} that Kinesis doesn't list by their arrival only"


def _read(story: Story) -> Iterator[Step]:
    """The ranges whose records were read from a stream, also those that were made from rows because their ledger is
    lost."""
    # Replays are left out: their records were judged by the range that landed them.
    for steps in (*story.steps.values(), *story.derived.values()):
        yield from (step for step in steps if step.range.rows and step.range.kind in READ_FROM_STREAMS)


def _numbers(key: ShardKey, listed: Mapping[StreamId, ListedShards]) -> NumberRange | None:
    shards = listed[key.stream].shards if key.stream in listed else {}
    return shards[key.shard_id].numbers if key.shard_id in shards else None
