"""The engine of waves: parsing, redrives, and the windows that copy, replace and take apart go on in the same way.

    plan ─► stage ─► still wanted? ─► commit ─► follow
     ▲                                  │
     └──── until the last wave ◄────────┴─ another run was faster: plan anew, a few times

Each operation says what its waves plan and stage, how a refused commit is told, and what is done after a commit.
A wave is all or nothing: before its commit it only writes files that no commit names.
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
    """A wave that is staged and only lacks its commit."""

    table: LandingTable
    proposal: Proposal | None
    """None where nothing is to be committed."""
    wave: Wave
    """What the wave has done once its commit is there."""
    follow: Callable[[Wave], Wave] = lambda wave: wave
    """What is to be done after the commit. Returns what the wave did."""


class Waves(ABC, Generic[_Plan]):
    """The waves of one operation in one process, one after the other."""

    __slots__ = ()
    clock: Clock
    on_step: Callable[[str], None]
    """For tests: called between the steps of a wave."""

    @property
    def tries(self) -> int:
        """How many waves in a row may be overtaken by other runs before the operation gives up."""
        return 1

    def begin(self) -> None:
        """Called before the first wave. Raises an error where no wave is possible."""

    def has_more(self) -> bool:
        """Whether there is something left for another wave. Called before each wave."""
        return True

    @abstractmethod
    def plan(self) -> _Plan | Wave:
        """The plan of the next wave; or the result as a Wave where there is nothing to commit."""

    @abstractmethod
    def stage(self, plan: _Plan) -> ReadyWave: ...

    def check_wanted(self) -> object:
        """Called before the commit. Raises an error where a person has cancelled the operation meanwhile."""

    @abstractmethod
    def refusal(self, refused: Sequence[RangeRefused]) -> HeadraceError:
        """The error that is raised for a wave whose commit was refused."""

    def give_way(self, plan: _Plan) -> None:
        """Called after a wave whose commit another run's commit has overtaken, before the next wave."""

    def end(self, wave: Wave) -> Wave:
        """Called after the last wave of this process, before its result is shown."""
        return wave

    def waves(self, *, at_most: timedelta | None = None) -> Iterator[Wave]:
        """Do wave after wave until nothing is left to do, or until the first wave that ends after `at_most`.
        There is at least one wave, unless there is nothing to report.

        Where another run has committed first, the next wave takes what is left. Raises Overtaken where other runs
        were faster several times in a row.
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
        """Do one wave, without what is done before the first and after the last one."""
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
    """The ranges of a wave's commit, each with its accounting. `code`: what made the rows; None where each row
    stays as it is, and the ledger has no accounting.
    """
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
