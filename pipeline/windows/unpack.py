"""A wave that takes aggregates of the lake table apart: rows that landed as one row for each aggregate become a
row for each user record.

    look ─► ledgers ─► survey ─► write the files anew ─► account ─► commit of the lake table

The commit removes the files with the wave's aggregates, and brings files with their user records and with all
other rows of these files. The commit is refused where one of the files has changed or is gone: after a
compaction, a deletion, or another unpacking of the same records. So each aggregate is taken apart once. No
position of a shard moves, and no record is asked of Kinesis.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain

from headrace.pipeline.core.landing.landing import Proposal, RangeRefused
from headrace.pipeline.core.ledger.accounting import Accounting, read_accounting
from headrace.pipeline.core.ledger.arrivals import APPROXIMATE
from headrace.pipeline.core.ledger.author import Arrivals, Author
from headrace.pipeline.core.ledger.filter import RangeFilter
from headrace.pipeline.core.ledger.ledger import DONE_ANEW, Kind, LedgerEntry, Lost, Range
from headrace.pipeline.core.ledger.story import story_of
from headrace.pipeline.core.shards.position import Position
from headrace.pipeline.core.shards.shard import HashRange
from headrace.pipeline.core.shards.sort_texts import past
from headrace.pipeline.core.shards.stream import ShardKey, StreamId
from headrace.pipeline.core.words.words import counted
from headrace.pipeline.errors import Transient, Unknown, WrongShape
from headrace.pipeline.ports.reading import ShardSource
from headrace.pipeline.typed.done_wave import Does, Wave
from headrace.pipeline.typed.known_files import KnownFiles
from headrace.pipeline.typed.next_wave import plan_next
from headrace.pipeline.typed.ports import SourceLook
from headrace.pipeline.typed.values import Parsed, SourceFile, WavePlan
from headrace.pipeline.typed.wave_engine import ReadyWave
from headrace.pipeline.windows.days import days_of, within
from headrace.pipeline.windows.make import twice_in
from headrace.pipeline.windows.ports import UnpackPorts
from headrace.pipeline.windows.replace_plan import replayed_ranges
from headrace.pipeline.windows.unpack_plan import (
    LandedPart,
    account_unpacked,
    files_with,
    kept_in,
    next_wishes,
    parts_by_landing,
    without_ledger,
)
from headrace.pipeline.windows.waves import WindowWaves
from headrace.pipeline.windows.window import ReplayWindow, filter_of


@dataclass(slots=True)
class Looked:
    """Up to where the waves of a run have searched for aggregates, so that the next wave goes on from there."""

    upto: dict[ShardKey, Position] = field(default_factory=dict)
    rests_on: set[int] = field(default_factory=set)
    """Snapshots of the lake table by whose ledgers of the window's shards the waves went."""
    files_of: tuple[int, int] | None = None
    """The snapshot, with its sequence number, whose files the newest wave has searched."""

    def forget_if_set_back(self, entries: Iterable[LedgerEntry | Lost], look: SourceLook) -> bool:
        """Forget everything where a person has rolled the lake table back since: aggregates that this or another
        run had taken apart may be whole again. `look`: a newer one than that of the newest wave. Returns whether that is so.
        """
        # The table may also have been rolled back after a wave's look, and before it read the ledgers.
        is_on_main = self.files_of is None or look.leads_to(*self.files_of)
        if is_on_main and self.rests_on <= {entry.snapshot for entry in entries}:
            return False
        self.forget()
        return True

    def forget(self) -> None:
        self.upto.clear()
        self.rests_on.clear()
        self.files_of = None


