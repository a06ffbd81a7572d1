"""Further views of `headrace lineage`: the gaps, and a picture of the shards."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.pipeline.cli.telling import tell

if TYPE_CHECKING:
    from headrace.pipeline.core.ledger.story import Story


def show_family(story: Story) -> int:
    from headrace.pipeline.lineage.family_picture import mermaid

    tell(*mermaid(story))
    return 0


def show_gaps(story: Story) -> int:
    from headrace.pipeline.proof.chains import ranges_without_rows

    sentences = [gap.text for gap in ranges_without_rows(story)]
    tell(
        *(
            sentences
            or ["no gap: each record of the ledgers' ranges was landed by Headrace, and no ledger is lost"]
        )
    )
    return 0
