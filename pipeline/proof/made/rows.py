"""The mistakes in the rows of a typed table and of its quarantine table, found by comparing them with the rows of
the lake table. Pure functions.

A replacement parses rows of earlier ranges again. The numbers of rows that it parsed and set aside are added to
those of the earlier ranges, and the number that it removed is subtracted. So the sum is right even where a
replacement has only a part of a range, and however often rows were replaced.
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
from headrace.pipeline.proof.evidence import Compared, RedrivenRows
from headrace.pipeline.proof.made.evidence import MadeEvidence, accounting_of
from headrace.pipeline.proof.patterns import Pattern, by_span
from headrace.pipeline.proof.rounds import cluster_place
from headrace.pipeline.proof.spans import Cluster, CountPlan, high_of, low_of, spans_of
from headrace.pipeline.proof.verdict import Told, Unproved, Wrong


@dataclass(slots=True)
class _Numbers:
    """Four numbers of rows, as stated or as counted: in the lake table, parsed, in quarantine, and dropped."""

    rows: int = 0
    parsed: int = 0
    aside: int = 0
    dropped: int = 0
    missing: list[str] = field(default_factory=list)
    """The first of the rows of the lake table that are in neither table."""

    def add(self, step: Step, account: Accounting) -> None:
        """What the commit with this range has changed in the tables."""
        dropped = sum(account.dropped.values())
        self.parsed += account.parsed
        self.dropped += dropped
        if is_chain(step.range.key):
            # A redrive takes rows out of quarantine and puts some back: the difference is what it parsed or
            # dropped.
            self.aside -= account.parsed + dropped
            return
        self.aside += account.quarantined
        if step.range.kind is not Kind.REPLAY:
            self.rows += account.rows
            return
        typed, aside = account.removed
        self.parsed -= typed
        self.aside -= aside
        # The other rows that were read again had been dropped. Of aggregates that were taken apart since, there may be
        # more of them.
        self.dropped -= account.rows - typed - aside


def stated_numbers(steps: Iterable[Step]) -> _Numbers:
    """The numbers of rows that the ledgers state, added up over these ranges."""
    numbers = _Numbers()
    for step in steps:
        account = accounting_of(step)
        if account is not None:
            numbers.add(step, account)
    return numbers


def _redriven(story: Story, key: ShardKey, *, since: int) -> _Numbers:
    """What redrives after this sequence number have moved out of quarantine."""
    return stated_numbers(step for step in story.steps.get(chain_of(key), ()) if step.sequence > since)


def compared_rows(evidence: MadeEvidence, plan: CountPlan, patterns: tuple[Pattern, ...]) -> Compared:
    """The comparison of the rows of the plan's ranges with the ledgers. `plan`: for the ranges that `source_view`
    gives. `patterns`: how often each row is in the lake table, in the table that was made of it and in the
    quarantine table.
    """
    redriven: dict[ShardKey, RedrivenRows] = {}
    numbers = _wrong_numbers(evidence, plan, by_span(patterns), redriven)
    return Compared(
        ranges=len(plan.clusters),
        numbers=tuple((cluster_place(cluster, plan), statement) for cluster, statement in numbers),
        rows=tuple(_wrong_rows(evidence, plan, patterns)),
        redriven=redriven,
    )


def _wrong_numbers(
    evidence: MadeEvidence,
    plan: CountPlan,
    patterns: Mapping[tuple[int, int], Sequence[Pattern]],
    redriven: dict[ShardKey, RedrivenRows],
) -> Iterator[tuple[Cluster, Told]]:
    """What is wrong with the number of rows of each range. `redriven` gets the rows of shards with redrives."""
    story = evidence.table.story
    redrives = {shard_of(step.range.key) for step in story.all() if step.range.kind is Kind.REDRIVEN}
    apart = {key: _Apart.of(steps) for key, steps in evidence.unpacked.items()}
    for cluster in plan.clusters:
        key = cluster.steps[0].range.key
        # The steps of the plan have the rows of the lake table; the text of the ledger is unchanged.
        stated, actual = stated_numbers(cluster.steps), _counted(cluster, patterns)
        since = min(step.sequence for step in cluster.steps)
        moved = _redriven(story, key, since=since) if key in redrives else _Numbers()
        more = actual.rows - stated.rows
        is_off = _is_off_of_latest(stated, actual) if evidence.loses_rows else _is_off(stated, actual, moved)
        if is_off:
            yield cluster, Wrong(_miscount(evidence, cluster, stated, actual, moved))
        elif 0 < more <= (apart[key].most(cluster) if key in apart else 0):
            # What a replacement since has parsed of them is in the tables, or was dropped for a reason.
            if actual.rows - actual.parsed - actual.aside > _may_be_dropped(cluster, plan):
                yield cluster, Unproved(_taken_apart(evidence, cluster, more))
        elif more and not (_may_lack(cluster) and more < 0):
            sentence = (
                f"{_named(cluster)}: the lake table had {counted(stated.rows, 'row')} "
                f"of this range when they were parsed, and has {actual.rows:,} now"
            )
            yield cluster, Unproved(sentence) if key in evidence.moved else Wrong(sentence)
        if key in redrives:
            rows = RedrivenRows(stated.parsed, stated.aside, actual.parsed, actual.aside)
            redriven[key] = redriven[key] + rows if key in redriven else rows


def _taken_apart(evidence: MadeEvidence, cluster: Cluster, more: int) -> str:
    return (
        f"{_named(cluster)}: aggregates of this range were taken apart in the lake table, "
        f"which has {more:,} rows more since, "
        f"and {evidence.table.name} still has what was made of them as a whole: {_ANEW}"
    )


_ANEW = "`headrace window create --replace` makes its rows anew; a window's own table is copied anew by a new window"


@dataclass(frozen=True, slots=True)
class _Apart:
    """The ranges by which aggregates of a shard were taken apart in the lake table: in order, and none meets another
    one."""

    lows: tuple[str, ...]
    highs: tuple[str, ...]
    sums: tuple[int, ...]
    """How many more rows the lake table has by the ranges before each of them, and by all."""

    @classmethod
    def of(cls, steps: Iterable[Step]) -> _Apart:
        bounds = sorted((low_of(step), high_of(step), step.range.rows) for step in steps)
        lows, highs, rows = zip(*bounds, strict=True) if bounds else ((), (), ())
        return cls(lows, highs, tuple(accumulate(rows, initial=0)))

    def most(self, cluster: Cluster) -> int:
        """How many rows the lake table has at most more of these ranges."""
        low = min(low_of(step) for step in cluster.steps)
        high = max(high_of(step) for step in cluster.steps)
        # What was taken apart and meets these ranges, by two searches and a difference: a shard may have
        # thousands of such ranges.
        return self.sums[bisect_left(self.lows, high)] - self.sums[bisect_right(self.highs, low)]


def _may_be_dropped(cluster: Cluster, plan: CountPlan) -> int:
    """How many rows the ledger has dropped at most: by the range, or the replacement of it, that has decided last about
    any of the rows."""
    ends = plan.spans[cluster.shard].ends
    newest: dict[int, Step] = {}
    # In the order of commits, so that the last one that decided about a span is the one that counts.
    for step in sorted(cluster.steps, key=lambda step: step.sequence):
        newest |= dict.fromkeys(spans_of(ends, step), step)
    accounts = (accounting_of(step) for step in set(newest.values()))
    return sum(sum(account.dropped.values()) for account in accounts if account is not None)


def _is_off(stated: _Numbers, actual: _Numbers, moved: _Numbers) -> bool:
    """Whether the two tables have other rows of a range than the ledger states. A later redrive may have moved some of
    the shard's rows."""
    gone = stated.parsed + stated.aside - actual.parsed - actual.aside
    return not (stated.parsed <= actual.parsed <= stated.parsed + moved.parsed and 0 <= gone <= moved.dropped)


