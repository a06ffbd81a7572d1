"""A wave of a window: rows of the lake table that the window's own table lacks are copied, and land in one commit.

    begin ─► look ─► survey ─► copy ─► account ─► commit
                └──► where nothing is left to copy: read from the stream ─► commit

The window's table has a position of each shard in its own commits, and lands as the lake table does. So a killed run
goes on where its last commit ended, the second of two runs at once is refused, and a window that was copied once gives
nothing more. The lake table is only read.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from headrace.pipeline.core.landing.landing import Proposal, RangeRefused
from headrace.pipeline.core.ledger.arrivals import Days
from headrace.pipeline.core.ledger.belonging import what_to_do
from headrace.pipeline.core.ledger.filter import RangeFilter
from headrace.pipeline.core.ledger.ledger import Kind, LedgerEntry, Range
from headrace.pipeline.core.ledger.story import story_of
from headrace.pipeline.core.shards.position import Positions
from headrace.pipeline.core.shards.stream import ShardKey
from headrace.pipeline.core.words.words import counted
from headrace.pipeline.errors import HeadraceError, Transient, Unknown, WrongShape, WrongStream
from headrace.pipeline.typed.account import account
from headrace.pipeline.typed.done_wave import Does, Wave, wave_of
from headrace.pipeline.typed.next_wave import plan_next
from headrace.pipeline.typed.ports import SourceLook
from headrace.pipeline.typed.values import WavePlan
from headrace.pipeline.typed.wave_engine import ReadyWave, accounted_ranges
from headrace.pipeline.windows.begin import begin_table
from headrace.pipeline.windows.copy_plan import (
    is_done,
    lacks_position,
    stretches_of,
    why_not,
    wishes_of,
)
from headrace.pipeline.windows.days import days_of, within
from headrace.pipeline.windows.ports import ReplayPorts
from headrace.pipeline.windows.read_stream import WindowReading, ranges_of
from headrace.pipeline.windows.waves import WindowWaves
from headrace.pipeline.windows.window import ReplayWindow, Stretch, filter_of


@dataclass(frozen=True, slots=True)
class _Stretches:
    """A wave of records that the lake table lacks, from the stream."""

    window: ReplayWindow
    lacking: Mapping[ShardKey, Stretch]
    positions: Positions
    """Those of the window's table."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Replaying(WindowWaves[WavePlan | _Stretches]):
    """The copying of one window into a table of its own, in waves."""

    ports: ReplayPorts
    reading: WindowReading
    days: dict[str, Days] = field(default_factory=dict)
    """What earlier waves of this process have found about the window's days."""

    def plan(self) -> WavePlan | _Stretches | Wave:
        window = self.window()
        source, table = self.ports.source, self.ports.table
        if not source.exists():
            raise Unknown(
                f"the lake table doesn't exist, so that nothing of the window {window.id} can be copied"
            )
        table.ensure(create=not table.exists())
        look = self._look(window)
        if begin_table(window, table, look.positions, self.ports.landed, run=self.run):
            self.on_step("begun")
        # Once for the whole wave: what is left to copy and what is left to read are told of the same positions.
        positions = table.load().positions
        wishes = wishes_of(window, positions)
        plan = plan_next(
            wishes,
            within(look.files, self._days(window)) if wishes.wanted else (),
            surveyor=self.ports.copier,
            limits=self.limits,
            known=self.known,
        )
        if plan.ranges:
            return plan
        # Only what the lake table lacks: the rest would spend the shards' limits on rows that it has.
        lacking = stretches_of(window, positions)
        return _Stretches(window, lacking, positions) if lacking else Wave(Does.COPY)

    def stage(self, plan: WavePlan | _Stretches) -> ReadyWave:
        return self._read(plan) if isinstance(plan, _Stretches) else self._copy(plan)

    def _copy(self, plan: WavePlan) -> ReadyWave:
        parsed = self.ports.copier.copy(plan)
        # Nothing may drop rows of a copy: each row that was looked at has to come back.
        accounts = account(plan, parsed, dropped_as="", version="", schema=0)
        ranges = accounted_ranges(Kind.COPIED, plan, accounts, parsed.files, run=self.run, code=None)
        done = wave_of(Does.COPY, plan.rows, accounts.values(), is_last=plan.is_last)
        return ReadyWave(self.ports.table, Proposal(tuple(ranges), parsed.files, whole=True), done)

    def _read(self, plan: _Stretches) -> ReadyWave:
        table = self.ports.table
        manifest = self.reading.read(self.id, plan.lacking, plan.positions, table.staging_spec())
        ranges = ranges_of(manifest, run=self.run)
        rows = sum(landed_range.rows for landed_range in ranges)
        notes = tuple(
            f"{landed_range.key}: {landed_range.why}" for landed_range in ranges if landed_range.why
        )

        def follow(wave: Wave) -> Wave:
            # After the commit: what was read of the other shards needn't be read again.
            if failed := next((staged for staged in manifest.staged if staged.error), None):
                raise Transient(
                    f"{failed.error}. Other records of the window {self.id} that were read are committed, "
                    "and no position of the lake table moved; run the window again. If this goes on, make a new "
                    "window, which tells what is out of reach"
                )
            after = table.load().positions
            return replace(wave, is_last=all(is_done(planned, after) for planned in plan.window.ranges))

        proposal = Proposal(ranges, manifest.files, whole=True) if ranges else None
        return ReadyWave(table, proposal, Wave(Does.READ, rows, rows, notes=notes), follow)

    def _days(self, window: ReplayWindow) -> Days:
        """The days on which the window's records arrived. They stay the same, and reading all ledgers of its shards
        takes a while."""
        if self.id not in self.days:
            self.days[self.id] = days_of(window, story_of(self.ports.landed.entries(filter_of(window))))
        return self.days[self.id]

    def _look(self, window: ReplayWindow) -> SourceLook:
        look, landed = self.ports.source.look(), None
        if lacks_position(window, look.positions):
            landed = story_of(self.ports.landed.entries(filter_of(window)))
            # Ranges may have landed since the first look: then it lacks their rows.
            look = self.ports.source.look()
        if reasons := list(why_not(window, look.positions, self.ports.table.load().positions, landed)):
            raise WrongShape(
                f"the window {window.id} can't be copied: {reasons[0]}. Nothing was copied; "
                "let the lake table land these records again, or make a new window"
            )
        return look

    def refusal(self, refused: Sequence[RangeRefused]) -> HeadraceError:
        if strange := next((refusal for refusal in refused if refusal.fatal), None):
            return WrongStream(f"{strange.range.key}: {what_to_do(strange.why)}")
        return Transient(
            f"another run has copied records of the window {self.id} meanwhile: {refused[0].range.key}: "
            f"{refused[0].why}. Nothing of this wave was committed; run the window again, "
            "and it goes on after the other run's records"
        )

    def rows_done(self) -> int:
        """Rows of the window's table that were copied, by its ledgers."""
        return sum(copied_range.rows for copied_range in self._ranges(Kind.COPIED))

    def read_from_stream(self) -> int:
        """Rows of the window's table that were read from the stream, by its ledgers."""
        return sum(read_range.rows for read_range in self._ranges(Kind.READ))

    def losses(self) -> Iterator[str]:
        """Sentences about records that may have left the stream before they were read, by the ledgers of the
        window's table.
        """
        return (
            f"{read_range.key}: {read_range.why}" for read_range in self._ranges(Kind.READ) if read_range.why
        )

    def _ranges(self, kind: Kind) -> Iterator[Range]:
        if self.ports.table.exists():
            entries = self.ports.lineage.entries(RangeFilter(kinds=frozenset({kind})))
            pages = (entry.page for entry in entries if isinstance(entry, LedgerEntry))
            yield from (
                landed_range for page in pages for landed_range in page.ranges if landed_range.kind is kind
            )

    def notes_at_end(self, window: ReplayWindow) -> Iterator[str]:
        copied = self.rows_done()
        # The ledgers state rows for whole ranges only, so of a window that cuts one the number isn't known.
        if window.is_whole and copied != window.rows:
            why = (
                "rows may have been removed from the lake table since they landed (upkeep.retention, another engine, or a "
                "rollback after which a person's command passed over them)"
                if copied < window.rows
                else "aggregates of its records may have been taken apart since (`--unpack`), or another engine may "
                "have inserted rows"
            )
            yield (
                f"the window's table has {counted(copied, 'row')}, and the ledgers of the lake table stated "
                f"{window.rows:,} when the window was made: {why}"
            )
        elif not window.is_whole and window.rows and not copied and not self.read_from_stream():
            yield (
                "the lake table has no row of the window any more, or never had one: the ledgers only tell that the "
                f"ranges of which the window is a part had {counted(window.rows, 'row')} when it was made. If there were rows, "
                "upkeep.retention, another engine or a rollback removed them; `headrace lineage` tells what landed when"
            )
