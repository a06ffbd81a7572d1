"""A redrive: records in quarantine are parsed again by the present code, and those that can be parsed now move to the
typed table.

    settle ─► look ─► survey ─► for each portion: parse ─► account ─► commit of the typed table ─► settle
                                                                      (decides)                    (carries out)

A portion is some files of the quarantine table. The typed table's commit lands the mended rows, and its ledger names
the files that leave the quarantine table and those that take their place. `headrace.pipeline.typed.quarantine.settle`
carries that out, also in a later process with other code.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from headrace.pipeline.core.landing.landing import Proposal
from headrace.pipeline.core.ledger.accounting import Accounting, all_dropped
from headrace.pipeline.core.ledger.author import Arrivals, Author
from headrace.pipeline.core.ledger.batch import TakenFile
from headrace.pipeline.core.ledger.generation import chain_of, next_link
from headrace.pipeline.core.ledger.ledger import Kind
from headrace.pipeline.core.shards.stream import ShardKey
from headrace.pipeline.core.words.words import counted
from headrace.pipeline.errors import Overtaken, WrongShape
from headrace.pipeline.settings.parse_block import ParseSettings
from headrace.pipeline.typed.duplicates import Deduplicating
from headrace.pipeline.typed.duplicates_plan import Comparison
from headrace.pipeline.typed.ports import ParsedTable, Parser, SourceLook, SourceTable
from headrace.pipeline.typed.quarantine.redrive_plan import (
    ALL,
    RedrivePlan,
    Selection,
    account_redrive,
    half_of,
    plan_look,
    plan_redrive,
    reason_meant,
    worth_parsing,
)
from headrace.pipeline.typed.quarantine.settle import Settling
from headrace.pipeline.typed.values import Parsed, Piece, WaveLimits, Wishes

_TRIES = 10
"""How often a portion is tried that other commits overtake. By then it is a thousandth of the first one, or a single
file."""


@dataclass(frozen=True, slots=True)
class Redriven:
    """What a portion of a redrive did, for people."""

    tried: int
    mended: int
    """Rows that are in the typed table now."""
    dropped: Mapping[str, int] = field(default_factory=dict)
    snapshot: int | None = None
    """None in a dry run."""

    @property
    def still_aside(self) -> int:
        return self.tried - self.mended - sum(self.dropped.values())

    def __str__(self) -> str:
        dropped = "".join(f", {rows:,} dropped by {why}" for why, rows in self.dropped.items())
        summary = (
            f"{counted(self.tried, 'row')} parsed again: {self.mended:,} mended{dropped}, {self.still_aside:,} still "
            "set aside"
        )
        return summary if self.snapshot is not None else f"dry run, nothing was committed: {summary}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Redriving:
    settings: ParseSettings
    table: ParsedTable
    settling: Settling
    source: SourceTable
    """The quarantine table."""
    redriver: Parser
    dropped_as: str
    """Why rows may not come back from the parser; empty where each comes back."""
    limits: WaveLimits
    run: str
    code: Callable[[], str] = str
    """What parses the rows, for the ledger. Called after they were parsed."""
    check_settings: Callable[[], None] = lambda: None
    """Raises BadSetting for a schema or code that no portion could use."""
    deduplicating: Deduplicating | None = None
    """None where all rows stay, also those of the same event."""
    on_step: Callable[[str], None] = lambda _: None
    """For tests: called between the steps of a portion."""

    def portions(self, selection: Selection = ALL, *, dry_run: bool = False) -> Iterator[Redriven]:
        """Parse the selected rows again, portion after portion. Rows that come into quarantine meanwhile aren't parsed
        again."""
        self.check_settings()
        if not (self.table.exists() and self.settling.quarantine.exists()):
            return
        if not dry_run:
            # What a killed run has decided is carried out first: those rows aren't to be parsed again any more.
            self.settling.settle()
        if selection.reason is not None:
            reason = reason_meant(selection.reason, self.settling.quarantine.reasons())
            if reason is None:
                return
            selection = replace(selection, reason=reason)
        look = self._look()
        order = plan_look(look.files, look.positions, selection)
        pieces = worth_parsing(self.redriver.survey(order).pieces) if order.files and order.bounds else ()
        limits, tries = self.limits, _TRIES
        while pieces:
            plan = plan_redrive(look.files, pieces, limits=limits, reason=selection.reason)
            done: set[str] = set()
            try:
                portion = self._portion(plan, look, dry_run=dry_run)
            except Overtaken:
                tries -= 1
                # Without `unique`, only something else that decides about the same rows comes first. With it, each wave
                # of a busy run does, and a smaller portion leaves it less time.
                if self.deduplicating is None or not tries:
                    raise
                limits = half_of(limits, plan.wave)
                self.settling.settle()
            else:
                yield portion
                done, tries = {taken_file.path for taken_file in plan.taken}, _TRIES
            # A dry run changes nothing. After a commit the taken files are gone, and others have come.
            look = look if dry_run else self._look()
            pieces = _left(pieces, look, done)

    def _look(self) -> SourceLook:
        look = self.source.look()
        deleted = next((file.path for file in look.files if file.deletes), None)
        if deleted:
            raise WrongShape(
                f"records in {self.settings.quarantine} can't be parsed again now: "
                f"another engine has deleted rows of {deleted} by a delete file. Nothing was changed; "
                "let that engine run its rewrite_data_files"
            )
        return look

    def _portion(self, plan: RedrivePlan, look: SourceLook, *, dry_run: bool) -> Redriven:
        streams = tuple(sorted({key.stream for key in look.positions.shards}))
        self.on_step("planned")
        comparison = self.deduplicating.plan(plan.wave) if self.deduplicating else None
        parsed, schema = self.redriver.parse(plan.wave, Wishes(streams=streams), comparison)
        copied = (
            self.redriver.copy_unselected(
                plan.taken, [planned.bound for planned in plan.wave.ranges], streams
            )
            if plan.staying
            else Parsed()
        )
        accounts = account_redrive(
            plan,
            parsed,
            copied,
            dropped_as=self.dropped_as,
            version=self.settings.version,
            schema=schema,
        )
        self.on_step("staged")
        snapshot = None
        if not dry_run:
            snapshot = self._commit(plan, look, parsed, copied, accounts, comparison)
            self.on_step("committed")
            self.settling.settle()
        return _told(plan, accounts, snapshot)

    def _commit(
        self,
        plan: RedrivePlan,
        look: SourceLook,
        parsed: Parsed,
        copied: Parsed,
        accounts: Mapping[ShardKey, Accounting],
        comparison: Comparison | None,
    ) -> int | None:
        code, positions = self.code(), look.positions
        planned = {planned_range.key: planned_range for planned_range in plan.wave.ranges}
        files = tuple(replace(f, shards=frozenset(map(chain_of, f.shards))) for f in parsed.files)
        # The chains of all shards of the taken files begin where the quarantine table was when it was looked at: a
        # redrive that has taken one of these files meanwhile has moved one of the chains in the typed table, and then
        # this commit is refused.
        ranges = tuple(
            Author(self.run).range(
                Kind.REDRIVEN,
                chain_of(key),
                positions.of(chain_of(key)),
                next_link(positions.of(chain_of(key))),
                rows=accounts[key].parsed,
                bytes=planned[key].bytes if key in planned else 0,
                arrivals=Arrivals(planned[key].oldest, planned[key].newest) if key in planned else Arrivals(),
                files=files,
                account=replace(accounts[key], code=code).text(),
            )
            for key in sorted(accounts)
        )
        committed = self.table.commit(
            Proposal(
                ranges,
                files,
                whole=True,
                also=(*parsed.aside, *copied.aside),
                taken=tuple(TakenFile(taken_file.path, look.at) for taken_file in plan.taken),
                compared=comparison.positions if comparison else None,
            )
        )
        if refused := committed.landing.refused:
            raise Overtaken(
                f"another redrive, a replacement or a run has decided about rows of {self.settings.table} or "
                f"{self.settings.quarantine} meanwhile ({refused[0].why}). Nothing of this portion was committed, "
                "and no row is lost or doubled; run the command again for what is left"
            )
        return committed.snapshot


def _left(pieces: tuple[Piece, ...], look: SourceLook, done: set[str]) -> tuple[Piece, ...]:
    """The rows that are still to be parsed again. Files that something else has rewritten meanwhile are left to the
    next redrive."""
    present = {file.path for file in look.files} - done
    return tuple(piece for piece in pieces if piece.path in present)


def _told(plan: RedrivePlan, accounts: Mapping[ShardKey, Accounting], snapshot: int | None) -> Redriven:
    dropped = all_dropped(accounting.dropped for accounting in accounts.values())
    return Redriven(
        plan.wave.rows, sum(accounting.parsed for accounting in accounts.values()), dropped, snapshot=snapshot
    )
