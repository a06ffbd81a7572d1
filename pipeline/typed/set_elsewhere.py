"""What a typed table has parsed of a lake table that a person has set to another snapshot since. Pure functions
on values.

the lake table when the waves looked   (0 .. 20] 7 rows   (20 .. 30] skipped   (30 .. 50] 9 rows: 16 rows are parsed
a person has set it back, and on       (0 .. 20] 7 rows   (20 .. 30] 4 rows    (30 .. 50] 9 rows: 4 were passed over

Records that land once more are the same ones, unless a person has undone a skip meanwhile, or has gone back to a
snapshot on whose way fewer records had been lost, or has repaired the positions. Then rows land behind the typed
table's position, where no wave would ever look for something to parse.

A wave finds such rows by its shards that move (`parsed_elsewhere`), and of all shards by the ledgers that the
lake table has got since the newest look (`landed_behind`): so also a wave that has nothing new finds them. While
the lake table is behind a typed table's position, waves for other shards look at newer snapshots. So where the
rows of a shard begin is found in the ledgers since the newest look of a wave for that shard.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import Enum, auto
from itertools import islice

from headrace.pipeline.core.ledger.accounting import read_accounting
from headrace.pipeline.core.ledger.ledger import FilesDone, Kind, LedgerEntry, LedgerPage, Lost, Range
from headrace.pipeline.core.ledger.story import Story
from headrace.pipeline.core.shards.position import Positions
from headrace.pipeline.core.shards.sort_texts import order_text, order_text_of
from headrace.pipeline.core.shards.stream import ShardKey
from headrace.pipeline.typed.values import PlannedRange

MADE = frozenset({Kind.PARSED, Kind.PROCESSED})
"""Kinds of ranges by which a made table has decided about rows of the lake table."""
_FARTHEST = 100
"""Ledgers that are read, the newest first."""
_MARGIN = timedelta(hours=1)
"""By which the clocks of two hosts, and waves that overlap, may be apart."""
_MOVED_BY_PEOPLE = frozenset({Kind.REPAIR, Kind.REPOSITION, Kind.UNPACKED})
"""Kinds of ranges that bring no record of the stream."""


class Way(Enum):
    """Whether a snapshot of the lake table that a wave has read is an ancestor of the branch `main` now."""

    MAIN = auto()
    """It is main's head or an ancestor of it."""
    LEFT = auto()
    """Main has left it: a person has set the lake table to another snapshot."""
    UNKNOWN = auto()
    """Nothing tells: it is older than all snapshots that haven't expired."""


WayTo = Callable[[int, int], Way]
"""Asked with a snapshot's id and its sequence number."""


def way_on(main: Mapping[int, int], snapshot: int, sequence: int) -> Way:
    """Whether the snapshot is on `main`. `main`: the known snapshots of main, by sequence number, without a gap;
    the numbers grow along main.
    """
    if sequence in main:
        return Way.MAIN if main[sequence] == snapshot else Way.LEFT
    return Way.LEFT if main and sequence > min(main) else Way.UNKNOWN


@dataclass(frozen=True, slots=True)
class ParsedElsewhere:
    """A range of a shard that was parsed at a snapshot of which it isn't known that it belongs to main."""

    parsed: PlannedRange
    looked: int
    """The sequence number of the newest of these snapshots."""
    has_left: bool
    """Whether main has left one of them. Else nothing tells."""
    has_landed_anew: bool = False
    """Whether main is known to have landed records of this range after the newest look."""
    parts: tuple[PlannedRange, ...] = ()
    """The ranges of the made table's ledgers that this range consists of, newest first."""


@dataclass(frozen=True, slots=True)
class BehindPositions:
    """The shards of which records have landed behind the typed table's positions, or may have."""

    landed: frozenset[ShardKey] = frozenset()
    """Those of which ledgers of the lake table tell so."""
    unsure: tuple[ParsedElsewhere, ...] = ()
    """What was parsed of those of which a lost ledger may have told so."""

    @property
    def keys(self) -> frozenset[ShardKey]:
        return self.landed | {before.parsed.key for before in self.unsure}


