"""What a typed table has parsed of a lake table that a person has set elsewhere since. Pure functions on values.

the lake table when the waves looked   (0 .. 20] 7 rows   (20 .. 30] skipped   (30 .. 50] 9 rows: 16 rows are parsed
a person has set it back, and on       (0 .. 20] 7 rows   (20 .. 30] 4 rows    (30 .. 50] 9 rows: 4 were passed over

Records that land once more are the same ones, unless a person has undone a skip meanwhile, or has gone back to a
snapshot on whose way fewer records had been lost. Then rows land behind the typed table's position, where no wave would
ever look.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from enum import Enum, auto
from itertools import islice

from headrace.pipeline.core.ledger.accounting import read_accounting
from headrace.pipeline.core.ledger.ledger import Kind, LedgerPage, Range
from headrace.pipeline.core.ledger.story import Story
from headrace.pipeline.core.shards.sort_texts import order_text, order_text_of
from headrace.pipeline.core.shards.stream import ShardKey
from headrace.pipeline.typed.values import PlannedRange, WavePlan

MADE = frozenset({Kind.PARSED, Kind.PROCESSED})
"""Kinds of ranges by which a made table has decided about rows of the lake table."""
_FARTHEST = 100
"""Ledgers that are read, the newest first."""
_MOVED_BY_PEOPLE = frozenset({Kind.REPAIR, Kind.REPOSITION, Kind.UNPACKED})
"""Kinds of ranges that bring no record of the stream."""


class Way(Enum):
    """Where a snapshot at which a wave has looked lies, seen from main of the lake table."""

    MAIN = auto()
    """It is main's head or an ancestor of it."""
    LEFT = auto()
    """Main has left it: a person has set the lake table to another snapshot."""
    UNKNOWN = auto()
    """Nothing tells: it is older than all snapshots that haven't expired."""


WayTo = Callable[[int, int], Way]
"""Asked with a snapshot's id and its sequence number."""


def way_on(main: Mapping[int, int], snapshot: int, sequence: int) -> Way:
    """`main`: main's known snapshots, by sequence number, without a gap. Sequence numbers grow along main."""
    if sequence in main:
        return Way.MAIN if main[sequence] == snapshot else Way.LEFT
    return Way.LEFT if main and sequence > min(main) else Way.UNKNOWN


@dataclass(frozen=True, slots=True)
class ParsedElsewhere:
    """What was parsed of a shard at snapshots that aren't known to be of main."""

    parsed: PlannedRange
    looked: int
    """The sequence number of the newest of these snapshots."""
    has_left: bool
    """Whether main has left one of them. Else nothing tells."""


def parsed_elsewhere(
    plan: WavePlan, pages: Iterable[LedgerPage], *, way_to: WayTo
) -> tuple[ParsedElsewhere, ...]:
    """What the typed table has parsed of the shards that the wave moves, at snapshots that aren't known to be of main; and
    of all shards where main has left what the newest wave saw.

    `pages`: the typed table's ledgers, newest first.
    """
    parsed: dict[ShardKey, ParsedElsewhere] = {}
    settled: set[ShardKey] = set()
    moving = {planned.key for planned in plan.ranges if planned.after is not None}
    has_seen_main = False
    for page in islice(pages, _FARTHEST):
        if (has_seen_main and moving <= settled) or any(recorded.may_go_back for recorded in page.ranges):
            break
        looked = page.looked
        way = Way.UNKNOWN if looked is None else way_to(looked.snapshot, looked.sequence)
        # What is older than an expired snapshot has expired, too.
        has_seen_main = has_seen_main or (looked is not None and way is not Way.LEFT)
        for recorded in page.ranges:
            if recorded.kind not in MADE or not recorded.moves or recorded.key in settled:
                continue
            if looked is None or way is Way.MAIN:
                settled.add(recorded.key)
            elif recorded.key in moving or not has_seen_main:
                parsed[recorded.key] = _with_range(
                    parsed.get(recorded.key), recorded, looked.sequence, has_left=way is Way.LEFT
                )
    return tuple(parsed.values())


def _with_range(
    later: ParsedElsewhere | None, recorded: Range, looked: int, *, has_left: bool
) -> ParsedElsewhere:
    """`later`: what was parsed of the shard after this range."""
    rows = read_accounting(recorded.account).rows
    if later is None:
        return ParsedElsewhere(
            PlannedRange(recorded.key, recorded.after, recorded.upto, rows=rows), looked, has_left
        )
    both = replace(later.parsed, after=recorded.after, rows=later.parsed.rows + rows)
    return replace(later, parsed=both, has_left=later.has_left or has_left)


def may_be_passed(elsewhere: Iterable[ParsedElsewhere], story: Story) -> tuple[ParsedElsewhere, ...]:
    """Those of which rows may have landed behind the typed table's position: main has left what was seen, or has landed
    the last of these records after it was seen. `story`: at least the ledgers that tell of these last records.

    Records that land anew go on up to the shard's position, so that the last ones are always among them.
    """
    return tuple(before for before in elsewhere if before.has_left or _has_landed_anew(before, story))


def _has_landed_anew(before: ParsedElsewhere, story: Story) -> bool:
    place = order_text(before.parsed.upto)
    return any(
        # Sequence numbers of snapshots grow with each commit, whatever main leads to.
        step.sequence > before.looked
        and step.range.kind not in _MOVED_BY_PEOPLE
        and order_text_of(step.range.after) < place <= order_text(step.range.upto)
        for step in story.of(before.parsed.key)
    )
