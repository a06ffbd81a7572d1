"""A wave of a typed table: what the lake table has and the typed table lacks is parsed, and lands in one commit.

    settle ─► look ─► survey ─► compare ─► parse ─► account ─► commit of the typed table ─► settle
                                                              (decides)            (quarantine.settle carries it out)

A wave looks only into files that may have something for the typed table (`headrace.pipeline.typed.files.looked`).

The typed table has the position of each shard of the lake table in its own commits. A commit is refused where another
run was faster, and then nothing of the wave lands. So each record is parsed into one row, set aside once, or dropped by
a reason that the ledger names.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import date, timedelta
from itertools import count

from headrace.pipeline.core.landing.landing import Proposal
from headrace.pipeline.core.ledger.accounting import Accounting, all_dropped
from headrace.pipeline.core.ledger.arrivals import APPROXIMATE
from headrace.pipeline.core.ledger.author import Arrivals, Author
from headrace.pipeline.core.ledger.ledger import FilesDone, Kind
from headrace.pipeline.core.shards.position import Positions
from headrace.pipeline.core.shards.stream import ShardKey, StreamId
from headrace.pipeline.core.words.words import counted
from headrace.pipeline.duties.waves.expire import Expiring
from headrace.pipeline.errors import ChainBroken, Overtaken, WrongShape
from headrace.pipeline.ports.base import Clock
from headrace.pipeline.settings.parse_block import ParseSettings
from headrace.pipeline.typed.account import account, why_stop
from headrace.pipeline.typed.check_wave import Changed, ParseChecking
from headrace.pipeline.typed.duplicates import Deduplicating
from headrace.pipeline.typed.duplicates_plan import Comparison
from headrace.pipeline.typed.files.looked import after, covers, looked_after, looked_in
from headrace.pipeline.typed.known_files import KnownFiles
from headrace.pipeline.typed.next_wave import plan_next
from headrace.pipeline.typed.plan import plan_wishes
from headrace.pipeline.typed.ports import ParsedTable, Parser, SourceLook, SourceTable
from headrace.pipeline.typed.quarantine.settle import Settling
from headrace.pipeline.typed.values import Parsed, SourceFile, WaveLimits, WavePlan, Wishes

_NO_LAKE_TABLE = "there is no lake table yet; `headrace dev`, or another deployment, makes it before the first records land"
_LOOKS = 3
"""Looks at the lake table in one wave, where its ledgers state other rows than were found."""
_TRIES = 5
"""Waves in a row that other runs overtake, before a run gives up."""


@dataclass(frozen=True, slots=True)
class ParsedWave:
    """What a wave did, for people."""

    parsed: int = 0
    quarantined: int = 0
    dropped: Mapping[str, int] = field(default_factory=dict)
    snapshot: int | None = None
    """None where there was nothing to parse."""
    settled: int = 0
    """Rows that went into the quarantine table for a commit of an earlier wave."""
    is_last: bool = True
    """Whether the typed table has caught up with the lake table as the wave found it."""
    notes: tuple[str, ...] = ()

    def __str__(self) -> str:
        if self.snapshot is None:
            return "nothing new to parse"
        dropped = "".join(f", {rows:,} dropped by {why}" for why, rows in self.dropped.items())
        return f"{counted(self.parsed, 'row')} parsed, {self.quarantined:,} set aside{dropped}"


@dataclass(frozen=True, slots=True)
class _Basis:
    """What a wave is built on: one look at the lake table, and what the wave takes of it."""

    look: SourceLook
    target: Positions
    """The positions of the typed table."""
    looked: FilesDone | None
    files: tuple[SourceFile, ...]
    """The files of the lake table that may have rows left to parse."""
    wishes: Wishes
    plan: WavePlan
    notes: tuple[str, ...]
    """Sentences for people."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Parsing:
    settings: ParseSettings
    source: SourceTable
    table: ParsedTable
    settling: Settling
    parser: Parser
    dropped_as: str
    """Why rows may not come back from the parser; empty where each comes back."""
    limits: WaveLimits
    clock: Clock
    run: str
    code: Callable[[], str] = str
    """What parses the rows, for the ledger. Called after they were parsed."""
    check_settings: Callable[[], None] = lambda: None
    """Raises BadSetting for a schema or code that no wave could use."""
    checking: ParseChecking | None = None
    """Compares what is found with what the ledgers of the lake table state."""
    deduplicating: Deduplicating | None = None
    """None where all rows stay, also those of the same event."""
    expiring: tuple[Expiring, ...] = ()
    """What expires rows of the typed table, and of the quarantine table."""
    known: KnownFiles = field(default_factory=KnownFiles)
    """What earlier waves of this process have found in files of the lake table."""
    on_step: Callable[[str], None] = lambda _: None
    """For tests: called between the steps of a wave."""
    on_wave: Callable[[ParsedWave], None] = lambda _: None
    """Called with what a wave did that had something to parse."""

    def is_behind(self) -> bool:
        """Whether a wave would have something to do. It needs no Spark."""
        if not self.source.exists():
            return False
        if not (self.table.exists() and self.settling.quarantine.exists()):
            return True
        wishes = self._wishes(self.source.look().positions)
        return wishes.are_due or not self.settling.is_settled()

    def needs_before(self, day: date) -> bool:
        """Whether rows that arrived before this day (UTC) may still have to be parsed."""
        if not self.table.exists():
            return True
        after = [lack.after for lack in self._wishes(self.source.look().positions).wanted]
        # A record may have arrived a little before the one that comes before it in the shard.
        return any(
            position is None or position.arrival is None or (position.arrival - APPROXIMATE).date() < day
            for position in after
        )

    def waves(self, *, at_most: timedelta | None = None) -> Iterator[ParsedWave]:
        """Wave after wave until the typed table has caught up, or until the first wave that ends after `at_most`. At
        least one wave.

        Where another run was faster, the next wave takes what is left. Raises Overtaken where other runs were faster
        time after time.
        """
        began = self.clock.monotonic()
        overtaken = 0
        while True:
            try:
                wave = self.wave()
            except Overtaken:
                overtaken += 1
                if overtaken == _TRIES:
                    raise
                continue
            overtaken = 0
            is_late = at_most is not None and self.clock.monotonic() - began > at_most.total_seconds()
            # Once at the end, and not after each wave: an expiry is a commit, too.
            if wave.is_last or is_late:
                yield replace(wave, notes=(*wave.notes, *self._expire()))
                return
            yield wave

    def _expire(self) -> Iterator[str]:
        """Expire snapshots of both tables, where there are too many. What a run has decided has been carried out by
        now."""
        # Without a lake table no wave has made them.
        if not self.table.exists():
            return
        for table, expiring in zip((self.table, self.settling.quarantine), self.expiring, strict=False):
            shape = table.load().shape
            if expiring.is_due(shape) and (sentence := expiring.step(shape)):
                yield sentence

    def wave(self) -> ParsedWave:
        # First: settings that can't be used make no table, and are told of also where there is nothing to parse.
        self.check_settings()
        if not self.source.exists():
            return ParsedWave(notes=(_NO_LAKE_TABLE,))
        # Made wherever it is missing: a typed table that was dropped is parsed anew.
        self.table.ensure(create=not self.table.exists())
        self.settling.quarantine.ensure(create=not self.settling.quarantine.exists())
        # Also what a killed run, or an older version of the code, has decided and not carried out.
        settled = self.settling.settle()
        basis = self._basis()
        plan, wishes = basis.plan, basis.wishes
        if not plan.ranges:
            return ParsedWave(settled=settled, notes=basis.notes)
        self.known.look_through_some(basis.files, self.parser)
        self.on_step("planned")
        comparison = self.deduplicating.plan(plan) if self.deduplicating else None
        parsed, schema = self.parser.parse(plan, wishes, comparison)
        self.on_step("staged")
        # Each row that was read has to come back, or to be dropped for a reason that the target has: else nothing is
        # committed.
        accounts = account(
            plan, parsed, dropped_as=self.dropped_as, version=self.settings.version, schema=schema
        )
        if why := why_stop(accounts.values(), self.settings.stop_above):
            raise WrongShape(
                f"{self.settings.name}: {why}. Nothing was committed, no record was moved aside, "
                "and no position moved. Correct the schema or the parser, or raise stop_above of this target, "
                "and run it again"
            )
        looked = looked_after(
            self.known.described(basis.files),
            after(plan, basis.target),
            snapshot=basis.look.snapshot,
            sequence=basis.look.sequence,
            stream=self.settings.stream,
            before=basis.looked,
        )
        snapshot = self._commit(basis, parsed, accounts, comparison, looked)
        self.on_step("committed")
        self.settling.settle()
        told = _told(accounts, snapshot, plan, basis.notes, settled)
        self.on_wave(told)
        return told

    def _basis(self) -> _Basis:
        """What the wave parses. Where the ledgers of the lake table state other rows than were found, the wave looks
        once more: another commit may have come between the look and the reading of the ledgers."""
        for looks in count(1):
            basis = self._look()
            if self.checking is None or not basis.plan.ranges:
                return basis
            with suppress(Changed):
                notes = self.checking.check(basis.plan, is_last=looks == _LOOKS)
                return replace(basis, notes=(*basis.notes, *notes))
        raise AssertionError("the last look ends in a plan or in an error")

    def _look(self) -> _Basis:
        look = self.source.look()
        state = self.table.load()
        target = state.positions
        wishes = plan_wishes(look.positions, target, takes=self._takes)
        looked = self._looked(look)
        if self.table.load().snapshot != state.snapshot:
            # What the ledgers say may rest on other positions.
            looked = None
        files = tuple(file for file in look.files if looked is None or not covers(looked, file))
        plan = plan_next(wishes, files, surveyor=self.parser, limits=self.limits, known=self.known)
        return _Basis(look, target, looked, files, wishes, plan, wishes.notes)

    def _wishes(self, source: Positions) -> Wishes:
        return plan_wishes(source, self.table.load().positions, takes=self._takes)

    def _looked(self, look: SourceLook) -> FilesDone | None:
        """Which files of the lake table have nothing left for the typed table."""
        try:
            return looked_in(self.table.pages(), stream=self.settings.stream, leads_to=look.leads_to)
        except ChainBroken:
            # Another engine has cut the typed table's history. Then each file is looked into once more.
            return None

    def _takes(self, stream: StreamId) -> bool:
        return self.settings.stream in (None, stream.name)

    def _commit(
        self,
        basis: _Basis,
        parsed: Parsed,
        accounts: Mapping[ShardKey, Accounting],
        comparison: Comparison | None,
        looked: FilesDone | None,
    ) -> int | None:
        # After the parsing, when the user's modules have been read: this is the code that parsed.
        code = self.code()
        ranges = tuple(
            Author(self.run).range(
                Kind.PARSED,
                planned.key,
                planned.after,
                planned.upto,
                rows=accounts[planned.key].parsed,
                bytes=planned.bytes,
                arrivals=Arrivals(planned.oldest, planned.newest),
                files=parsed.files,
                parents=planned.parents,
                account=replace(accounts[planned.key], code=code).text(),
            )
            for planned in basis.plan.ranges
        )
        # All or nothing: the files of the quarantine table have rows of several shards, too.
        committed = self.table.commit(
            Proposal(
                ranges,
                parsed.files,
                basis.wishes.origins,
                whole=True,
                also=parsed.aside,
                # Rows that were compared with the table land only where no other rows have come since: they may be the
                # same events.
                compared=comparison.positions if comparison else None,
                looked=looked,
                # Which files are done was found by these positions: a table that is behind them mustn't say so.
                rests_on=basis.target,
            )
        )
        if refused := committed.landing.refused:
            raise Overtaken(
                f"another run has parsed records for {self.settings.table} meanwhile: {refused[0].range.key}: "
                f"{refused[0].why}. Nothing of this wave was committed; "
                "the next wave goes on after the other run's records"
            )
        return committed.snapshot


def _told(
    accounts: Mapping[ShardKey, Accounting],
    snapshot: int | None,
    plan: WavePlan,
    notes: tuple[str, ...],
    settled: int,
) -> ParsedWave:
    dropped = all_dropped(accounting.dropped for accounting in accounts.values())
    return ParsedWave(
        sum(accounting.parsed for accounting in accounts.values()),
        sum(accounting.quarantined for accounting in accounts.values()),
        dropped,
        snapshot,
        settled,
        plan.is_last,
        notes,
    )
