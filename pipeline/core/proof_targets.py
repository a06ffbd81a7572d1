"""Does a typed table account for each row of the lake table's ranges? Pure functions on what was read.

    ledgers of the typed table   rows in = parsed + set aside + dropped, for each range
    rows of the three tables     for each range the numbers that its ledger states, and no row in both tables, twice, or from nowhere

A replacement reads rows of these ranges again. What it parses and sets aside is added to what the ranges under it state, and what it has
removed is subtracted: so the sum is right wherever a replacement cuts a range, and however often rows were replaced.

The table of a window is judged as a typed table that parses every row: it has no quarantine table.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from pipeline.core.accounting import Accounting, read_accounting
from pipeline.core.lineage import Kind
from pipeline.core.position import Positions, is_forward
from pipeline.core.proof import Check, TableProof, Told, Unproved, Wrong, checked
from pipeline.core.proof_chains import Step, Story, broken_chains, ranges_without_rows, wrong_positions
from pipeline.core.proof_checks import hidden_rows
from pipeline.core.proof_counts import strange_rows, wrong_files
from pipeline.core.proof_rows import Cluster, CountPlan, FileCount, high_of, low_of, spans_of
from pipeline.core.redrive_chain import chain_of, is_chain, shard_of
from pipeline.core.rewriting import LiveFiles
from pipeline.core.row_patterns import Pattern, by_span
from pipeline.core.stream import ShardKey
from pipeline.core.window import ReplayWindow
from pipeline.core.window_plan import is_done
from pipeline.core.words import counted
from pipeline.errors import WrongShape


@dataclass(frozen=True, slots=True, kw_only=True)
class TableLook:
    """What was read of a typed table, or of its quarantine table."""

    name: str
    story: Story = field(default_factory=Story)
    positions: Positions = field(default_factory=Positions)
    live: LiveFiles = field(default_factory=LiveFiles)
    counts: tuple[FileCount, ...] = ()
    """Of the files that were read."""
    unchanged: tuple[FileCount, ...] = ()
    exists: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetEvidence:
    table: TableLook
    aside: TableLook | None
    """The quarantine table; None for the table of a window."""
    plan: CountPlan
    """Of `source_view`."""
    patterns: tuple[Pattern, ...] = ()
    """How often each row is in the lake table, in the typed table and in the quarantine table."""
    source_rows: int = 0
    """Rows of the lake table's files that were read."""
    source_files: int = 0
    moved: frozenset[ShardKey] = frozenset()
    """Shards of which a person has set the lake table's position: it may have their rows twice."""
    unpacked: Mapping[ShardKey, tuple[Step, ...]] = field(default_factory=dict)
    """By which aggregates were taken apart in the lake table, maybe after they were parsed or copied."""
    is_whole: bool = True
    """Whether all ranges were compared, and not only new ones or those of some time."""
    window: ReplayWindow | None = None
    forgotten: str = ""


def accounting_of(step: Step) -> Accounting | None:
    """None where the ledger's text can't be read."""
    if step.range.kind is Kind.COPIED:
        return Accounting(step.range.rows, step.range.rows)
    try:
        return read_accounting(step.range.why)
    except WrongShape:
        return None


def source_view(story: Story, unsettled: Iterable[Step] = ()) -> Story:
    """The ranges of a typed table with the number of rows that they have in the lake table. Redrives have none there, and the rows of a
    replacement are those of the ranges under it. Ranges whose rows the quarantine table doesn't have yet (`unsettled`) can't be compared,
    nor can those of a shard with such a redrive or replacement."""
    late = set(unsettled)
    decided_anew = {shard_of(each.range.key) for each in late if is_chain(each.range.key)}
    steps: dict[ShardKey, tuple[Step, ...]] = {}
    left_out: dict[ShardKey, tuple[Step, ...]] = {}
    for key, its in story.steps.items():
        if not is_chain(key):
            view = [(each, _as_in_source(each)) for each in its]
            left_out[key] = tuple(v for each, v in view if each in late or key in decided_anew)
            steps[key] = tuple(v for each, v in view if each not in late and key not in decided_anew)
    derived = {
        key: (*story.derived.get(key, ()), *left_out.get(key, ())) for key in {*story.derived, *left_out}
    }
    replays = {key: tuple(map(_as_in_source, its)) for key, its in story.replays.items()}
    return Story(steps, derived, replays, story.lost, story.dropped)


