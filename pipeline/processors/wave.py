"""A wave of a processor in mode `landed`: the user's own code works on what the lake table has and the
processor's table lacks, and its rows, its state and the position land in one commit.

The ledger of the processor's table has the state. A commit is refused where another run was faster. Then the rows
and the state of this wave are thrown away: each wave begins with new processes, at the state and position in the
table. So each record counts once, however often a processor gets it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import ClassVar

from headrace.pipeline.core.ledger.filter import RangeFilter
from headrace.pipeline.core.shards.position import Positions
from headrace.pipeline.core.shards.stream import ShardKey
from headrace.pipeline.core.words.words import counted
from headrace.pipeline.errors import HeadraceError, ProcessorStopped
from headrace.pipeline.processors.account import accounts, committed_plan, processed_ranges
from headrace.pipeline.processors.ports import ProcessorHost, ProcessorPorts
from headrace.pipeline.processors.states import states_at
from headrace.pipeline.processors.stops import stops_after
from headrace.pipeline.processors.values import TurnReport, WaveBefore
from headrace.pipeline.settings.blocks.processors import ProcessorSettings
from headrace.pipeline.typed.done_wave import Does, Wave
from headrace.pipeline.typed.lake_wave import Basis, LakeWaves
from headrace.pipeline.typed.values import Wanted, WavePlan, Wishes
from headrace.pipeline.typed.wave_engine import ReadyWave


@dataclass(frozen=True, slots=True, kw_only=True)
class Processing(LakeWaves):
    does: ClassVar[Does] = Does.PROCESS
    past: ClassVar[str] = "processed"

    settings: ProcessorSettings
    ports: ProcessorPorts
    stopped: dict[ShardKey, str] = field(default_factory=dict)
    """Shards whose processor has failed in this process, each with a sentence. They wait, and the others go on."""

    @property
    def surveyor(self) -> ProcessorHost:
        return self.ports.host

    def end(self, wave: Wave) -> Wave:
        # Not super(): a dataclass with slots is made anew, and the old class is what super() would look for.
        wave = LakeWaves.end(self, wave)
        if self.stopped:
            untold = self._tell_stops()
            raise ProcessorStopped(
                f"the processor {self.settings.name} has stopped at {counted(len(self.stopped), 'shard')}; the other "
                "shards go on, and no record is passed over. Correct its code or its settings, and the next run goes "
                f"on from there. {untold}{'. '.join(self.stopped[key] for key in sorted(self.stopped))}"
            )
        return wave

    def _tell_stops(self) -> str:
        """Tell of the stops in the table. Returns a sentence where that failed: the stop is the greater trouble."""
        stops = self.ports.stops
        try:
            stops.keep(stops_after(stops.known(), self.stopped, self.ports.table.load().positions))
        except HeadraceError as error:
            return f"`headrace status` can't name this stop: {error}. "
        return ""

    def stage(self, plan: Basis) -> ReadyWave:
        basis, states = plan, self._states(plan)
        # The processor has no part in a shard that stays where it is: at its end it would get that end a second time.
        moving = replace(basis.plan, ranges=tuple(r for r in basis.plan.ranges if not r.stands))
        done, schema = self.ports.host.process(
            moving, states, self.known.described(basis.files), basis.wishes.streams
        )
        done = replace(done, turns=(*done.turns, *_standing(basis.plan, states)))
        turns = {turn.key: turn for turn in done.turns}
        counts = committed_plan(basis.plan, turns)
        shard_accounts = accounts(
            counts, done, version=self.settings.version, schema=schema, code=self.ports.code()
        )
        self._note_stopped(turns)
        rows = sum(planned.rows for planned in counts.ranges)
        aside = sum(shard_accounts[planned.key].records.quarantined for planned in counts.ranges)
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
        ranges = tuple(processed_ranges(counts, shard_accounts, done, run=self.run))
        # `compared`: a redrive that has landed meanwhile has left another state than this wave began with.
        proposal = self.proposal(basis, counts, ranges, done.files, aside=done.aside, compared=basis.target)
        return ReadyWave(self.ports.table, proposal, wave, self.settling.after)

    def _states(self, basis: Basis) -> dict[ShardKey, WaveBefore]:
        return states_at(
            {planned.key: planned.after for planned in basis.plan.ranges},
            self.ports.table.pages,
            lambda ids: self.ports.lineage.entries(RangeFilter(shards=ids)),
            redrives=basis.target,
        )

    def _note_stopped(self, turns: Mapping[ShardKey, TurnReport]) -> None:
        self.stopped.update({key: turn.trouble for key, turn in turns.items() if turn.trouble})

    def wishes(self, source: Positions, target: Positions) -> Wishes:
        wishes = self.lacks(source, target)
        known = {lack.key: lack for lack in wishes.wanted}
        # A shard that has stopped may be the parent of one that no position names.
        stopped = tuple(known.get(key, Wanted(key, None, None)) for key in sorted(self.stopped))
        return replace(
            wishes,
            wanted=tuple(lack for lack in wishes.wanted if lack.key not in self.stopped),
            closed=wishes.closed | self.stopped.keys(),
            stopped=stopped,
            may_stop=True,
        )

    def lacks(self, source: Positions, target: Positions) -> Wishes:
        """The records that the processor's table lacks, including those of shards at which the processor has
        stopped.
        """
        return LakeWaves.wishes(self, source, target)


def _standing(plan: WavePlan, states: Mapping[ShardKey, WaveBefore]) -> Iterator[TurnReport]:
    """What a wave leaves of the shards that stay where they are."""
    for planned in plan.ranges:
        if planned.stands:
            yield TurnReport(planned.key, 0, ended=planned.upto.ended, state=states[planned.key].state)
