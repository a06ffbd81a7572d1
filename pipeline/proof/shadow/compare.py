"""The lake table beside another consumer's output: the same records on both sides, or the names of those that differ. Nothing is changed.

look at the newest snapshot -> ledgers up to it -> count the other side's rows -> compare both sides -> judge
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from headrace.pipeline.core.ledger.arrivals import ALL, Window
from headrace.pipeline.core.ledger.filter import RangeFilter
from headrace.pipeline.core.ledger.story import story_of
from headrace.pipeline.core.shards.stream import StreamId
from headrace.pipeline.ports.lineage import LineageTable
from headrace.pipeline.proof.memory import files_of_days
from headrace.pipeline.proof.patterns import comparing
from headrace.pipeline.proof.ports import OtherSide, ProofTable
from headrace.pipeline.proof.shadow.verdict import (
    Shadow,
    ShadowEvidence,
    compared_stream,
    plan_shadow,
    shadow_of,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Shadowing:
    table: ProofTable
    lineage: LineageTable
    other: Callable[[StreamId], OtherSide]
    stream: str | None
    """None: the only stream of the lake table."""

    def run(self, window: Window = ALL) -> Shadow:
        look = self.table.look()
        stream = compared_stream(look.state.positions.streams(), self.stream)
        entries = self.lineage.entries(RangeFilter(stream=stream.name, upto=look.sequence))
        plan = plan_shadow(story_of(entries), stream, window)
        # After the look: what the other side has read meanwhile lies after the positions, and isn't compared.
        other = self.other(stream)
        paths = other.paths()
        other.check_columns(paths)
        counts = other.count(paths, plan.spans)
        wanted = comparing(plan)
        can_compare = not wanted.is_empty and not any(each.error for each in counts)
        here = [each.path for each in files_of_days(plan, look.live)]
        return shadow_of(
            ShadowEvidence(
                name=other.name,
                snapshot=look.state.snapshot,
                plan=plan,
                patterns=other.compare(here, paths, wanted) if can_compare else None,
                other=counts,
                payloads=other.has_payloads,
            )
        )