def _as_in_source(step: Step) -> Step:
    if step.range.kind is Kind.REPLAY:
        return replace(step, range=replace(step.range, rows=0))
    account = accounting_of(step)
    return step if account is None else replace(step, range=replace(step.range, rows=account.rows))


def unsettled_steps(story: Story, quarantine: Positions) -> tuple[tuple[Step, ...], tuple[ShardKey, ...]]:
    """Ranges of a typed table up to which its quarantine table hasn't come yet, and the shards of which the quarantine table stands
    where no range of the typed table ends."""
    late: list[Step] = []
    lost: list[ShardKey] = []
    for key, steps in story.steps.items():
        at = quarantine.of(key)
        ends = [i for i, each in enumerate(steps) if at is not None and each.range.upto.token == at.token]
        late += steps[ends[-1] + 1 :] if ends else steps
        if at is not None and not ends:
            lost.append(key)
    return tuple(late), tuple(lost)


def target_proof(seen: TargetEvidence) -> TableProof:
    looks = _looks(seen)
    return TableProof(
        name=seen.table.name,
        checks=tuple(_checks(seen)),
        counts=_told_counts(seen),
        rows=seen.source_rows + sum(each.rows for look in looks for each in look.counts),
        files=seen.source_files + sum(len(look.counts) for look in looks),
        unchanged=sum(len(look.unchanged) for look in looks),
        forgotten=seen.forgotten,
    )


def _looks(seen: TargetEvidence) -> tuple[TableLook, ...]:
    return (seen.table,) if seen.aside is None else (seen.table, seen.aside)


def _told_counts(seen: TargetEvidence) -> str:
    told = _sum(seen.table.story.all())
    if seen.aside is None:
        return f"{counted(told.parsed, 'row')} copied"
    return f"{counted(told.parsed, 'row')} parsed, {told.aside:,} in quarantine, {max(0, told.dropped):,} dropped"


def _checks(seen: TargetEvidence) -> Iterator[Check]:
    looks = _looks(seen)
    of, story = seen.table.name, seen.table.story
    ranges = counted(sum(len(steps) for look in looks for steps in look.story.steps.values()), "range")
    rows = counted(sum(each.rows for look in looks for each in look.counts), "row")
    files = counted(sum(len(look.counts) + len(look.unchanged) for look in looks), "file")
    yield checked(
        f"{of}: the ranges of each shard are one chain, up to the table's position",
        ranges,
        (
            *(told for look in looks for told in _chains(look)),
            *(() if seen.window is None else _outside(seen.window, seen.table)),
            *(() if seen.aside is None else _behind(seen.table, seen.aside)),
        ),
    )
    yield checked(
        f"{of}: each range's rows are parsed, set aside, or dropped for a reason, by its ledger"
        if seen.aside
        else f"{of}: each range has a ledger",
        counted(sum(len(steps) for steps in story.steps.values()), "range"),
        (*_wrong_accounts(story), *_wrong_replacements(story), *_wrong_settlings(seen)),
    )
    yield checked(
        f"{of}: each data file is there, with the rows that the table's metadata states",
        files,
        (
            *(told for look in looks for told in wrong_files((*look.counts, *look.unchanged))),
            *(told for look in looks for told in hidden_rows(look.live)),
        ),
    )
    yield checked(
        f"{of}: the tables have the rows of each range that its ledger states",
        counted(len(seen.plan.clusters), "range"),
        _wrong_numbers(seen),
    )
    yield checked(
        f"{of}: each row is of the lake table, and in one place only",
        rows,
        (
            *(told for look in looks for told in strange_rows(look.counts, has_lost=bool(story.lost))),
            *_wrong_rows(seen),
        ),
    )


# --- by the ledgers ---------------------------------------------------------------------------------------------


def _chains(look: TableLook) -> Iterator[Told]:
    if not look.exists:
        yield Wrong(f"the table {look.name} doesn't exist")
    yield from broken_chains(look.story)
    yield from wrong_positions(look.story, look.positions)
    yield from ranges_without_rows(look.story)


