"""What the rows of a typed table and of its quarantine table say is wrong, beside the rows of the lake table. Pure functions.

A replacement reads rows of the ranges under it again. What it parses and sets aside is added to what these ranges state, and what it has
removed is subtracted: so the sum is right wherever a replacement cuts a range, and however often rows were replaced.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate

from headrace.pipeline.core.ledger.accounting import Accounting
from headrace.pipeline.core.ledger.generation import chain_of, is_chain, shard_of
from headrace.pipeline.core.ledger.ledger import Kind
from headrace.pipeline.core.ledger.story import Step, Story
from headrace.pipeline.core.shards.stream import ShardKey
from headrace.pipeline.core.words.words import counted
from headrace.pipeline.proof.made.evidence import TargetEvidence, accounting_of
from headrace.pipeline.proof.patterns import Pattern, by_span
from headrace.pipeline.proof.spans import Cluster, CountPlan, high_of, low_of, spans_of
from headrace.pipeline.proof.verdict import Told, Unproved, Wrong


@dataclass(slots=True)
class _Numbers:
    """Rows: in the lake table, parsed, in quarantine, and dropped; as stated or as counted."""

    rows: int = 0
    parsed: int = 0
    aside: int = 0
    dropped: int = 0
    missing: list[str] = field(default_factory=list)
    """Rows of the lake table that are in neither table: the first of them."""

    def add(self, step: Step, account: Accounting) -> None:
        """What the commit with this range has changed in the tables."""
        dropped = sum(account.dropped.values())
        self.parsed += account.parsed
        self.dropped += dropped
        if is_chain(step.range.key):
            self.aside -= account.parsed + dropped
            return
        self.aside += account.quarantined
        if step.range.kind is not Kind.REPLAY:
            self.rows += account.rows
            return
        typed, aside = account.removed
        self.parsed -= typed
        self.aside -= aside
        # The other rows that were read again had been dropped. Of aggregates that were taken apart since, there may be more of them.
        self.dropped -= account.rows - typed - aside


def stated_numbers(steps: Iterable[Step]) -> _Numbers:
    found = _Numbers()
    for step in steps:
        account = accounting_of(step)
        if account is not None:
            found.add(step, account)
    return found


def _redriven(story: Story, key: ShardKey, *, since: int) -> _Numbers:
    """What redrives after this sequence number have moved out of quarantine."""
    return stated_numbers(step for step in story.steps.get(chain_of(key), ()) if step.sequence > since)


Totals = dict[ShardKey, tuple[_Numbers, _Numbers]]
"""Of shards with redrives: the rows that the ledger states without them, and those that were counted."""


def wrong_numbers(seen: TargetEvidence) -> Iterator[Told]:
    totals: Totals = {}
    yield from (told for _, told in cluster_numbers(seen, totals))
    yield from wrong_totals(seen, totals)


def cluster_numbers(seen: TargetEvidence, totals: Totals) -> Iterator[tuple[Cluster, Told]]:
    """What is wrong with the ranges of the plan; `totals` gets their rows."""
    story, found = seen.table.story, by_span(seen.patterns)
    redrives = {shard_of(each.range.key) for each in story.all() if each.range.kind is Kind.REDRIVEN}
    apart = {key: _Apart.of(steps) for key, steps in seen.unpacked.items()}
    for cluster in seen.plan.clusters:
        key = cluster.steps[0].range.key
        # The steps of the plan have the rows of the lake table; the text of the ledger is unchanged.
        stated, there = stated_numbers(cluster.steps), _counted(cluster, found)
        since = min(step.sequence for step in cluster.steps)
        moved = _redriven(story, key, since=since) if key in redrives else _Numbers()
        if _is_off(stated, there, moved):
            yield cluster, Wrong(_miscount(seen, cluster, stated, there, moved))
        elif 0 < there.rows - stated.rows <= (apart[key].most(cluster) if key in apart else 0):
            # What a replacement since has parsed of them is in the tables, or was dropped for a reason.
            if there.rows - there.parsed - there.aside > _may_be_dropped(cluster, seen.plan):
                yield (
                    cluster,
                    Unproved(
                        f"{_named(cluster)}: aggregates of this range were taken apart in the lake table, which has {there.rows - stated.rows:,} rows more "
                        f"since, and {seen.table.name} still has what was made of them as a whole: {_ANEW}"
                    ),
                )
        elif there.rows != stated.rows and not (_may_lack(cluster) and there.rows < stated.rows):
            told = f"{_named(cluster)}: the lake table had {counted(stated.rows, 'row')} of this range when they were parsed, and has {there.rows:,} now"
            yield cluster, Unproved(told) if key in seen.moved else Wrong(told)
        if key in redrives:
            sums = totals.setdefault(key, (_Numbers(), _Numbers()))
            for total, each in zip(sums, (stated, there), strict=True):
                total.parsed += each.parsed
                total.aside += each.aside


_ANEW = "`headrace window create --replace` makes its rows anew; a window's own table is copied anew by a new window"


@dataclass(frozen=True, slots=True)
class _Apart:
    """By which aggregates of a shard were taken apart in the lake table: ranges in order, of which none meets another one."""

    lows: tuple[str, ...]
    highs: tuple[str, ...]
    sums: tuple[int, ...]
    """Rows that the lake table has more by the ranges before each of them, and by all."""

    @classmethod
    def of(cls, steps: Iterable[Step]) -> _Apart:
        found = sorted((low_of(step), high_of(step), step.range.rows) for step in steps)
        lows, highs, rows = zip(*found, strict=True) if found else ((), (), ())
        return cls(lows, highs, tuple(accumulate(rows, initial=0)))

    def most(self, cluster: Cluster) -> int:
        """How many rows the lake table has at most more of these ranges."""
        low = min(low_of(step) for step in cluster.steps)
        high = max(high_of(step) for step in cluster.steps)
        return self.sums[bisect_left(self.lows, high)] - self.sums[bisect_right(self.highs, low)]


def _may_be_dropped(cluster: Cluster, plan: CountPlan) -> int:
    """How many rows the ledger has dropped at most: by the range, or the replacement of it, that has decided last about any of the rows."""
    ends = plan.spans[cluster.shard].ends
    newest: dict[int, Step] = {}
    for step in sorted(cluster.steps, key=lambda step: step.sequence):
        newest |= dict.fromkeys(spans_of(ends, step), step)
    accounts = (accounting_of(step) for step in set(newest.values()))
    return sum(sum(each.dropped.values()) for each in accounts if each is not None)


def _is_off(stated: _Numbers, there: _Numbers, moved: _Numbers) -> bool:
    """Whether the two tables have other rows of a range than the ledger states. A later redrive may have moved some of the shard's rows."""
    gone = stated.parsed + stated.aside - there.parsed - there.aside
    return not (stated.parsed <= there.parsed <= stated.parsed + moved.parsed and 0 <= gone <= moved.dropped)


