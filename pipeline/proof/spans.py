"""Which rows of the lake table are counted where, so that the counts can be compared with the ledgers. Pure functions.

    ledgers -> spans of each shard -> Spark counts the rows of each file in each span -> one count for each range

The ranges of a shard cut its sort keys into spans. Each span belongs to one range, unless a person moved a position
back, or rows of a typed table were replaced: then ranges overlap, and only the sum of those that overlap can be
compared.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import date
from functools import lru_cache

from headrace.pipeline.core.ledger.arrivals import APPROXIMATE, EVER, Days, Window, may_be_dropped
from headrace.pipeline.core.ledger.ledger import Kind
from headrace.pipeline.core.ledger.story import Step, Story
from headrace.pipeline.core.shards.position import Position
from headrace.pipeline.core.shards.sort_texts import order_text, past

NOT_ASKED = -1
"""The mark of a span whose rows are proved already, or not asked for. They are added to a digest, and not counted."""
ELSEWHERE = -2
"""The mark of a span whose rows are in files of other days, by the arrivals that its range states. These days are
counted by themselves."""
EMPTY = 0
"""The mark of a span in which no row may be."""


@dataclass(frozen=True, slots=True)
class ShardSpans:
    """The spans of one shard: span i has the rows after `ends[i - 1]` and up to `ends[i]`."""

    stream: str
    epoch: int
    shard_id: str
    ends: tuple[str, ...]
    """Sort keys, in order."""
    claims: tuple[int, ...]
    """For each span the number of ranges that have rows in it, or NOT_ASKED. No row may be before the first span, or
    after the last."""


@dataclass(frozen=True, slots=True)
class Digest:
    """The number of records, and the sum of a hash of each: two sets of files with the same digest have the same
    records.
    """

    rows: int = 0
    sum: int = 0

    def __add__(self, other: Digest) -> Digest:
        # The numbers of rows have 64 bits, and their sums wrap around as Arrow's do.
        return Digest(self.rows + other.rows, (self.sum + other.sum) % 2**64)


@dataclass(frozen=True, slots=True)
class Part:
    """The rows of one file in one span, or some of them."""

    shard: int
    """Place of the shard in the spans that were asked for."""
    span: int
    rows: int
    first: str
    """Sort key of the first of them."""
    last: str
    sum: int = 0
    """The sum of a number made from each row: with the number of rows, their digest."""

    @property
    def digest(self) -> Digest:
        return Digest(self.rows, self.sum)


@dataclass(frozen=True, slots=True)
class FileCount:
    """The rows that a Spark task has counted in one data file, by span."""

    path: str
    day: str | None
    stated: int
    """The number of rows that the table's metadata states."""
    rows: int = 0
    parts: tuple[Part, ...] = ()
    all: Digest = Digest()
    """The digest of all rows that are in a span in which rows may be."""
    known: Digest = Digest()
    """The digest of the rows in spans that are NOT_ASKED or ELSEWHERE."""
    elsewhere: int = 0
    """The number of rows in spans that are ELSEWHERE."""
    strangers: tuple[str, ...] = ()
    """The first of the rows in no range, as texts."""
    strange: tuple[tuple[str, int], ...] = ()
    """How many of them are of which shard (`headrace.pipeline.proof.accepted.shard_text`)."""
    error: str = ""
    """Why the file can't be read."""

    @property
    def strangers_count(self) -> int:
        return sum(rows for _, rows in self.strange)


@dataclass(frozen=True, slots=True)
class Overlap:
    """Sort keys of a shard between which rows may be in more than one place."""

    shard: int
    low: str
    high: str
    files: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Doubled:
    """Rows that are there more than once."""

    count: int
    rows: tuple[str, ...]
    """The first of them, as texts."""


@dataclass(frozen=True, slots=True)
class Cluster:
    """Ranges of one shard that are compared together: a single range, or ranges that overlap."""

    shard: int
    spans: range
    steps: tuple[Step, ...]
    rows: int
    """The rows that the ledger states."""
    is_dropped: bool = False
    """Whether the retention may have removed some of these rows."""


@dataclass(frozen=True, slots=True)
class CountPlan:
    """Which rows are counted, and the ranges whose numbers of rows are compared."""

    spans: tuple[ShardSpans, ...]
    clusters: tuple[Cluster, ...]
    derived: int = 0
    """The number of records in derived ranges."""
    is_mixed: bool = False
    """Whether ranges that an earlier proof has read overlap with newer ones, so that their rows can be compared only
    together."""

    def days(self) -> tuple[date, date] | None:
        """The first and the last arrival day of all rows that are counted; None where a range doesn't tell when
        its records arrived.
        """
        # Only ranges with rows tell arrivals.
        first = [s.range.first_arrival for c in self.clusters for s in c.steps if s.range.rows]
        last = [s.range.last_arrival for c in self.clusters for s in c.steps if s.range.rows]
        arrivals = [arrival for arrival in (*first, *last) if arrival is not None]
        if not arrivals or len(arrivals) < len(first) + len(last):
            return None
        return (min(arrivals) - APPROXIMATE).date(), (max(arrivals) + APPROXIMATE).date()

    def may_be_on(self) -> Callable[[str | None], bool]:
        """A function that tells whether a file of this arrival day may have rows of the plan's ranges."""
        days = self.days()

        def may(day: str | None) -> bool:
            return days is None or day is None or days[0] <= date.fromisoformat(day) <= days[1]

        return may if self.clusters else lambda _: False


def rows_by_span(plan: CountPlan, cluster: Cluster) -> dict[int, float]:
    """About how many rows each span of the cluster has: the rows of a range are spread evenly over its spans."""
    rows = dict.fromkeys(cluster.spans, 0.0)
    for step in cluster.steps:
        spans = spans_of(plan.spans[cluster.shard].ends, step)
        for span in spans:
            rows[span] += step.range.rows / len(spans)
    return rows


