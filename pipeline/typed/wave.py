"""A wave of a typed table: what the lake table has and the typed table lacks is parsed, and lands in one commit.

    settle ─► look ─► survey ─► compare ─► parse ─► account ─► commit of the typed table ─► settle
                                                              (decides)            (quarantine.settle carries it out)

A wave looks only into files that may have something for the typed table (`headrace.pipeline.typed.files.looked`).

The typed table has the position of each shard of the lake table in its own commits. A commit is refused where another
run was faster, and then nothing of the wave lands. So each record is parsed into one row, set aside once, or dropped by
a reason that the ledger names.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import date
from itertools import count

from headrace.pipeline.core.landing.landing import Proposal, RangeRefused
from headrace.pipeline.core.ledger.arrivals import APPROXIMATE
from headrace.pipeline.core.ledger.ledger import FilesDone, Kind
from headrace.pipeline.core.shards.position import Positions
from headrace.pipeline.core.shards.stream import StreamId
from headrace.pipeline.duties.waves.expire import Expiring
from headrace.pipeline.errors import ChainBroken, Overtaken, WrongShape
from headrace.pipeline.ports.base import Clock
from headrace.pipeline.settings.parse_block import ParseSettings
from headrace.pipeline.typed.account import account, why_stop
from headrace.pipeline.typed.check_wave import Changed, ParseChecking
from headrace.pipeline.typed.done_wave import Does, Wave, wave_of
from headrace.pipeline.typed.duplicates import Deduplicating
from headrace.pipeline.typed.files.looked import after, covers, looked_after, looked_in
from headrace.pipeline.typed.known_files import KnownFiles
from headrace.pipeline.typed.next_wave import plan_next
from headrace.pipeline.typed.plan import plan_wishes
from headrace.pipeline.typed.ports import ParsePorts, SourceLook
from headrace.pipeline.typed.quarantine.settle import Settling
from headrace.pipeline.typed.values import SourceFile, WaveLimits, WavePlan, Wishes
from headrace.pipeline.typed.wave_engine import ReadyWave, Waves, accounted_ranges

_NO_LAKE_TABLE = "there is no lake table yet; `headrace dev`, or another deployment, makes it before the first records land"
_LOOKS = 3
"""Looks at the lake table in one wave, where its ledgers state other rows than were found."""
_TRIES = 5
"""Waves in a row that other runs overtake, before a run gives up."""


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
    settled: int = 0
    """Rows that went into the quarantine table for a commit of an earlier wave."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Parsing(Waves[_Basis]):
    settings: ParseSettings
    ports: ParsePorts
    settling: Settling
    limits: WaveLimits
    clock: Clock
    run: str
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
    on_wave: Callable[[Wave], None] = lambda _: None
    """Called with what a wave did that had something to parse."""

    def is_behind(self) -> bool:
        """Whether a wave would have something to do. It needs no Spark."""
        if not self.ports.source.exists():
            return False
        if not (self.ports.table.exists() and self.settling.quarantine.exists()):
            return True
        wishes = self._wishes(self.ports.source.look().positions)
        return wishes.are_due or not self.settling.is_settled()

    def needs_before(self, day: date) -> bool:
        """Whether rows that arrived before this day (UTC) may still have to be parsed."""
        if not self.ports.table.exists():
            return True
        after = [lack.after for lack in self._wishes(self.ports.source.look().positions).wanted]
        # A record may have arrived a little before the one that comes before it in the shard.
        return any(
            position is None or position.arrival is None or (position.arrival - APPROXIMATE).date() < day
            for position in after
        )

    @property
    def tries(self) -> int:
        return _TRIES

    def end(self, wave: Wave) -> Wave:
        # Once at the end, and not after each wave: an expiry is a commit, too.
        return replace(wave, notes=(*wave.notes, *self._expire()))

    def _expire(self) -> Iterator[str]:
        """Expire snapshots of both tables, where there are too many. What a run has decided has been carried out by
        now."""
        # Without a lake table no wave has made them.
        if not self.ports.table.exists():
            return
        for table, expiring in zip((self.ports.table, self.settling.quarantine), self.expiring, strict=False):
            shape = table.load().shape
            if expiring.is_due(shape) and (sentence := expiring.step(shape)):
                yield sentence

    def plan(self) -> _Basis | Wave:
        # First: settings that can't be used make no table, and are told of also where there is nothing to parse.
        self.ports.check_settings()
        if not self.ports.source.exists():
            return Wave(Does.PARSE, notes=(_NO_LAKE_TABLE,))
        # Made wherever it is missing: a typed table that was dropped is parsed anew.
        self.ports.table.ensure(create=not self.ports.table.exists())
        self.settling.quarantine.ensure(create=not self.settling.quarantine.exists())
        # Also what a killed run, or an older version of the code, has decided and not carried out.
        settled = self.settling.settle()
        basis = replace(self._basis(), settled=settled)
        if not basis.plan.ranges:
            return Wave(Does.PARSE, settled=settled, notes=basis.notes)
        self.known.look_through_some(basis.files, self.ports.parser)
        return basis

    def stage(self, plan: _Basis) -> ReadyWave:
        basis, wave = plan, plan.plan
        comparison = self.deduplicating.plan(wave) if self.deduplicating else None
        parsed, schema = self.ports.parser.parse(wave, basis.wishes, comparison)
        # Each row that was read has to come back, or to be dropped for a reason that the target has: else nothing is
        # committed.
        accounts = account(
            wave, parsed, dropped_as=self.ports.dropped_as, version=self.settings.version, schema=schema
        )
        if why := why_stop(accounts.values(), self.settings.stop_above):
            raise WrongShape(
                f"{self.settings.name}: {why}. Nothing was committed, no record was moved aside, "
                "and no position moved. Correct the schema or the parser, or raise stop_above of this target, "
                "and run it again"
            )
        # After the parsing, when the user's modules have been read: this is the code that parsed.
        code = self.ports.code()
        ranges = tuple(accounted_ranges(Kind.PARSED, wave, accounts, parsed.files, run=self.run, code=code))
        looked = looked_after(
            self.known.described(basis.files),
            after(wave, basis.target),
            snapshot=basis.look.snapshot,
            sequence=basis.look.sequence,
            stream=self.settings.stream,
            before=basis.looked,
        )
        # All or nothing: the files of the quarantine table have rows of several shards, too.
        proposal = Proposal(
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
        done = wave_of(Does.PARSE, wave.rows, accounts.values(), is_last=wave.is_last)
        done = replace(done, settled=basis.settled, notes=basis.notes)
        return ReadyWave(self.ports.table, proposal, done, self._follow)

    def _follow(self, wave: Wave) -> Wave:
        done = self.settling.after(wave)
        self.on_wave(done)
        return done

    def refusal(self, refused: Sequence[RangeRefused]) -> Overtaken:
        return Overtaken(
            f"another run has parsed records for {self.settings.table} meanwhile: {refused[0].range.key}: "
            f"{refused[0].why}. Nothing of this wave was committed; "
            "the next wave goes on after the other run's records"
        )

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
        look = self.ports.source.look()
        state = self.ports.table.load()
        target = state.positions
        wishes = plan_wishes(look.positions, target, takes=self._takes)
        looked = self._looked(look)
        if self.ports.table.load().snapshot != state.snapshot:
            # What the ledgers say may rest on other positions.
            looked = None
        files = tuple(file for file in look.files if looked is None or not covers(looked, file))
        plan = plan_next(wishes, files, surveyor=self.ports.parser, limits=self.limits, known=self.known)
        return _Basis(look, target, looked, files, wishes, plan, wishes.notes)

    def _wishes(self, source: Positions) -> Wishes:
        return plan_wishes(source, self.ports.table.load().positions, takes=self._takes)

    def _looked(self, look: SourceLook) -> FilesDone | None:
        """Which files of the lake table have nothing left for the typed table."""
        try:
            return looked_in(self.ports.table.pages(), stream=self.settings.stream, leads_to=look.leads_to)
        except ChainBroken:
            # Another engine has cut the typed table's history. Then each file is looked into once more.
            return None

    def _takes(self, stream: StreamId) -> bool:
        return self.settings.stream in (None, stream.name)