def _counted(cluster: Cluster, found: Mapping[tuple[int, int], Sequence[Pattern]]) -> _Numbers:
    there = _Numbers()
    for span in cluster.spans:
        for each in found.get((cluster.shard, span), ()):
            rows, parsed, aside = _times(each)
            there.rows += rows * each.keys
            there.parsed += parsed * each.keys
            there.aside += aside * each.keys
            if rows > parsed + aside:
                there.missing += each.first
    return there


def _times(each: Pattern) -> tuple[int, int, int]:
    rows, parsed, *aside = each.times
    return rows, parsed, sum(aside)


def _miscount(
    seen: TargetEvidence, cluster: Cluster, stated: _Numbers, there: _Numbers, moved: _Numbers
) -> str:
    # A row that was dropped for a reason is in neither table either, so that the missing ones can't be told apart.
    missing = "" if stated.dropped > 0 or moved.dropped else _names(cluster.steps[0].range.key, there.missing)
    aside = "" if seen.aside is None else f" and {stated.aside:,} set aside"
    beside = "" if seen.aside is None else f" and {there.aside:,} in {seen.aside.name}"
    return (
        f"{_named(cluster)}: the ledger states {counted(stated.parsed, 'row')}{aside}, and {there.parsed:,} {'is' if there.parsed == 1 else 'are'} in "
        f"{seen.table.name}{beside}{f'; in no table: {missing}' if missing else ''}"
    )