def _is_off_of_latest(stated: _Numbers, actual: _Numbers) -> bool:
    """Whether tables have rows of a range that the ledger doesn't state, or lack some that were set aside. Rows that
    were parsed leave a table of the latest rows when later ones come."""
    return actual.parsed > stated.parsed or actual.aside != stated.aside


def _counted(cluster: Cluster, patterns: Mapping[tuple[int, int], Sequence[Pattern]]) -> _Numbers:
    actual = _Numbers()
    for span in cluster.spans:
        for pattern in patterns.get((cluster.shard, span), ()):
            rows, parsed, aside = _times(pattern)
            actual.rows += rows * pattern.keys
            actual.parsed += parsed * pattern.keys
            actual.aside += aside * pattern.keys
            if rows > parsed + aside:
                actual.missing += pattern.first
    return actual


def _times(pattern: Pattern) -> tuple[int, int, int]:
    rows, parsed, *aside = pattern.times
    return rows, parsed, sum(aside)


def _miscount(
    evidence: MadeEvidence, cluster: Cluster, stated: _Numbers, actual: _Numbers, moved: _Numbers
) -> str:
    # A row that was dropped for a reason is in neither table either, so that the missing ones can't be told apart.
    missing = (
        "" if stated.dropped > 0 or moved.dropped else _names(cluster.steps[0].range.key, actual.missing)
    )
    aside = "" if evidence.aside is None else f" and {stated.aside:,} set aside"
    beside = "" if evidence.aside is None else f" and {actual.aside:,} in {evidence.aside.name}"
    return (
        f"{_named(cluster)}: the ledger states {counted(stated.parsed, 'row')}{aside}, "
        f"and {actual.parsed:,} {'is' if actual.parsed == 1 else 'are'} in "
        f"{evidence.table.name}{beside}{f'; in no table: {missing}' if missing else ''}"
    )


