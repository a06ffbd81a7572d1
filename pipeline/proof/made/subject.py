"""A typed table with its quarantine table, or the table of a window, as the subject of a proof: the tables account for
each row of the lake table's ranges."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

from headrace.pipeline.core.ledger.arrivals import EVER, Days
from headrace.pipeline.core.ledger.filter import RangeFilter
from headrace.pipeline.core.ledger.story import Step, Story
from headrace.pipeline.core.shards.stream import ShardKey
from headrace.pipeline.proof.evidence import Compared
from headrace.pipeline.proof.made.checks import made_finding
from headrace.pipeline.proof.made.evidence import (
    MadeEvidence,
    cut_shards,
    rest_asked,
    source_view,
    unparsed_rest,
)
from headrace.pipeline.proof.made.ledgers import wrong_settlings
from headrace.pipeline.proof.made.rows import compared_rows
from headrace.pipeline.proof.made.sums import TargetRows
from headrace.pipeline.proof.ports import TargetPorts
from headrace.pipeline.proof.sides import Sides, late_steps, looked
from headrace.pipeline.proof.spans import CountPlan, FileCount
from headrace.pipeline.proof.subject import ProofReading, Subject
from headrace.pipeline.proof.verdict import TableProof
from headrace.pipeline.windows.make import part_of_window


@dataclass(frozen=True, slots=True, kw_only=True)
class MadeSubject(Subject):
    """One table that was made of the lake table, as the subject of a proof."""

    ports: TargetPorts
    moved: frozenset[ShardKey]
    """Shards of which a person has set the lake table's position."""
    landed: Story
    """The lake table's ranges, of which some may be joined."""
    landed_of: Callable[[RangeFilter], Story]
    """Each range of the lake table that is asked for."""

    # The memories of two proofs at the same time may not fit together.
    reads_again: ClassVar[bool] = True

    @property
    def _unpacked(self) -> Mapping[ShardKey, tuple[Step, ...]]:
        """The ranges by which aggregates were taken apart in the lake table."""
        return self.landed.replays

    @property
    def apart(self) -> int | None:
        steps = (step for steps_of_shard in self._unpacked.values() for step in steps_of_shard)
        newest = max(steps, key=lambda step: step.sequence, default=None)
        return None if newest is None else newest.snapshot

    def view(self, sides: Sides, story: Story) -> Story:
        late, _ = late_steps(sides)
        return source_view(story, late)

    def needs_each_range(self, sides: Sides) -> bool:
        late, lost = late_steps(sides)
        # A joined range doesn't tell which of its ranges the quarantine table lacks.
        has_joined = any(step.range.joined > 1 for step in late)
        return bool(lost) or has_joined or any(wrong_settlings(self._evidence(sides)))

    def source(self, plan: CountPlan, days: Days = EVER) -> tuple[tuple[FileCount, ...], ...]:
        return (TargetRows(self.ports).source(plan, days),)

    def compared(self, sides: Sides, plan: CountPlan, counts: Sequence[tuple[FileCount, ...]]) -> Compared:
        # Sums first: a range whose sums agree needs no row to be brought beside another.
        patterns = TargetRows(self.ports).patterns(plan, counts)
        return compared_rows(self._evidence(sides), plan, patterns)

    def finding(self, reading: ProofReading) -> TableProof:
        return made_finding(self._evidence_of(reading))

    def _evidence_of(self, reading: ProofReading) -> MadeEvidence:
        return replace(
            self._evidence(reading.sides),
            compared=reading.compared,
            source_rows=sum(count.stated for count in reading.source),
            source_files=len(reading.source),
            landed=self._landed(reading.sides),
            is_whole=reading.is_whole,
            latest=None if self.ports.latest is None else self.ports.latest(),
        )

    def _evidence(self, sides: Sides) -> MadeEvidence:
        looks = [side.look for side in sides]
        return MadeEvidence(
            table=looks[0],
            aside=looks[1] if len(looks) > 1 else None,
            moved=self.moved,
            unpacked=self._unpacked,
            stream=self.ports.stream,
            window=self.ports.window,
            loses_rows=self.ports.latest is not None,
        )

    def _landed(self, sides: Sides) -> Story:
        """The lake table's ranges, in which each that the typed table hasn't reached the end of is told apart from
        those before; of a window's table those that lie in the window."""
        positions = sides[0].look.positions
        steps = dict(self.landed.steps)
        # Joined ranges tell rows only as a whole, and the typed table may stand inside of one.
        for keys in cut_shards(self.landed, positions) if len(sides) > 1 else ():
            landed_steps = self.landed_of(rest_asked(keys, positions)).steps
            steps |= {key: unparsed_rest(landed_steps.get(key, ()), positions.of(key)) for key in keys}
        landed, window = replace(self.landed, steps=steps), self.ports.window
        return landed if window is None else part_of_window(landed, window)


def sides_of(ports: TargetPorts) -> Sides:
    """The tables as they are now. The quarantine table is loaded first: so it can only be behind the typed table,
    never ahead of it.
    """
    aside = () if ports.aside is None else (looked(ports.aside, is_aside=True),)
    return (looked(ports.table), *aside)
