"""A redrive of a processor: records in quarantine are given to the processor once more, with the state as it is now, and
those at which it doesn't fail any more leave the quarantine table.

    settle ─► look ─► survey ─► for each portion: process ─► account ─► commit of the processor's table ─► settle
                                                                        (rows, state; decides)   (carries out)

No position moves: the shard's own records go on after those that were processed. Rows and state are one commit, which is
refused where a wave or another redrive has left another state meanwhile.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

from headrace.pipeline.core.ledger.accounting import Accounting
from headrace.pipeline.core.ledger.filter import RangeFilter
from headrace.pipeline.core.ledger.generation import chain_of, next_link
from headrace.pipeline.core.shards.position import Positions
from headrace.pipeline.core.shards.stream import ShardKey
from headrace.pipeline.errors import ProcessorStopped, WrongShape
from headrace.pipeline.processors.account import ProcessorAccount
from headrace.pipeline.processors.ports import ProcessorPorts, RedriveHost
from headrace.pipeline.processors.states import states_at
from headrace.pipeline.processors.values import TurnReport, TurnReports, WaveBefore
from headrace.pipeline.settings.blocks.processors import ProcessorSettings
from headrace.pipeline.typed.account import aside_name
from headrace.pipeline.typed.done_wave import Does
from headrace.pipeline.typed.ports import SourceLook
from headrace.pipeline.typed.quarantine.redrive import TRIES, Redrives, Tried, streams_of
from headrace.pipeline.typed.quarantine.redrive_plan import RedrivePlan, in_order
from headrace.pipeline.typed.values import PlannedRange


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessorRedriving(Redrives):
    does: ClassVar[Does] = Does.PROCESS_AGAIN
    past: ClassVar[str] = "processed again"

    settings: ProcessorSettings
    ports: ProcessorPorts

    @property
    def tries(self) -> int:
        # Each wave that lands meanwhile is in the way. A smaller portion leaves it less time.
        return TRIES

    @property
    def leaver(self) -> RedriveHost:
        return self.ports.redriver

    def check(self) -> None:
        """Does nothing: all settings allow a redrive, and the code is checked together with them."""

    groups = staticmethod(in_order)

    def try_again(self, plan: RedrivePlan, look: SourceLook) -> Tried:
        # Loaded before the states are looked for: a wave that lands in between moves a position, and then this portion
        # is refused.
        positions = self.ports.table.load().positions
        done, schema = self.ports.redriver.process(
            plan.wave, self._before(plan, look, positions), (), streams_of(look)
        )
        turns = {turn.key: turn for turn in done.turns}
        self._check_any(done)
        accounts = {
            planned.key: self._accounting(planned, turns[planned.key], done, schema)
            for planned in plan.wave.ranges
        }
        return Tried(
            accounts=accounts,
            aside=done.aside,
            files=done.files,
            schema=schema,
            compared=positions,
            rows={turn.key: turn.rows for turn in done.turns},
            states={turn.key: turn.state for turn in done.turns},
            notes=tuple(note for turn in done.turns for note in _notes(turn)),
        )

    def account(self, accounting: Accounting, key: ShardKey, tried: Tried) -> str:
        records = replace(accounting, code=self.ports.code())
        return ProcessorAccount(records, tried.states.get(key), decides=key in tried.states).text()

    def _before(
        self, plan: RedrivePlan, look: SourceLook, positions: Positions
    ) -> dict[ShardKey, WaveBefore]:
        states = states_at(
            {planned.key: positions.of(planned.key) for planned in plan.wave.ranges},
            self.ports.table.pages,
            lambda ids: self.ports.lineage.entries(RangeFilter(shards=ids)),
            redrives=positions,
        )
        return {
            key: WaveBefore(before.state, redrive=_number(look.positions, key))
            for key, before in states.items()
        }

    def _check_any(self, done: TurnReports) -> None:
        troubles = [turn.trouble for turn in done.turns if turn.trouble]
        if troubles and not any(turn.taken for turn in done.turns):
            raise ProcessorStopped(
                f"the processor {self.settings.name} has processed no record of this portion again, and all of them stay in "
                f"{self.settings.quarantine}. Nothing was committed; correct its code, and run the command again. "
                f"{'. '.join(troubles)}"
            )

    def _accounting(
        self, planned: PlannedRange, turn: TurnReport, done: TurnReports, schema: int
    ) -> Accounting:
        processed = turn.taken - turn.aside
        names = tuple(aside_name(file.path) for file in done.aside if planned.key in file.shards)
        accounting = Accounting(
            planned.rows,
            processed,
            planned.rows - processed,
            version=self.settings.version,
            schema=schema,
            aside=names,
        )
        if not accounting.is_complete:
            raise WrongShape(
                f"the account of {planned.key} isn't complete: {accounting.text()}. Nothing was committed, and no "
                "position moved; report this as an error of Headrace"
            )
        return accounting


def _notes(turn: TurnReport) -> tuple[str, ...]:
    if not turn.trouble:
        return turn.notes
    return (*turn.notes, f"{turn.trouble}. Its records from there on stay in quarantine")


def _number(aside: Positions, key: ShardKey) -> int:
    """The number of the next redrive of a shard. `aside`: the positions of the quarantine table."""
    link = next_link(aside.of(chain_of(key))).sequence
    if link is None:
        raise ValueError("the generation of a redrive is a number")
    return link
