"""Checks whether the positions on which a statement of an earlier ledger was based still hold."""

from __future__ import annotations

from headrace.pipeline.core.shards.position import Positions
from headrace.pipeline.core.shards.sort_texts import past


def reach(base: Positions, rests_on: Positions) -> bool:
    """Whether each position of the table is at or beyond the one in `rests_on`. A position may have gone back,
    because a person has set the typed table back meanwhile; then rows that were parsed before are parsed once
    more.
    """
    return all(
        (current := base.of(key)) is not None
        and past(current) >= past(position)
        and current.ended >= position.ended
        for key, position in rests_on.shards.items()
    )
