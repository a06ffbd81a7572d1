"""A redrive: records in quarantine are parsed again by the present code, and those that can be parsed now move to the
typed table.

    settle ─► look ─► survey ─► for each portion: parse ─► account ─► commit of the typed table ─► settle
                                                                      (decides)                    (carries out)

A portion is some files of the quarantine table. The typed table's commit lands the mended rows, and its ledger names
the files that leave the quarantine table and those that take their place. `headrace.pipeline.typed.quarantine.settle`
carries that out, also in a later process with other code.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import ClassVar

from headrace.pipeline.core.landing.landing import Proposal, RangeRefused
from headrace.pipeline.core.ledger.accounting import Accounting
from headrace.pipeline.core.ledger.author import Arrivals, Author
from headrace.pipeline.core.ledger.batch import StagedFile, TakenFile
from headrace.pipeline.core.ledger.generation import chain_of, next_link
from headrace.pipeline.core.ledger.ledger import Kind, Range
from headrace.pipeline.core.shards.position import Positions
from headrace.pipeline.core.shards.stream import ShardKey, StreamId
from headrace.pipeline.errors import Overtaken, WrongShape
from headrace.pipeline.ports.base import Clock
from headrace.pipeline.settings.blocks.parse import ParseSettings
from headrace.pipeline.settings.blocks.processors import ProcessorSettings
from headrace.pipeline.typed.account import account
from headrace.pipeline.typed.done_wave import Does, Wave, wave_of
from headrace.pipeline.typed.duplicates import Deduplicating
from headrace.pipeline.typed.latest.merging import check_decided_once
from headrace.pipeline.typed.own_table import check_own_table
from headrace.pipeline.typed.ports import Leaver, MadePorts, ParsePorts, SourceLook
from headrace.pipeline.typed.quarantine.redrive_plan import (
    ALL,
    Groups,
    RedrivePlan,
    Selection,
    half_of,
    one_by_one,
    plan_look,
    plan_redrive,
    reason_meant,
    with_staying,
    worth_parsing,
)
from headrace.pipeline.typed.quarantine.settle import Settling
from headrace.pipeline.typed.values import AsideRows, Parsed, Piece, WaveLimits, Wishes
from headrace.pipeline.typed.wave_engine import ReadyWave, Waves

TRIES = 10
"""How often a portion is tried that other commits overtake. By then it is a thousandth of the first one, or a single
file."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tried:
    """The result of trying a portion's rows again, before its commit."""

    accounts: Mapping[ShardKey, Accounting]
    aside: tuple[StagedFile, ...]
    """Staged files with those that stay in quarantine."""
    files: tuple[StagedFile, ...]
    schema: int
    compared: Positions | None = None
    """The positions of the made table on which all of this rests. None: it rests on none."""
    rows: Mapping[ShardKey, int] | None = None
    """How many rows came of each shard. None: one of each record."""
    states: Mapping[ShardKey, str | None] = field(default_factory=dict)
    """The states that processors have afterwards."""
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Redrives(ABC):
    """The redrive of one made table. A subclass says how rows are tried again: by parsing or by a processor."""

    does: ClassVar[Does]
    past: ClassVar[str]
    """What a redrive does with records, as a participle."""

    settings: ParseSettings | ProcessorSettings
    ports: MadePorts
    settling: Settling
    limits: WaveLimits
    clock: Clock
    run: str
    of_window: str = ""
    """The id of the window whose table it is; empty for a table of no window."""
    on_step: Callable[[str], None] = lambda _: None
    """For tests: called between the steps of a portion."""

    @property
    @abstractmethod
    def tries(self) -> int:
        """How many times a portion is tried when other commits are faster."""

    @property
    @abstractmethod
    def leaver(self) -> Leaver: ...

    @abstractmethod
    def check(self) -> None:
        """Raises an error where nothing can be tried again with these settings."""

    def worth_trying(self, pieces: Iterable[Piece]) -> tuple[Piece, ...]:
        """The selected parts of the quarantine table's files (pieces) whose rows may succeed now; the others aren't tried."""
        return tuple(pieces)

    @abstractmethod
    def groups(self, pieces: Iterable[Piece]) -> Groups:
        """The files that a portion takes together, in the order in which portions take them."""

    @abstractmethod
    def try_again(self, plan: RedrivePlan, look: SourceLook) -> Tried: ...

    def account(self, accounting: Accounting, _key: ShardKey, _tried: Tried) -> str:
        """The text of a shard's accounting, as the ledger of the commit has it."""
        return replace(accounting, code=self.ports.code()).text()

    def portions(self, selection: Selection = ALL, *, dry_run: bool = False) -> Iterator[Wave]:
        """Parse the selected rows again, portion after portion. Rows that come into quarantine meanwhile aren't parsed
        again."""
        self.check()
        self.ports.check_settings()
        check_own_table(self.ports.table, self.settings, of_window=self.of_window, past=self.past)
        if not (self.ports.table.exists() and self.settling.quarantine.exists()):
            return
        if not dry_run:
            # What a killed run has decided is carried out first: those rows aren't to be parsed again any more.
            self.settling.settle()
        if selection.reason is not None:
            reason = reason_meant(selection.reason, self.settling.quarantine.reasons())
            if reason is None:
                return
            selection = replace(selection, reason=reason)
        look = self.look()
        order = plan_look(look.files, look.positions, selection)
        pieces = self.worth_trying(self.leaver.survey(order).pieces) if order.files and order.bounds else ()
        yield from _Portions(
            redriving=self,
            aside=selection.rows,
            dry_run=dry_run,
            look=look,
            pieces=pieces,
            limits=self.limits,
            clock=self.clock,
            on_step=self.on_step,
        ).waves()

    def look(self) -> SourceLook:
        look = self.ports.set_aside.look()
        deleted = next((file.path for file in look.files if file.deletes), None)
        if deleted:
            raise WrongShape(
                f"records in {self.settings.quarantine} can't be redriven now: "
                f"another engine has deleted rows of {deleted} by a delete file. Nothing was changed; "
                "let that engine run its rewrite_data_files"
            )
        return look


