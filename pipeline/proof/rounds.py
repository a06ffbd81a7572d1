"""Divides the rows of a long history into rounds of some arrival days, so that only the ranges of these days are
in memory one by one.

    ledgers, joined by day -> rounds of days -> of each round: its ranges one by one, its files, counts -> what is wrong

A file has the rows of one day. A range with records of two days is judged in the round of its last day, with what
earlier rounds have counted. Pure functions.
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
    """Days in order that leave no time out, so many together that they have about `most` ranges, and at least one
    day. Ranges that overlap are in one round.
    """
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
        # No round ends within ranges that overlap: only all of their rows together can be compared.
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


def arrivals_on(days: Days) -> tuple[datetime, datetime]:
    """The moments between which a range's first record arrived, if its `first_day` is one of these days."""
    first = _midnight(days.first) + APPROXIMATE if days.first > date.min else _midnight(date.min)
    # date.max has no day after it, and date.min none before: adding would overflow.
    last = _midnight(days.last + _ONE_DAY) + APPROXIMATE if days.last < date.max else _midnight(date.max)
    return first, last


def _midnight(day: date) -> datetime:
    return datetime.combine(day, time.min, UTC)


def ranges_one_by_one(joined: Story, apart: Story, days: Days) -> Story:
    """The story in which the ranges of these days are single ones, as `apart` has them, and all others are joined."""
    steps: dict[ShardKey, tuple[Step, ...]] = {}
    for key, shard_steps in joined.steps.items():
        rest = [step for step in shard_steps if not _came_on(step, days)]
        own = [step for step in apart.steps.get(key, ()) if _came_on(step, days)]
        # In the order of the history again, which the checks of chains go by.
        steps[key] = tuple(sorted((*rest, *own), key=lambda step: step.sequence))
    return replace(joined, steps=steps)


def _came_on(step: Step, days: Days) -> bool:
    # A range that doesn't tell when its first record arrived is asked for in each round.
    return step.range.first_arrival is not None and days.has(first_day(step))


def joined_again(story: Story, days: Days) -> Story:
    """The story in which the ranges of these days are joined, but for those with records of later days."""
    return replace(
        story, steps={key: tuple(_joined(shard_steps, days)) for key, shard_steps in story.steps.items()}
    )


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
    first, second = before.range, step.range
    # A proof tells of these by themselves, so that they stay as they are.
    if first.kind is not second.kind or first.may_go_back or second.after is None:
        return False
    # A range with records of later days is compared in a later round, by itself.
    is_over = max(last_day(before), last_day(step)) <= days.last
    is_told = second.after.skipped_until is None
    return (
        is_over
        and is_told
        and first.upto.token == second.after.token
        # A row in a range without rows is in no range: joined to others, the range would hide it.
        and bool(first.rows) is bool(second.rows)
    )


def _as_one(before: Step, step: Step) -> Step:
    first, second = before.range, step.range
    last = max((when for when in (first.last_arrival, second.last_arrival) if when is not None), default=None)
    merged = replace(
        second,
        after=first.after,
        rows=first.rows + second.rows,
        first_arrival=first.first_arrival,
        last_arrival=last,
        joined=first.joined + second.joined,
    )
    return replace(step, range=merged)


def files_of(files: Iterable[LiveFile], days: Days) -> list[LiveFile]:
    """The files with rows of these days."""
    if days == EVER:
        return list(files)
    return [file for file in files if file.day is not None and days.has(date.fromisoformat(file.day))]


def cluster_place(cluster: Cluster, plan: CountPlan) -> tuple[int, str]:
    """A value that sorts clusters as their ranges sort in a plan of all days. It works for all rounds, because
    each has the same shards.
    """
    return cluster.shard, plan.spans[cluster.shard].ends[cluster.spans[-1]]


@dataclass(frozen=True, slots=True)
class Open:
    """Counts of ranges that also have records of later days, and so can't be compared yet."""

    plan: CountPlan
    counts: tuple[FileCount, ...] = ()

    def in_plan(self, plan: CountPlan) -> tuple[FileCount, ...]:
        """These counts in the spans of a later round's plan, which has the same ranges."""
        return tuple(replace(count, parts=tuple(self._parts(count, plan))) for count in self.counts)

    def _parts(self, count: FileCount, plan: CountPlan) -> Iterator[Part]:
        for part in count.parts:
            end = self.plan.spans[part.shard].ends[part.span]
            yield replace(part, span=bisect_left(plan.spans[part.shard].ends, end))


def divided(
    plan: CountPlan, counts: Sequence[FileCount], days: Days
) -> tuple[CountPlan, tuple[FileCount, ...], Open]:
    """Divides a round's plan and counts into the part that is compared now, which is returned first, and the part
    that is left for later rounds: a range with records of a later day has rows in files that weren't counted yet.
    """
    later = {
        (cluster.shard, span)
        for cluster in plan.clusters
        if _is_open(cluster, days)
        for span in cluster.spans
    }
    closed = tuple(cluster for cluster in plan.clusters if not _is_open(cluster, days))
    later_parts = [
        (count, [part for part in count.parts if (part.shard, part.span) in later]) for count in counts
    ]
    rest = tuple(
        FileCount(count.path, count.day, 0, parts=tuple(file_parts))
        for count, file_parts in later_parts
        if file_parts
    )
    ready = tuple(
        replace(count, parts=tuple(part for part in count.parts if (part.shard, part.span) not in later))
        for count in counts
    )
    return replace(plan, clusters=closed), ready, Open(replace(plan, clusters=()), rest)


def _is_open(cluster: Cluster, days: Days) -> bool:
    return any(last_day(step) > days.last for step in cluster.steps)
