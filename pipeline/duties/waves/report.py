"""The report of one wave: its steps, how far each shard has landed, and the problems."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

from headrace.pipeline.core.landing.expiry_plan import Shape
from headrace.pipeline.core.ledger.batch import Staged
from headrace.pipeline.core.shards.partition import partition_of
from headrace.pipeline.core.words.words import counted, records_in


class WaveStep(StrEnum):
    """The steps of a wave. A run can be killed after each of them."""

    CLAIMED = "claimed"
    STAGED = "staged"
    COMMITTED = "committed"
    CHECKPOINTED = "checkpointed"
    RELEASED = "released"


@dataclass(frozen=True, slots=True)
class Landed:
    """The part of one shard that one wave has landed. It may be nothing, where the shard was found at its tip."""

    lease_key: str
    staged: Staged
    snapshot: int | None
    files: tuple[str, ...]
    parents: tuple[str, ...]
    through: datetime | None = None
    """Up to when the lake table has all records of the shard's stream; None where that isn't known."""

    @property
    def is_quiet(self) -> bool:
        """Whether the shard was read up to its tip, and there was no new record."""
        return self.staged.at_tip and not self.staged.rows and self.staged.error is None


@dataclass(frozen=True, slots=True)
class ShardEnd:
    """A shard whose row has just got SHARD_END. The rows of its children were made before."""

    lease_key: str
    children: tuple[str, ...]
    """Shard ids."""


@dataclass(frozen=True, slots=True)
class Problem:
    """One shard that this wave couldn't read or land, with the reason in one sentence."""

    lease_key: str
    why: str
    fatal: bool
    """Whether the shard counts as failed. It doesn't where it only has to wait, such as for its parents or another
    run."""
    busy: bool = False
    """Another living run is reading the shard, or waits for it and goes first."""


@dataclass(frozen=True, slots=True)
class WaveReport:
    claimed: int = 0
    landed: tuple[Landed, ...] = ()
    problems: tuple[Problem, ...] = ()
    snapshot: int | None = None
    notes: tuple[str, ...] = ()
    """Sentences that a person should see although nothing failed: recorded gaps, foreign ranges, rows that were left
    over."""
    waited: float = 0.0
    """Seconds that the wave waited for its stage to open."""
    shape: Shape | None = None
    """The shape of the lake table's history after the wave's commit; None where the wave had nothing to land."""
    ends: tuple[ShardEnd, ...] = ()

    @property
    def rows(self) -> int:
        """The number of rows that landed in the lake table."""
        return sum(landing.staged.rows for landing in self.landed)

    @property
    def records(self) -> int:
        """The number of Kinesis records of which the rows were made."""
        return sum(landing.staged.records for landing in self.landed)

    @property
    def goes_on(self) -> bool:
        """Whether another wave would have something to read at once: a shard isn't at its tip, or a shard has
        ended, so that its children can be read.
        """
        return any(
            landing.staged.upto.ended or (landing.staged.error is None and not landing.staged.at_tip)
            for landing in self.landed
        )

    def __str__(self) -> str:
        bad = [p for p in self.problems if p.fatal]
        return (
            f"wave: {records_in(self.records, self.rows)} of {counted(len(self.landed), 'shard')} landed"
            + (
                f", {counted(len(bad), 'shard')} failed ({partition_of(bad[0].lease_key)}: {bad[0].why})"
                if bad
                else ""
            )
        )


OnStep = Callable[[WaveStep, tuple[str, ...]], None]


@dataclass(slots=True)
class WaveLog:
    """What the steps of one wave have reported so far."""

    problems: list[Problem] = field(default_factory=list)
    landed: list[Landed] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    snapshot: int | None = None
    stopped_by: str | None = None
    """The error that ended the wave, as a sentence: all shards of the wave have failed."""
    waited: float = 0.0
    """Seconds that the wave waited for its stage to open."""
    shape: Shape | None = None
    ends: list[ShardEnd] = field(default_factory=list)

    def report(self, claimed: int) -> WaveReport:
        return WaveReport(
            claimed,
            tuple(self.landed),
            tuple(self.problems),
            self.snapshot,
            notes=tuple(self.notes),
            waited=self.waited,
            shape=self.shape,
            ends=tuple(self.ends),
        )
