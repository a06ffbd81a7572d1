"""A wave that takes aggregates of the lake table apart: rows that landed as one row for each aggregate become a row for
each user record.

    look ─► ledgers ─► survey ─► write the files anew ─► account ─► commit of the lake table

The commit removes the files with the wave's aggregates, and brings files with their user records and with all other
rows of these files. It is refused where one of the files has changed or is gone: after a compaction, a deletion, or
another unpacking of the same records. So each aggregate is taken apart once. No position of a shard moves, and no
record is asked of Kinesis.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta

from headrace.pipeline.core.landing.landing import Proposal
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
from headrace.pipeline.ports.base import Clock
from headrace.pipeline.ports.reading import ShardSource
from headrace.pipeline.typed.known_files import KnownFiles
from headrace.pipeline.typed.next_wave import plan_next
from headrace.pipeline.typed.values import Parsed, WaveLimits
from headrace.pipeline.windows.days import days_of, within
from headrace.pipeline.windows.make import twice_in
from headrace.pipeline.windows.ports import UnpackPorts, WindowStore
from headrace.pipeline.windows.replace_plan import replays_of
from headrace.pipeline.windows.unpack_plan import (
    LandedPart,
    account_unpacked,
    files_with,
    kept_in,
    next_wishes,
    parts_by_landing,
    without_ledger,
)
from headrace.pipeline.windows.window import ReplayWindow, filter_of
from headrace.pipeline.windows.windows import note_done, to_work_on


@dataclass(frozen=True, slots=True)
class UnpackedWave:
    """What a wave did, for people."""

    rows: int = 0
    """Aggregates that were taken apart."""
    made: int = 0
    """The rows that they are now."""
    snapshot: int | None = None
    """None where the wave found no aggregate."""
    is_last: bool = True
    notes: tuple[str, ...] = ()

    def __str__(self) -> str:
        if self.snapshot is None:
            return "no aggregate found that is left to take apart"
        return (
            f"{counted(self.rows, 'aggregate')} taken apart: "
            f"{counted(self.made, 'row')} in the place of {self.rows:,}"
        )


@dataclass(frozen=True, slots=True)
class Looked:
    """Where the waves of a run have looked for aggregates already, so that the next wave goes on from there."""

    upto: dict[ShardKey, Position] = field(default_factory=dict)
    rests_on: set[int] = field(default_factory=set)
    """Snapshots of the lake table by whose ledgers of the window's shards the waves went."""

    def forget_if_set_back(self, entries: Iterable[LedgerEntry | Lost]) -> bool:
        """Forget all where a person has rolled the lake table back since: aggregates that were taken apart by then, by
        this run or another one, may be whole again."""
        if self.rests_on <= {entry.snapshot for entry in entries}:
            return False
        self.upto.clear()
        self.rests_on.clear()
        return True