def _outside(window: ReplayWindow, table: TableLook) -> Iterator[Told]:
    """Ranges of a window's table that the window doesn't have."""
    wanted = {each.key: each for each in window.ranges}
    for key, steps in table.story.steps.items():
        its = wanted.get(key)
        for step in steps:
            is_inside = (
                its is not None
                and is_forward(its.after, step.range.upto)
                and is_forward(step.range.upto, its.upto)
            )
            if not is_inside:
                yield Wrong(f"the window {window.id} doesn't have all of {step}")
    for each in window.ranges:
        rows = sum(step.range.rows for step in table.story.steps.get(each.key, ()))
        if is_done(each, table.positions) and each.is_whole and rows != each.rows:
            yield Unproved(
                f"the window {window.id} was made for {counted(each.rows, 'row')} of {each.key}, and the lake table had {rows:,} of them when "
                "they were copied"
            )


def _behind(table: TableLook, aside: TableLook) -> Iterator[Told]:
    late, lost = unsettled_steps(table.story, aside.positions)
    for key in lost:
        told = f"{aside.name} is at {aside.positions.of(key)} of {key}, where no range of {table.name} ends"
        yield Unproved(told) if table.story.lost else Wrong(told)
    if late and not lost:
        yield Unproved(
            f"{aside.name} hasn't got the rows of {counted(len(late), 'range')} yet that {table.name} has set aside, mended or replaced; the next parsing "
            f"brings them. The first of these ranges: {late[0]}"
        )


def _wrong_accounts(story: Story) -> Iterator[Wrong]:
    for step in story.all():
        account = accounting_of(step)
        if account is None:
            yield Wrong(f"the ledger doesn't tell what became of the rows of {step}")
        elif not account.is_complete or account.parsed != step.range.rows:
            yield Wrong(
                f"{step}: of {counted(account.rows, 'row')} the ledger tells of {account.parsed:,} parsed, {account.quarantined:,} set aside and "
                f"{sum(account.dropped.values()):,} dropped, and of {step.range.rows:,} in the typed table"
            )


def _wrong_replacements(story: Story) -> Iterator[Wrong]:
    raised = {
        (step.snapshot, shard_of(key)) for key, its in story.steps.items() if is_chain(key) for step in its
    }
    for step in (each for its in story.replays.values() for each in its):
        if (step.snapshot, step.range.key) not in raised:
            yield Wrong(
                f"rows were replaced, and the same commit hasn't raised the generation of the shard, so that two replacements may have landed: {step}"
            )
        account = accounting_of(step)
        if account is not None and not (min(account.removed) >= 0 and sum(account.removed) <= account.rows):
            yield Wrong(
                f"{step}: the ledger states that {account.removed[0]:,} rows left the typed table and {account.removed[1]:,} the quarantine table, "
                f"and that the range has {counted(account.rows, 'row')}"
            )


def _wrong_settlings(seen: TargetEvidence) -> Iterator[Wrong]:
    """Ranges of the quarantine table that have another number of rows than the typed table's ledger has set aside."""
    if seen.aside is None or seen.table.story.lost:
        return
    for key, steps in seen.aside.story.steps.items():
        decided = iter(seen.table.story.steps.get(key, ()))
        for step in steps:
            rows, has_end = 0, False
            for each in decided:
                account = accounting_of(each)
                rows += 0 if account is None else account.quarantined
                if has_end := each.range.upto.token == step.range.upto.token:
                    break
            if has_end and rows != step.range.rows:
                yield Wrong(
                    f"{seen.table.name} has set aside {counted(rows, 'row')} of {step}, and the ledger of {seen.aside.name} states {step.range.rows:,}"
                )


# --- by the rows ------------------------------------------------------------------------------------------------


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


def _sum(steps: Iterable[Step]) -> _Numbers:
    found = _Numbers()
    for step in steps:
        account = accounting_of(step)
        if account is not None:
            found.add(step, account)
    return found


def _redriven(story: Story, key: ShardKey, *, since: int) -> _Numbers:
    """What redrives after this sequence number have moved out of quarantine."""
    return _sum(step for step in story.steps.get(chain_of(key), ()) if step.sequence > since)