def _named(cluster: Cluster) -> str:
    first, *others = (step for step in cluster.steps if step.range.moves)
    more = f" and {counted(len(others), 'range')} beside it" if others else ""
    replays = [step for step in cluster.steps if not step.range.moves]
    return f"{first}{more}{f', with rows replaced by {_snapshots(replays)}' if replays else ''}"


def _snapshots(replays: Sequence[Step]) -> str:
    """The newest of them."""
    found = [f"snapshot {step.snapshot}" for step in sorted(replays, key=lambda step: -step.sequence)]
    return f"{', '.join(found[:3])}{f' and {len(found) - 3:,} more' if found[3:] else ''}"


def wrong_totals(seen: TargetEvidence, totals: Totals) -> Iterator[Wrong]:
    """Where redrives have moved another number of a shard's rows than their ledgers state."""
    story = seen.table.story
    if not seen.is_whole or story.lost:
        return
    for key, (stated, there) in totals.items():
        moved = _redriven(story, key, since=-1)
        parsed, aside = stated.parsed + moved.parsed, stated.aside + moved.aside
        if (there.parsed, there.aside) != (parsed, aside):
            yield Wrong(
                f"{key}: with its redrives the ledger states {parsed:,} rows in the typed table and {aside:,} in quarantine, and {there.parsed:,} and "
                f"{there.aside:,} are there"
            )


def _may_lack(cluster: Cluster) -> bool:
    """Whether the lake table may lack rows of the ranges: the retention may have removed them, or a window has read them from the stream."""
    return cluster.is_dropped or any(step.range.kind is Kind.READ for step in cluster.steps)


def wrong_rows(seen: TargetEvidence) -> Iterator[Wrong]:
    """Rows that are there more often than in the lake table."""
    aside = "" if seen.aside is None else seen.aside.name
    dropped = {
        (cluster.shard, span)
        for cluster in seen.plan.clusters
        if _may_lack(cluster)
        for span in cluster.spans
    }
    replays = _replays_by_span(seen.plan)
    for each in seen.patterns:
        rows, parsed, set_aside = _times(each)
        may_lack = (each.shard, each.span) in dropped
        if parsed + set_aside <= max(rows, 1 if may_lack else 0):
            continue
        if parsed and set_aside:
            where = f"both in {seen.table.name} and in {aside}"
        elif parsed + set_aside > 1:
            where = f"{parsed + set_aside} times in {seen.table.name if parsed else aside}"
        else:
            where = f"in {seen.table.name if parsed else aside} and not in the lake table"
        of = seen.plan.spans[each.shard]
        names = ", ".join(each.first)
        more = f" and {each.keys - len(each.first):,} more" if each.keys > len(each.first) else ""
        generations = replays.get((each.shard, each.span))
        replaced = f"; this range was replaced by {_snapshots(generations)}" if generations else ""
        yield Wrong(f"{of.stream}/{of.shard_id} {names}{more}: {where}{replaced}")


def _replays_by_span(plan: CountPlan) -> Mapping[tuple[int, int], Sequence[Step]]:
    found: dict[tuple[int, int], list[Step]] = {}
    for cluster in plan.clusters:
        for step in (each for each in cluster.steps if not each.range.moves):
            for span in spans_of(plan.spans[cluster.shard].ends, step):
                found.setdefault((cluster.shard, span), []).append(step)
    return found


def _names(key: ShardKey, numbers: Sequence[str]) -> str:
    shown = ", ".join(numbers[:5])
    return f"{key} {shown}{', ...' if len(numbers) > 5 else ''}" if shown else ""