@dataclass(frozen=True, slots=True, kw_only=True)
class Unpacking:
    """The taking apart of a window's aggregates in the lake table, in waves."""

    id: str
    """The id of the window."""
    windows: WindowStore
    ports: UnpackPorts
    kinesis: Callable[[], ShardSource]
    """Asked for the hash keys of shards only."""
    limits: WaveLimits
    clock: Clock
    run: str
    on_step: Callable[[str], None] = lambda _: None
    """For tests: called between the steps of a wave."""

    def waves(self, *, at_most: timedelta | None = None) -> Iterator[UnpackedWave]:
        """Wave after wave until the window is done, or until the first wave that ends after `at_most`. At least one
        wave."""
        began = self.clock.monotonic()
        window, ports = self._window(), self.ports
        if not ports.table.exists():
            raise Unknown(f"the lake table doesn't exist, so that the window {window.id} has no row")
        ports.table.ensure(create=False)
        shards, unlisted = self._hash_keys(window)
        looked = Looked()
        while True:
            wave = self.wave(shards, looked)
            # A person may have rolled the lake table back since the last wave: then the window isn't done.
            if wave.is_last and looked.forget_if_set_back(self._entries(window)):
                wave = replace(wave, is_last=False)
            if wave.is_last:
                note_done(self.windows, self.id, by=self.run)
                wave = replace(wave, notes=(*unlisted, *self._left(window), *self._to_be_made_anew(window)))
            yield wave
            is_late = at_most is not None and self.clock.monotonic() - began > at_most.total_seconds()
            if wave.is_last or is_late:
                return

    def wave(self, shards: Mapping[ShardKey, HashRange], looked: Looked) -> UnpackedWave:
        window, ports = self._window(), self.ports
        # The ledgers after the look: so they tell of each commit whose files the look has found. A user record may
        # begin as an aggregate itself, and only the ledgers tell that it is none.
        look = ports.source.look()
        entries = tuple(self._entries(window))
        looked.forget_if_set_back(entries)
        # The newest ledger stands for those before it: as long as main leads to it, it leads to them.
        looked.rests_on.update(last_entry.snapshot for last_entry in entries[-1:])
        story = story_of(entries)
        if twice := twice_in(window, story):
            raise WrongShape(
                f"the lake table has records of {twice[0]} twice in the window {window.id}, because a person has moved "
                "the position of the shard back since the window was made. Nothing more was taken apart: "
                "which of the two rows of an aggregate is meant can't be told. "
                "Make a window of records that landed once"
            )
        wishes = next_wishes(window, kept_in(window, story), looked.upto)
        if not wishes.wanted:
            return UnpackedWave()
        plan = plan_next(
            wishes,
            within(look.files, days_of(window, story)),
            surveyor=ports.unpacker,
            limits=self.limits,
            known=KnownFiles(),
            others=False,
            aggregates=True,
        )
        looked.upto.update({planned.key: planned.upto for planned in plan.ranges})
        if not plan.rows:
            return UnpackedWave(is_last=plan.is_last)
        files = files_with(plan, look.files)
        landed_parts = parts_by_landing(plan, story)
        self.on_step("planned")
        streams = tuple(sorted(look.positions.streams()))
        rewritten = ports.unpacker.unpack(
            files, [landed_part.span.bound for landed_part in landed_parts], streams, shards
        )
        accounts = account_unpacked(plan, landed_parts, files, rewritten, window=window.id)
        self.on_step("staged")
        # A person may have cancelled the window meanwhile.
        self._window()
        snapshot = self._commit(rewritten, accounts, gone=tuple(source_file.path for source_file in files))
        looked.rests_on.update(() if snapshot is None else (snapshot,))
        self.on_step("committed")
        rows = sum(accounting.rows for _, accounting in accounts)
        return UnpackedWave(plan.rows, rows, snapshot, plan.is_last)

    def unpacked(self) -> int:
        """Aggregates that were taken apart for the window, by the ledgers of the lake table."""
        entries = self.ports.lineage.entries(RangeFilter(kinds=DONE_ANEW))
        pages = (entry.page for entry in entries if isinstance(entry, LedgerEntry))
        ranges = (replayed for page in pages for replayed in replays_of(page, self.id).ranges)
        return sum(read_accounting(replayed.account).removed[0] for replayed in ranges)

    def _entries(self, window: ReplayWindow) -> Iterator[LedgerEntry | Lost]:
        """The ledgers that tell of the window's shards."""
        return self.ports.lineage.entries(filter_of(window))

    def _window(self) -> ReplayWindow:
        return to_work_on(self.windows, self.id)

    def _commit(
        self, rewritten: Parsed, accounts: Sequence[tuple[LandedPart, Accounting]], *, gone: tuple[str, ...]
    ) -> int | None:
        ranges = tuple(
            self._range(landed_part, accounting, rewritten) for landed_part, accounting in accounts
        )
        # Their other rows may be of any shard: they land with the commit as a whole.
        shards = frozenset(unpacked_range.key for unpacked_range in ranges)
        files = tuple(replace(staged, shards=shards) for staged in rewritten.files)
        # No position moves, so that these files guard the commit: a compaction or another unpacking has taken them
        # away.
        committed = self.ports.table.commit(Proposal(ranges, files, whole=True, gone=gone))
        if refused := committed.landing.refused:
            raise Transient(
                f"another commit has changed files of the lake table meanwhile: {refused[0].why}. "
                "Nothing of this wave was changed, and no row is lost or doubled; run the window again, "
                "and it goes on with what is left"
            )
        return committed.snapshot

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

    def _hash_keys(self, window: ReplayWindow) -> tuple[dict[ShardKey, HashRange], tuple[str, ...]]:
        hash_ranges: dict[ShardKey, HashRange] = {}
        for stream in window.streams:
            hash_ranges |= self._listed(stream)
        unlisted = [planned.key for planned in window.ranges if planned.key not in hash_ranges]
        if not unlisted:
            return hash_ranges, ()
        why = (
            f"Kinesis doesn't list {counted(len(unlisted), 'shard')} of the window, the first {unlisted[0]}: "
            "an aggregate there with user records of other shards, which KCL drops, was taken apart as well"
        )
        return hash_ranges, (why,)

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
        if not self.unpacked():
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