@dataclass(frozen=True, slots=True, kw_only=True)
class Redriving(Redrives):
    does: ClassVar[Does] = Does.REDRIVE
    past: ClassVar[str] = "parsed again"

    settings: ParseSettings
    ports: ParsePorts
    deduplicating: Deduplicating | None = None
    """None where all rows stay, also those of the same event."""

    @property
    def tries(self) -> int:
        # Without `unique`, only something else that decides about the same rows comes first. With it, each wave of a
        # busy run does, and a smaller portion leaves it less time.
        return 1 if self.deduplicating is None else TRIES

    @property
    def leaver(self) -> Leaver:
        return self.ports.redriver

    def check(self) -> None:
        check_decided_once(self.settings, "a redrive")

    worth_trying = staticmethod(worth_parsing)
    groups = staticmethod(one_by_one)

    def try_again(self, plan: RedrivePlan, look: SourceLook) -> Tried:
        comparison = self.deduplicating.plan(plan.wave) if self.deduplicating else None
        wishes = Wishes(streams=streams_of(look))
        parsed, schema = self.ports.redriver.parse(plan.wave, wishes, comparison)
        accounts = account(
            plan.wave,
            parsed,
            dropped_as=self.ports.dropped_as,
            version=self.settings.version,
            schema=schema,
        )
        return Tried(
            accounts=accounts,
            aside=parsed.aside,
            files=parsed.files,
            schema=schema,
            compared=comparison.positions if comparison else None,
        )


def streams_of(look: SourceLook) -> tuple[StreamId, ...]:
    return tuple(sorted({key.stream for key in look.positions.shards}))


