"""A wave of a replacement: records of a window are parsed again by the present code, and the new rows take the place of
the older ones.

    settle ─► look ─► survey ─► parse ─► copy what stays ─► account ─► commit of the typed table ─► settle
                                                                       (decides)                    (carries out)

The commit of the typed table lands the new rows, removes the files with older rows of the same ranges, and raises the
generation of each shard (`headrace.pipeline.core.ledger.generation`). So a killed run leaves either the old rows or the
new ones, and of two replacements of the same rows at once the second one is refused. The lake table is only read, and
no position of a shard moves.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from headrace.pipeline.core.landing.landing import Proposal, RangeRefused
from headrace.pipeline.core.landing.valid_through_text import time_text
from headrace.pipeline.core.ledger.accounting import Accounting, read_accounting
from headrace.pipeline.core.ledger.author import Author
from headrace.pipeline.core.ledger.batch import TakenFile
from headrace.pipeline.core.ledger.filter import RangeFilter
from headrace.pipeline.core.ledger.generation import chain_of, next_link
from headrace.pipeline.core.ledger.ledger import DONE_ANEW, Kind, Range
from headrace.pipeline.core.ledger.story import Story, story_of
from headrace.pipeline.core.shards.position import Position, Positions
from headrace.pipeline.core.shards.stream import ShardKey, StreamId
from headrace.pipeline.errors import BadSetting, Overtaken, Unknown, WrongShape
from headrace.pipeline.ports.lineage import LineageTable
from headrace.pipeline.settings.blocks.parse import ParseSettings
from headrace.pipeline.typed.account import account, told_reasons, why_stop
from headrace.pipeline.typed.done_wave import Does, Wave, wave_of
from headrace.pipeline.typed.latest.merging import check_decided_once
from headrace.pipeline.typed.next_wave import plan_next
from headrace.pipeline.typed.own_table import check_own_table
from headrace.pipeline.typed.ports import ParsePorts, Parser, SourceLook
from headrace.pipeline.typed.quarantine.settle import Settling
from headrace.pipeline.typed.values import Parsed, Piece, SurveyOrder, WavePlan, Wishes
from headrace.pipeline.typed.wave_engine import ReadyWave, accounted_ranges
from headrace.pipeline.windows.copy_plan import wishes_of
from headrace.pipeline.windows.days import days_of, within
from headrace.pipeline.windows.former_lives import left_unparsed, sentences_of, without
from headrace.pipeline.windows.make import grown
from headrace.pipeline.windows.replace_plan import (
    Leaving,
    check_copied,
    check_covered,
    check_once,
    check_whole,
    done_up_to,
    for_quarantine,
    is_carried_out,
    leaving_of,
    never_landed,
    replayed_ranges,
    survey_order_of,
    whole_order,
    why_not_replaced,
    with_removed,
)
from headrace.pipeline.windows.waves import WindowWaves
from headrace.pipeline.windows.window import ReplayWindow, filter_of


def check_replaceable(target: ParseSettings) -> None:
    """Raise BadSetting for a target whose rows can't be replaced range by range."""
    check_decided_once(target, "a replacement of rows")
    if target.unique.by:
        raise BadSetting(
            f"the target {target.name} lands the same event once (unique.by), and which row of an event stayed was "
            "decided by rows outside of a window, too. So its rows can't be replaced range by range, "
            "and nothing was replaced. Parse the records into another target with unique.by instead"
        )


@dataclass(frozen=True, slots=True)
class _Replacement:
    """What a wave replaces: looks at all tables, and what the wave takes of them."""

    window: ReplayWindow
    rows: WavePlan
    """The rows of the lake table that are parsed again."""
    typed: Leaving
    aside: Leaving
    typed_look: SourceLook
    aside_look: SourceLook


