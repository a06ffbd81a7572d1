"""Does a table still stand where a statement of an earlier ledger rests on its positions?"""

from __future__ import annotations

from headrace.pipeline.core.shards.position import Positions
from headrace.pipeline.core.shards.sort_texts import past


def reach(base: Positions, rests_on: Positions) -> bool:
    """Whether no position is behind those on which a statement rests. A person may have set the typed table back
    meanwhile, and rows of files that were done are parsed once more then."""
    return all(
        (current := base.of(key)) is not None
        and past(current) >= past(position)
        and current.ended >= position.ended
        for key, position in rests_on.shards.items()
    )
