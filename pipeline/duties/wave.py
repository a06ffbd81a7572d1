"""What a wave is made of, and what it tells: its arrows, its outcomes, its one sentence."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum

from pipeline.core.batch import Staged
from pipeline.core.words import counted


class Arrow(StrEnum):
    """The steps of a wave; a run may be cut after each."""

    CLAIMED = "claimed"
    STAGED = "staged"
    COMMITTED = "committed"
    CHECKPOINTED = "checkpointed"
    RELEASED = "released"


@dataclass(frozen=True, slots=True)
class Landed:
    """One shard went forward (or was found at its tip) in a wave."""

    lease_key: str
    staged: Staged
    snapshot: int | None
    files: tuple[str, ...]
    parents: tuple[str, ...]

    @property
    def is_quiet(self) -> bool:
        """Looked at to its tip, and nothing was there."""
        return self.staged.at_tip and not self.staged.rows and self.staged.error is None


@dataclass(frozen=True, slots=True)
class Problem:
    """One shard that this wave couldn't read or land, in one sentence."""

    lease_key: str
    why: str
    fatal: bool
    """False: a lost race or something that comes first; it is simply read later."""
    busy: bool = False
    """Another living run reads it, or waits for it before us."""


@dataclass(frozen=True, slots=True)
class WaveReport:
    claimed: int = 0
    landed: tuple[Landed, ...] = ()
    problems: tuple[Problem, ...] = ()
    snapshot: int | None = None
    notes: tuple[str, ...] = ()
    """Sentences that a person should see though nothing failed, each told on a line of its own: gaps that were
    recorded, what others had read, rows that were left over."""

    @property
    def rows(self) -> int:
        return sum(each.staged.rows for each in self.landed)

    @property
    def goes_on(self) -> bool:
        """Whether another wave at once has something to do: a shard isn't at its tip, or one has just ended."""
        return any(
            each.staged.upto.ended or (each.staged.error is None and not each.staged.at_tip)
            for each in self.landed
        )

    def __str__(self) -> str:
        bad = [p for p in self.problems if p.fatal]
        return f"wave: {counted(self.rows, 'record')} of {counted(len(self.landed), 'shard')} landed" + (
            f", {counted(len(bad), 'shard')} failed ({bad[0].lease_key}: {bad[0].why})" if bad else ""
        )


OnArrow = Callable[[Arrow, tuple[str, ...]], None]


@dataclass(slots=True)
class WaveLog:
    """What one wave has to tell, step by step."""

    problems: list[Problem] = field(default_factory=list)
    landed: list[Landed] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    snapshot: int | None = None
    stopped_by: str | None = None
    """The error that ended the whole wave: it failed for each of its shards."""

    def report(self, claimed: int) -> WaveReport:
        return WaveReport(
            claimed, tuple(self.landed), tuple(self.problems), self.snapshot, notes=tuple(self.notes)
        )
