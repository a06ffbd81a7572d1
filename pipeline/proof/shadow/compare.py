"""`headrace shadow`: compares the lake table with another consumer's output. The result says that both have the
same records, or names those that differ. Nothing is changed.

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
    """Compares the lake table with the output of another consumer of the same stream."""

    table: ProofTable
    lineage: LineageTable
    other_side: Callable[[StreamId], OtherSide]
    stream: str | None
    """The stream whose records are compared. None where the lake table has only one."""

    def run(self, window: Window = ALL) -> Shadow:
        look = self.table.look()
        # Before Spark starts: a stream that isn't there needs no job.
        stream = compared_stream(look.state.positions.streams(), self.stream)
        entries = self.lineage.entries(RangeFilter(stream=stream.name, upto=look.sequence))
        plan = plan_shadow(story_of(entries), stream, window)
        # After the look: what the other side has read meanwhile lies after the positions, and isn't compared.
        other_side = self.other_side(stream)
        counts = other_side.count(plan.spans)
        scope = comparing(plan)
        # Rows of a file that can't be read would be told as missing, each by itself.
        can_compare = not scope.is_empty and not any(count.error for count in counts)
        own_paths = [file.path for file in files_of_days(plan, look.live)]
        return shadow_of(
            ShadowEvidence(
                name=other_side.name,
                snapshot=look.state.snapshot,
                plan=plan,
                patterns=other_side.compare((own_paths, other_side.paths), scope) if can_compare else None,
                other=counts,
                payloads=other_side.has_payloads,
            )
        )
