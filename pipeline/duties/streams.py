"""Which streams the leader looks after: those that the settings name, those that it finds by prefix and tags, and those
that only its lease rows still know.

    settings + found (every `FIND_EVERY`) + rows -> streams to sync, former ones whose wait is over

A look that fails changes nothing: what was found before stands, and while nothing was ever found no stream counts as
a former one.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from pipeline.core.change import Change
from pipeline.core.due import is_time
from pipeline.core.former_streams import is_of_form, newest_lives, plan_forget, watch_former
from pipeline.core.lease import Lease
from pipeline.core.sighting import Sightings, expired
from pipeline.core.stream import StreamId, name_of_serialized
from pipeline.errors import HeadraceError, Unreachable
from pipeline.ports import Listing, ShardSource, SkippedRow, StreamFacts
from pipeline.settings.choices import FormerStreams
from pipeline.settings.model import Settings, StreamSettings

FIND_EVERY = timedelta(seconds=60)
"""Between two looks for streams by prefix and tags. KCL's interval: Kinesis answers five ListStreams a second."""


@dataclass(frozen=True, slots=True)
class Unfinished:
    """A round of shard syncs that the next tick goes on with."""

    after: str
    """The last stream that it is done with; empty: none yet."""
    reached: bool
    """Whether any stream could be synced so far."""


@dataclass(frozen=True, slots=True)
class StreamsMemory:
    """What the leader remembers of its streams. Losing it costs a look, and former streams begin to wait anew."""

    asked: datetime | None = None
    """When it last asked for streams by prefix and tags."""
    found: tuple[StreamId, ...] | None = None
    """None: never found out."""
    looked: datetime | None = None
    former: Sightings = field(default_factory=dict)
    """By `account:name`: how long it has been one."""
    unfinished: Unfinished | None = None


@dataclass(frozen=True, slots=True)
class Tracked:
    """A stream to look after, and how."""

    settings: StreamSettings
    life: str | None = None
    """Of a former stream: `account:name:epoch`. A later life of it was never asked for."""

    @property
    def name(self) -> str:
        return name_of_serialized(self.settings.name).rpartition("/")[2]