@dataclass(frozen=True, slots=True)
class _Apart:
    """What a wave takes apart."""

    rows: WavePlan
    """The aggregates."""
    parts: Sequence[LandedPart]
    files: Sequence[SourceFile]
    """The files that have them: all rows of these are written anew."""
    streams: tuple[StreamId, ...]
    """All streams of the lake table."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Unpacking(WindowWaves[_Apart]):
    """Takes a window's aggregates apart in the lake table, in waves."""

    ports: UnpackPorts
    kinesis: Callable[[], ShardSource]
    """Asked for the hash keys of shards only."""
    looked: Looked = field(default_factory=Looked)
    shards: dict[ShardKey, HashRange] = field(default_factory=dict)
    """The hash keys of the window's shards, as far as Kinesis lists them."""

    def begin(self) -> None:
        window, table = self.window(), self.ports.table
        if not table.exists():
            raise Unknown(f"the lake table doesn't exist, so that the window {window.id} has no row")
        table.ensure(create=False)
        self.looked.forget()
        for stream in window.streams:
            self.shards.update(self._listed(stream))

    def is_done(self, window: ReplayWindow) -> bool:
        # A person may have rolled the lake table back since the last wave.
        look = self.ports.source.look()
        return not self.looked.forget_if_set_back(self._entries(window), look)

    def notes_at_end(self, window: ReplayWindow) -> Iterator[str]:
        return chain(self._unlisted(window), self._left(window), self._to_be_made_anew(window))

    def plan(self) -> _Apart | Wave:
        window = self.window()
        # The ledgers after the look: so they tell of each commit whose files the look has found. A user record may
        # begin as an aggregate itself, and only the ledgers tell that it is none.
        look = self.ports.source.look()
        entries = tuple(self._entries(window))
        self.looked.forget_if_set_back(entries, look)
        self.looked.files_of = None if look.snapshot is None else (look.snapshot, look.sequence)
        # The newest ledger stands for those before it: as long as main leads to it, it leads to them.
        self.looked.rests_on.update(last_entry.snapshot for last_entry in entries[-1:])
        story = story_of(entries)
        if twice := twice_in(window, story):
            raise WrongShape(
                f"the lake table has records of {twice[0]} twice in the window {window.id}, because a person has moved "
                "the position of the shard back since the window was made. Nothing more was taken apart: "
                "which of the two rows of an aggregate is meant can't be told. "
                "Make a window of records that landed once"
            )
        wishes = next_wishes(window, kept_in(window, story), self.looked.upto)
        if not wishes.wanted:
            return Wave(Does.UNPACK)
        plan = plan_next(
            wishes,
            within(look.files, days_of(window, story)),
            surveyor=self.ports.unpacker,
            limits=self.limits,
            known=KnownFiles(),
            aggregates=True,
        )
        self.looked.upto.update({planned.key: planned.upto for planned in plan.ranges})
        if not plan.rows:
            return Wave(Does.UNPACK, is_last=plan.is_last)
        streams = tuple(sorted(look.positions.streams()))
        return _Apart(plan, parts_by_landing(plan, story), files_with(plan, look.files), streams)

    def stage(self, plan: _Apart) -> ReadyWave:
        rows, bounds = plan.rows, [landed_part.span.bound for landed_part in plan.parts]
        rewritten = self.ports.unpacker.unpack(plan.files, bounds, plan.streams, self.shards)
        accounts = account_unpacked(rows, plan.parts, plan.files, rewritten, window=self.id)
        ranges = tuple(
            self._range(landed_part, accounting, rewritten) for landed_part, accounting in accounts
        )
        # Their other rows may be of any shard: they land with the commit as a whole.
        shards = frozenset(unpacked_range.key for unpacked_range in ranges)
        files = tuple(replace(staged, shards=shards) for staged in rewritten.files)
        # No position moves, so that the files that leave guard the commit: a compaction or another unpacking has taken
        # them away.
        gone = tuple(source_file.path for source_file in plan.files)
        landed = sum(accounting.rows for _, accounting in accounts)
        done = Wave(Does.UNPACK, rows.rows, landed, is_last=rows.is_last)
        return ReadyWave(self.ports.table, Proposal(ranges, files, whole=True, gone=gone), done, self._follow)

    def _follow(self, wave: Wave) -> Wave:
        if wave.snapshot is not None:
            self.looked.rests_on.add(wave.snapshot)
        return wave

    def refusal(self, refused: Sequence[RangeRefused]) -> Transient:
        return Transient(
            f"another commit has changed files of the lake table meanwhile: {refused[0].why}. "
            "Nothing of this wave was changed, and no row is lost or doubled; run the window again, "
            "and it goes on with what is left"
        )

    def rows_done(self) -> int:
        """Aggregates that were taken apart for the window, by the ledgers of the lake table."""
        ranges = replayed_ranges(self.ports.lineage.entries(RangeFilter(kinds=DONE_ANEW)), self.id)
        return sum(read_accounting(replayed.account).removed[0] for replayed in ranges)

    def _entries(self, window: ReplayWindow) -> Iterator[LedgerEntry | Lost]:
        """The ledgers that tell of the window's shards."""
        return self.ports.lineage.entries(filter_of(window))

    def _range(self, landed_part: LandedPart, accounting: Accounting, rewritten: Parsed) -> Range:
        landed, landing = landed_part.span, landed_part.landing
        first, last = landing.first_arrival, landing.last_arrival
        # Arrivals are approximate: a row may lie on the day before or after those that its landing states.
        low = "" if first is None else f"{first - APPROXIMATE:%Y-%m-%d}"
        high = "~" if last is None else f"{last + APPROXIMATE:%Y-%m-%d}"
        return Author(self.run).range(
            Kind.UNPACKED,
            landed.key,
            landed.after,
            landed.upto,
            # The rows that the table has more since, so that whatever adds up rows of ranges stays a sum.
            rows=accounting.rows - accounting.removed[0],
            arrivals=Arrivals(first, last),
            files=(file for file in rewritten.files if low <= file.partition <= high),
            account=accounting.text(),
            unpacked=True,
        )

    def _unlisted(self, window: ReplayWindow) -> Iterator[str]:
        if unlisted := [planned.key for planned in window.ranges if planned.key not in self.shards]:
            yield (
                f"Kinesis doesn't list {counted(len(unlisted), 'shard')} of the window, the first {unlisted[0]}: "
                "an aggregate there with user records of other shards, which KCL drops, was taken apart as well"
            )

    def _listed(self, stream: StreamId) -> dict[ShardKey, HashRange]:
        try:
            if self.kinesis().describe(stream.arn).stream != stream:
                return {}
            shards = self.kinesis().list_shards(stream)
        except Unknown:
            return {}
        return {ShardKey(stream, s.shard_id): s.hash_range for s in shards if s.hash_range is not None}

    def _left(self, window: ReplayWindow) -> Iterator[str]:
        for key in without_ledger(window, story_of(self._entries(window))):
            yield (
                f"{key}: ledgers of this time or of a later one are lost, so that nothing tells whether the aggregates "
                "of some rows were taken apart, when they landed or since. These rows stayed as they are"
            )

    def _to_be_made_anew(self, window: ReplayWindow) -> Iterator[str]:
        """Which tables still have rows that were made of whole aggregates."""
        if not self.rows_done():
            return
        for name, table in self.ports.typed.items():
            positions = table.load().positions if table.exists() else None
            if positions is not None and any(
                past(positions.of(planned.key)) > past(planned.after) for planned in window.ranges
            ):
                yield (
                    f"the typed table of {name} has parsed records of this window as whole aggregates, "
                    f"and doesn't follow by itself: make a window of the same records with `--replace {name}`, "
                    "and run it"
                )
        yield (
            "tables of windows that were copied before, and other tables that were made of these records, "
            "have the whole aggregates: make them anew"
        )