def _named(cluster: Cluster) -> str:
    first, *rest = (step for step in cluster.steps if step.range.moves)
    more = f" and {counted(len(rest), 'range')} beside it" if rest else ""
    replays = [step for step in cluster.steps if not step.range.moves]
    return f"{first}{more}{f', with rows replaced by {_snapshots(replays)}' if replays else ''}"


def _snapshots(replays: Sequence[Step]) -> str:
    """The newest of them."""
    snapshots = [f"snapshot {step.snapshot}" for step in sorted(replays, key=lambda step: -step.sequence)]
    return f"{', '.join(snapshots[:3])}{f' and {len(snapshots) - 3:,} more' if snapshots[3:] else ''}"


def wrong_totals(evidence: MadeEvidence) -> Iterator[Wrong]:
    """The shards of which redrives have moved another number of rows than their ledgers state."""
    story = evidence.table.story
    # A redrive moves old rows: their numbers add up only where all rows of the shard were counted.
    if not evidence.is_whole or story.lost:
        return
    for key, rows in evidence.compared.redriven.items():
        moved = _redriven(story, key, since=-1)
        parsed, aside = rows.stated_parsed + moved.parsed, rows.stated_aside + moved.aside
        if (rows.parsed, rows.aside) != (parsed, aside):
            yield Wrong(
                f"{key}: with its redrives the ledger states {parsed:,} rows in the "
                f"typed table and {aside:,} in quarantine, and {rows.parsed:,} and "
                f"{rows.aside:,} are there"
            )


def _may_lack(cluster: Cluster) -> bool:
    """Whether the lake table may lack rows of the ranges: the retention may have removed them, or a window has read
    them from the stream."""
    return cluster.is_dropped or any(step.range.kind is Kind.READ for step in cluster.steps)


def _wrong_rows(evidence: MadeEvidence, plan: CountPlan, patterns: Iterable[Pattern]) -> Iterator[Wrong]:
    """Rows that are there more often than in the lake table."""
    aside = "" if evidence.aside is None else evidence.aside.name
    dropped = {
        (cluster.shard, span) for cluster in plan.clusters if _may_lack(cluster) for span in cluster.spans
    }
    replays = _replays_by_span(plan)
    for pattern in patterns:
        rows, parsed, set_aside = _times(pattern)
        may_lack = (pattern.shard, pattern.span) in dropped
        # Where the lake table may lack a row, the one that was made of it may stay.
        if parsed + set_aside <= max(rows, 1 if may_lack else 0):
            continue
        if parsed and set_aside:
            where = f"both in {evidence.table.name} and in {aside}"
        elif parsed + set_aside > 1:
            where = f"{parsed + set_aside} times in {evidence.table.name if parsed else aside}"
        else:
            where = f"in {evidence.table.name if parsed else aside} and not in the lake table"
        of = plan.spans[pattern.shard]
        names = ", ".join(pattern.first)
        more = f" and {pattern.keys - len(pattern.first):,} more" if pattern.keys > len(pattern.first) else ""
        generations = replays.get((pattern.shard, pattern.span))
        replaced = f"; this range was replaced by {_snapshots(generations)}" if generations else ""
        yield Wrong(f"{of.stream}/{of.shard_id} {names}{more}: {where}{replaced}")


def _replays_by_span(plan: CountPlan) -> Mapping[tuple[int, int], Sequence[Step]]:
    replays: dict[tuple[int, int], list[Step]] = {}
    for cluster in plan.clusters:
        for step in (s for s in cluster.steps if not s.range.moves):
            for span in spans_of(plan.spans[cluster.shard].ends, step):
                replays.setdefault((cluster.shard, span), []).append(step)
    return replays


def _names(key: ShardKey, numbers: Sequence[str]) -> str:
    shown = ", ".join(numbers[:5])
    return f"{key} {shown}{', ...' if len(numbers) > 5 else ''}" if shown else ""
