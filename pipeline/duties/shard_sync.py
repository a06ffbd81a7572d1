"""Shard sync of all streams: each with its own rows, its own origin and its own trouble.

    describe (a new life?) -> origin -> as quiet as last time? then no listing -> ListShards -> missing rows, holes

Shards aren't listed again while the open rows cover all hash keys and neither rows nor ENDs have changed since a sync
that found nothing to do and no hole: a child's row is made at its parent's end, which the table tells. What that doesn't
see (see `sync_token`) waits for the next clean-up, which every so often has all streams listed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from pipeline.core.change import Change
from pipeline.core.checkpoint import AT_TIMESTAMP, LATEST, TRIM_HORIZON
from pipeline.core.lease import Lease
from pipeline.core.order import Family, a_family
from pipeline.core.shard import Shard
from pipeline.core.stream import StreamId
from pipeline.core.sync import ends_lost, is_of_this_life, rows_of, sync_token
from pipeline.core.words import counted
from pipeline.duties.cleanup import Cleaning, CleanupDue
from pipeline.duties.origin import ensure_origin
from pipeline.duties.policy import RowPlan
from pipeline.duties.streams import Tracked, Unfinished, is_wanted_life
from pipeline.duties.writing import Tally
from pipeline.errors import HeadraceError, Transient, Unreachable
from pipeline.kcl.coverage import Suspicions, coverage_warnings
from pipeline.ports import LandingTable, LeaseStore, Listing, ShardSource, StreamFacts, TableState
from pipeline.settings.choices import InitialPosition
from pipeline.settings.model import Settings, StreamSettings

_SENTINELS = {
    InitialPosition.TRIM_HORIZON: TRIM_HORIZON,
    InitialPosition.LATEST: LATEST,
    InitialPosition.AT_TIMESTAMP: AT_TIMESTAMP,
}


@dataclass(frozen=True, slots=True)
class SyncMemory:
    """What is remembered of one stream. Losing it costs a listing, and tells of a hole a few looks later."""

    quiet: str | None = None
    """The token of the last sync, if it found nothing to do."""
    holes: Suspicions = field(default_factory=Suspicions)

    def is_as_quiet(self, token: str | None) -> bool:
        return token is not None and token == self.quiet and self.holes == Suspicions()


@dataclass(frozen=True, slots=True)
class _Listed:
    """A stream's shards in scope, and what the rows lack of them."""

    shards: tuple[Shard, ...]
    family: Family
    mine: tuple[Lease, ...]
    """Rows of this life of the stream."""
    changes: tuple[Change, ...]


@dataclass(slots=True)
class Round:
    """What became of one round over the streams, or of its part that one tick had time for."""

    state: TableState
    """The lake table, loaded once for all of them: each looks for its own origin and positions only."""
    began: Unfinished | None = None
    """Where the tick before stopped."""
    passed: str = ""
    """The last stream that the round is done with."""
    synced: list[str] = field(default_factory=list)
    failed: dict[str, HeadraceError] = field(default_factory=dict)
    memory: dict[str, SyncMemory] = field(default_factory=dict)
    """By stream."""
    stopped: bool = False
    """The next tick goes on."""

    def before(self, tracked: Tracked) -> SyncMemory:
        return self.memory.get(tracked.name, SyncMemory())

    def fail(self, tracked: Tracked, error: HeadraceError) -> None:
        self.failed[tracked.name] = error
        self.memory[tracked.name] = replace(self.before(tracked), quiet=None)

    @property
    def unfinished(self) -> Unfinished | None:
        return Unfinished(self.passed, self._reached) if self.stopped else None

    @property
    def trouble(self) -> HeadraceError | None:
        """One stream's trouble is a note; where nothing could be done the tick has failed, as with a single stream."""
        if not self.failed or self._reached:
            return None
        return min(self.failed.values(), key=lambda error: not isinstance(error, Transient))

    @property
    def notes(self) -> tuple[str, ...]:
        return tuple(f"stream {name} couldn't be synced ({error})" for name, error in self.failed.items())

    @property
    def _reached(self) -> bool:
        return bool(self.synced) or (self.began is not None and self.began.reached)


