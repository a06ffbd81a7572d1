"""The rows of a long history in rounds, each about some arrival days: so that only the ranges of these days are in memory one by one.

    ledgers, joined by day  ->  rounds of days  ->  of each round: its ranges one by one, its files, counts  ->  what is wrong with them

A file has the rows of one day. A range with records of two days is judged in the round of its last day, with what earlier rounds have counted.
Pure functions.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, time, timedelta
from itertools import pairwise

from headrace.pipeline.core.ledger.arrivals import APPROXIMATE, EVER, Days, first_day, last_day
from headrace.pipeline.core.ledger.live_files import LiveFile
from headrace.pipeline.core.ledger.story import Step, Story
from headrace.pipeline.core.shards.stream import ShardKey
from headrace.pipeline.proof.spans import Cluster, CountPlan, FileCount, Part, overlapping

_ONE_DAY = timedelta(days=1)


def rounds_of(story: Story, most: int) -> tuple[Days, ...]:
    """Days in order that leave no time out, each with about so many ranges, and at least one day. Ranges that overlap are in one round."""
    sizes: dict[date, int] = {}
    for step in story.all():
        day = first_day(step)
        sizes[day] = sizes.get(day, 0) + step.range.joined
    together = tuple(_reaches(story))
    ends: list[date] = []
    ranges = 0
    days = sorted(sizes)
    for day, following in pairwise(days):
        ranges += sizes[day]
        if ranges + sizes[following] > most and not any(first <= day < last for first, last in together):
            ends.append(day)
            ranges = 0
    firsts = (date.min, *(end + _ONE_DAY for end in ends))
    return tuple(Days(first, last) for first, last in zip(firsts, (*ends, date.max), strict=True))


def _reaches(story: Story) -> Iterator[tuple[date, date]]:
    """Days of ranges that are compared together."""
    for key in story.keys:
        for group in overlapping(story.of(key)):
            if len(group) > 1:
                yield min(map(first_day, group)), max(map(last_day, group))


def arrivals_of(days: Days) -> tuple[datetime, datetime]:
    """Between which moments the first record of a range arrived whose `first_day` is one of these."""
    first = _midnight(days.first) + APPROXIMATE if days.first > date.min else _midnight(date.min)
    last = _midnight(days.last + _ONE_DAY) + APPROXIMATE if days.last < date.max else _midnight(date.max)
    return first, last


def _midnight(day: date) -> datetime:
    return datetime.combine(day, time.min, UTC)


def one_by_one(joined: Story, apart: Story, days: Days) -> Story:
    """The joined ranges, and in the place of those of the days each range by itself (`apart`)."""
    steps: dict[ShardKey, tuple[Step, ...]] = {}
    for key, its in joined.steps.items():
        others = [step for step in its if not _came_on(step, days)]
        own = [step for step in apart.steps.get(key, ()) if _came_on(step, days)]
        steps[key] = tuple(sorted((*others, *own), key=lambda step: step.sequence))
    return replace(joined, steps=steps)


def _came_on(step: Step, days: Days) -> bool:
    # A range that doesn't tell when its first record arrived is asked for in each round.
    return step.range.first_arrival is not None and days.has(first_day(step))


def joined_again(story: Story, days: Days) -> Story:
    """The story with its ranges of these days joined, but for those with records of later days."""
    return replace(story, steps={key: tuple(_joined(its, days)) for key, its in story.steps.items()})


def _joined(steps: Iterable[Step], days: Days) -> Iterator[Step]:
    before: Step | None = None
    for step in steps:
        if before is not None and _go_together(before, step, days):
            before = _as_one(before, step)
            continue
        if before is not None:
            yield before
        before = step
    if before is not None:
        yield before


def _go_together(before: Step, step: Step, days: Days) -> bool:
    one, other = before.range, step.range
    if one.kind is not other.kind or one.may_go_back or other.after is None:
        return False
    is_over = max(last_day(before), last_day(step)) <= days.last
    return is_over and one.upto.token == other.after.token and bool(one.rows) is bool(other.rows)


def _as_one(before: Step, step: Step) -> Step:
    one, other = before.range, step.range
    last = max((at for at in (one.last_arrival, other.last_arrival) if at is not None), default=None)
    made = replace(
        other,
        after=one.after,
        rows=one.rows + other.rows,
        first_arrival=one.first_arrival,
        last_arrival=last,
        joined=one.joined + other.joined,
    )
    return replace(step, range=made)


def files_of(files: Iterable[LiveFile], days: Days) -> list[LiveFile]:
    if days == EVER:
        return list(files)
    return [each for each in files if each.day is not None and days.has(date.fromisoformat(each.day))]


def place_of(cluster: Cluster, plan: CountPlan) -> tuple[int, str]:
    """Sorts as the ranges do in a plan of all days: each round has the same shards."""
    return cluster.shard, plan.spans[cluster.shard].ends[cluster.spans[-1]]


@dataclass(frozen=True, slots=True)
class Open:
    """Counts of ranges that have records of later days, too."""

    plan: CountPlan
    counts: tuple[FileCount, ...] = ()

    def in_plan(self, plan: CountPlan) -> tuple[FileCount, ...]:
        """The counts in the spans of a later round, which has the same ranges."""
        return tuple(replace(each, parts=tuple(self._parts(each, plan))) for each in self.counts)

    def _parts(self, count: FileCount, plan: CountPlan) -> Iterator[Part]:
        for part in count.parts:
            end = self.plan.spans[part.shard].ends[part.span]
            yield replace(part, span=bisect_left(plan.spans[part.shard].ends, end))


def divided(
    plan: CountPlan, counts: Sequence[FileCount], days: Days
) -> tuple[CountPlan, tuple[FileCount, ...], Open]:
    """The plan and the counts of the ranges without records of later days, and what is left for later rounds."""
    later = {
        (cluster.shard, span)
        for cluster in plan.clusters
        if _is_open(cluster, days)
        for span in cluster.spans
    }
    closed = tuple(each for each in plan.clusters if not _is_open(each, days))
    parts = [(each, [part for part in each.parts if (part.shard, part.span) in later]) for each in counts]
    left = tuple(FileCount(each.path, each.day, 0, parts=tuple(its)) for each, its in parts if its)
    ready = tuple(
        replace(each, parts=tuple(part for part in each.parts if (part.shard, part.span) not in later))
        for each in counts
    )
    return replace(plan, clusters=closed), ready, Open(replace(plan, clusters=()), left)


def _is_open(cluster: Cluster, days: Days) -> bool:
    return any(last_day(step) > days.last for step in cluster.steps)
