"""Shard sync of all streams. Each stream has rows, an origin and errors of its own.

    describe (a new life?) -> origin -> nothing changed since the last sync? done -> ListShards -> missing rows, holes

Shards aren't listed again while the open rows cover all hash keys, and neither the rows nor the ENDs have changed since
a sync that found no missing row and no hole: the row of a child is made when its parent ends, and the lake table tells
that. Two cases don't show in the rows (see `sync_token`); the clean-up finds them, because it lists all streams every
five minutes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from headrace.pipeline.core.leases.change import Change
from headrace.pipeline.core.leases.lease import Lease
from headrace.pipeline.core.order.parents import Family, a_family
from headrace.pipeline.core.shards.checkpoint import AT_TIMESTAMP, LATEST, TRIM_HORIZON
from headrace.pipeline.core.shards.shard import Shard
from headrace.pipeline.core.shards.stream import StreamId
from headrace.pipeline.core.shards.switched_off import SWITCHED_OFF, switched_off
from headrace.pipeline.core.sharing.sync_plan import is_of_this_life, rows_of_stream, sync_token
from headrace.pipeline.core.words.words import counted
from headrace.pipeline.duties.fleet.cleanup import Cleaning, CleanupDue
from headrace.pipeline.duties.policy.policy import RowPlan
from headrace.pipeline.duties.streams.consumers import ensure_consumer
from headrace.pipeline.duties.streams.lake_table import ensure_table
from headrace.pipeline.duties.streams.lost_ends import lost_ends
from headrace.pipeline.duties.streams.origin import ensure_origin
from headrace.pipeline.duties.streams.streams import Tracked, Unfinished, is_wanted_life
from headrace.pipeline.duties.streams.writing import Tally
from headrace.pipeline.errors import HeadraceError, Transient, Unreachable
from headrace.pipeline.kcl.coverage import SeenHoles, coverage_warnings
from headrace.pipeline.kcl.writes import note_hash_range
from headrace.pipeline.ports.consumers import Consumers
from headrace.pipeline.ports.landing import LandingTable, TableState
from headrace.pipeline.ports.leases import LeaseStore, Listing
from headrace.pipeline.ports.reading import ShardSource, StreamFacts
from headrace.pipeline.settings.choices import InitialPosition
from headrace.pipeline.settings.model import Settings, StreamSettings

_SENTINELS = {
    InitialPosition.TRIM_HORIZON: TRIM_HORIZON,
    InitialPosition.LATEST: LATEST,
    InitialPosition.AT_TIMESTAMP: AT_TIMESTAMP,
}


@dataclass(frozen=True, slots=True)
class SyncMemory:
    """What the leader remembers of the last shard sync of one stream. If this memory is lost, the shards are
    listed once more, and holes are reported later.
    """

    quiet_token: str | None = None
    """The token of the last sync, if that sync found nothing to do."""
    holes: SeenHoles = field(default_factory=SeenHoles)
    """Holes in the hash keys: how often in a row each was seen."""

    def is_unchanged(self, token: str | None) -> bool:
        return token is not None and token == self.quiet_token and self.holes == SeenHoles()


@dataclass(frozen=True, slots=True)
class _Listed:
    """A stream's shards in scope, and the changes that bring its lease rows into step with them."""

    shards: tuple[Shard, ...]
    family: Family
    mine: tuple[Lease, ...]
    """The rows of this life of the stream."""
    changes: tuple[Change, ...]


@dataclass(slots=True)
class Round:
    """One tick's part of a round of shard syncs over all streams."""

    state: TableState
    """The lake table's state, loaded once for all streams: a stream's sync uses the stream's own origin and positions
    only."""
    resumed: Unfinished | None = None
    """Where the previous tick stopped, if it had no time for the whole round."""
    last_done: str = ""
    """The name of the last stream that was dealt with."""
    synced: list[str] = field(default_factory=list)
    failed: dict[str, HeadraceError] = field(default_factory=dict)
    memory: dict[str, SyncMemory] = field(default_factory=dict)
    """By stream name."""
    is_cut_short: bool = False
    """The time was over: the next tick goes on with this round."""

    def before(self, tracked: Tracked) -> SyncMemory:
        return self.memory.get(tracked.name, SyncMemory())

    def fail(self, tracked: Tracked, error: HeadraceError) -> None:
        self.failed[tracked.name] = error
        # A row that this sync found missing and couldn't write isn't seen by the token: the next sync has to list the
        # shards.
        self.memory[tracked.name] = replace(self.before(tracked), quiet_token=None)

    @property
    def unfinished(self) -> Unfinished | None:
        return Unfinished(self.last_done, self._any_synced) if self.is_cut_short else None

    @property
    def trouble(self) -> HeadraceError | None:
        """The error of the tick, if no stream could be synced. If at least one could, the errors of the others are
        notes."""
        if not self.failed or self._any_synced:
            return None
        return min(self.failed.values(), key=lambda error: not isinstance(error, Transient))

    @property
    def notes(self) -> tuple[str, ...]:
        return tuple(f"stream {name} couldn't be synced ({error})" for name, error in self.failed.items())

    @property
    def _any_synced(self) -> bool:
        return bool(self.synced) or (self.resumed is not None and self.resumed.any_synced)


