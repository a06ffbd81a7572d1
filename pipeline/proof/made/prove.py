"""The proof that a typed table and its quarantine table account for each row of the lake table's ranges, and that the
table of a window has the rows of its ranges.

    look at the quarantine table, then at the typed table -> count their rows -> compare them with the lake table's ->
    judge -> remember

The quarantine table is looked at first: then it can only be behind the typed table, never ahead of it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import date

from headrace.pipeline.core.ledger.arrivals import Window
from headrace.pipeline.core.ledger.filter import RangeFilter
from headrace.pipeline.core.ledger.story import Step, Story
from headrace.pipeline.core.shards.stream import ShardKey
from headrace.pipeline.errors import HeadraceError
from headrace.pipeline.proof.counts import changed_days
from headrace.pipeline.proof.made.checks import target_proof
from headrace.pipeline.proof.made.evidence import (
    TargetEvidence,
    cut_shards,
    rest_asked,
    source_view,
    unparsed_rest,
)
from headrace.pipeline.proof.made.prove_rounds import TargetRounds
from headrace.pipeline.proof.made.sides import Side, Sides, late_steps, looked, may_skip
from headrace.pipeline.proof.made.sums import TargetRows
from headrace.pipeline.proof.memory import files_of_days, proved_now
from headrace.pipeline.proof.ports import TargetPorts
from headrace.pipeline.proof.prove_rounds import MOST_RANGES
from headrace.pipeline.proof.spans import CountPlan, plan_rows
from headrace.pipeline.proof.verdict import TableProof

_Seen = tuple[TargetEvidence, Sides]
"""What a proof judges, and the tables as they were read for it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProvingTarget:
    """The proof of one table that was made of the lake table."""

    ports: TargetPorts
    moved: frozenset[ShardKey]
    """Shards of which a person has set the lake table's position."""
    unpacked: Mapping[ShardKey, tuple[Step, ...]]
    """The ranges by which aggregates were taken apart in the lake table."""
    kept_from: date | None
    """The first day that the retention of the lake table keeps."""
    landed: Story = field(default_factory=Story)
    """The lake table's ranges, of which some may be joined."""
    landed_of: Callable[[RangeFilter], Story] = lambda _: Story()
    """Each range of the lake table that is asked for."""
    most_ranges: int = MOST_RANGES
    """Ranges that are in memory one by one, unless a single day has more."""

    def run(self, window: Window, *, anew: bool) -> TableProof | None:
        """None where the table doesn't exist yet."""
        if not self.ports.table.exists():
            return None
        # The quarantine table is looked at first.
        aside = () if self.ports.aside is None else (looked(self.ports.aside, is_aside=True),)
        sides: Sides = (looked(self.ports.table), *aside)
        apart = self._newest_apart()
        reading = self._of_new_rows(sides, apart) if window.is_all and not anew else None
        # What is wrong is looked for anew: the memories of two proofs at the same time may not fit together.
        is_new = reading is not None and target_proof(reading[0]).holds
        if reading is None or not is_new:
            reading = (self._in_rounds(sides) if window.is_all else None) or self._at_once(sides, window)
        evidence, read = reading
        proof = target_proof(evidence)
        if not proof.holds or not window.is_all or late_steps(read)[0]:
            return proof
        try:
            # As long as the rows of aggregates that were taken apart haven't followed, each proof looks for them and
            # says so.
            has_followed = not any(check.unproved for check in proof.checks)
            _remember(read, is_new=is_new, apart=apart if has_followed else None)
        except HeadraceError as error:
            return replace(proof, forgotten=str(error))
        return proof

    def _newest_apart(self) -> int | None:
        """The newest snapshot in which aggregates were taken apart in the lake table."""
        steps = (step for steps_of_shard in self.unpacked.values() for step in steps_of_shard)
        newest = max(steps, key=lambda step: step.sequence, default=None)
        return None if newest is None else newest.snapshot

    def _landed(self, sides: Sides) -> Story:
        """The lake table's ranges, in which each that the typed table hasn't reached the end of is told apart from
        those before."""
        positions = sides[0].look.positions
        steps = dict(self.landed.steps)
        for keys in cut_shards(self.landed, positions) if len(sides) > 1 else ():
            landed_steps = self.landed_of(rest_asked(keys, positions)).steps
            steps |= {key: unparsed_rest(landed_steps.get(key, ()), positions.of(key)) for key in keys}
        return replace(self.landed, steps=steps)

    def _of_new_rows(self, sides: Sides, apart: int | None) -> _Seen | None:
        """What came after an earlier proof; None where all rows have to be read."""
        if any(side.before is None for side in sides):
            return None
        sides = tuple(side.since_proved() for side in sides)
        if not may_skip(sides, apart):
            return None
        late, _ = late_steps(sides)
        new_rows = self._new_rows(source_view(sides[0].look.story, late), sides)
        return None if new_rows is None else (self._compared(*new_rows), new_rows[1])

    def _in_rounds(self, sides: Sides) -> _Seen | None:
        """All rows, counted in rounds of some days; None where each range has to be looked at by itself."""
        rounds = TargetRounds(self._evidence, TargetRows(self.ports), self.kept_from, self.most_ranges)
        reading = rounds.run(tuple(side.joined(self.most_ranges) for side in sides))
        return None if reading is None else (replace(reading[0], landed=self._landed(reading[1])), reading[1])

    def _at_once(self, sides: Sides, window: Window) -> _Seen:
        """The rows of the ranges that are asked for."""
        sides = tuple(side.read() for side in sides)
        late, _ = late_steps(sides)
        view = source_view(sides[0].look.story, late)
        plan = plan_rows(view, window=window, kept_from=self.kept_from)
        read = tuple(
            side.counted(
                side.ports.rows.count(
                    side.look.live.files if window.is_all else files_of_days(plan, side.look.live), plan.spans
                )
            )
            for side in sides
        )
        return replace(self._compared(plan, read), is_whole=window.is_all and not late), read

    def _new_rows(self, view: Story, sides: Sides) -> tuple[CountPlan, Sides] | None:
        """None where the files of the earlier proof were replaced by others with other rows."""
        proved = next(s.before.sequence for s in sides if s.before is not None)
        plan = plan_rows(view, window=Window(), proved=proved, kept_from=self.kept_from)
        if plan.is_mixed:
            return None
        read_sides: list[Side] = []
        for side in sides:
            read_before = {} if side.before is None else side.before.files
            files = side.look.live.files
            counts = side.ports.rows.count(
                [file for file in files if file.path not in read_before], plan.spans
            )
            if changed_days(read_before, counts, live=frozenset(file.path for file in files), kept_from=None):
                return None
            unchanged = side.ports.rows.look_again([file for file in files if file.path in read_before])
            read_sides.append(side.counted(counts, unchanged))
        return plan, tuple(read_sides)

    def _compared(self, plan: CountPlan, sides: Sides) -> TargetEvidence:
        rows = TargetRows(self.ports)
        source = rows.source(plan)
        patterns = rows.patterns(plan, (source, *(side.look.counts for side in sides)))
        return replace(
            self._evidence(plan, sides),
            patterns=patterns,
            source_rows=sum(count.stated for count in source),
            source_files=len(source),
            landed=self._landed(sides),
        )

    def _evidence(self, plan: CountPlan, sides: Sides) -> TargetEvidence:
        looks = [side.look for side in sides]
        return TargetEvidence(
            table=looks[0],
            aside=looks[1] if len(looks) > 1 else None,
            plan=plan,
            moved=self.moved,
            unpacked=self.unpacked,
            landed=self.landed,
            stream=self.ports.stream,
            is_whole=False,
            window=self.ports.window,
        )


def _remember(sides: Sides, *, is_new: bool, apart: int | None) -> None:
    for side in sides:
        before = side.before if is_new else None
        if proved := proved_now(side.ledgers.newest, side.look.live, side.look.counts, before, apart=apart):
            side.ports.rows.remember(proved)