@dataclass(slots=True, kw_only=True)
class _Portions(Waves[RedrivePlan]):
    """What is left of one redrive: each wave is a portion of it."""

    redriving: Redrives
    aside: AsideRows
    dry_run: bool
    look: SourceLook
    pieces: tuple[Piece, ...]
    """The rows that are still to be parsed again."""
    limits: WaveLimits
    """Those of the next portion."""
    clock: Clock
    on_step: Callable[[str], None]
    is_old: bool = False
    """Whether the look is of the time before a portion."""

    @property
    def tries(self) -> int:
        return self.redriving.tries

    def has_more(self) -> bool:
        # A dry run changes nothing. After a commit the taken files are gone, and others have come.
        if self.is_old and self.pieces and not self.dry_run:
            self.look = self.redriving.look()
            # Files that something else has rewritten meanwhile are left to the next redrive.
            self._keep({file.path for file in self.look.files}.__contains__)
        self.is_old = True
        return bool(self.pieces)

    def _keep(self, takes: Callable[[str], bool]) -> None:
        self.pieces = tuple(piece for piece in self.pieces if takes(piece.path))

    def plan(self) -> RedrivePlan:
        return plan_redrive(
            self.look.files, self.pieces, limits=self.limits, aside=self.aside, groups=self.redriving.groups
        )

    def stage(self, plan: RedrivePlan) -> ReadyWave:
        of = self.redriving
        tried = of.try_again(plan, self.look)
        bounds, streams = [planned.bound for planned in plan.wave.ranges], streams_of(self.look)
        copied = of.leaver.copy_unselected(plan.taken, bounds, streams) if plan.staying else Parsed()
        aside = (*tried.aside, *copied.aside)
        accounts = with_staying(
            plan, tried.accounts, aside, copied, version=of.settings.version, schema=tried.schema
        )
        proposal = None
        if not self.dry_run:
            files = tuple(replace(f, shards=frozenset(map(chain_of, f.shards))) for f in tried.files)
            proposal = Proposal(
                tuple(self._ranges(plan, accounts, tried, files)),
                files,
                whole=True,
                also=aside,
                taken=tuple(TakenFile(taken_file.path, self.look.at) for taken_file in plan.taken),
                compared=tried.compared,
            )
        done = wave_of(of.does, plan.wave.rows, accounts.values(), is_last=False)
        done = replace(done, made=sum((tried.rows or {}).values()), notes=tried.notes)
        return ReadyWave(of.ports.table, proposal, done, partial(self._follow, plan))

    def _ranges(
        self,
        plan: RedrivePlan,
        accounts: Mapping[ShardKey, Accounting],
        tried: Tried,
        files: Sequence[StagedFile],
    ) -> Iterator[Range]:
        positions = self.look.positions
        planned = {planned_range.key: planned_range for planned_range in plan.wave.ranges}
        # The chains of all shards of the taken files begin where the quarantine table was when it was looked at: a
        # redrive that has taken one of these files meanwhile has moved one of the chains in the typed table, and then
        # this commit is refused.
        for key in sorted(accounts):
            yield Author(self.redriving.run).range(
                Kind.REDRIVEN,
                chain_of(key),
                positions.of(chain_of(key)),
                next_link(positions.of(chain_of(key))),
                rows=accounts[key].parsed if tried.rows is None else tried.rows.get(key, 0),
                bytes=planned[key].bytes if key in planned else 0,
                arrivals=Arrivals(planned[key].oldest, planned[key].newest) if key in planned else Arrivals(),
                files=files,
                account=self.redriving.account(accounts[key], key, tried),
            )

    def _follow(self, plan: RedrivePlan, wave: Wave) -> Wave:
        if not self.dry_run:
            self.redriving.settling.settle()
        taken = {taken_file.path for taken_file in plan.taken}
        self._keep(lambda path: path not in taken)
        return wave

    def refusal(self, refused: Sequence[RangeRefused]) -> Overtaken:
        settings = self.redriving.settings
        return Overtaken(
            f"another redrive, a replacement or a run has decided about rows of {settings.table} or "
            f"{settings.quarantine} meanwhile ({refused[0].why}). Nothing of this portion was committed, "
            "and no row is lost or doubled; run the command again for what is left"
        )

    def give_way(self, plan: RedrivePlan) -> None:
        self.limits = half_of(self.limits, plan.wave)
        self.redriving.settling.settle()
