"""What was true at a moment, as the ledgers tell it afterwards, and whether a sample agrees with it. Pure functions on values."""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum

from headrace.pipeline.core.ledger.ledger import LedgerEntry
from tests.chaos.traffic import PutRecord

NEVER = float("inf")


@dataclass(frozen=True, slots=True)
class Landing:
    """When a record was put, and when it landed; both in seconds since 1970."""

    record: PutRecord
    at: float


@dataclass(frozen=True, slots=True)
class Truth:
    landings: Sequence[Landing]

    def age(self, at: float) -> float:
        """The age of the oldest record that hadn't landed then; 0 where all had."""
        return max(
            (at - landing.record.at for landing in self.landings if landing.record.at <= at < landing.at),
            default=0.0,
        )

    def most_age(self, since: float, until: float) -> float:
        """The greatest age in a period: an age grows until a record lands."""
        ages = [
            min(landing.at, until) - landing.record.at
            for landing in self.landings
            if landing.record.at <= until and landing.at > since
        ]
        return max(ages, default=0.0)


def truth_of(put: Iterable[PutRecord], entries: Iterable[LedgerEntry]) -> Truth:
    ends: Mapping[str, list[tuple[int, float]]] = _ends(entries)
    return Truth([Landing(record, _landed_at(record, ends.get(record.shard, []))) for record in put])


def _ends(entries: Iterable[LedgerEntry]) -> dict[str, list[tuple[int, float]]]:
    """By shard: the last sequence number of each range, and when it was committed. The ranges of a shard form a chain."""
    ends = defaultdict(list)
    for entry in entries:
        for landed in entry.page.ranges:
            if landed.moves and landed.upto.sequence is not None:
                ends[landed.key.shard_id].append((landed.upto.sequence, entry.at.timestamp()))
    return {shard: sorted(ranges) for shard, ranges in ends.items()}


def _landed_at(record: PutRecord, ranges: list[tuple[int, float]]) -> float:
    place = bisect_left(ranges, (record.sequence, 0.0))
    return ranges[place][1] if place < len(ranges) else NEVER


class Told(Enum):
    """How a lag was told."""

    EXACTLY = "exactly"
    AT_MOST = "at most"
    AT_LEAST = "at least"


@dataclass(frozen=True, slots=True)
class Sample:
    """What one source said at a moment."""

    source: str
    began: float
    """When the source began to look, in seconds since 1970."""
    ended: float
    lag: float | None = None
    """The greatest lag that it told, in seconds; None where it told that it doesn't know."""
    alarms: tuple[str, ...] = ()
    """Sentences that say that data is missing, doubled or out of order."""
    told: Told = Told.EXACTLY


def lies(samples: Iterable[Sample], truth: Truth, periods: Mapping[str, float]) -> Iterator[str]:
    """`periods`: by source, the seconds by which it may be late, as the documents state it."""
    for sample in samples:
        period = periods[sample.source]
        for alarm in sample.alarms:
            yield f"{sample.source} said at {sample.began:.0f}: {alarm}"
        if sample.lag is None:
            continue
        least, most = truth.age(sample.began), truth.most_age(sample.began - period, sample.ended)
        if sample.told is not Told.AT_LEAST and sample.lag + period < least:
            yield (
                f"{sample.source} told a lag of {sample.lag:.0f} s at {sample.began:.0f}, and a record had waited for {least:.0f} s; "
                f"it may be {period:.0f} s late"
            )
        if sample.told is not Told.AT_MOST and sample.lag > most + period:
            yield (
                f"{sample.source} told a lag of {sample.lag:.0f} s at {sample.began:.0f}, and no record had waited for more than {most:.0f} s "
                f"in the {period:.0f} s before"
            )
