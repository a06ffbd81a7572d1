"""Checks that the lake table still has as many rows as its ledgers state, in the ranges that a wave of a typed
table parses. Pure functions on values.

ledgers of the lake table    (0 .. 20] 7 rows   (20 .. 30] 4 rows   (30 .. 50] 9 rows
a wave that ends at 30       found 11 rows: whole.   found 10: a row has gone, and the wave would pass over it
a wave that is cut at 40     at least 7 + 4 + 1 rows; the next wave, up to 50, compares the ranges of both waves
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime

from headrace.pipeline.core.ledger.accounting import read_accounting
from headrace.pipeline.core.ledger.arrivals import APPROXIMATE, may_be_dropped
from headrace.pipeline.core.ledger.filter import RangeFilter
from headrace.pipeline.core.ledger.ledger import FilesDone, Kind, LedgerEntry, LedgerPage, Lost, Range
from headrace.pipeline.core.ledger.story import Step, Story
from headrace.pipeline.core.shards.position import LAST_SUB
from headrace.pipeline.core.shards.sort_texts import order_text, order_text_of
from headrace.pipeline.core.shards.stream import ShardKey
from headrace.pipeline.core.words.words import counted
from headrace.pipeline.typed.set_elsewhere import MADE, ParsedElsewhere, Way, WayTo
from headrace.pipeline.typed.values import PlannedRange, WavePlan
from headrace.pipeline.typed.window_edges import WindowEdges

_NO_WINDOW = WindowEdges()
_WITHOUT_COUNT = frozenset({Kind.REPAIR, Kind.REPOSITION})
"""Kinds of ranges of which the ledgers don't tell how many rows the table has there."""
# A day within the limits of datetime, so that adding or subtracting `APPROXIMATE` doesn't overflow.
_FIRST, _LAST = datetime(1, 1, 2, tzinfo=UTC), datetime(9999, 12, 30, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Differs:
    """A part of a shard in which the lake table has more or fewer rows than its ledgers state."""

    key: ShardKey
    rows_found: int
    stated: int
    """The number of rows that the ledgers state. Where `is_cut`, there are at least so many."""
    is_cut: bool
    steps: tuple[Step, ...]
    """The ranges that were compared."""

    @property
    def lacks(self) -> int:
        """How many rows are missing from the lake table; negative where it has more than the ledgers state."""
        return self.stated - self.rows_found

    @property
    def since(self) -> int:
        """The sequence number of the oldest snapshot that landed one of the compared ranges."""
        return min((step.sequence for step in self.steps), default=0)

    def __str__(self) -> str:
        least = "at least " if self.is_cut else ""
        return (
            f"the ledgers of the lake table state {least}{counted(self.stated, 'row')} of {self.key} here, "
            f"and {self.rows_found:,} were found"
        )


def ledgers_asked(plan: WavePlan, *, all_ledgers: bool = False) -> RangeFilter:
    """The filter for the lake table's ledgers that state how many rows the wave has to find. `all_ledgers`:
    whether to take all ledgers of the wave's shards, not only those of its arrival times.
    """
    shards = frozenset(planned.key.shard_id for planned in plan.ranges)
    if all_ledgers:
        return RangeFilter(shards=shards)
    # An arrival may be a little before the one that comes before it in the shard.
    since = min(
        planned.after.arrival - APPROXIMATE if planned.after and planned.after.arrival else _FIRST
        for planned in plan.ranges
    )
    ends = [planned.upto.arrival for planned in plan.ranges]
    until = max(_LAST if end is None else end + APPROXIMATE for end in ends)
    is_open = any(planned.upto.ended for planned in plan.ranges)
    return RangeFilter(shards=shards, arrived=(since, _LAST if is_open else until))


def differences(
    plan: WavePlan,
    story: Story,
    parsed: ParsedSoFar,
    *,
    edges: WindowEdges = _NO_WINDOW,
    all_ledgers: bool = False,
) -> Iterator[Differs]:
    """The differences between what a wave has found and what the ledgers state.

    `story`: what the ledgers of the lake table tell. `parsed`: what the typed table's ledgers tell of earlier waves.
    `edges`: of the window, where the wave is one of a window. `all_ledgers`: whether these are all ledgers of the shards. Else some that bring no rows may be missing, and what
    can't be compared by them differs.
    """
    for planned in plan.ranges:
        compared = _part_of(planned, story, parsed, edges)
        if (
            compared is not None
            and (compared.is_clear or not all_ledgers)
            and (differs := compared.judged(parsed)) is not None
        ):
            yield differs


def passed_over(
    elsewhere: Iterable[ParsedElsewhere], story: Story, rows_there: Callable[[PlannedRange], int]
) -> tuple[Differs, ...]:
    """The ranges of which the lake table has more rows now than the typed table has parsed, because a person has
    set the lake table to another snapshot since. Fewer rows are no mistake: those that are gone now were parsed
    before.

    Where records are left out now, fewer rows in all may hide rows that weren't there before. So then each range of
    the typed table's ledgers is compared by itself.

    `rows_there`: counts the rows of a range that the lake table has. The ledgers can't be used for that: records
    that land anew land in other ranges, and mostly one of these ends after the parsed range.
    """
    differing: list[Differs] = []
    for before in elsewhere:
        differs = _passed_in(before.parsed, before.looked, story, rows_there)
        if differs is None and not _leaves_nothing_out(story, before.parsed):
            parts = _parts_to_compare(before, story)
            of_parts = (_passed_in(part, before.looked, story, rows_there) for part in parts)
            differs = next(filter(None, of_parts), None)
        if differs is not None:
            differing.append(differs)
    return tuple(differing)


def _passed_in(
    parsed: PlannedRange, looked: int, story: Story, rows_there: Callable[[PlannedRange], int]
) -> Differs | None:
    low, high = order_text_of(parsed.after), order_text(parsed.upto)
    # Aggregates that were taken apart after the look bring no record that wasn't parsed.
    apart = sum(
        step.range.rows for step in _taken_apart(story, parsed.key, looked) if _is_within(step, low, high)
    )
    there = rows_there(parsed) - apart
    return Differs(parsed.key, parsed.rows, there, is_cut=False, steps=()) if there > parsed.rows else None


def _taken_apart(story: Story, key: ShardKey, looked: int) -> tuple[Step, ...]:
    steps = story.of(key)
    return tuple(step for step in steps if step.range.kind is Kind.UNPACKED and step.sequence > looked)


def _leaves_nothing_out(story: Story, parsed: PlannedRange) -> bool:
    """Whether each record of the range is in the lake table: its ledgers lead from one end to the other by landings alone."""
    low, high = order_text_of(parsed.after), order_text(parsed.upto)
    # A landing in which the range begins is looked at as a whole.
    cut = [step for step in story.of(parsed.key) if step.range.kind is Kind.LANDED and _has_inside(step, low)]
    low = min((order_text_of(step.range.after) for step in cut), default=low)
    steps = [step for step in story.of(parsed.key) if _is_within(step, low, high) and not _stays(step)]
    kinds = {step.range.kind for step in steps}
    return (
        kinds <= {Kind.LANDED, Kind.UNPACKED}
        and not _has_gap_after(story, parsed.key, low)
        and _is_clear(story, parsed.key, low, high)
    )


def _has_gap_after(story: Story, key: ShardKey, place: str) -> bool:
    """Whether records were given up that come directly after the place. Such a range ends where it begins: at the last
    record before them."""
    return any(
        step.range.kind is Kind.SKIPPED and order_text_of(step.range.after) == place for step in story.of(key)
    )


def _parts_to_compare(before: ParsedElsewhere, story: Story) -> list[PlannedRange]:
    """The parts of which the lake table's rows are counted by themselves, newest first. The ledger of aggregates that were taken
    apart in several parts tells only of these together. Parts side by side that leave nothing out are counted at once, because
    each count reads files."""
    joined: list[PlannedRange] = []
    is_later_whole = False
    apart = _taken_apart(story, before.parsed.key, before.looked)
    for part in before.parts:
        is_whole = _leaves_nothing_out(story, part)
        is_apart = any(_has_inside(step, order_text(part.upto)) for step in apart)
        if joined and (is_apart or (is_whole and is_later_whole)):
            later = joined.pop()
            joined.append(replace(later, after=part.after, rows=later.rows + part.rows))
            is_later_whole = is_whole and is_later_whole
        else:
            joined.append(part)
            is_later_whole = is_whole
    return joined


class ParsedSoFar:
    """How many rows earlier waves have decided about. The numbers come from the typed table's ledgers, which are
    only read where a wave ended within a range of the lake table's ledgers.
    """

    def __init__(
        self,
        pages: Iterable[LedgerPage],
        way_to: WayTo = lambda _snapshot, _sequence: Way.MAIN,
    ) -> None:
        self._pages = iter(pages)
        self._way_to = way_to
        self._ranges: list[tuple[Range, FilesDone | None]] = []

    def back_from(self, key: ShardKey, end: str) -> Iterator[tuple[Range, FilesDone | None]]:
        """The parsed ranges of the shard from the one that ends at the position `end` back to older ones, each
        with the snapshot of the lake table from which its wave read; None in place of the snapshot where no
        ledger tells it.
        """
        # The ledgers are read once, and kept for the other shards of the wave.
        for parsed_range, looked in self._all():
            if parsed_range.key == key and parsed_range.moves and order_text(parsed_range.upto) == end:
                yield parsed_range, looked
                end = order_text_of(parsed_range.after)

    def has_main_left(self, looks: Iterable[FilesDone | None]) -> bool:
        """Whether one of these snapshots of the lake table is no longer an ancestor of its branch `main`, as
        after a rollback.
        """
        return any(
            looked is not None and self._way_to(looked.snapshot, looked.sequence) is Way.LEFT
            for looked in looks
        )

    def _all(self) -> Iterator[tuple[Range, FilesDone | None]]:
        yield from self._ranges
        for page in self._pages:
            new = [(made_range, page.looked) for made_range in page.ranges if made_range.kind in MADE]
            self._ranges += new
            yield from new


@dataclass(frozen=True, slots=True)
class _Part:
    """What is compared of one shard: rows of this wave, and of earlier waves that were cut within a range of the
    ledgers."""

    key: ShardKey
    rows_found: int
    steps: tuple[Step, ...]
    cut: int | None
    """Where the wave ends within a range: how many rows of it there are at least."""
    is_clear: bool
    """Whether the ledgers tell of all rows that are there."""
    looks: tuple[FilesDone | None, ...] = ()
    """The snapshots of the lake table at which the earlier waves looked."""
    may_be_apart: bool = False
    """Whether a ledger is lost that is younger than these ranges: it may have told of aggregates that were taken apart."""

    def judged(self, parsed: ParsedSoFar) -> Differs | None:
        stated = sum(step.range.rows for step in self.steps) + (self.cut or 0)
        # Of a range that the wave cuts only the least number of rows is known, so that more aren't a mistake.
        if self.rows_found == stated or (self.cut is not None and self.rows_found > stated):
            return None
        # A person has set the lake table elsewhere since earlier waves: what was taken apart then may be whole aggregates
        # now.
        if self.rows_found > stated and (self.may_be_apart or parsed.has_main_left(self.looks)):
            return None
        return Differs(self.key, self.rows_found, stated, self.cut is not None, self.steps)


def _part_of(planned: PlannedRange, story: Story, parsed: ParsedSoFar, edges: WindowEdges) -> _Part | None:
    """None where nothing can be compared, because the aggregates of an earlier wave's rows were taken apart since, or a
    person has set the lake table back and the records of these rows landed anew, or not at all, or the typed table's
    ledgers of that wave have expired."""
    # `~` sorts behind every sort key, since these begin with a digit.
    low, high = order_text_of(planned.after), "~" if planned.upto.ended else order_text(planned.upto)
    steps = [step for step in story.of(planned.key) if step.range.rows]
    landed = [step for step in steps if step.range.kind is not Kind.UNPACKED]
    apart = [step for step in steps if step.range.kind is Kind.UNPACKED]
    before, behind, looks = 0, 0, tuple[FilesDone | None, ...]()
    if any(_has_inside(step, low) for step in landed):
        earlier = _back_to_a_beginning(planned.key, low, story.of(planned.key), parsed, edges)
        # Rows that were only counted are counted as they are now.
        if earlier is None or (earlier[2] and any(_is_within(step, earlier[0], high) for step in apart)):
            return None
        low, before, looks = earlier
    cuts = [step for step in landed if _has_inside(step, high)]
    if cuts and (rest := edges.behind(planned.key, high, (step.range for step in cuts))) is not None:
        high, behind = rest
        cuts = []
    if any(_has_inside(step, low) or _has_inside(step, high) for step in apart):
        return None
    inside = tuple(
        step
        for step in steps
        if low <= order_text_of(step.range.after) and order_text(step.range.upto) <= high
    )
    # A wave ends at a row, unless a person has cut the window there. An aggregate that landed as one row, at the end of a
    # range, may have been taken apart since: then its last row is behind that end.
    has_row = planned.upto.sub != LAST_SUB and all(
        step.range.after is None or step.range.after.sequence != planned.upto.sequence for step in cuts
    )
    cut = int(has_row) if cuts else None
    return _Part(
        planned.key,
        planned.rows + before + behind,
        inside,
        cut,
        _is_clear(story, planned.key, low, high),
        looks,
        may_be_apart=any(step.sequence < part.sequence for part in story.lost for step in inside),
    )


def _back_to_a_beginning(
    key: ShardKey, place: str, steps: Sequence[Step], parsed: ParsedSoFar, edges: WindowEdges
) -> tuple[str, int, tuple[FilesDone | None, ...]] | None:
    """Where earlier waves of the typed table began together with a range of the lake table, how many rows they had from
    there on, and at which snapshots they looked. None where one of them came before such a range. Where a window begins
    within a range, that is the beginning of this range, and the rows before the window count, too."""
    rows, looks = 0, list[FilesDone | None]()
    landed = [step for step in steps if step.range.rows and step.range.kind is not Kind.UNPACKED]

    def begin_of_window(low: str) -> tuple[str, int] | None:
        return edges.before(key, low, (step.range for step in landed if _has_inside(step, low)))

    if (begin := begin_of_window(place)) is not None:
        return *begin, ()
    for parsed_range, looked in parsed.back_from(key, place):
        rows += read_accounting(parsed_range.account).rows
        looks.append(looked)
        sequence = 0 if looked is None else looked.sequence
        low = order_text_of(parsed_range.after)
        if any(
            step.sequence > sequence and _is_within(step, low, order_text(parsed_range.upto))
            for step in steps
        ):
            return None
        if not any(_has_inside(step, low) for step in landed):
            return low, rows, tuple(looks)
        if (begin := begin_of_window(low)) is not None:
            return begin[0], rows + begin[1], tuple(looks)
    return None


def _has_inside(step: Step, place: str) -> bool:
    return order_text_of(step.range.after) < place < order_text(step.range.upto)


def _stays(step: Step) -> bool:
    """Whether a person has set the position to where it was, as `headrace reposition` does after a rollback."""
    return (
        step.range.kind is Kind.REPOSITION
        and step.range.after is not None
        and step.range.after.token == step.range.upto.token
    )


def _is_within(step: Step, low: str, high: str) -> bool:
    """Whether the range has a part in common with what lies between."""
    return order_text_of(step.range.after) < high and order_text(step.range.upto) > low


def _is_clear(story: Story, key: ShardKey, low: str, high: str) -> bool:
    """Whether ranges whose rows are known lead from one position to the other. Not so after a person or a repair has
    moved the position, where records may have landed twice, and where ledgers are lost."""
    reached, has_ended = low, False
    for step in story.steps.get(key, ()):
        begins, ends = order_text_of(step.range.after), order_text(step.range.upto)
        if max(begins, ends) > low and begins < high:
            is_counted = step.range.kind not in _WITHOUT_COUNT or _stays(step)
            if not is_counted or begins != reached:
                return False
            reached, has_ended = ends, step.range.upto.ended
    return not story.derived.get(key) and (reached >= high or has_ended)


def excused(
    differs: Differs, entries: Iterable[LedgerEntry | Lost], *, kept_from: date | None, begun: datetime | None
) -> bool:
    """Whether the missing rows may be ones that the retention removed before the first commit of the typed table.
    After its first commit, the retention keeps rows until the typed table has them. `begun`: the time of the
    first commit; None where there is none yet, and for a window, all ranges of which had landed when it was made.
    """
    landed: Mapping[int, datetime] = {entry.snapshot: entry.at for entry in entries}
    may_lack = sum(
        step.range.rows
        for step in differs.steps
        if may_be_dropped(step, kept_from) and (begun is None or landed[step.snapshot] < begun)
    )
    return 0 < differs.lacks <= may_lack