def _wrong_numbers(seen: TargetEvidence) -> Iterator[Told]:
    story, found = seen.table.story, by_span(seen.patterns)
    redrives = {shard_of(each.range.key) for each in story.all() if each.range.kind is Kind.REDRIVEN}
    totals: dict[ShardKey, tuple[_Numbers, _Numbers]] = {}
    for cluster in seen.plan.clusters:
        key = cluster.steps[0].range.key
        # The steps of the plan have the rows of the lake table; the text of the ledger is unchanged.
        stated, there = _sum(cluster.steps), _counted(cluster, found)
        since = min(step.sequence for step in cluster.steps)
        moved = _redriven(story, key, since=since) if key in redrives else _Numbers()
        if _is_off(stated, there, moved):
            yield Wrong(_miscount(seen, cluster, stated, there, moved))
        elif 0 < there.rows - stated.rows <= _taken_apart(seen.unpacked.get(key, ()), cluster):
            # What a replacement since has parsed of them is in the tables, or was dropped for a reason.
            if there.rows - there.parsed - there.aside > _all_dropped(cluster):
                yield Unproved(
                    f"{_named(cluster)}: aggregates of this range were taken apart in the lake table, which has {there.rows - stated.rows:,} rows more "
                    f"since, and {seen.table.name} still has what was made of them as a whole: {_ANEW}"
                )
        elif there.rows != stated.rows and not (cluster.is_dropped and there.rows < stated.rows):
            told = f"{_named(cluster)}: the lake table had {counted(stated.rows, 'row')} of this range when they were parsed, and has {there.rows:,} now"
            yield Unproved(told) if key in seen.moved else Wrong(told)
        if key in redrives:
            sums = totals.setdefault(key, (_Numbers(), _Numbers()))
            for total, each in zip(sums, (stated, there), strict=True):
                total.parsed += each.parsed
                total.aside += each.aside
    if seen.is_whole and not story.lost:
        yield from _wrong_totals(story, totals)


_ANEW = "`headrace window create --replace` makes its rows anew; a window's own table is copied anew by a new window"


def _taken_apart(steps: Iterable[Step], cluster: Cluster) -> int:
    """How many rows the lake table has at most more, of these ranges, since aggregates were taken apart."""
    ends = [(low_of(step), high_of(step)) for step in cluster.steps]
    low, high = min(low for low, _ in ends), max(high for _, high in ends)
    return sum(step.range.rows for step in steps if low_of(step) < high and high_of(step) > low)


def _all_dropped(cluster: Cluster) -> int:
    accounts = (accounting_of(step) for step in cluster.steps)
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


def _wrong_totals(story: Story, totals: Mapping[ShardKey, tuple[_Numbers, _Numbers]]) -> Iterator[Wrong]:
    """Where redrives have moved another number of a shard's rows than their ledgers state."""
    for key, (stated, there) in totals.items():
        moved = _redriven(story, key, since=-1)
        parsed, aside = stated.parsed + moved.parsed, stated.aside + moved.aside
        if (there.parsed, there.aside) != (parsed, aside):
            yield Wrong(
                f"{key}: with its redrives the ledger states {parsed:,} rows in the typed table and {aside:,} in quarantine, and {there.parsed:,} and "
                f"{there.aside:,} are there"
            )


def _wrong_rows(seen: TargetEvidence) -> Iterator[Wrong]:
    """Rows that are there more often than in the lake table."""
    aside = "" if seen.aside is None else seen.aside.name
    dropped = {
        (cluster.shard, span)
        for cluster in seen.plan.clusters
        if cluster.is_dropped
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
        yield Wrong(f"{of.shard_id} {names}{more}: {where}{replaced}")


def _replays_by_span(plan: CountPlan) -> Mapping[tuple[int, int], Sequence[Step]]:
    found: dict[tuple[int, int], list[Step]] = {}
    for cluster in plan.clusters:
        for step in (each for each in cluster.steps if not each.range.moves):
            for span in spans_of(plan.spans[cluster.shard].ends, step):
                found.setdefault((cluster.shard, span), []).append(step)
    return found


def _names(key: ShardKey, numbers: Sequence[str]) -> str:
    shown = ", ".join(numbers[:5])
    return f"{key.shard_id} {shown}{', ...' if len(numbers) > 5 else ''}" if shown else ""
