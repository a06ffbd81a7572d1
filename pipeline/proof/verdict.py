"""The result of a proof: its checks, what can't be proved, and the closing sentence. See
docs/use/proof.md.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime

from headrace.pipeline.core.words.words import counted

MOST_TOLD = 20
"""Sentences that one check keeps. Further ones are only counted, so that a table that is wrong everywhere fills no
memory."""


@dataclass(frozen=True, slots=True)
class Wrong:
    """A sentence about something that contradicts what Headrace promises."""

    text: str


@dataclass(frozen=True, slots=True)
class Extra(Wrong):
    """A sentence about rows that no ledger claims."""

    shards: Mapping[str, int] = field(default_factory=dict)
    """How many of which shard (`headrace.pipeline.proof.accepted`)."""


@dataclass(frozen=True, slots=True)
class Unproved:
    """A sentence about something that can't be proved because nothing is left to prove it by, or that Headrace
    never promised.
    """

    text: str


Told = Wrong | Unproved


@dataclass(frozen=True, slots=True)
class Check:
    """One promise, what was examined for it and how many of these there were, and the sentences about what
    contradicts it.
    """

    promise: str
    looked_at: str
    wrong: tuple[str, ...] = ()
    """The first of these; `count` counts all."""
    unproved: tuple[str, ...] = ()
    count: int = 0


def checked(promise: str, looked_at: str, statements: Iterable[Told]) -> Check:
    """The check of one promise: the first few of the sentences about what contradicts it, and how many these are in all."""
    wrong: list[str] = []
    unproved: list[str] = []
    count = left_out = 0
    for statement in statements:
        if isinstance(statement, Wrong):
            count += 1
            if len(wrong) < MOST_TOLD:
                wrong.append(statement.text)
        # What can't be proved doesn't count as a mistake: a recorded gap stays for ever, and a job that
        # always fails is switched off.
        elif len(unproved) < MOST_TOLD:
            unproved.append(statement.text)
        else:
            left_out += 1
    if left_out:
        unproved.append(f"and {counted(left_out, 'thing')} more of this check")
    return Check(promise, looked_at, tuple(wrong), tuple(unproved), count)


@dataclass(frozen=True, slots=True, kw_only=True)
class TableProof:
    """What a proof found about one table: the lake table, a typed table with its quarantine table, or that of a
    window."""

    name: str
    checks: tuple[Check, ...] = ()
    counts: str = ""
    """How many rows the ledgers of a table that was made of the lake table tell of, for people."""
    rows: int = 0
    """Rows that were read for this proof. Those of a quarantine table and of the lake table beside it count as well."""
    files: int = 0
    unchanged: int = 0
    """Data files that an earlier proof had read, and that are there with the size that they had."""
    since: int | None = None
    """The snapshot of the lake table up to which an earlier proof had read all rows; None where this proof read all
    rows that it is about."""
    forgotten: str = ""
    """Why the next proof reads all rows again, if it does although this one found nothing wrong."""
    is_behind: bool = False
    """Whether records have landed that the typed table hasn't parsed yet. That isn't wrong."""

    @property
    def holds(self) -> bool:
        # What can't be proved isn't wrong: a recorded gap stays for ever, and the proof is to hold beside it.
        return not any(check.wrong for check in self.checks)

    def lines(self) -> Iterator[str]:
        """The lines for people: each check with its result, what isn't proved, and what was read."""
        if self.counts:
            yield f"{self.name}: {self.counts}"
        yield from told_lines(self.checks)
        read = f"{counted(self.rows, 'row')} of {counted(self.files, 'file')} read"
        if self.unchanged or self.since is not None:
            read += f"; {counted(self.unchanged, 'file')} unchanged"
        if self.since is not None:
            read += f" since snapshot {self.since}, which was proved before"
        yield read
        if self.forgotten:
            yield (
                "the next proof reads these rows again, "
                f"because what this one has read can't be remembered: {self.forgotten}"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class Proof:
    """What a proof has found about the lake table and the tables that were made of it."""

    lake: TableProof
    tables: tuple[TableProof, ...] = ()
    """The tables that were made of the lake table."""
    records: int = 0
    """Records of the ranges that are proved, if no check found something wrong."""
    unproved_records: int = 0
    """Records in the ledger about which nothing can be proved, such as those of derived ranges."""
    shards: int = 0
    first: datetime | None = None
    """When the first of the proved records arrived."""
    last: datetime | None = None
    snapshot: int | None = None

    @property
    def holds(self) -> bool:
        return not any(check.wrong for check in self.all_checks)

    @property
    def all_checks(self) -> tuple[Check, ...]:
        return tuple(check for table in (self.lake, *self.tables) for check in table.checks)

    @property
    def unproved(self) -> tuple[str, ...]:
        return tuple(text for check in self.all_checks for text in check.unproved)

    def lines(self) -> Iterator[str]:
        """The lines for people: those of each table, and the closing sentence."""
        for table in (self.lake, *self.tables):
            yield from table.lines()
        yield str(self)

    def __str__(self) -> str:
        if not self.holds:
            failed = [check for check in self.all_checks if check.wrong]
            return (
                f"NOT PROVED: {counted(len(failed), 'check')} of {len(self.all_checks)} "
                f"found {counted(sum(c.count for c in failed), 'mistake')} "
                f"in snapshot {self.snapshot}; the first: {failed[0].wrong[0]}"
            )
        if not self.records:
            proved = "nothing to prove: no record of a range that can be proved"
        else:
            proved = (
                f"proved: {counted(self.records, 'record')} of {counted(self.shards, 'shard')}{self._between()} "
                f"{'is' if self.records == 1 else 'are'} in the table once each, in snapshot {self.snapshot}"
            )
        if self.tables:
            tables = ", ".join(
                f"{table.name} (but for those not parsed yet)" if table.is_behind else table.name
                for table in self.tables
            )
            proved += f"; each row is accounted for in {tables}"
        beside = f"{self.unproved_records:,} further" if self.unproved_records else ""
        if not self.unproved:
            return proved
        return (
            f"{proved}; NOT proved: "
            f"{beside + ' records, and ' if beside else ''}{counted(len(self.unproved), 'thing')} named above"
        )

    def _between(self) -> str:
        if self.first is None or self.last is None:
            return ""
        return f" that arrived between {_text(self.first)} and {_text(self.last)}"


def _text(when: datetime) -> str:
    return f"{when:%Y-%m-%d %H:%M:%S}Z"


def told_lines(checks: Iterable[Check]) -> Iterator[str]:
    """The lines of these checks, for people."""
    checks = tuple(checks)
    for check in checks:
        yield f"{'NO ' if check.wrong else 'yes'}  {check.promise} ({check.looked_at})"
        yield from (f"       {text}" for text in check.wrong)
        if check.count > len(check.wrong):
            yield f"       and {check.count - len(check.wrong):,} more"
    yield from (f"not proved: {text}" for check in checks for text in check.unproved)