@dataclass(frozen=True, slots=True)
class StreamsLook:
    memory: StreamsMemory
    streams: tuple[Tracked, ...]
    forget: tuple[Change, ...] = ()
    """Rows of former streams whose wait is over."""
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Tracking:
    settings: Settings
    source: ShardSource

    def check_any_answers(self) -> None:
        """Raises where none of the streams can be asked."""
        failures: list[HeadraceError] = []
        for stream in self.settings.streams:
            try:
                self.source.describe(stream.name)
            except Unreachable:
                raise
            except HeadraceError as error:
                failures.append(error)
            else:
                return
        if failures and not self.settings.discovery.is_asked_for:
            raise failures[0]
        if self.settings.discovery.is_asked_for:
            self._find()

    def look(self, memory: StreamsMemory, listing: Listing, now: datetime) -> StreamsLook:
        memory, notes = self._find_when_due(memory, now)
        found = tuple(s for s in memory.found or () if self.settings.stream(s.name) is None)
        wanted = [Tracked(each) for each in self.settings.streams]
        wanted += [Tracked(unnamed(self.settings, stream.arn)) for stream in found]
        lives = newest_lives(listing.leases)
        left = {ident: life for ident, life in lives.items() if not self._is_asked_for(ident, found)}
        wanted += [Tracked(unnamed(self.settings, life), life) for _, life in sorted(left.items())]
        memory = self._watch(memory, left, now)
        over = self._over(memory)
        forget = [
            change
            for ident in sorted(over)
            for change in plan_forget(ident, listing.leases, self._why_forgotten(ident))
        ]
        return StreamsLook(
            memory,
            tuple(each for each in wanted if each.life is None or each.life.rpartition(":")[0] not in over),
            tuple(forget),
            (*notes, *self._told(memory, left, over)),
        )

    def _find_when_due(self, memory: StreamsMemory, now: datetime) -> tuple[StreamsMemory, tuple[str, ...]]:
        how = self.settings.discovery
        if not how.is_asked_for:
            return replace(memory, asked=None, found=()), ()
        if not is_time(memory.asked, now, every=FIND_EVERY):
            return memory, ()
        try:
            found = self._find()
        except HeadraceError as error:
            # Who can't know what is asked for lets nobody's wait go on.
            return replace(memory, looked=None), (f"streams couldn't be looked for ({error})",)
        before = {s.name for s in memory.found or ()}
        names = {s.name for s in found}
        notes = {"found": names - before, "found no more": before - names}
        told = tuple(f"{what}: {', '.join(sorted(which))}" for what, which in notes.items() if which)
        return replace(memory, asked=now, found=found), told

    def _find(self) -> tuple[StreamId, ...]:
        return self.source.find_streams(self.settings.discovery.prefix, self.settings.discovery.tags)

    def _is_asked_for(self, ident: str, found: Iterable[StreamId]) -> bool:
        """`ident`: `account:name`. In doubt a stream counts as asked for."""
        name = ident.partition(":")[2]
        if self.settings.stream(name) is not None:
            return True
        return any(f"{stream.account}:{stream.name}" == ident for stream in found)

    def _watch(self, memory: StreamsMemory, left: Iterable[str], now: datetime) -> StreamsMemory:
        if memory.found is None:
            return replace(memory, former={}, looked=None)
        since = None if memory.looked is None else now - memory.looked
        tick = self.settings.times.shard_sync
        return replace(memory, looked=now, former=watch_former(memory.former, left, since=since, tick=tick))

    def _over(self, memory: StreamsMemory) -> frozenset[str]:
        waited = expired(memory.former, self.settings.former_streams_wait)
        return frozenset(ident for ident in waited if self._may_be_forgotten(ident))

    def _may_be_forgotten(self, ident: str) -> bool:
        match self.settings.former_streams:
            case FormerStreams.KEEP:
                return False
            case FormerStreams.AUTO:
                return True
            case FormerStreams.PROVIDED:
                return ident.partition(":")[2] in self.settings.former_streams_delete

    def _why_forgotten(self, ident: str) -> str:
        name, wait = ident.partition(":")[2], self.settings.former_streams_wait
        return f"nothing has asked for stream {name} for {wait}, and former_streams is {self.settings.former_streams}"

    def _told(self, memory: StreamsMemory, left: Iterable[str], over: frozenset[str]) -> Iterable[str]:
        for ident in sorted(left):
            name = ident.partition(":")[2]
            if ident in over:
                yield f"former stream {name}: its rows are deleted"
            elif ident in memory.former and self._may_be_forgotten(ident):
                rest = self.settings.former_streams_wait - memory.former[ident].credit
                yield f"former stream {name} is read on, its rows go in {rest}"
            else:
                yield f"former stream {name} is read on"


def of_our_form(listing: Listing, *, multi: bool) -> Listing:
    """Rows of the other `streams_mode` are kept, passed over and reported, like all that isn't understood."""
    ours = tuple(row for row in listing.leases if is_of_form(row, multi=multi))
    if len(ours) == len(listing.leases):
        return listing
    why = f"its key isn't of the form that streams_mode: {'multi' if multi else 'single'} has"
    odd = (SkippedRow(row.key, why) for row in listing.leases if not is_of_form(row, multi=multi))
    return replace(listing, leases=ours, skipped=(*listing.skipped, *odd))


def unnamed(settings: Settings, name: str) -> StreamSettings:
    """How a stream is read that `streams` doesn't name."""
    how = settings.discovery
    return StreamSettings(
        name=name,
        initial_position=how.initial_position,
        timestamp=how.timestamp,
        on_data_loss=how.on_data_loss,
    )


def how_to_read(settings: Settings, stream: StreamId) -> StreamSettings:
    return settings.stream(stream.name) or unnamed(settings, stream.arn)


def asked_by(settings: Settings, row: Lease) -> str:
    """What Kinesis is to be asked by, about the row's stream: what the settings say of it, else the row's own name for it."""
    if row.stream is None:
        return settings.streams[0].name
    named = settings.stream(name_of_serialized(row.stream))
    return row.stream if named is None else named.name


def is_wanted_life(tracked: Tracked, facts: StreamFacts) -> bool:
    return tracked.life is None or tracked.life == facts.stream.serialized