@dataclass(frozen=True, slots=True, kw_only=True)
class ShardSync:
    settings: Settings
    rows: RowPlan
    leases: LeaseStore
    source: ShardSource
    table: LandingTable

    def round(
        self,
        streams: Sequence[Tracked],
        listing: Listing,
        tally: Tally,
        *,
        memory: Mapping[str, SyncMemory],
        began: Unfinished | None,
        has_time: Callable[[], bool],
        cleanup: CleanupDue,
    ) -> Round:
        """From where the tick before stopped, as far as this one has time."""
        self.table.ensure()
        known = {each.name: memory[each.name] for each in streams if each.name in memory}
        done = Round(self.table.load(), began, "" if began is None else began.after, memory=known)
        rest = sorted((each for each in streams if each.name > done.passed), key=lambda s: s.name)
        for tracked in rest:
            is_silent = False
            try:
                self._sync(tracked, listing, tally, done, cleanup=cleanup, has_time=has_time)
            except HeadraceError as error:
                done.fail(tracked, error)
                is_silent = isinstance(error, Unreachable)  # each of the others too would take the whole tick
            if not done.stopped:
                done.passed = tracked.name
                done.stopped = tracked is not rest[-1] and (is_silent or not has_time())
            if done.stopped:
                break
        return done

    def plan(
        self, stream: StreamSettings, facts: StreamFacts, listing: Listing, *, state: TableState
    ) -> tuple[Change, ...]:
        return self._list(stream, facts.stream, listing, state=state).changes

    def _list(
        self, settings: StreamSettings, stream: StreamId, listing: Listing, *, state: TableState
    ) -> _Listed:
        rows = rows_of(stream, listing.leases)
        mine = tuple(row for row in rows if is_of_this_life(stream, row))
        scope = self.rows.scope(state.positions.origins[stream].start, listing)
        shards = self.source.list_shards(stream, scope)
        family = a_family(stream, shards, leases=mine)
        plan = self.rows.plan(
            family,
            shards,
            rows,
            positions=state.positions,
            multi=self.settings.multi,
            sentinel=_SENTINELS[settings.initial_position],
        )
        odd = {row.key for row in listing.skipped}  # there, but not for us to understand or to change
        return _Listed(shards, family, mine, tuple(change for change in plan if change.key not in odd))

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
            tally.notes.append(f"former stream {tracked.name} {why}")
            done.synced.append(tracked.name)
            return
        mine = rows_of(facts.stream, listing.leases)
        done.state = ensure_origin(self.table, done.state, facts, stream=tracked.settings, leases=mine)
        if lost := ends_lost(facts.stream, mine, done.state.positions):
            tally.notes.append(
                f"{counted(len(lost), 'ended shard')} ahead of the lake table ({lost[0]}, ...): it was rolled back or restored; nothing "
                "after it is read until `headrace reposition` decides"
            )
        before = done.before(tracked)
        token = sync_token(facts.stream, mine, done.state.positions)
        if cleanup or not before.is_as_quiet(token):
            found = self._list(tracked.settings, facts.stream, listing, state=done.state)
            holes = self._audit(found, before, state=done.state, tally=tally)
            if self._write(tracked, found, tally, is_new=not mine, has_time=has_time):
                # A hole that the next tick fills is none to be suspicious of.
                done.memory[tracked.name] = replace(before, quiet=None)
                done.synced.append(tracked.name)
                done.stopped = True
                return
            done.memory[tracked.name] = SyncMemory(None if found.changes else token, holes)
        if cleanup:
            done.stopped = self._clean(
                cleanup, facts, listing, tally=tally, state=done.state, has_time=has_time
            )
        done.synced.append(tracked.name)

    def _write(
        self,
        tracked: Tracked,
        found: _Listed,
        tally: Tally,
        *,
        is_new: bool,
        has_time: Callable[[], bool],
    ) -> int:
        """As far as there is time, parents first; one at least, so that each tick gets further. How many are left.

        `is_new`: the stream had no row at all.
        """
        of = "" if not self.settings.multi else f" of {tracked.name}"
        if is_new and any(change.create and change.create.landed for change in found.changes):
            tally.notes.append(f"lease rows{of} were gone: rebuilt from the positions in the lake table")
        written = tally.write(self.leases, found.changes, has_time=has_time)
        if written.not_tried:
            tally.notes.append(
                f"{counted(written.not_tried, 'more lease row')}{of} to be made or cleared away: the next tick goes on"
            )
        return written.not_tried

    @staticmethod
    def _audit(found: _Listed, before: SyncMemory, *, state: TableState, tally: Tally) -> Suspicions:
        holes, told = coverage_warnings(
            found.family, found.shards, found.mine, positions=state.positions, remembered=before.holes
        )
        tally.notes.extend(told)
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
        """Whether rows are left for the next tick."""
        cleaning = Cleaning(settings=self.settings, leases=self.leases, source=self.source, table=self.table)
        report = cleaning.clean(due, facts.stream, listing=listing, state=state, has_time=has_time)
        tally.count(report.written)
        if report.dropped:
            tally.notes.append(f"{counted(report.dropped, 'ended position')} let go")
        return report.written.not_tried > 0


def _why_left_alone(tracked: Tracked, facts: StreamFacts, state: TableState) -> str | None:
    if not is_wanted_life(tracked, facts):
        return "was made anew: nothing asks for its new life"
    if tracked.life is not None and facts.stream not in state.positions.origins:
        return "was never begun here: nothing of it is read until it is asked for"
    return None