def parsed_elsewhere(
    moving: Collection[ShardKey], pages: Iterable[LedgerPage], *, way_to: WayTo
) -> tuple[ParsedElsewhere, ...]:
    """The ranges of the moving shards that the typed table has parsed at snapshots not known to be of main; of
    all shards, where the snapshot that the newest wave read has left main.

    `moving`: those of which the wave goes on after a position. `pages`: the typed table's ledgers, newest first.
    """
    parsed: dict[ShardKey, ParsedElsewhere] = {}
    settled: set[ShardKey] = set()
    has_seen_main = False
    for page in _newest(pages):
        if has_seen_main and settled.issuperset(moving):
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


def newest_look(pages: Iterable[LedgerPage]) -> FilesDone | None:
    """The snapshot of the lake table that the newest wave read. `pages`: the typed table's ledgers, newest first."""
    return next((page.looked for page in _newest(pages) if page.looked is not None), None)


def landed_behind(positions: Positions, looks: Mapping[ShardKey, int], story: Story) -> dict[ShardKey, str]:
    """The shards of which records have landed at or below the typed table's `positions`, each with the place
    after which these records begin. `looks`: by shard, the sequence number of the snapshot of the lake table
    after which ledgers are examined. `story`: made of at least these ledgers.
    """
    places: dict[ShardKey, str] = {}
    for key, position in positions.shards.items():
        begins = [
            order_text_of(step.range.after)
            for step in story.of(key)
            if step.sequence > looks[key] and step.range.rows and step.range.kind not in _MOVED_BY_PEOPLE
        ]
        if begins and min(begins) < order_text(position):
            places[key] = min(begins)
    return places


def parsed_back_to(
    places: Mapping[ShardKey, str],
    entries: Iterable[LedgerEntry | Lost],
    looks: Mapping[ShardKey, int],
) -> tuple[ParsedElsewhere, ...]:
    """The ranges of these shards that the typed table has parsed after these places (sort keys). `entries`: its
    ledgers, oldest first, also of expired snapshots. `looks`: by shard, the sequence number of the snapshot at
    which its newest wave has looked.

    Ranges before a lost ledger are left out, because nobody knows how many rows of them were parsed.
    """
    parsed: dict[ShardKey, ParsedElsewhere] = {}
    left = set(places)
    for entry in reversed(tuple(entries)):
        if isinstance(entry, Lost):
            break
        for recorded in entry.page.ranges:
            if recorded.kind in MADE and recorded.moves and recorded.key in left:
                so_far = _with_range(parsed.get(recorded.key), recorded, looks[recorded.key], has_left=False)
                parsed[recorded.key] = replace(so_far, has_landed_anew=True)
                if order_text_of(recorded.after) <= places[recorded.key]:
                    left.discard(recorded.key)
    return tuple(parsed.values())


def looks_of(keys: Collection[ShardKey], pages: Iterable[LedgerPage]) -> dict[ShardKey, int]:
    """For each of these shards the sequence number of the lake table's snapshot that its newest wave read, where
    the snapshots of the typed table still tell that. `pages`: the typed table's ledgers, newest first.
    """
    looks: dict[ShardKey, int] = {}
    for page in _newest(pages) if keys else ():
        for recorded in page.ranges:
            if page.looked is not None and recorded.kind in MADE and recorded.key in keys:
                looks.setdefault(recorded.key, page.looked.sequence)
        if looks.keys() >= set(keys):
            break
    return looks


def looks_before(
    keys: Collection[ShardKey],
    made: Iterable[LedgerEntry | Lost],
    landed: Iterable[LedgerEntry | Lost],
) -> dict[ShardKey, int]:
    """For each of these shards the sequence number of a snapshot of the lake table older than the one that its
    newest wave read, for shards of which the typed table's snapshots no longer tell that; 0 where nothing tells
    it.

    `made`: the typed table's ledgers, `landed`: those of the lake table, oldest first.
    """
    before: datetime | None = None
    since: dict[ShardKey, datetime | None] = {}
    for entry in made:
        if not isinstance(entry, Lost):
            # A wave looks after the commit of the wave before it.
            since |= {r.key: before for r in entry.page.ranges if r.kind in MADE and r.key in keys}
        before = entry.at
    looks = dict.fromkeys(keys, 0)
    for entry in landed:
        for key, moment in since.items():
            if moment is not None and entry.at < moment - _MARGIN:
                looks[key] = max(looks[key], entry.sequence)
    return looks


