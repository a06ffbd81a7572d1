"""The result of a check."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum

from headrace.pipeline.core.words.words import counted


class About(StrEnum):
    """The table, or the work on the tables, that a check is about."""

    RECORDS = "records"
    LINEAGE = "lineage"
    TYPED = "typed"
    QUARANTINE = "quarantine"
    UPKEEP = "upkeep"
    PROOF = "proof"


@dataclass(frozen=True, slots=True)
class Offender:
    """One thing (such as a shard) that fails a check, and what is wrong with it."""

    name: str
    what: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    check: str
    sentence: str
    about: About = About.RECORDS
    target: str = ""
    """The target of `parse`, of a check on a typed table or its quarantine table."""
    offenders: tuple[Offender, ...] = ()
    is_grave: bool = False
    """Whether records are lost, doubled or about to be lost where the check fails. Else it is a warning."""
    behind: timedelta | None = None
    """How far the shard is behind that is furthest behind, where the check is about that and a shard's lag is known."""

    @property
    def holds(self) -> bool:
        return not self.offenders


def sentence_of(
    offenders: list[Offender], one: str, good: str, *, more: str | None = None, first: bool = False
) -> str:
    """What a verdict says: `good` where nothing is wrong, else how many things (`one`, `more`) are, or the first of them."""
    if not offenders:
        return good
    sentence = counted(len(offenders), one, more)
    return (
        f"{sentence}: {offenders[0].name}: {offenders[0].what}" if first or len(offenders) == 1 else sentence
    )
