"""Which streams the leader keeps lease rows for: the streams that the settings name, the streams that it finds by
prefix and tags, and former streams, which only have lease rows.

    settings + search (every `FIND_EVERY`) + rows -> streams to sync, and rows of former streams whose wait is over

A search that fails changes nothing: the streams found before stay. Until a search has succeeded, no stream counts as
former.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from headrace.pipeline.core.leases.change import Change
from headrace.pipeline.core.leases.due import is_time
from headrace.pipeline.core.leases.lease import Lease
from headrace.pipeline.core.leases.sighting import Sightings, expired
from headrace.pipeline.core.shards.stream import StreamId, name_of_serialized
from headrace.pipeline.core.sharing.former_streams import newest_lives, plan_forget, watch_former
from headrace.pipeline.errors import HeadraceError, Unreachable
from headrace.pipeline.ports.leases import Listing
from headrace.pipeline.ports.reading import ShardSource, StreamFacts
from headrace.pipeline.settings.choices import FormerStreams
from headrace.pipeline.settings.model import Settings, StreamSettings
from headrace.pipeline.settings.stream_names import name_in

FIND_EVERY = timedelta(seconds=60)
"""Time between two searches for streams by prefix and tags, as in KCL. Kinesis answers five ListStreams a second."""


@dataclass(frozen=True, slots=True)
class Unfinished:
    """A round of shard syncs that one tick had no time to finish. The next tick goes on with it."""

    last_done: str
    """The name of the last stream that was dealt with; empty if there is none yet."""
    any_synced: bool
    """Whether any stream of the round was synced without an error."""


@dataclass(frozen=True, slots=True)
class StreamsMemory:
    """What the leader remembers of its streams. If this memory is lost, the leader searches again, and the wait
    of former streams starts again.
    """

    searched: datetime | None = None
    """When the leader last searched for streams by prefix and tags."""
    found: tuple[StreamId, ...] | None = None
    """The streams of the last search; None before the first one that succeeded."""
    starts: Mapping[str, StreamSettings] = field(default_factory=dict)
    """How streams of the last search are read that the user's function listed. By ARN."""
    counted: datetime | None = None
    """When the waits in `former` were last counted up."""
    former: Sightings = field(default_factory=dict)
    """By `account:name`: how long the stream has been a former one."""
    unfinished: Unfinished | None = None


@dataclass(frozen=True, slots=True)
class Tracked:
    """A stream that the leader keeps lease rows for, with the settings by which the stream is read."""

    settings: StreamSettings
    life: str | None = None
    """For a former stream its life, `account:name:epoch`: a later life of the stream was never asked for."""

    @property
    def name(self) -> str:
        # The settings may have the stream's ARN, which ends in `/<name>`.
        return name_in(name_of_serialized(self.settings.name))


