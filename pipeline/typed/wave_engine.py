"""The engine of waves: parsing, redrives, and the windows that copy, replace and take apart go on in the same way.

    plan ─► stage ─► still wanted? ─► commit ─► follow
     ▲                                  │
     └──── until the last wave ◄────────┴─ another run was faster: plan anew, a few times

An operation says what a wave plans and stages, in which words its commit is refused, and what follows. A wave is all or
nothing: until its commit, nothing but files that no commit names has come into being.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Generic, TypeVar

from headrace.pipeline.core.landing.landing import Proposal, RangeRefused
from headrace.pipeline.core.ledger.accounting import Accounting
from headrace.pipeline.core.ledger.author import Arrivals, Author
from headrace.pipeline.core.ledger.batch import StagedFile
from headrace.pipeline.core.ledger.ledger import Kind, Range
from headrace.pipeline.core.shards.stream import ShardKey
from headrace.pipeline.errors import HeadraceError, Overtaken
from headrace.pipeline.ports.base import Clock
from headrace.pipeline.ports.landing import LandingTable
from headrace.pipeline.typed.done_wave import Wave
from headrace.pipeline.typed.values import WavePlan

_Plan = TypeVar("_Plan")


@dataclass(frozen=True, slots=True)
class ReadyWave:
    """A wave that lacks its commit."""

    table: LandingTable
    proposal: Proposal | None
    """None where nothing is to be committed."""
    wave: Wave
    """What the wave has done once its commit is there."""
    follow: Callable[[Wave], Wave] = lambda wave: wave
    """What is to be done after the commit. Returns what the wave did."""


class Waves(ABC, Generic[_Plan]):
    """The waves of one operation, in one process."""

    __slots__ = ()
    clock: Clock
    on_step: Callable[[str], None]
    """For tests: called between the steps of a wave."""

    @property
    def tries(self) -> int:
        """Waves in a row that other runs overtake, before the operation gives up."""
        return 1

    def begin(self) -> None:
        """Called before the first wave: raises an error where no wave is possible."""

    def has_more(self) -> bool:
        """Whether there is something for another wave. The engine asks before each one."""
        return True

    @abstractmethod
    def plan(self) -> _Plan | Wave:
        """What the next wave takes up. A Wave where it has nothing to commit."""

    @abstractmethod
    def stage(self, plan: _Plan) -> ReadyWave: ...

    def check_wanted(self) -> object:
        """Called before the commit: raises an error where a person has cancelled the operation meanwhile."""

    @abstractmethod
    def refusal(self, refused: Sequence[RangeRefused]) -> HeadraceError:
        """The error of a wave whose commit was refused."""

    def give_way(self, plan: _Plan) -> None:
        """Called after a wave that another run has overtaken, and before the next one."""

    def end(self, wave: Wave) -> Wave:
        """Called after the last wave of this process, before it is told of."""
        return wave

    def waves(self, *, at_most: timedelta | None = None) -> Iterator[Wave]:
        """Wave after wave until nothing is left to do, or until the first wave that ends after `at_most`. At least one
        wave, unless there is nothing to tell.

        Where another run was faster, the next wave takes what is left. Raises Overtaken where other runs were faster
        time after time.
        """
        began = self.clock.monotonic()
        self.begin()
        left = self.tries
        while self.has_more():
            plan = self.plan()
            try:
                wave = plan if isinstance(plan, Wave) else self._carry_out(plan)
            except Overtaken:
                left -= 1
                if not left or isinstance(plan, Wave):
                    raise
                self.give_way(plan)
                continue
            # Only refusals in a row count. A wave that lands shows that this run isn't too slow for
            # the others.
            left = self.tries
            is_late = at_most is not None and self.clock.monotonic() - began > at_most.total_seconds()
            if wave.is_last or is_late:
                wave = self.end(wave)
            yield wave
            if wave.is_last or is_late:
                return

    def wave(self) -> Wave:
        """One wave, without what belongs to the beginning and the end."""
        plan = self.plan()
        return plan if isinstance(plan, Wave) else self._carry_out(plan)

    def _carry_out(self, plan: _Plan) -> Wave:
        self.on_step("planned")
        staged = self.stage(plan)
        self.on_step("staged")
        # After the long part and before the commit: what a person has cancelled meanwhile leaves
        # only files that no commit names.
        self.check_wanted()
        if staged.proposal is None:
            return staged.follow(staged.wave)
        committed = staged.table.commit(staged.proposal)
        if refused := committed.landing.refused:
            # One refused range refuses the wave: a typed table's commit decides for its quarantine
            # table as well, so that half of it may not land.
            raise self.refusal(refused)
        self.on_step("committed")
        return staged.follow(replace(staged.wave, snapshot=committed.snapshot))


def accounted_ranges(
    kind: Kind,
    plan: WavePlan,
    accounts: Mapping[ShardKey, Accounting],
    files: Sequence[StagedFile],
    *,
    run: str,
    code: str | None,
) -> Iterator[Range]:
    """The ranges of a wave's commit. `code`: what made the rows. None: the ledger has no account of them, because each
    row stays as it is."""
    for planned in plan.ranges:
        accounting = accounts[planned.key]
        yield Author(run).range(
            kind,
            planned.key,
            planned.after,
            planned.upto,
            rows=accounting.parsed,
            bytes=planned.bytes,
            arrivals=Arrivals(planned.oldest, planned.newest),
            files=files,
            parents=planned.parents,
            account="" if code is None else replace(accounting, code=code).text(),
        )
