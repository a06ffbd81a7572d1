"""Checks that the lake table's statement about its completeness (`valid-through`) claims no more than its
positions show. Pure functions.
"""

from __future__ import annotations

from collections.abc import Iterator

from headrace.pipeline.core.landing.valid_through import Through
from headrace.pipeline.core.landing.valid_through_text import time_text
from headrace.pipeline.core.shards.position import Positions
from headrace.pipeline.proof.verdict import Wrong


def wrong_through(through: Through, positions: Positions) -> Iterator[Wrong]:
    """The open shards that have landed less far than the table states. A statement must not go further than the
    shard that is furthest behind.
    """
    for key, position in sorted(positions.shards.items()):
        stated = through.get(key.stream)
        if (
            stated is not None
            and not position.ended
            and position.witness is not None
            and position.witness < stated
        ):
            yield Wrong(
                f"the table states that it has all records up to {time_text(stated)}, "
                f"and {key} was read up to {time_text(position.witness)} only"
            )