def plan_rows(
    story: Story,
    *,
    window: Window,
    proved: int | None = None,
    kept_from: date | None = None,
    days: Days = EVER,
) -> CountPlan:
    """Which rows a proof reads, and the ranges by which it counts them.

    `proved`: sequence number of the snapshot up to which an earlier proof has read all rows. `kept_from`: the
    first day that the retention keeps. `days`: only ranges that may have a record of these days are read.
    """
    spans: list[ShardSpans] = []
    clusters: list[Cluster] = []
    is_mixed = False
    for key in story.keys:
        steps = story.of(key)
        ends = _ends(steps)
        marks = [EMPTY] * len(ends)
        for group in overlapping(steps):
            is_derived = any(step in story.derived.get(key, ()) for step in group)
            is_asked = not is_derived and _is_asked(group, window, proved)
            is_mixed |= is_asked and proved is not None and any(step.sequence <= proved for step in group)
            is_elsewhere = is_asked and not days.meet(group)
            is_asked &= not is_elsewhere
            _mark(marks, ends, group, None if is_asked else ELSEWHERE if is_elsewhere else NOT_ASKED)
            if is_asked and (rows := sum(step.range.rows for step in group)):
                spread = [spans_of(ends, step) for step in group]
                reach = range(min(r.start for r in spread), max(r.stop for r in spread))
                # One range of the group is enough: its rows can't be told from those of the others.
                is_dropped = any(may_be_dropped(step, kept_from) for step in group)
                clusters.append(Cluster(len(spans), reach, group, rows, is_dropped))
        _mark_repaired(marks, ends, steps)
        spans.append(ShardSpans(key.stream.name, key.stream.epoch, key.shard_id, tuple(ends), tuple(marks)))
    derived = sum(s.range.rows for steps in story.derived.values() for s in steps)
    return CountPlan(tuple(spans), tuple(clusters), derived, is_mixed)


def _mark(marks: list[int], ends: Sequence[str], group: Iterable[Step], mark: int | None) -> None:
    """`mark`: None for ranges that are asked for."""
    for step in group:
        # Rows of aggregates that were taken apart are in the range by which the aggregates landed.
        if step.range.rows and step.range.kind is not Kind.UNPACKED:
            for i in spans_of(ends, step):
                marks[i] = marks[i] + 1 if mark is None else mark


def _mark_repaired(marks: list[int], ends: Sequence[str], steps: Iterable[Step]) -> None:
    """Mark the spans up to which a repair went: the position was taken from rows there, of which some may have no
    ledger."""
    for step in steps:
        if step.range.kind is Kind.REPAIR:
            for i in spans_of(ends, step):
                marks[i] = marks[i] or NOT_ASKED


def low_of(step: Step) -> str:
    return "" if step.range.after is None else _end_text(step.range.after)


def high_of(step: Step) -> str:
    return _end_text(step.range.upto)


def _end_text(position: Position) -> str:
    """A text that sorts as `order_text` does, and after all rows of a record that counts as a whole
    (`headrace.pipeline.core.shards.sort_texts.past`)."""
    return _text_of(position.sequence, position.sub, ended=position.ended, inside=position.inside)


@lru_cache(maxsize=1 << 16)
def _text_of(sequence: int | None, sub: int, *, ended: bool, inside: bool) -> str:
    # Kept, because a plan asks a dozen times for each end of a range, and so that ranges which meet share the text.
    position = Position(sequence, sub, ended=ended, inside=inside)
    if sequence is None or sub or inside:
        return order_text(position)
    return f"{past(position)}{ended:d}"


def _ends(steps: Iterable[Step]) -> list[str]:
    return sorted(
        {text for step in steps if low_of(step) < high_of(step) for text in (low_of(step), high_of(step))}
    )


def spans_of(ends: Sequence[str], step: Step) -> range:
    """The spans that a range has. `ends`: the ends of all spans of its shard."""
    return range(bisect_left(ends, low_of(step)) + 1, bisect_left(ends, high_of(step)) + 1)


def overlapping(steps: Iterable[Step]) -> Iterator[tuple[Step, ...]]:
    """Groups of ranges of one shard that overlap. A range that only moves a position, and not forward, has no rows."""
    group: list[Step] = []
    reach = ""
    # A repair's range goes to where rows were found, over ranges that have claimed these rows before.
    forward = (s for s in steps if low_of(s) < high_of(s) and s.range.kind is not Kind.REPAIR)
    for step in sorted(forward, key=lambda s: (low_of(s), s.sequence)):
        if group and low_of(step) >= reach:
            yield tuple(group)
            group = []
        # Within a group the farthest end counts: a short range may lie inside of a long one.
        reach = max(reach, high_of(step)) if group else high_of(step)
        group.append(step)
    if group:
        yield tuple(group)


def _is_asked(group: Sequence[Step], window: Window, proved: int | None) -> bool:
    if proved is not None and all(step.sequence <= proved for step in group):
        return False
    # One range of the group is enough, because the group's rows can only be counted together.
    return any(window.has(step.range.first_arrival, step.range.last_arrival) for step in group)


def must_read_all(story: Story, proved: int) -> bool:
    """Whether all rows have to be read again, because what was committed after the earlier proof may concern rows
    that the earlier proof has read. `proved`: the sequence number of the snapshot of that proof.
    """
    after = (step for step in story.all() if step.sequence > proved)
    return any(step.range.may_go_back or not step.range.moves for step in after) or story.is_lost_between(
        proved, max((loss.sequence for loss in story.lost), default=proved)
    )
