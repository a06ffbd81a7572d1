"""The proof that a typed table and its quarantine table account for each row of the lake table's ranges, and that the table of a window has
the rows of its ranges.

    look at the quarantine table, then at the typed table -> count their rows -> compare them with the lake table's -> judge -> remember

The quarantine table is looked at first: then it can only be behind the typed table, never ahead of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import date

from pipeline.core.parse_values import SourceFile
from pipeline.core.proof import TableProof, Window
from pipeline.core.proof_chains import Step, Story
from pipeline.core.proof_counts import changed_days
from pipeline.core.proof_rows import CountPlan, FileCount, plan_rows
from pipeline.core.proof_target_evidence import (
    TableLook,
    TargetEvidence,
    cut_shards,
    rest_of,
    source_view,
    unsettled_steps,
)
from pipeline.core.proof_targets import target_proof
from pipeline.core.rewriting import LiveFile
from pipeline.core.row_patterns import Comparing, comparing, patterns_by_sums
from pipeline.core.stream import ShardKey
from pipeline.duties.proof_memory import Ledgers, files_of_days, joins, proved_now, read_ledgers
from pipeline.errors import HeadraceError
from pipeline.lake_ports import Proved, ProvedTable, TargetPorts


@dataclass(frozen=True, slots=True)
class _Side:
    """A table with what was read of it, and what an earlier proof had read."""

    ports: ProvedTable
    look: TableLook
    ledgers: Ledgers
    before: Proved | None
    sequence: int = 0
    """The sequence number of the table's newest snapshot."""

    @property
    def whole(self) -> _Side:
        """With each range of the ledgers as it is."""
        if not self.look.exists:
            return self
        ledgers = read_ledgers(self.ports.lineage, self.sequence, self.before)
        return replace(self, ledgers=ledgers, look=replace(self.look, story=ledgers.story))


@dataclass(frozen=True, slots=True, kw_only=True)
class ProvingTarget:
    ports: TargetPorts
    moved: frozenset[ShardKey]
    """Shards of which a person has set the lake table's position."""
    unpacked: Mapping[ShardKey, tuple[Step, ...]]
    """By which aggregates were taken apart in the lake table."""
    kept_from: date | None
    """The first day that the retention of the lake table keeps."""
    landed: Story = field(default_factory=Story)
    """The lake table's ranges, of which some may be joined."""
    landed_of: Callable[[frozenset[str]], Story] = lambda _: Story()
    """Each range of some shards of the lake table."""

    def run(self, window: Window, *, anew: bool) -> TableProof | None:
        """None where the table doesn't exist yet."""
        if not self.ports.table.exists():
            return None
        may_skip = not anew and window.is_all
        aside = (
            None if self.ports.aside is None else _looked(self.ports.aside, is_aside=True, joined=may_skip)
        )
        table = _looked(self.ports.table, joined=may_skip)
        sides: tuple[_Side, ...] = (table,) if aside is None else (table, aside)
        apart = self._newest_apart()
        seen = self._of_new_rows(sides) if may_skip and _may_skip(sides, apart) else None
        # What is wrong is looked for anew: the memories of two proofs at the same time may not fit together, and ranges may be joined.
        is_new = seen is not None and target_proof(seen[0]).holds
        late = _late(sides)
        if seen is None or not is_new:
            sides = tuple(each.whole for each in sides) if may_skip else sides
            late = _late(sides)
            plan, read = self._all_rows(source_view(sides[0].look.story, late), sides, window)
            seen = replace(self._compared(plan, read), is_whole=window.is_all and not late), read
        evidence, read = seen
        proof = target_proof(evidence)
        if not proof.holds or not window.is_all or late:
            return proof
        try:
            # As long as the rows of aggregates that were taken apart haven't followed, each proof looks for them and says so.
            has_followed = not any(check.unproved for check in proof.checks)
            _remember(read, is_new=is_new, apart=apart if has_followed else None)
        except HeadraceError as error:
            return replace(proof, forgotten=str(error))
        return proof

    def _newest_apart(self) -> int | None:
        """The newest snapshot in which aggregates were taken apart in the lake table."""
        steps = (step for its in self.unpacked.values() for step in its)
        newest = max(steps, key=lambda step: step.sequence, default=None)
        return None if newest is None else newest.snapshot

    def _landed(self, table: TableLook) -> Story:
        """The lake table's ranges, each as it is where the typed table stands inside of joined ones."""
        cut = cut_shards(self.landed, table.positions)
        steps = dict(self.landed.steps)
        for shards in cut:
            of_shards = self.landed_of(shards).steps
            steps |= {key: rest_of(its, table.positions.of(key)) for key, its in of_shards.items()}
        return replace(self.landed, steps=steps)

    def _of_new_rows(self, sides: tuple[_Side, ...]) -> tuple[TargetEvidence, tuple[_Side, ...]] | None:
        found = self._new_rows(source_view(sides[0].look.story, _late(sides)), sides)
        if found is None:
            return None
        plan, read = found
        return replace(self._compared(plan, read), is_whole=False), read

    def _all_rows(
        self, view: Story, sides: tuple[_Side, ...], window: Window
    ) -> tuple[CountPlan, tuple[_Side, ...]]:
        plan = plan_rows(view, window=window, kept_from=self.kept_from)
        return plan, tuple(
            _with(
                each,
                each.ports.rows.count(
                    each.look.live.files if window.is_all else files_of_days(plan, each.look.live), plan.spans
                ),
            )
            for each in sides
        )

    def _new_rows(self, view: Story, sides: tuple[_Side, ...]) -> tuple[CountPlan, tuple[_Side, ...]] | None:
        """What came after an earlier proof; None where the files of that proof were replaced by others with other rows."""
        proved = next(each.before.sequence for each in sides if each.before is not None)
        plan = plan_rows(view, window=Window(), proved=proved, kept_from=self.kept_from)
        if plan.is_mixed:
            return None
        found: list[_Side] = []
        for each in sides:
            known = {} if each.before is None else each.before.files
            files = each.look.live.files
            counts = each.ports.rows.count([file for file in files if file.path not in known], plan.spans)
            if changed_days(known, counts, live=frozenset(file.path for file in files), kept_from=None):
                return None
            unchanged = each.ports.rows.look_again([file for file in files if file.path in known])
            found.append(_with(each, counts, unchanged))
        return plan, tuple(found)

    def _compared(self, plan: CountPlan, sides: tuple[_Side, ...]) -> TargetEvidence:
        looks = [each.look for each in sides]
        every = comparing(plan)
        files = () if every.is_empty else _within(self.ports.source.look().files, plan, every)
        source = self.ports.lake.count(files, plan.spans)
        counts = (source, *(look.counts for look in looks))
        alike = patterns_by_sums(plan, source, counts[1:])
        wanted = comparing(plan, besides=alike)
        paths = [_with_parts(each, wanted) for each in counts]
        compared = () if wanted.is_empty else self.ports.comparer.compare(paths, wanted)
        return TargetEvidence(
            table=looks[0],
            aside=looks[1] if len(looks) > 1 else None,
            plan=plan,
            patterns=(*(pattern for its in alike.values() for pattern in its), *compared),
            source_rows=sum(each.rows for each in files),
            source_files=len(files),
            moved=self.moved,
            unpacked=self.unpacked,
            landed=self._landed(looks[0]) if len(looks) > 1 else self.landed,
            stream=self.ports.stream,
            window=self.ports.window,
        )