def standing_ranges(
    elsewhere: Iterable[ParsedElsewhere], source: Positions, target: Positions
) -> tuple[PlannedRange, ...]:
    """A range without records for each of these shards whose positions are the same in both tables. A commit with
    it records that the shard was looked at, so that the next wave needn't do so again.
    """
    ranges: list[PlannedRange] = []
    for before in elsewhere:
        position = target.of(before.parsed.key)
        if position is not None and stands(before.parsed.key, source, target):
            ranges.append(PlannedRange(before.parsed.key, position, position))
    return tuple(ranges)


def stands(key: ShardKey, source: Positions, target: Positions) -> bool:
    """Whether both tables are at the same position of this shard."""
    landed, position = source.of(key), target.of(key)
    return landed is not None and position is not None and landed.token == position.token


@dataclass(slots=True)
class LedgersSeen:
    """The snapshot of the lake table up to which this process has searched the ledgers for records behind the
    typed table's positions, and has found none.
    """

    snapshot: int | None = None
    sequence: int = 0
    """0 where no wave tells from which ledger on such records would be new."""

    def above(self, newest: FilesDone, way_to: WayTo) -> int:
        """The sequence number of the snapshot after which there are ledgers that this process hasn't searched.
        `newest`: what the newest commit of the typed table says about its look.
        """
        if self.snapshot is None or self.sequence <= newest.sequence:
            return newest.sequence
        return self.sequence if way_to(self.snapshot, self.sequence) is Way.MAIN else newest.sequence


def _newest(pages: Iterable[LedgerPage]) -> Iterator[LedgerPage]:
    """The newest ledgers of a typed table, up to where a person has set it back."""
    for page in islice(pages, _FARTHEST):
        if any(recorded.may_go_back for recorded in page.ranges):
            return
        yield page


def _with_range(
    later: ParsedElsewhere | None, recorded: Range, looked: int, *, has_left: bool
) -> ParsedElsewhere:
    """`later`: what was parsed of the shard after this range."""
    rows = read_accounting(recorded.account).rows
    part = PlannedRange(recorded.key, recorded.after, recorded.upto, rows=rows)
    if later is None:
        return ParsedElsewhere(part, looked, has_left, parts=(part,))
    both = replace(later.parsed, after=recorded.after, rows=later.parsed.rows + rows)
    return replace(later, parsed=both, has_left=later.has_left or has_left, parts=(*later.parts, part))


def may_be_passed(elsewhere: Iterable[ParsedElsewhere], story: Story) -> tuple[ParsedElsewhere, ...]:
    """Those ranges behind which rows may have landed unseen: main has left the snapshot at which the range was
    parsed, or the last of its records have landed again since, or a ledger is lost that may have told so. `story`:
    made of at least the ledgers that have these last records.

    Records that land again go on up to the shard's position, so that the last ones are always among them.
    """
    return tuple(
        before
        for before in elsewhere
        if before.has_left
        or before.has_landed_anew
        or any(part.sequence > before.looked for part in story.lost)
        or _has_landed_anew(before, story)
    )


def parsed_after(elsewhere: Iterable[ParsedElsewhere], positions: Positions) -> tuple[ParsedElsewhere, ...]:
    """What of these ranges was parsed after the typed table was at these positions."""
    later: list[ParsedElsewhere] = []
    for before in elsewhere:
        reached = order_text_of(positions.of(before.parsed.key))
        # The newest come first.
        parts = tuple(part for part in before.parts if order_text(part.upto) > reached)
        if parts:
            rows = sum(part.rows for part in parts)
            parsed = replace(before.parsed, after=parts[-1].after, rows=rows)
            later.append(replace(before, parsed=parsed, parts=parts))
    return tuple(later)


def _has_landed_anew(before: ParsedElsewhere, story: Story) -> bool:
    place = order_text(before.parsed.upto)
    return any(
        # Sequence numbers of snapshots grow with each commit, whatever main leads to.
        step.sequence > before.looked
        and step.range.kind not in _MOVED_BY_PEOPLE
        and order_text_of(step.range.after) < place <= order_text(step.range.upto)
        for step in story.of(before.parsed.key)
    )
