"""What a window reads from the stream: ranges that the lake table lacks, as far as Kinesis still has their records.
Pure functions on values.

the ledgers say                                 read from the stream
a skipped range, or a foreign one               as far as Kinesis may still have records of it
a landed range that may have been removed by    if Kinesis still has all of it; otherwise the lake table's rows
the retention                                   are copied
the first range of a shard in which reading     from the oldest record that Kinesis has, if Kinesis still has
began at a moment, such as LATEST               all from that moment on
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta

from headrace.pipeline.core.ledger.arrivals import may_be_dropped
from headrace.pipeline.core.ledger.batch import WITHIN_THE_SECOND
from headrace.pipeline.core.ledger.ledger import Kind, ParentIs
from headrace.pipeline.core.ledger.story import Step
from headrace.pipeline.core.shards.position import Position
from headrace.pipeline.core.shards.sort_texts import end_text, order_text, order_text_of
from headrace.pipeline.core.shards.stream import StreamId
from headrace.pipeline.core.words.words import time_in_words
from headrace.pipeline.windows.window import Stretch, WindowRange

LACKING = frozenset({Kind.SKIPPED, Kind.FOREIGN})
"""The kinds of ranges whose records never landed."""


@dataclass(frozen=True, slots=True)
class Reach:
    """Which records of a stream's present life Kinesis still had when it was asked."""

    retention: timedelta
    asked: datetime
    """When Kinesis was asked, by its clock, in whole seconds."""
    gone: frozenset[str] = frozenset()
    """The shards that Kinesis has forgotten."""
    began: datetime | None = None
    """The moment at which the application's reading of the stream began: older records never landed. None: at the
    oldest record."""

    @property
    def horizon(self) -> datetime:
        """The moment before which records may have left the stream."""
        # Kinesis's clock may be almost a second ahead of the Date by which it was asked.
        return self.asked + WITHIN_THE_SECOND - self.retention


Reaches = Mapping[StreamId, Reach]
"""The lives of streams that still exist."""


def lacking(steps: Sequence[Step], kept_from: date | None, reach: Reach | None) -> tuple[Step, ...]:
    """The ranges of a shard with records that the lake table lacks or may lack. The records of a skipped range
    may have landed nevertheless, after a person has moved a position back.
    """
    landed = [step for step in steps if step.range.rows]
    lacked = [
        step
        for step in steps
        if (step.range.kind in LACKING and not any(overlap(step, landing) for landing in landed))
        or (step.range.kind is Kind.LANDED and step.range.rows and may_be_dropped(step, kept_from))
        or _has_older(step, reach)
    ]
    return tuple(sorted((s for s in lacked if _low(s) < _high(s) and _has_end(s.range.upto)), key=_low))


def _has_older(step: Step, reach: Reach | None) -> bool:
    """Whether Kinesis may have records of the shard from before the application began to read it."""
    recorded = step.range
    if reach is None or reach.began is None or recorded.after is not None or recorded.kind is not Kind.LANDED:
        return False
    # After a parent that was read, a shard is read from its oldest record.
    return all(parent.why in {ParentIs.BEFORE_START, ParentIs.GONE} for parent in recorded.parents)


def arrivals_of(
    step: Step, steps: Sequence[Step], reach: Reach | None = None
) -> tuple[datetime | None, datetime | None]:
    """Between which moments the records of a range arrived, as far as the ledgers tell."""
    recorded = step.range
    if _has_older(step, reach):
        return None, recorded.last_arrival
    if recorded.rows:
        return recorded.first_arrival, recorded.last_arrival
    later = [s.range.first_arrival for s in steps if s.range.rows and _low(s) >= _high(step)]
    first = recorded.first_arrival or (None if recorded.after is None else recorded.after.witness)
    last = (
        recorded.last_arrival
        or recorded.upto.arrival
        or min((when for when in later if when is not None), default=None)
    )
    return first, last


def stretch_in(
    window_range: WindowRange, step: Step, steps: Sequence[Step], reach: Reach | None
) -> Stretch | str | None:
    """The part of a range of the ledgers that the window reads from the stream; a text where it can't be read, with the
    reason as a part of a sentence. None: the lake table may still have the rows, and Kinesis doesn't have all of
    the records.
    """
    recorded = step.range
    first, last = arrivals_of(step, steps, reach)
    since = first or recorded.key.stream.created
    landed_since = (reach.began if reach is not None and _has_older(step, reach) else None) or since
    # Where Kinesis has only a part of a landed range, the lake table's own rows are copied instead.
    if recorded.rows and (
        reach is None or recorded.key.shard_id in reach.gone or landed_since < reach.horizon
    ):
        return None
    if reach is None:
        return "the stream was deleted since, or created again"
    if recorded.key.shard_id in reach.gone:
        return "Kinesis has forgotten the shard"
    if last is not None and last < reach.horizon:
        return f"the records have left the stream, which keeps records for {time_in_words(reach.retention)}"
    # Not beyond the window's own end, where the window cuts the range.
    return Stretch(recorded.after, min(recorded.upto, window_range.upto, key=end_text), since, last)


def sentences_of_loss(stretch: Stretch, reach: Reach) -> Iterator[str]:
    """Parts of sentences about records of a stretch that have left the stream already."""
    if stretch.since < reach.horizon:
        yield (
            f"records that arrived between {stretch.since:%Y-%m-%d %H:%M:%S}Z "
            f"and {reach.horizon:%Y-%m-%d %H:%M:%S}Z may have left the stream, "
            f"which keeps records for {time_in_words(reach.retention)}; the run reads what is left, and more leaves until then"
        )


def _has_end(upto: Position) -> bool:
    """Whether records can come before the position: a start of reading has none."""
    return upto.sequence is not None or upto.ended


def overlap(first: Step, second: Step) -> bool:
    """Whether two ranges of a shard have a part in common."""
    return max(_low(first), _low(second)) < min(_high(first), _high(second))


def _low(step: Step) -> str:
    return order_text_of(step.range.after)


def _high(step: Step) -> str:
    return order_text(step.range.upto)
