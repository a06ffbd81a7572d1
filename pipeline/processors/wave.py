"""A wave of a processor in mode `landed`: the user's own code works on what the lake table has and the processor's table
lacks, and its rows, its state and the position land in one commit.

    settle ─► look ─► survey ─► states ─► processes ─► account ─► commit of the processor's table ─► settle

The processor's table has the position of each shard in its own commits, as a typed table has it, and its ledger has the
state. A commit is refused where another run was faster, and then rows and state of this wave are nobody's: each wave
begins with new processes at what the table says. So each record counts once, however often a processor gets it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import date
from itertools import count

from headrace.pipeline.core.landing.landing import Proposal, RangeRefused
from headrace.pipeline.core.ledger.arrivals import APPROXIMATE
from headrace.pipeline.core.ledger.filter import RangeFilter
from headrace.pipeline.core.ledger.ledger import FilesDone
from headrace.pipeline.core.shards.position import Positions
from headrace.pipeline.core.shards.stream import ShardKey, StreamId
from headrace.pipeline.core.words.words import counted
from headrace.pipeline.duties.waves.expire import Expiring
from headrace.pipeline.errors import ChainBroken, Overtaken, ProcessorStopped
from headrace.pipeline.ports.base import Clock
from headrace.pipeline.processors.account import ProcessorAccount, accounts, committed_plan, processed_ranges
from headrace.pipeline.processors.ports import ProcessorPorts
from headrace.pipeline.processors.states import states_at
from headrace.pipeline.processors.values import TurnReport, TurnReports
from headrace.pipeline.settings.processors_block import ProcessorSettings
from headrace.pipeline.typed.check_wave import Changed, ParseChecking
from headrace.pipeline.typed.done_wave import Does, Wave
from headrace.pipeline.typed.files.looked import after, covers, looked_after, looked_in
from headrace.pipeline.typed.known_files import KnownFiles
from headrace.pipeline.typed.next_wave import plan_next
from headrace.pipeline.typed.plan import plan_wishes
from headrace.pipeline.typed.ports import SourceLook
from headrace.pipeline.typed.quarantine.settle import Settling
from headrace.pipeline.typed.values import SourceFile, WaveLimits, WavePlan, Wishes
from headrace.pipeline.typed.wave_engine import ReadyWave, Waves

_NO_LAKE_TABLE = "there is no lake table yet; `headrace dev`, or another deployment, makes it before the first records land"
_LOOKS = 3
_TRIES = 5
"""Waves in a row that other runs overtake, before a run gives up."""


@dataclass(frozen=True, slots=True)
class _Basis:
    """What a wave is built on."""

    look: SourceLook
    target: Positions
    looked: FilesDone | None
    files: tuple[SourceFile, ...]
    wishes: Wishes
    plan: WavePlan
    states: Mapping[ShardKey, str | None] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    settled: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Processing(Waves[_Basis]):
    settings: ProcessorSettings
    ports: ProcessorPorts
    settling: Settling
    limits: WaveLimits
    clock: Clock
    run: str
    checking: ParseChecking | None = None
    """Compares what is found with what the ledgers of the lake table state."""
    expiring: tuple[Expiring, ...] = ()
    known: KnownFiles = field(default_factory=KnownFiles)
    stopped: dict[ShardKey, str] = field(default_factory=dict)
    """Shards whose processor has failed in this process, each with a sentence. They wait, and the others go on."""
    on_step: Callable[[str], None] = lambda _: None
    """For tests: called between the steps of a wave."""

    def is_behind(self) -> bool:
        """Whether a wave would have something to do. It needs no Spark."""
        if not self.ports.source.exists():
            return False
        if not (self.ports.table.exists() and self.settling.quarantine.exists()):
            return True
        wishes = self._wishes(self.ports.source.look().positions, self.ports.table.load().positions)
        return wishes.are_due or not self.settling.is_settled()

    def needs_before(self, day: date) -> bool:
        """Whether records that arrived before this day (UTC) may still have to be processed."""
        if not self.ports.table.exists():
            return True
        wishes = self._wishes(self.ports.source.look().positions, self.ports.table.load().positions)
        return any(
            lack.after is None
            or lack.after.arrival is None
            # A record may have arrived a little before the one that comes before it in the shard.
            or (lack.after.arrival - APPROXIMATE).date() < day
            for lack in wishes.wanted
        )

    @property
    def tries(self) -> int:
        return _TRIES

    def end(self, wave: Wave) -> Wave:
        wave = replace(wave, notes=(*wave.notes, *self._expire()))
        if self.stopped:
            raise ProcessorStopped(
                f"the processor {self.settings.name} has stopped at {counted(len(self.stopped), 'shard')}; the other "
                "shards go on, and no record is passed over. Correct its code or its settings, and the next run goes "
                f"on from there. {'. '.join(self.stopped[key] for key in sorted(self.stopped))}"
            )
        return wave

    def _expire(self) -> Iterator[str]:
        if not self.ports.table.exists():
            return
        for table, expiring in zip((self.ports.table, self.settling.quarantine), self.expiring, strict=False):
            shape = table.load().shape
            if expiring.is_due(shape) and (sentence := expiring.step(shape)):
                yield sentence

    def plan(self) -> _Basis | Wave:
        # First: code that can't be used makes no table.
        self.ports.check_settings()
        if not self.ports.source.exists():
            return Wave(Does.PROCESS, notes=(_NO_LAKE_TABLE,))
        self.ports.table.ensure(create=not self.ports.table.exists())
        self.settling.quarantine.ensure(create=not self.settling.quarantine.exists())
        settled = self.settling.settle()
        basis = replace(self._basis(), settled=settled)
        if not basis.plan.ranges:
            return Wave(Does.PROCESS, settled=settled, notes=basis.notes)
        self.known.look_through_some(basis.files, self.ports.host)
        return replace(basis, states=self._states(basis))

    def _states(self, basis: _Basis) -> dict[ShardKey, str | None]:
        return states_at(
            {planned.key: planned.after for planned in basis.plan.ranges},
            self.ports.table.pages,
            lambda ids: self.ports.lineage.entries(RangeFilter(shards=ids)),
        )

    def stage(self, plan: _Basis) -> ReadyWave:
        basis = plan
        done, schema = self.ports.host.process(
            basis.plan, basis.states, self.known.described(basis.files), basis.wishes.streams
        )
        turns = {turn.key: turn for turn in done.turns}
        counts = committed_plan(basis.plan, turns)
        told = accounts(counts, done, version=self.settings.version, schema=schema, code=self.ports.code())
        self._note_stopped(turns)
        rows = sum(planned.rows for planned in counts.ranges)
        aside = sum(told[planned.key].records.quarantined for planned in counts.ranges)
        notes = (*basis.notes, *(note for turn in done.turns for note in turn.notes))
        wave = Wave(
            Does.PROCESS,
            rows,
            rows - aside,
            made=sum(turns[planned.key].rows for planned in counts.ranges),
            settled=basis.settled,
            # Not where a shard has stopped: the next wave is planned without it, and has room for others.
            is_last=counts.is_last,
            notes=notes,
        )
        if not counts.ranges:
            return ReadyWave(self.ports.table, None, wave)
        return ReadyWave(
            self.ports.table, self._proposal(basis, counts, done, told), wave, self.settling.after
        )

    def _note_stopped(self, turns: Mapping[ShardKey, TurnReport]) -> None:
        self.stopped.update({key: turn.trouble for key, turn in turns.items() if turn.trouble})

    def _proposal(
        self, basis: _Basis, counts: WavePlan, done: TurnReports, told: Mapping[ShardKey, ProcessorAccount]
    ) -> Proposal:
        ranges = tuple(processed_ranges(counts, told, done, run=self.run))
        looked = looked_after(
            self.known.described(basis.files),
            after(counts, basis.target),
            snapshot=basis.look.snapshot,
            sequence=basis.look.sequence,
            stream=self.settings.stream,
            before=basis.looked,
        )
        return Proposal(
            ranges,
            done.files,
            basis.wishes.origins,
            whole=True,
            also=done.aside,
            looked=looked,
            rests_on=basis.target,
        )

    def refusal(self, refused: Sequence[RangeRefused]) -> Overtaken:
        return Overtaken(
            f"another run has processed records for {self.settings.table} meanwhile: {refused[0].range.key}: "
            f"{refused[0].why}. Nothing of this wave was committed; "
            "the next wave goes on after the other run's records"
        )

    def _basis(self) -> _Basis:
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
        wishes = self._wishes(look.positions, state.positions)
        looked = self._looked(look)
        if self.ports.table.load().snapshot != state.snapshot:
            # What the ledgers say may rest on other positions.
            looked = None
        files = tuple(file for file in look.files if looked is None or not covers(looked, file))
        plan = plan_next(wishes, files, surveyor=self.ports.host, limits=self.limits, known=self.known)
        return _Basis(look, state.positions, looked, files, wishes, plan, notes=wishes.notes)

    def _wishes(self, source: Positions, target: Positions) -> Wishes:
        wishes = plan_wishes(source, target, takes=self._takes)
        return replace(
            wishes,
            wanted=tuple(lack for lack in wishes.wanted if lack.key not in self.stopped),
            closed=wishes.closed | self.stopped.keys(),
        )

    def _looked(self, look: SourceLook) -> FilesDone | None:
        try:
            return looked_in(self.ports.table.pages(), stream=self.settings.stream, leads_to=look.leads_to)
        except ChainBroken:
            return None

    def _takes(self, stream: StreamId) -> bool:
        return self.settings.stream in (None, stream.name)
