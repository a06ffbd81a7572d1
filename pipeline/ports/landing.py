"""The ports of the lake: the interfaces of the lake table and of what belongs to it, as Protocols.

`headrace.pipeline.app.ports` has `Ports`, which gives all ports of an application.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime
from typing import TYPE_CHECKING, Protocol

from headrace.pipeline.core.landing.expiry_plan import Shape
from headrace.pipeline.ports.staging import StagingSpec

if TYPE_CHECKING:
    # Each new worker of Spark imports this module: what it needs only for types, it doesn't import.

    from headrace.pipeline.core.landing.applications import LandedBy
    from headrace.pipeline.core.landing.expiry_plan import History
    from headrace.pipeline.core.landing.landing import Landing, Proposal
    from headrace.pipeline.core.landing.repair_plan import TableEvidence
    from headrace.pipeline.core.landing.valid_through import Through
    from headrace.pipeline.core.shards.position import Positions
    from headrace.pipeline.core.shards.stream import StreamId


# --- the lake table -------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class TableState:
    """The lake table at one snapshot, on which a commit can be built."""

    positions: Positions
    snapshot: int | None
    """None where the table has no snapshot yet."""
    origin_allowed: bool
    """Whether an origin may be decided: the table's history is known down to its first snapshot, and Headrace never
    wrote to it."""
    # Else reading would start anew in a table that was rolled back or lost its history, without a person's decision.
    shape: Shape = field(default=Shape(), compare=False)
    """What the look showed of the table's history, for upkeep. It says nothing about the state."""
    window: str = ""
    """The id of the window whose own table this is; empty for a table of no window."""
    through: Through = field(default_factory=dict)
    """Up to when the table has all records, by stream."""
    kept_from: date | None = None
    """The first day (UTC) that the retention has left in the table, where the table states it."""

    @property
    def owner(self) -> str | None:
        """The id of the window whose own table this is, empty for no window; None for a table without a commit,
        which may become any window's.
        """
        return None if self.snapshot is None else self.window


@dataclass(frozen=True, slots=True)
class Committed:
    landing: Landing
    snapshot: int | None
    """None where nothing was left to commit."""
    state: TableState
    """The table as this commit left it; where nothing was left to commit, as it was found."""


class LandingTable(Protocol):
    def exists(self) -> bool: ...

    def ensure(self, *, create: bool) -> None:
        """Make sure that the table has Headrace's columns and properties. A table that doesn't exist is
        made if `create` is true; if `create` is false, Unknown is raised."""
        # Only `headrace.pipeline.duties.streams.lake_table` and commands decide that a table may be made.
        ...

    def load(self) -> TableState:
        """The newest state of the table. Raises ChainBroken where its snapshots don't lead back to positions."""
        ...

    def staging_spec(self) -> StagingSpec: ...

    def commit(self, proposal: Proposal) -> Committed:
        """Land the part of the proposal that `decide_landing` accepts on the newest snapshot, by compare-and-swap.

        Raises CommitUnknown where an answer was lost and the table can't be read to find out whether the commit landed.
        """
        ...


class LakeTable(LandingTable, Protocol):
    """Every operation of Headrace on the lake table."""

    # What `headrace repair` needs. No run and no sensor uses it.

    def evidence(self, streams: Iterable[StreamId]) -> TableEvidence:
        """The evidence that the table still has for a repair. The sequence numbers of all rows are read.
        `streams`: the streams that exist, because rows have a stream's name and not its ARN.
        """
        ...

    def rebuild(self, landing: Landing, on: int | None) -> TableState:
        """Commit exactly these positions, if the snapshot `on` still is the newest one."""
        ...

    # What expiry needs.

    def retained(self) -> History:
        """All snapshots and refs of the newest metadata."""
        ...

    def expire(self, history: History, snapshots: Sequence[int]) -> bool:
        """Remove these snapshots from the metadata in one commit, if each ref still is as in `history`. No file is
        deleted.

        Returns whether they were removed. False where another commit came first, and nothing was changed.
        """
        ...

    def carry(self) -> TableState:
        """Commit main's positions once more, in an empty snapshot on top of main. Returns the state as that commit left
        it.

        Every commit that was prepared before is refused from then on. Raises ChainBroken where the table has no
        positions.
        """
        ...

    # What the leader needs, to see which applications land in the table.

    def landings(self, since: datetime) -> tuple[LandedBy, ...]:
        """Main's commits since this time that landed ranges, newest first, as far as the newest metadata has
        them; at most `MOST_COMMITS`. The streams of a commit are only filled in where several applications have
        landed.
        """
        ...


# --- the lineage table ------------------------------------------------------------------------------------------


# --- reading and staging in Spark -----------------------------------------------------------------------------