@dataclass(frozen=True, slots=True)
class StreamsLook:
    memory: StreamsMemory
    streams: tuple[Tracked, ...]
    deletions: tuple[Change, ...] = ()
    """Deletes the rows of former streams whose wait is over."""
    notes: tuple[str, ...] = ()
    """Parts of the tick's sentence."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tracking:
    settings: Settings
    source: ShardSource
    tracker: Callable[[], tuple[StreamSettings, ...]] | None = None
    """The user's function that lists streams, where the settings name one."""

    def check_any_answers(self) -> None:
        """Raise the first error if Kinesis can describe none of the streams in the settings. One stream that it
        can describe is enough.
        """
        failures: list[HeadraceError] = []
        for stream in self.settings.streams:
            try:
                self.source.describe(stream.name)
            # Kinesis doesn't answer at all, and asking for the other streams would only add their
            # timeouts.
            except Unreachable:
                raise
            except HeadraceError as error:
                failures.append(error)
            else:
                return
        # A search may still find a stream that answers.
        if failures and not self.settings.discovery.is_asked_for:
            raise failures[0]
        if self.settings.discovery.is_asked_for:
            self._find()

    def look(self, memory: StreamsMemory, listing: Listing, now: datetime) -> StreamsLook:
        memory, notes = self._find_when_due(memory, now)
        # A stream that the settings name is read as they say, and not as one that was found.
        discovered = tuple(s for s in memory.found or () if self.settings.stream(s.name) is None)
        tracked = [Tracked(stream) for stream in self.settings.streams]
        tracked += [
            Tracked(memory.starts.get(stream.arn) or unnamed(self.settings, stream.arn))
            for stream in discovered
        ]
        lives = newest_lives(listing.leases)
        former = {ident: life for ident, life in lives.items() if not self._is_asked_for(ident, discovered)}
        tracked += [Tracked(unnamed(self.settings, life), life) for _, life in sorted(former.items())]
        memory = self._count_waits(memory, former, now)
        past_wait = self._past_wait(memory)
        forget = [
            change
            for ident in sorted(past_wait)
            for change in plan_forget(ident, listing.leases, self._why_forgotten(ident))
        ]
        return StreamsLook(
            memory,
            tuple(
                candidate
                for candidate in tracked
                if candidate.life is None or candidate.life.rpartition(":")[0] not in past_wait
            ),
            tuple(forget),
            (*notes, *self._former_notes(memory, former, past_wait)),
        )

    def _find_when_due(self, memory: StreamsMemory, now: datetime) -> tuple[StreamsMemory, tuple[str, ...]]:
        how = self.settings.discovery
        if not how.is_asked_for:
            # An empty result, not None: only the settings ask for streams, so every other stream with rows is a former
            # one.
            return replace(memory, searched=None, found=()), ()
        if not is_time(memory.searched, now, every=FIND_EVERY):
            return memory, ()
        try:
            streams, starts = self._find()
        except HeadraceError as error:
            # Without a search the leader doesn't know which streams are asked for, so no former stream's wait goes on.
            return replace(memory, counted=None), (f"the search for streams failed ({error})",)
        before = {s.name for s in memory.found or ()}
        names = {s.name for s in streams}
        changes = {"streams found": names - before, "streams no longer found": before - names}
        notes = tuple(f"{what}: {', '.join(sorted(which))}" for what, which in changes.items() if which)
        return replace(memory, searched=now, found=streams, starts=starts), notes

    def _find(self) -> tuple[tuple[StreamId, ...], dict[str, StreamSettings]]:
        """The streams that are asked for beside `streams`, and how those of the user's function are read."""
        how = self.settings.discovery
        search_result = self.source.find_streams(how.prefix, how.tags) if how.searches else ()
        starts: dict[str, StreamSettings] = {}
        listed: list[StreamId] = []
        for stream in self.tracker() if self.tracker is not None else ():
            listed.append(self.source.describe(stream.name).stream)
            starts[listed[-1].arn] = replace(stream, name=listed[-1].arn)
        return tuple(dict.fromkeys((*search_result, *listed))), starts

    def _is_asked_for(self, ident: str, discovered: Iterable[StreamId]) -> bool:
        """Whether the settings or the search ask for the stream `ident`, which is `account:name`."""
        # The settings may leave the account out, so a stream of that name counts in any account: to delete its rows by
        # mistake would be worse than to read on.
        name = ident.partition(":")[2]
        if self.settings.stream(name) is not None:
            return True
        return any(f"{stream.account}:{stream.name}" == ident for stream in discovered)

    def _count_waits(self, memory: StreamsMemory, former: Iterable[str], now: datetime) -> StreamsMemory:
        if memory.found is None:
            return replace(memory, former={}, counted=None)
        since = None if memory.counted is None else now - memory.counted
        tick = self.settings.times.shard_sync
        return replace(
            # The wait is a sum of looks, each with a bounded part, and no moment in time: a clock
            # that jumps can't shorten it, and a lost memory only makes it longer.
            memory,
            counted=now,
            former=watch_former(memory.former, former, since=since, tick=tick),
        )

    def _past_wait(self, memory: StreamsMemory) -> frozenset[str]:
        waited = expired(memory.former, self.settings.former_streams_wait)
        return frozenset(ident for ident in waited if self._may_delete_rows(ident))

    def _may_delete_rows(self, ident: str) -> bool:
        match self.settings.former_streams:
            case FormerStreams.KEEP:
                return False
            case FormerStreams.AUTO:
                return True
            case FormerStreams.PROVIDED:
                return ident.partition(":")[2] in self.settings.former_streams_delete

    def _why_forgotten(self, ident: str) -> str:
        name, wait = ident.partition(":")[2], self.settings.former_streams_wait
        return f"stream {name} was not asked for during {wait}, and former_streams is {self.settings.former_streams}"

    def _former_notes(
        self, memory: StreamsMemory, former: Iterable[str], past_wait: frozenset[str]
    ) -> Iterable[str]:
        for ident in sorted(former):
            name = ident.partition(":")[2]
            if ident in past_wait:
                yield f"former stream {name}: its rows are deleted"
            elif ident in memory.former and self._may_delete_rows(ident):
                rest = self.settings.former_streams_wait - memory.former[ident].credit
                yield f"former stream {name} is read on, its rows are deleted in {rest}"
            else:
                yield f"former stream {name} is read on"


def unnamed(settings: Settings, name: str) -> StreamSettings:
    """The settings of a stream that `streams` doesn't name: those of `discovery`."""
    how = settings.discovery
    return StreamSettings(
        name=name,
        initial_position=how.initial_position,
        timestamp=how.timestamp,
        on_data_loss=how.on_data_loss,
        retrieval=how.retrieval,
        consumer=how.consumer,
    )


def how_to_read(settings: Settings, stream: StreamId) -> StreamSettings:
    return settings.stream(stream.name) or unnamed(settings, stream.arn)


def stream_as_written(settings: Settings, row: Lease) -> str:
    """The name or ARN by which to ask Kinesis for the row's stream: as in the settings, or else as in the row."""
    if row.stream is None:
        return settings.streams[0].name
    named = settings.stream(name_of_serialized(row.stream))
    return row.stream if named is None else named.name


def is_wanted_life(tracked: Tracked, facts: StreamFacts) -> bool:
    """Whether the stream that exists now is the one to sync. A former stream that was created again isn't."""
    return tracked.life is None or tracked.life == facts.stream.serialized
