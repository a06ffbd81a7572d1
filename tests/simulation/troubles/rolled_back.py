"""A rollback of the lake table by a person, who may roll it forward again."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from headrace.pipeline.core.shards.stream import ShardKey

_Known = tuple[Any, ...]
"""A shard's position, the number of its read records, and its gaps."""


@dataclass(frozen=True)
class RolledBack:
    """What the judges knew of the snapshots that a person has rolled back."""

    head: int | None
    to: int
    before: dict[int, dict[ShardKey, _Known]] = field(default_factory=dict)
    """By snapshot: what was known of its shards before it."""
    after: dict[ShardKey, _Known] = field(default_factory=dict)
    """What was known at the head."""
