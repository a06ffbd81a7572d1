"""Waves over what the lake table has and another table lacks: parsing, and processors in mode `landed`.

    settle ─► look ─► survey ─► compare ─► stage ─► account ─► commit of the made table ─► settle
                                                              (decides)            (quarantine.settle carries it out)

A wave looks only into files that may have something for the made table (`headrace.pipeline.typed.files.looked`).
The made table has the position of each shard of the lake table in its own commits, and a commit is refused where
another run was faster. So each record is taken into the made table once.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import date
from functools import partial
from itertools import count
from typing import ClassVar

from headrace.pipeline.core.landing.landing import Proposal, RangeRefused
from headrace.pipeline.core.ledger.arrivals import APPROXIMATE
from headrace.pipeline.core.ledger.batch import StagedFile
from headrace.pipeline.core.ledger.generation import is_chain
from headrace.pipeline.core.ledger.ledger import FilesDone, LedgerPage, Range
from headrace.pipeline.core.shards.position import Positions, is_forward
from headrace.pipeline.core.shards.stream import StreamId
from headrace.pipeline.duties.waves.expire import Expiring
from headrace.pipeline.errors import ChainBroken, Overtaken
from headrace.pipeline.ports.base import Clock
from headrace.pipeline.settings.blocks.parse import ParseSettings
from headrace.pipeline.settings.blocks.processors import ProcessorSettings
from headrace.pipeline.typed.check_wave import Changed, ParseChecking
from headrace.pipeline.typed.done_wave import Does, Wave
from headrace.pipeline.typed.files.looked import after, covers, looked_after, looked_in
from headrace.pipeline.typed.known_files import KnownFiles
from headrace.pipeline.typed.next_wave import plan_next, rows_in
from headrace.pipeline.typed.own_table import check_own
from headrace.pipeline.typed.plan import plan_wishes
from headrace.pipeline.typed.ports import MadePorts, SourceLook, Surveyor
from headrace.pipeline.typed.quarantine.settle import Settling
from headrace.pipeline.typed.set_elsewhere import (
    BehindPositions,
    ParsedElsewhere,
    landed_behind,
    looks_of,
    newest_look,
    parsed_elsewhere,
    standing_ranges,
    stands,
)
from headrace.pipeline.typed.values import SourceFile, WaveLimits, WavePlan, Wishes
from headrace.pipeline.typed.wave_engine import Waves

_NO_LAKE_TABLE = "there is no lake table yet; `headrace dev`, or another deployment, makes it before the first records land"
_LOOKS = 3
"""Looks at the lake table in one wave, where its ledgers state other rows than were found."""
_TRIES = 5
"""Waves in a row that other runs overtake, before a run gives up."""


@dataclass(slots=True)
class ReadOnce(Iterable[LedgerPage]):
    """Ledgers that may be iterated several times, though each is read from the table once, when an iteration
    first reaches it.
    """

    unread: Iterator[LedgerPage]
    read: list[LedgerPage] = field(default_factory=list)

    def __iter__(self) -> Iterator[LedgerPage]:
        for number in count():
            if number == len(self.read):
                if (page := next(self.unread, None)) is None:
                    return
                self.read.append(page)
            yield self.read[number]


@dataclass(frozen=True, slots=True)
class Basis:
    """What a wave is planned on: the lake table as it was loaded once, and the rows of it that the wave takes."""

    look: SourceLook
    target: Positions
    """The positions of the made table."""
    looked: FilesDone | None
    files: tuple[SourceFile, ...]
    """The files of the lake table that may have rows left for the made table."""
    wishes: Wishes
    plan: WavePlan
    notes: tuple[str, ...]
    """Sentences for people."""
    elsewhere: tuple[ParsedElsewhere, ...] = ()
    """What was parsed at snapshots that aren't known to be of main of the lake table."""
    settled: int = 0
    """Rows that went into the quarantine table for a commit of an earlier wave."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LakeWaves(Waves[Basis]):
    """The waves that bring records of the lake table into one made table. A subclass says which files a wave stages."""

    does: ClassVar[Does]
    past: ClassVar[str]
    """What the operation has done with records, as a participle."""

    settings: ParseSettings | ProcessorSettings
    ports: MadePorts
    settling: Settling
    limits: WaveLimits
    clock: Clock
    run: str
    checking: ParseChecking | None = None
    """Compares what is found with what the ledgers of the lake table state."""
    expiring: tuple[Expiring, ...] = ()
    """What expires rows of the made table, and of its quarantine table."""
    known: KnownFiles = field(default_factory=KnownFiles)
    """What earlier waves of this process have found in files of the lake table."""
    on_step: Callable[[str], None] = lambda _: None
    """For tests: called between the steps of a wave."""

    @property
    @abstractmethod
    def surveyor(self) -> Surveyor: ...

    @property
    def of_window(self) -> str:
        """The id of the window whose waves these are; empty for waves of no window."""
        return ""

    def is_behind(self) -> bool:
        """Whether the made table lacks something that a wave could bring. Needs no Spark."""
        if not self.ports.source.exists():
            return False
        if not (self.ports.table.exists() and self.settling.quarantine.exists()):
            return True
        look, target = self.ports.source.look(), self.ports.table.load().positions
        if self.wishes(look.positions, target).are_due or not self.settling.is_settled():
            return True
        behind = self._landed_behind(look, target, ReadOnce(self._pages()))
        # A shard whose positions differ waits for something, and a wave that moves no shard can't settle it.
        return any(stands(key, look.positions, target) for key in behind.keys)

    def needs_before(self, day: date) -> bool:
        """Whether the made table may still need records of the lake table that arrived before this day (UTC)."""
        if not self.ports.table.exists():
            return True
        after = [lack.after for lack in self._wishes_now().wanted]
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

    def plan(self) -> Basis | Wave:
        # First: settings that can't be used make no table, and are told of also where there is nothing to do.
        self.ports.check_settings()
        if not self.ports.source.exists():
            return Wave(self.does, notes=(_NO_LAKE_TABLE,))
        # Made wherever it is missing: a table that was dropped is made anew.
        self.ports.table.ensure(create=not self.ports.table.exists())
        self.settling.quarantine.ensure(create=not self.settling.quarantine.exists())
        # Also what a killed run, or an older version of the code, has decided and not carried out.
        settled = self.settling.settle()
        self.prepare()
        basis = replace(self._basis(), settled=settled)
        if not basis.plan.ranges:
            return Wave(self.does, settled=settled, notes=basis.notes)
        self.known.look_through_some(basis.files, self.surveyor)
        return basis

    def prepare(self) -> None:
        """Called before each wave loads the lake table, when both tables exist."""

    def proposal(
        self,
        basis: Basis,
        plan: WavePlan,
        ranges: Sequence[Range],
        files: Sequence[StagedFile],
        *,
        aside: Sequence[StagedFile],
        compared: Positions | None = None,
        gone: tuple[str, ...] = (),
    ) -> Proposal:
        """What the wave proposes to commit to the made table for this part of its plan. `compared`: the positions
        of the made table with whose rows the wave's rows were compared. `gone`: files of the made table that the
        commit removes.
        """
        looked = looked_after(
            self.known.described(basis.files),
            after(plan, basis.target),
            snapshot=basis.look.snapshot,
            sequence=basis.look.sequence,
            stream=self.settings.stream,
            before=basis.looked,
        )
        # All or nothing: the files of the quarantine table have rows of several shards, too.
        return Proposal(
            tuple(ranges),
            tuple(files),
            basis.wishes.origins,
            whole=True,
            also=tuple(aside),
            # Rows that were compared with the table land only where no other rows have come since: they may be the
            # same events.
            compared=compared,
            looked=looked,
            # Which files are done was found by these positions: a table that is behind them mustn't say so.
            rests_on=basis.target,
            gone=gone,
        )

    def refusal(self, refused: Sequence[RangeRefused]) -> Overtaken:
        return Overtaken(
            f"another run has {self.past} records for {self.settings.table} meanwhile: {refused[0].range.key}: "
            f"{refused[0].why}. Nothing of this wave was committed; "
            "the next wave goes on after the other run's records"
        )

    def _basis(self) -> Basis:
        """What the wave takes up. Where the ledgers of the lake table state other rows than were found, the wave looks
        once more: another commit may have come between the look and the reading of the ledgers."""
        for looks in count(1):
            basis = self._look()
            if self.checking is not None:
                self.checking.note_positions(basis.target)
            if self.checking is None or not basis.plan.ranges:
                return basis
            with suppress(Changed):
                notes = self.checking.check(
                    basis.plan,
                    way_to=basis.look.way_to,
                    kept_from=basis.look.kept_from,
                    elsewhere=basis.elsewhere,
                    rows_there=partial(rows_in, basis.look.files, self.surveyor),
                    is_last=looks == _LOOKS,
                )
                return replace(basis, notes=(*basis.notes, *notes))
        raise AssertionError("the last look ends in a plan or in an error")

    def _look(self) -> Basis:
        look = self.ports.source.look()
        state = self.ports.table.load()
        check_own(state, self.settings, of_window=self.of_window, past=self.past)
        target = state.positions
        wishes = self.wishes(look.positions, target)
        pages = ReadOnce(self._pages())
        looked = looked_in(pages, stream=self.settings.stream, leads_to=look.leads_to)
        if self.ports.table.load().snapshot != state.snapshot:
            # What the ledgers say may rest on other positions.
            looked = None
        files = tuple(file for file in look.files if looked is None or not covers(looked, file))
        plan = plan_next(wishes, files, surveyor=self.surveyor, limits=self.limits, known=self.known)
        elsewhere = self._elsewhere(plan, look, target, pages)
        if self._looks_behind:
            moving = {planned.key for planned in plan.ranges}
            standing = standing_ranges(elsewhere, look.positions, target)
            ranges = (*plan.ranges, *(planned for planned in standing if planned.key not in moving))
            plan = replace(plan, ranges=ranges)
        return Basis(look, target, looked, files, wishes, plan, wishes.notes, elsewhere)

    @property
    def _looks_behind(self) -> bool:
        """Whether a wave looks for records behind the positions of shards that it doesn't move. A window is over at its
        end."""
        return self.checking is not None and not self.of_window

    def _elsewhere(
        self, plan: WavePlan, look: SourceLook, target: Positions, pages: Iterable[LedgerPage]
    ) -> tuple[ParsedElsewhere, ...]:
        """What was parsed of shards of which records may have landed behind the positions since, also where the wave
        moves no shard. `pages`: the ledgers of the made table, newest first."""
        moving = {planned.key for planned in plan.ranges if planned.after is not None}
        behind = self._landed_behind(look, target, pages)
        # Of a moving shard the same ranges.
        parsed = (*parsed_elsewhere(moving, pages, way_to=look.way_to), *behind.unsure)
        elsewhere = tuple({before.parsed.key: before for before in parsed}.values())
        if self.checking is None or not behind.landed:
            return elsewhere
        looks = looks_of(behind.landed, pages)
        looks |= self.checking.looks_before([key for key in behind.landed if key not in looks])
        reached = Positions(shards={key: target.shards[key] for key in behind.landed})
        places = self.checking.landed_behind(reached, looks)
        landed_anew = self.checking.parsed_back_to(places, looks)
        return (*(before for before in elsewhere if before.parsed.key not in places), *landed_anew)

    def _landed_behind(
        self, look: SourceLook, target: Positions, pages: Iterable[LedgerPage]
    ) -> BehindPositions:
        """The shards of which records have landed behind the positions, or may have, by those ledgers of the lake table that
        neither a commit of the made table nor this process has looked through."""
        seen = self.ports.seen
        # At rest nothing is read for that.
        if self.checking is None or not self._looks_behind or look.snapshot in (None, seen.snapshot):
            return BehindPositions()
        newest = newest_look(pages)
        if newest is None:
            seen.snapshot, seen.sequence = look.snapshot, 0
            return BehindPositions()
        above = seen.above(newest, look.way_to)
        # Where the lake table is behind, these records can't have landed yet.
        reached = {
            key: position
            for key, position in target.shards.items()
            if above < look.sequence
            and not is_chain(key)
            and (landed := look.positions.of(key)) is not None
            and is_forward(position, landed)
        }
        story = self.checking.story_since(Positions(shards=reached), above)
        behind = frozenset(landed_behind(Positions(shards=reached), dict.fromkeys(reached, above), story))
        # The snapshots before a lost ledger are unknown, and so is whether what was parsed at them is all that is there.
        doubtful = parsed_elsewhere(reached, pages, way_to=look.way_to) if story.lost else ()
        unsure = tuple(before for before in doubtful if before.parsed.key in reached)
        if not behind and not unsure:
            seen.snapshot, seen.sequence = look.snapshot, look.sequence
        return BehindPositions(behind, unsure)

    def _wishes_now(self) -> Wishes:
        return self.wishes(self.ports.source.look().positions, self.ports.table.load().positions)

    def wishes(self, source: Positions, target: Positions) -> Wishes:
        """The rows of the lake table that the made table lacks and that a wave may take. `source`, `target`: the
        positions of the lake table and of the made table.
        """
        return plan_wishes(source, target, takes=self._takes)

    def _pages(self) -> Iterator[LedgerPage]:
        """The ledgers of the made table, newest first. Where another engine has cut the table's history, they end there:
        then each file is looked into once more."""
        with suppress(ChainBroken):
            yield from self.ports.table.pages()

    def _takes(self, stream: StreamId) -> bool:
        return self.settings.stream in (None, stream.name)