@dataclass(frozen=True, slots=True, kw_only=True)
class ShardSync:
    settings: Settings
    rows: RowPlan
    leases: LeaseStore
    source: ShardSource
    table: LandingTable
    consumers: Callable[[str], Consumers]

    def round(
        self,
        streams: Sequence[Tracked],
        listing: Listing,
        tally: Tally,
        *,
        memory: Mapping[str, SyncMemory],
        resumed: Unfinished | None,
        has_time: Callable[[], bool],
        cleanup: CleanupDue,
    ) -> Round:
        """Sync the streams in the order of their names, from where the previous tick stopped, as long as there is
        time. `cleanup`: which clean-ups are made of each stream after its sync.
        """
        ensure_table(self.table, self.leases, name=self.settings.landing.table)
        remembered = {
            known_stream.name: memory[known_stream.name]
            for known_stream in streams
            if known_stream.name in memory
        }
        done = Round(
            self.table.load(), resumed, "" if resumed is None else resumed.last_done, memory=remembered
        )
        # In the order of names, which the next tick knows as well: it goes on behind the last one, also in another
        # process.
        rest = sorted((stream for stream in streams if stream.name > done.last_done), key=lambda s: s.name)
        for tracked in rest:
            is_unreachable = False
            try:
                self._sync(tracked, listing, tally, done, cleanup=cleanup, has_time=has_time)
            except HeadraceError as error:
                done.fail(tracked, error)
                # A service that doesn't answer would make each of the other streams wait for the whole tick.
                is_unreachable = isinstance(error, Unreachable)
            if not done.is_cut_short:
                done.last_done = tracked.name
                done.is_cut_short = tracked is not rest[-1] and (is_unreachable or not has_time())
            if done.is_cut_short:
                break
        return done

    def plan(
        self, stream: StreamSettings, facts: StreamFacts, listing: Listing, *, state: TableState
    ) -> tuple[Change, ...]:
        """The changes that a sync would write now. For `headrace plan`."""
        mine = rows_of_stream(facts.stream, listing.leases)
        _, every = lost_ends(facts.stream, mine, state.positions, self.source)
        return self._list(stream, facts.stream, listing, state=state, every=every).changes

    def _list(
        self,
        settings: StreamSettings,
        stream: StreamId,
        listing: Listing,
        *,
        state: TableState,
        every: tuple[Shard, ...],
    ) -> _Listed:
        rows = rows_of_stream(stream, listing.leases)
        mine = tuple(row for row in rows if is_of_this_life(stream, row))
        scope = self.rows.scope(state.positions.origins[stream].start, listing)
        shards = self.source.list_shards(stream, scope)
        family = a_family(stream, shards, listed=every, leases=mine)
        plan = self.rows.plan(
            family,
            shards,
            rows,
            positions=state.positions,
            multi=self.settings.multi,
            sentinel=_SENTINELS[settings.initial_position],
        )
        # A row that isn't understood takes the place of the row that would be made, and is never changed (I23).
        not_understood = {row.key for row in listing.skipped}
        ranges = {shard.shard_id: shard.hash_range for shard in shards if shard.hash_range is not None}
        noted = (
            # A shard keeps its range for life: whoever owns the row, the same value is right.
            replace(note_hash_range(row, ranges[row.shard_id]), requires={"stream_epoch": row.stream_epoch})
            for row in mine
            if row.hash_range is None and not row.has_ended and row.shard_id in ranges
        )
        changes = tuple(change for change in (*plan, *noted) if change.key not in not_understood)
        return _Listed(shards, family, mine, changes)

    def _sync(
        self,
        tracked: Tracked,
        listing: Listing,
        tally: Tally,
        done: Round,
        *,
        cleanup: CleanupDue,
        has_time: Callable[[], bool],
    ) -> None:
        facts = self.source.describe(tracked.settings.name)
        if (why := _why_left_alone(tracked, facts, done.state)) is not None:
            tally.notes.append(why)
            done.synced.append(tracked.name)
            return
        if (name := self.settings.consumer_of(tracked.settings)) is not None:
            note = ensure_consumer(self.consumers(facts.stream.name), facts.stream, name)
            tally.notes.extend([note] if note else [])
        mine = rows_of_stream(facts.stream, listing.leases)
        # First of all: the origin decides which shards are in scope, and so which rows are made.
        done.state = ensure_origin(self.table, done.state, facts, stream=tracked.settings, leases=mine)
        # Only told here. What a rollback means for the children is a person's to decide.
        lost, every = lost_ends(facts.stream, mine, done.state.positions, self.source)
        # Without a table, the rows themselves are the authority: a later look at them shows the end.
        if lost and not done.state.positions.by_rows:
            tally.notes.append(
                f"the lease rows of {counted(len(lost), 'shard')} say that the shard has ended, and the lake table doesn't "
                f"({lost[0]}, ...): the table was rolled back or restored; the children of these shards aren't read until "
                "`headrace reposition` decides"
            )
        if facts.stream in switched_off(done.state.positions, self.settings.stream_names):
            tally.notes.append(f"the stream {tracked.name} {SWITCHED_OFF}")
        before = done.before(tracked)
        token = sync_token(facts.stream, mine, done.state.positions)
        if cleanup or not before.is_unchanged(token):
            shard_list = self._list(tracked.settings, facts.stream, listing, state=done.state, every=every)
            holes = self._check_holes(shard_list, before, state=done.state, tally=tally)
            if self._write(tracked, shard_list, tally, is_new=not mine, has_time=has_time):
                # Some rows are still to be made by the next tick, so that a hole means nothing yet.
                done.memory[tracked.name] = replace(before, quiet_token=None)
                done.synced.append(tracked.name)
                done.is_cut_short = True
                return
            # The token is of the rows before the changes: after changes, the next sync lists the shards once more.
            done.memory[tracked.name] = SyncMemory(None if shard_list.changes else token, holes)
        if cleanup:
            done.is_cut_short = self._clean(
                cleanup, facts, listing, tally=tally, state=done.state, has_time=has_time
            )
        done.synced.append(tracked.name)

    def _write(
        self,
        tracked: Tracked,
        shard_list: _Listed,
        tally: Tally,
        *,
        is_new: bool,
        has_time: Callable[[], bool],
    ) -> int:
        """Write the changes, parents first, as long as there is time. Returns how many are left for the next tick.

        `is_new`: the stream had no row at all.
        """
        of = "" if not self.settings.multi else f" of {tracked.name}"
        if is_new and any(change.create and change.create.landed for change in shard_list.changes):
            tally.notes.append(f"the lease rows{of} were gone: rebuilt from the positions in the lake table")
        written = tally.write(self.leases, shard_list.changes, has_time=has_time)
        if written.not_tried:
            tally.notes.append(
                f"{counted(written.not_tried, 'more lease row')}{of} to be made or deleted: the next tick goes on"
            )
        return written.not_tried

    @staticmethod
    def _check_holes(
        shard_list: _Listed, before: SyncMemory, *, state: TableState, tally: Tally
    ) -> SeenHoles:
        holes, warnings = coverage_warnings(
            shard_list.family,
            shard_list.shards,
            shard_list.mine,
            positions=state.positions,
            remembered=before.holes,
        )
        tally.notes.extend(warnings)
        return holes

    def _clean(
        self,
        due: CleanupDue,
        facts: StreamFacts,
        listing: Listing,
        *,
        tally: Tally,
        state: TableState,
        has_time: Callable[[], bool],
    ) -> bool:
        """Clean up after a stream's sync. Whether rows are left for the next tick."""
        cleaning = Cleaning(settings=self.settings, leases=self.leases, source=self.source, table=self.table)
        report = cleaning.clean(due, facts, listing=listing, state=state, has_time=has_time)
        tally.count(report.written)
        if report.dropped:
            tally.notes.append(
                f"{counted(report.dropped, 'END')} removed from the positions in the lake table"
            )
        return report.written.not_tried > 0


def _why_left_alone(tracked: Tracked, facts: StreamFacts, state: TableState) -> str | None:
    """Why a former stream isn't synced, in a sentence."""
    name = tracked.name
    if not is_wanted_life(tracked, facts):
        return f"former stream {name} was deleted and created again; the new stream is left alone until the settings ask for it"
    if tracked.life is not None and facts.stream not in state.positions.origins:
        return f"former stream {name} has no origin in the lake table; it is left alone until the settings ask for it"
    return None
