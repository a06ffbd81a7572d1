"""The port of a table of the latest rows, beside that of each typed table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from headrace.pipeline.core.ledger.batch import StagedFile
    from headrace.pipeline.core.shards.stream import ShardKey, StreamId
    from headrace.pipeline.typed.latest.bounds import LatestLook
    from headrace.pipeline.typed.latest.task import KeyPart, Losing
    from headrace.pipeline.typed.values import Parsed


@dataclass(frozen=True, slots=True)
class Decision:
    """Which rows leave which files."""

    losing: tuple[Losing, ...] = ()
    mixed: int = 0
    """How many records come before one of the same key that has another partition key, where that isn't allowed."""


class LatestRows(Protocol):
    def look(self, staged: Sequence[StagedFile]) -> LatestLook:
        """The table now, with those of its files that may have rows of the keys in these staged files."""
        ...

    def decide(self, parts: Sequence[KeyPart]) -> Decision:
        """Compare the rows of these files by their keys."""
        ...

    def copy(self, losing: Sequence[Losing], streams: Sequence[StreamId], mark: ShardKey) -> Parsed:
        """Copy the rows of these files that stay into files that no commit names yet. `mark`: the shard of which the new
        files count as having rows."""
        ...