@dataclass(frozen=True, slots=True, kw_only=True)
class Replacing(WindowWaves[_Replacement]):
    """The replacement of a window's rows in one typed table and its quarantine table, in waves."""

    settings: ParseSettings
    ports: ParsePorts
    settling: Settling
    landings: LineageTable
    """The ledgers of the lake table."""
    patience: int = 1
    """Waves in a row that other runs overtake, before the replacement gives up. A backfill may have several runs."""

    @property
    def tries(self) -> int:
        return self.patience

    def plan(self) -> _Replacement | Wave:
        window, ports = self.window(), self.ports
        # What a commit has decided, maybe one of an older version of the code, is carried out first.
        self.settling.settle()
        # The quarantine table first. The generations of the commit begin where this look found them, so that nothing
        # else has decided about rows of these shards between this look and the commit.
        aside_look = ports.set_aside.look()
        typed_look = ports.typed.table.look()
        # After the generations of the look: a stale answer is refused by these, and a range that is replaced twice has
        # the same rows.
        done = done_up_to(ports.lineage.entries(filter_of(window, DONE_ANEW)), window)
        look = ports.source.look()
        # After the look: whatever the looked-at files have, these ledgers tell.
        story = story_of(self.landings.entries(filter_of(window)))
        window = without(window, left_unparsed(window, look.positions, typed_look.positions))
        if not window.ranges:
            return Wave(Does.REPLACE)
        # For each wave: a person may move a position back at any time.
        check_once(window, story)
        if reasons := list(why_not_replaced(window, look.positions, typed_look.positions)):
            raise WrongShape(
                f"the rows of the window {window.id} can't be replaced: {reasons[0]}. Nothing of this wave was replaced"
            )
        if not is_carried_out(window, typed_look.positions, aside_look.positions):
            raise self._too_late("the quarantine table is still to follow it")
        rows = plan_next(
            wishes_of(window, done),
            within(look.files, days := days_of(window, story)),
            surveyor=ports.parser,
            limits=self.limits,
            known=self.known,
        )
        if not rows.ranges:
            return Wave(Does.REPLACE)
        order = [(planned.key, planned.after, planned.upto) for planned in rows.ranges]
        # A row of each of the tables tells when its record arrived.
        typed, aside = (
            self._leaving(
                leaver, table_look, survey_order_of(order, within(table_look.files, days), window.streams)
            )
            for leaver, table_look in ((ports.typed.leaver, typed_look), (ports.redriver, aside_look))
        )
        parts = [(part.key, part.after, part.upto) for part in never_landed(rows, story)]
        without_record = [
            piece
            for leaver, leaving in ((ports.typed.leaver, typed), (ports.redriver, aside))
            for piece in self._in_parts(leaver, leaving, parts, window.streams)
        ]
        check_covered(rows, typed, aside, without_record)
        return _Replacement(window, rows, typed, aside, typed_look, aside_look)

    def stage(self, plan: _Replacement) -> ReadyWave:
        ports, typed, aside = self.ports, plan.typed, plan.aside
        parsed, accounts = self._parsed(plan.rows, plan.window)
        exchanged = with_removed(accounts, self.id, typed=typed, aside=aside)
        copied = self._copied(ports.typed.leaver, typed, plan.rows, plan.typed_look.positions)
        kept_aside = self._copied(ports.redriver, aside, plan.rows, plan.aside_look.positions)
        generations = for_quarantine(exchanged, parsed, kept_aside, aside)
        # Files alone can't guard this commit, because a range without rows has none. The generations do, by the
        # compare-and-swap of positions.
        ranges = (
            *accounted_ranges(
                Kind.REPLAY, plan.rows, exchanged, parsed.files, run=self.run, code=ports.code()
            ),
            *self._generations(plan.aside_look.positions, generations),
        )
        # Files with rows that stay, maybe of shards of which the commit has no range: they land with it as a whole.
        shards = frozenset(planned.key for planned in plan.rows.ranges)
        whole = (replace(staged, shards=shards) for staged in copied.aside)
        proposal = Proposal(
            ranges,
            (*parsed.files, *whole),
            whole=True,
            also=(*parsed.aside, *kept_aside.aside),
            taken=tuple(TakenFile(file.path, plan.aside_look.at) for file in aside.files),
            gone=tuple(file.path for file in typed.files),
        )
        done = wave_of(Does.REPLACE, plan.rows.rows, exchanged.values(), is_last=plan.rows.is_last)
        return ReadyWave(ports.table, proposal, done, self.settling.after)

    def _parsed(self, plan: WavePlan, window: ReplayWindow) -> tuple[Parsed, dict[ShardKey, Accounting]]:
        """The rows that the present code makes of the wave's records, and what became of each."""
        parsed, schema = self.ports.parser.parse(plan, Wishes(streams=window.streams))
        accounts = account(
            plan, parsed, dropped_as=self.ports.dropped_as, version=self.settings.version, schema=schema
        )
        if why := why_stop(accounts.values(), self.settings.stop_above, told_reasons(parsed, self.settings)):
            raise WrongShape(
                f"{self.settings.name}: {why}. Nothing of this wave was replaced, and the older rows are all there. "
                "Correct the schema or the parser, or raise stop_above of this target, and run the window again"
            )
        return parsed, accounts

    def rows_done(self) -> int:
        """Rows of the lake table that were parsed again for the window, by the ledgers of the typed table."""
        return sum(read_accounting(replayed.account).rows for replayed in self._replaced_ranges())

    def _replaced_ranges(self) -> Iterator[Range]:
        if self.ports.table.exists():
            yield from replayed_ranges(self.ports.lineage.entries(RangeFilter(kinds=DONE_ANEW)), self.id)

    def out_of_reach(self, window: ReplayWindow) -> Iterator[str]:
        """Sentences about ranges that can't be replaced any more since the window was made."""
        if self.ports.source.exists() and self.ports.table.exists():
            lake, typed = self.ports.source.look().positions, self.ports.table.load().positions
            yield from sentences_of(left_unparsed(window, lake, typed), self.settings.table)

    def notes_at_end(self, window: ReplayWindow) -> Iterator[str]:
        """Sentences at the end of a replacement: what couldn't be replaced, what other tables still have, and
        which part of them has to be made anew.
        """
        yield from (f"out of reach: {sentence}" for sentence in self.out_of_reach(window))
        ranges = tuple(self._replaced_ranges())
        oldest = min((replayed.first_arrival for replayed in ranges if replayed.first_arrival), default=None)
        newest = max((replayed.last_arrival for replayed in ranges if replayed.last_arrival), default=None)
        if oldest is not None and newest is not None:
            yield (
                f"tables that were made of {self.settings.table} before still have the older rows: "
                f"make them anew for records that arrived from {time_text(oldest)} to {time_text(newest)}"
            )

    def begin(self) -> None:
        """Raise an error where the lake table doesn't have all rows of the window any more."""
        check_replaceable(self.settings)
        window, ports = self.window(), self.ports
        if not ports.source.exists():
            raise Unknown(
                f"the lake table doesn't exist, so that nothing of the window {self.id} can be parsed"
            )
        if not (ports.table.exists() and ports.quarantine.exists()):
            raise Unknown(
                f"nothing has been parsed into {self.settings.table} yet, so that there is nothing to replace; "
                f"`headrace parse {self.settings.name}` parses all records"
            )
        check_own_table(ports.table, self.settings, of_window="", past="replaced")
        ports.table.ensure(create=False)
        ports.quarantine.ensure(create=False)
        look, story = self._look_with_ledgers(window)
        window = without(window, left_unparsed(window, look.positions, ports.table.load().positions))
        check_once(window, story)
        # The ledgers state rows for whole landings only, so a cut window is counted with the landings that it cuts.
        window = grown(window, story)
        order = whole_order(window, within(look.files, days_of(window, story)))
        self._check_deletes("the lake table", look, order)
        check_whole(window, ports.parser.survey(order).pieces if order.files else ())

    def _look_with_ledgers(self, window: ReplayWindow) -> tuple[SourceLook, Story]:
        """A look at the lake table, and the ledgers that state as many rows of the window's shards as it has."""
        shard_filter = filter_of(window)
        before = story_of(self.landings.entries(shard_filter))
        while True:
            look = self.ports.source.look()
            self.on_step("looked")
            story = story_of(self.landings.entries(shard_filter))
            # Where aggregates were taken apart after the look, the ledgers state rows that it lacks.
            if before.replays == story.replays:
                return look, story
            before = story

    def _leaving(self, leaver: Parser, look: SourceLook, order: SurveyOrder) -> Leaving:
        self._check_deletes(f"{self.settings.table} or its quarantine table", look, order)
        return leaving_of(look.files, leaver.survey(order).pieces if order.files else ())

    def _in_parts(
        self,
        leaver: Parser,
        leaving: Leaving,
        parts: Sequence[tuple[ShardKey, Position | None, Position]],
        streams: tuple[StreamId, ...],
    ) -> Sequence[Piece]:
        """The rows that leave and are of these parts of shards."""
        order = survey_order_of(parts, leaving.files, streams)
        return leaver.survey(order).pieces if parts and order.files else ()

    def _check_deletes(self, where: str, look: SourceLook, order: SurveyOrder) -> None:
        paths = set(order.files)
        deleted = next((file.path for file in look.files if file.deletes and file.path in paths), None)
        if deleted:
            raise WrongShape(
                f"rows of {where} can't be read now: another engine has deleted rows of {deleted} by a delete file. "
                "Nothing of this wave was replaced; let that engine run its rewrite_data_files"
            )

    def _copied(self, leaver: Parser, leaving: Leaving, plan: WavePlan, positions: Positions) -> Parsed:
        if not leaving.staying:
            return Parsed()
        streams = tuple(sorted({key.stream for key in positions.shards}))
        copied = leaver.copy_unselected(leaving.files, [planned.bound for planned in plan.ranges], streams)
        check_copied(leaving, copied)
        return copied

    # One number for a shard, which redrives count as well: both decide about the same rows, and have to exclude each
    # other.
    def _generations(self, positions: Positions, exchanged: Mapping[ShardKey, Accounting]) -> Iterator[Range]:
        for key, accounting in exchanged.items():
            before = positions.of(chain_of(key))
            yield Author(self.run).range(
                Kind.GENERATION, chain_of(key), before, next_link(before), account=accounting.text()
            )

    def refusal(self, refused: Sequence[RangeRefused]) -> Overtaken:
        return self._too_late(refused[0].why)

    def _too_late(self, why: str) -> Overtaken:
        return Overtaken(
            f"another commit has changed rows of {self.settings.table} or its quarantine table meanwhile: {why}. "
            "Nothing of this wave was replaced, and no row is lost or doubled; run the window again, "
            "and it goes on with what is left"
        )
