"""The plan of a replacement's wave: which rows of a window are parsed again, and which older rows leave the typed
table and its quarantine table in the same commit. Pure functions on values.

A wave takes a range `(after, upto]` of some shards. Its rows in the lake table are parsed by the present code. In
both tables, each file that has a row of these ranges leaves, and its other rows come back in a new file.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from headrace.pipeline.core.ledger.accounting import Accounting, read_accounting
from headrace.pipeline.core.ledger.generation import is_chain
from headrace.pipeline.core.ledger.ledger import LedgerEntry, LedgerPage, Lost, Range
from headrace.pipeline.core.ledger.story import Story
from headrace.pipeline.core.shards.position import Position, Positions, reaches
from headrace.pipeline.core.shards.sort_texts import order_text, order_text_of, sort_key_of
from headrace.pipeline.core.shards.stream import ShardKey, StreamId
from headrace.pipeline.core.words.words import counted
from headrace.pipeline.errors import WrongShape
from headrace.pipeline.typed.account import aside_name
from headrace.pipeline.typed.files.portion import plan_portion
from headrace.pipeline.typed.values import (
    Bound,
    Parsed,
    Piece,
    PlannedRange,
    SourceFile,
    SurveyOrder,
    Wanted,
    WavePlan,
    Wishes,
)
from headrace.pipeline.windows.make import twice_in
from headrace.pipeline.windows.window import ReplayWindow

# More rows than a table can have, so that the portion takes every file that may have one.
_NO_LIMIT = 2**62


def replays_of(page: LedgerPage, window: str) -> LedgerPage:
    """Those parts of a ledger (of a typed table or of the lake table) that belong to this window."""
    ranges = (recorded for recorded in page.ranges if not recorded.moves)
    return LedgerPage(
        tuple(recorded for recorded in ranges if read_accounting(recorded.account).window == window)
    )


def replayed_ranges(entries: Iterable[LedgerEntry | Lost], window: str) -> Iterator[Range]:
    """The ranges of ledgers that belong to this window."""
    for entry in entries:
        if isinstance(entry, LedgerEntry):
            yield from replays_of(entry.page, window).ranges


def done_up_to(entries: Iterable[LedgerEntry | Lost], window: ReplayWindow) -> Positions:
    """How far the replacement of the window has come, by the ledgers of the typed table (oldest first):
    positions; the window's beginning where nothing is done.
    """
    shards = {planned.key: planned.after for planned in window.ranges if planned.after is not None}
    shards |= {recorded.key: recorded.upto for recorded in replayed_ranges(entries, window.id)}
    # A later replay of the same range gives the same rows, so that the newest end counts.
    return Positions({}, shards)


def why_not_replaced(window: ReplayWindow, source: Positions, target: Positions) -> Iterator[str]:
    """Why the window's rows can't be replaced now: one sentence for each shard that is in the way."""
    for planned in window.ranges:
        # The lake table has dropped the position of an ended shard that Kinesis has forgotten, and has all of its rows.
        landed, position = source.of(planned.key), target.of(planned.key)
        if landed is not None and not reaches(landed, planned.upto):
            yield (
                f"{planned.key}: the lake table is at {landed}, "
                f"before the window's end {planned.upto}: it was rolled back since"
            )
        if position is None or not reaches(position, planned.upto):
            yield (
                f"{planned.key}: the typed table is at {position or 'no position'}, "
                f"before the window's end {planned.upto}; parse these records first "
                "(`headrace parse`)"
            )


def is_carried_out(window: ReplayWindow, typed: Positions, aside: Positions) -> bool:
    """Whether the quarantine table, as it was loaded, has taken over everything that the typed table has decided
    about the window's records. If not, a record may be in both tables, or may still come into the quarantine
    table.
    """
    generations = {key: position.token for key, position in typed.shards.items() if is_chain(key)}
    settled = {key: position.token for key, position in aside.shards.items() if is_chain(key)}
    ends = ((aside.of(planned.key), planned.upto) for planned in window.ranges)
    return generations == settled and all(
        position is not None and reaches(position, upto) for position, upto in ends
    )


def survey_order_of(
    ranges: Iterable[tuple[ShardKey, Position | None, Position]],
    files: Iterable[SourceFile],
    streams: tuple[StreamId, ...],
) -> SurveyOrder:
    """The order for a survey of all rows of these ranges, in the files that may have some by their sort keys."""
    lacks = tuple(Wanted(key, after, upto, floor=sort_key_of(after)) for key, after, upto in ranges)
    portion = plan_portion(files, Wishes(lacks), rows=_NO_LIMIT)
    bounds = tuple(Bound(lack.key, lack.low, lack.high) for lack in lacks)
    paths = tuple(file.path for file in portion.files)
    return SurveyOrder(paths, bounds, frozenset(), streams, None, others=False)


def whole_order(window: ReplayWindow, files: Iterable[SourceFile]) -> SurveyOrder:
    """The order for a survey that counts all rows of the window."""
    return survey_order_of(((r.key, r.after, r.upto) for r in window.ranges), files, window.streams)


def check_once(window: ReplayWindow, story: Story) -> None:
    """Raise an error where the lake table has records of the window twice. `story`: its ledgers."""
    if twice := twice_in(window, story):
        raise WrongShape(
            f"the lake table has records of {twice[0]} twice in the window {window.id}, "
            "because a person has moved the position of the shard back "
            "since the window was made. Nothing more was replaced, "
            "because the typed table would have these rows twice, too; make a window of "
            "records that landed once"
        )


def check_whole(window: ReplayWindow, pieces: Iterable[Piece]) -> None:
    """Raise an error where the lake table doesn't have exactly the rows of the window that its ledgers state.

    `pieces`: the rows that were found. `window`: as `headrace.pipeline.windows.make.grown` made it, because the
    ledgers state the rows of whole ranges.
    """
    rows = sum(piece.rows for piece in pieces)
    if rows > window.rows:
        raise WrongShape(
            f"the lake table has {counted(rows, 'row')} of the landings of the window {window.id}, "
            f"and its ledgers stated {window.rows:,} when the window was made: "
            "a person has moved the position of a shard back since, or another engine has inserted rows. "
            "Nothing was replaced, because the "
            "typed table would have rows twice"
        )
    if rows < window.rows:
        raise WrongShape(
            f"the lake table has {counted(rows, 'row')} of the landings of the window {window.id}, "
            f"and its ledgers state {window.rows:,}: rows were removed "
            "since they landed (upkeep.retention, another engine). "
            "Nothing was replaced, because the typed table may have rows that can't be "
            "made again; make a window of records that are all there"
        )


@dataclass(frozen=True, slots=True)
class Leaving:
    """The rows that leave one table."""

    files: tuple[SourceFile, ...] = ()
    """The files that leave it, each with at least one such row."""
    pieces: tuple[Piece, ...] = ()

    @property
    def staying(self) -> int:
        """The number of rows of these files that stay in the table, in new files."""
        return sum(file.rows for file in self.files) - sum(piece.rows for piece in self.pieces)

    def rows_of(self, key: ShardKey) -> int:
        return sum(piece.rows for piece in self.pieces if piece.key == key)


def leaving_of(files: Iterable[SourceFile], pieces: Sequence[Piece]) -> Leaving:
    """Which older rows leave the tables.

    `pieces`: the rows of the wave's ranges in these files.
    """
    # Each file with such a row leaves as a whole, because pyiceberg can't write delete files.
    paths = {piece.path for piece in pieces}
    taken = sorted((file for file in files if file.path in paths), key=lambda file: file.path)
    return Leaving(tuple(taken), tuple(pieces))


def never_landed(plan: WavePlan, story: Story) -> tuple[PlannedRange, ...]:
    """Those parts of the wave's ranges of which no record has landed, by the ledgers of the lake table: records
    were skipped or lost, or there were none. Empty where a ledger is lost, because it may have had rows.
    """
    parts: list[PlannedRange] = []
    for planned in plan.ranges if not story.lost else ():
        landed = [step.range for step in story.of(planned.key) if step.range.rows]
        reached = planned.after
        for step_range in sorted(landed, key=lambda r: order_text_of(r.after)):
            begins = step_range.after
            if order_text_of(begins) >= order_text(planned.upto):
                break
            before = _before_records_of(begins)
            if before is not None and order_text(before) > order_text_of(reached):
                parts.append(PlannedRange(planned.key, reached, before))
            if order_text(step_range.upto) > order_text_of(reached):
                reached = step_range.upto
        if order_text_of(reached) < order_text(planned.upto):
            parts.append(PlannedRange(planned.key, reached, planned.upto))
    return tuple(parts)


def _before_records_of(begins: Position | None) -> Position | None:
    """The last place before all rows of the records of a range that begins there. One that begins inside an aggregate has rows of that
    record, too."""
    if begins is None or begins.sequence is None or not begins.reads_again:
        return begins
    return replace(begins, sequence=begins.sequence - 1, sub=0, inside=False)


def check_covered(
    plan: WavePlan, typed: Leaving, aside: Leaving, without_record: Iterable[Piece] = ()
) -> None:
    """Raise an error where rows would be removed whose records the lake table no longer has. `without_record`:
    the rows to be removed of which no record has landed.

    The retention removes the oldest records of a shard, which shows in the lowest sort key. A person may have set
    the lake table to another snapshot and skipped records there, after they were parsed. Most other losses show
    in the number of rows, but not where aggregates were taken apart since, because then there are more rows.
    """
    lost = {piece.key for piece in without_record if piece.rows}
    for planned in plan.ranges:
        leaving = typed.rows_of(planned.key) + aside.rows_of(planned.key)
        lowest = min((p.first for p in (*typed.pieces, *aside.pieces) if p.key == planned.key), default="")
        if leaving and (leaving > planned.rows or lowest < planned.first or planned.key in lost):
            raise WrongShape(
                f"of {planned.key} after {planned.after or 'the start'} up to {planned.upto}, "
                f"{counted(leaving, 'row')} would leave the typed table and "
                "its quarantine table, and the lake table doesn't have all of their "
                f"records any more ({counted(planned.rows, 'row')}). Nothing of "
                "this wave was replaced; make a window of records that are all there"
            )


def check_copied(leaving: Leaving, copied: Parsed) -> None:
    """Raise an error where the tasks have copied another number of rows than the number that stays in the table."""
    if (copied_rows := sum(count.aside for count in copied.counts)) != leaving.staying:
        raise WrongShape(
            f"the files that a replacement takes have {counted(leaving.staying, 'row')} of other records, "
            f"and {copied_rows:,} were copied. Nothing was "
            "committed; report this as an error of Headrace"
        )


def with_removed(
    accounts: Mapping[ShardKey, Accounting], window: str, *, typed: Leaving, aside: Leaving
) -> dict[ShardKey, Accounting]:
    """What became of the rows of the lake table (`accounts`), with the numbers of older rows that they replace
    added.
    """
    return {
        key: replace(accounting, window=window, removed=(typed.rows_of(key), aside.rows_of(key)))
        for key, accounting in accounts.items()
    }


def for_quarantine(
    accounts: Mapping[ShardKey, Accounting], parsed: Parsed, copied: Parsed, aside: Leaving
) -> dict[ShardKey, Accounting]:
    """The accountings of a replacement for its quarantine table, by shard: how many rows the shard has in the new files,
    and which files these replace. Other shards have rows in the replaced files, too. `copied`: those rows.
    """
    stays = {count.key: count.aside for count in copied.counts}
    taken = tuple(aside_name(file.path) for file in aside.files)
    accountings: dict[ShardKey, Accounting] = {}
    for key in sorted(accounts.keys() | stays.keys()):
        rows = stays.get(key, 0) + (accounts[key].quarantined if key in accounts else 0)
        names = tuple(aside_name(file.path) for file in (*parsed.aside, *copied.aside) if key in file.shards)
        accountings[key] = Accounting(rows, 0, rows, aside=names, taken=taken)
    return accountings
