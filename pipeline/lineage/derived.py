"""Ranges derived from rows of the lake table, for a part of its history whose ledger is lost.

    ledger of the shard    (start ... 20]   - lost -   (35 ... 50]
    rows                    1 ... 20        21 ... 35   36 ... 50
    derived                                (20 ... 35]

The ledger's ranges of a shard are spans of sequence numbers. Rows in none of them landed in the lost part. The rows in
one stretch between two spans become one range, because which run or commit brought which of them can't be known any
more.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from headrace.pipeline.core.ledger.author import Arrivals, Author
from headrace.pipeline.core.ledger.ledger import Kind, LedgerEntry, Lost, Range
from headrace.pipeline.core.shards.position import Position
from headrace.pipeline.core.shards.stream import ShardKey

_RUN = "unknown"
_WHY = "derived from rows of the lake table that no ledger accounts for"


@dataclass(frozen=True, slots=True)
class Span:
    """Sequence numbers of a shard that ranges of the ledger account for: after `above`, up to `upto`."""

    above: int
    """-1 where the span begins at the start of the shard."""
    upto: int
    first: Position | None
    """The position at which the span begins."""
    last: Position
    entered: int
    """Sequence number of the snapshot that brought the end of the span."""


@dataclass(frozen=True, slots=True)
class StretchRows:
    """The rows of a shard that lie in one stretch between its spans.

    `stretch`: 0 is the stretch below the first span, 1 the one below the second span, and so on; the last is the
    stretch above all spans.
    """

    stretch: int
    rows: int
    last_sequence: int
    first_arrival: datetime | None = None
    last_arrival: datetime | None = None
    last_sub: int = 0
    """The highest sub-sequence number of the rows with the last sequence number."""
    records: int = 0
    """How many sequence numbers the rows have."""


class SpanCollector:
    """Collects the spans of each shard while ledgers are read. A chain of ranges takes the memory of one span."""

    def __init__(self) -> None:
        self._found: dict[ShardKey, list[Span]] = {}

    def add(self, entry: LedgerEntry | Lost) -> None:
        for recorded in entry.page.ranges if isinstance(entry, LedgerEntry) else ():
            above = (
                -1 if recorded.after is None or recorded.after.sequence is None else recorded.after.sequence
            )
            upto = -1 if recorded.upto.sequence is None else recorded.upto.sequence
            # The rows of aggregates that were taken apart are those of the range by which the aggregates landed.
            if recorded.moves and upto > above:
                spans = self._found.setdefault(recorded.key, [])
                # A chain of a million ranges becomes one span, so that only breaks take memory.
                if spans and spans[-1].upto == above:
                    spans[-1] = replace(spans[-1], upto=upto, last=recorded.upto, entered=entry.sequence)
                else:
                    spans.append(Span(above, upto, recorded.after, recorded.upto, entry.sequence))

    def spans(self) -> Mapping[ShardKey, tuple[Span, ...]]:
        """The spans of each shard in order; no two of them touch or overlap."""
        return {
            key: _joined(sorted(spans, key=lambda span: span.above)) for key, spans in self._found.items()
        }


def _joined(spans: Sequence[Span]) -> tuple[Span, ...]:
    merged: list[Span] = []
    for span in spans:
        if merged and span.above <= merged[-1].upto:
            if span.upto > merged[-1].upto:
                merged[-1] = replace(merged[-1], upto=span.upto, last=span.last, entered=span.entered)
        else:
            merged.append(span)
    return tuple(merged)


def stretch_of(sequence: int, spans: Sequence[Span]) -> int | None:
    """The stretch that a row is in: the number of spans below it. None where a span accounts for the row."""
    # Spans don't touch, so that one search tells.
    below = bisect_left(spans, sequence, key=lambda span: span.upto)
    return None if below < len(spans) and spans[below].above < sequence else below


def derived(
    entries: Sequence[LedgerEntry | Lost],
    spans: Mapping[ShardKey, tuple[Span, ...]],
    rows: Mapping[ShardKey, Iterable[StretchRows]],
) -> list[LedgerEntry | Lost]:
    """The entries, where each lost part has the ranges derived from rows that fell into it. `entries`: oldest first;
    those without a lost part and without unpacked aggregates may be left out.
    """
    lost = [entry for entry in entries if isinstance(entry, Lost)]
    if not lost:
        return list(entries)
    by_part: dict[int, list[Range]] = {}
    apart = _taken_apart(entries, spans)
    for key in sorted(rows):
        for stretch in sorted(rows[key], key=lambda stretch: stretch.stretch):
            shard_spans = spans.get(key, ())
            below = shard_spans[stretch.stretch - 1] if stretch.stretch else None
            above = shard_spans[stretch.stretch] if stretch.stretch < len(shard_spans) else None
            place = _part_after(lost, below.entered if below else 0)
            by_part.setdefault(place, []).append(
                _range(key, below, above, stretch, apart=apart.get((key, stretch.stretch), 0))
            )
    # By identity, because two lost parts may have the same values.
    ranges = {id(part): tuple(by_part.get(place, ())) for place, part in enumerate(lost)}
    return [replace(e, ranges=ranges[id(e)]) if isinstance(e, Lost) else e for e in entries]


def _taken_apart(
    entries: Iterable[LedgerEntry | Lost], spans: Mapping[ShardKey, tuple[Span, ...]]
) -> Mapping[tuple[ShardKey, int], int]:
    """How many of the rows in each stretch count in ranges of aggregates that were taken apart, whose ledgers are
    there."""
    counts: dict[tuple[ShardKey, int], int] = {}
    for entry in entries:
        for recorded in entry.page.ranges if isinstance(entry, LedgerEntry) else ():
            shard_spans, upto = spans.get(recorded.key, ()), recorded.upto.sequence
            stretch = (
                stretch_of(upto, shard_spans) if recorded.kind is Kind.UNPACKED and upto is not None else None
            )
            if stretch is not None:
                counts[recorded.key, stretch] = counts.get((recorded.key, stretch), 0) + recorded.rows
    return counts


def _part_after(lost: Sequence[Lost], sequence: int) -> int:
    """The first lost part after a snapshot; the last part where none is later."""
    return min(bisect_left(lost, sequence + 1, key=lambda part: part.sequence), len(lost) - 1)


def _range(
    key: ShardKey, below: Span | None, above: Span | None, stretch: StretchRows, *, apart: int
) -> Range:
    """The range that a stretch of rows without a ledger stands for.

    `apart`: rows of the stretch that count in other ranges.
    """
    upto = Position(stretch.last_sequence, stretch.last_sub, arrival=stretch.last_arrival)
    return Author(_RUN, "").range(
        Kind.LANDED,
        key,
        None if below is None else below.last,
        upto if above is None or above.first is None else above.first,
        # Rows may have been removed since: what others count must not make the number negative.
        rows=max(0, stretch.rows - apart),
        arrivals=Arrivals(stretch.first_arrival, stretch.last_arrival),
        why=_WHY,
        records=stretch.records,
        # A user record after the first one tells it; of a stretch without one, nothing does.
        unpacked=stretch.rows > stretch.records,
    )