def _looked(ports: ProvedTable, *, joined: bool, is_aside: bool = False) -> _Side:
    """`joined`: ranges that an earlier proof has found right needn't come one by one."""
    if not ports.exists():
        return _Side(ports, TableLook(name=ports.name, exists=False), Ledgers(), None)
    look, before = ports.rows.look(), ports.rows.remembered()
    joining = joins(before, is_aside=is_aside) if joined else None
    ledgers = read_ledgers(ports.lineage, look.sequence, before, joining)
    told = TableLook(name=ports.name, story=ledgers.story, positions=look.state.positions, live=look.live)
    return _Side(ports, told, ledgers, before, look.sequence)


def _late(sides: tuple[_Side, ...]) -> tuple[Step, ...]:
    """Ranges of the typed table up to which its quarantine table hasn't come yet."""
    table, *asides = (each.look for each in sides)
    late, _ = unsettled_steps(table.story, asides[0].positions) if asides else ((), ())
    return late


def _may_skip(sides: Iterable[_Side], apart: int | None) -> bool:
    """Whether the rows that an earlier proof has read needn't be read again. Where a redrive has moved some, the digests of files tell; after a
    replacement all rows are read. Nothing in a table's own files tells that aggregates of the lake table were taken apart: `apart` is the
    newest snapshot in which they were."""
    return all(
        each.before is not None and each.before.apart == apart and each.ledgers.may_skip(each.before)
        for each in sides
    )


def _with(side: _Side, counts: tuple[FileCount, ...], unchanged: tuple[FileCount, ...] = ()) -> _Side:
    return replace(side, look=replace(side.look, counts=counts, unchanged=unchanged))


def _with_parts(counts: Iterable[FileCount], wanted: Comparing) -> list[str]:
    """The files that have rows of the spans that are compared."""
    return [each.path for each in counts if any(wanted.has((part.shard, part.span)) for part in each.parts)]


def _within(files: Iterable[SourceFile], plan: CountPlan, wanted: Comparing) -> list[LiveFile]:
    """The files of the lake table that may have rows of the ranges that are compared."""
    (low, high), may_have = wanted.reach(), plan.may_be_on()
    return [
        LiveFile(each.path, each.day, each.rows, 0)
        for each in files
        if (each.high is None or each.high > low) and each.low <= high and may_have(each.day)
    ]


def _remember(sides: Iterable[_Side], *, is_new: bool, apart: int | None) -> None:
    for each in sides:
        before = each.before if is_new else None
        if proved := proved_now(each.ledgers.newest, each.look.live, each.look.counts, before, apart=apart):
            each.ports.rows.remember(proved)
