"""Shard sync of all streams: each with its own rows, its own origin and its own trouble."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from pipeline.core.change import Change
from pipeline.core.checkpoint import AT_TIMESTAMP, LATEST, TRIM_HORIZON
from pipeline.core.order import a_family
from pipeline.core.sync import ends_lost, is_of_this_life, plan_sync, rows_of
from pipeline.duties.assignment import Tally
from pipeline.duties.cleanup import Cleaning, CleanupDue
from pipeline.duties.origin import ensure_origin
from pipeline.duties.streams import Tracked, is_wanted_life
from pipeline.errors import HeadraceError, Transient, Unreachable
from pipeline.kcl.shared_sync import plan_sync_kcl
from pipeline.ports import LandingTable, LeaseStore, Listing, ShardSource, StreamFacts, TableState
from pipeline.settings import InitialPosition, Settings, StreamSettings

_SENTINELS = {
    InitialPosition.TRIM_HORIZON: TRIM_HORIZON,
    InitialPosition.LATEST: LATEST,
    InitialPosition.AT_TIMESTAMP: AT_TIMESTAMP,
}


@dataclass(slots=True)
class Round:
    """What became of one round over the streams."""

    state: TableState
    """The lake table, loaded once for all of them: each looks for its own origin and positions only."""
    synced: list[str] = field(default_factory=list)
    failed: dict[str, HeadraceError] = field(default_factory=dict)
    began_here: bool = True
    stopped_at: str | None = None
    """The last stream that this tick had time for; None where the round is finished."""

    def raise_if_all_failed(self) -> None:
        """One stream's trouble is a note; where nothing could be done the tick has failed, as with a single stream."""
        if self.failed and not self.synced and self.began_here and self.stopped_at is None:
            errors = sorted(self.failed.values(), key=lambda error: not isinstance(error, Transient))
            raise errors[0]

    @property
    def notes(self) -> tuple[str, ...]:
        return tuple(f"stream {name} couldn't be synced ({error})" for name, error in self.failed.items())


@dataclass(frozen=True, slots=True, kw_only=True)
class ShardSync:
    settings: Settings
    leases: LeaseStore
    source: ShardSource
    table: LandingTable

    def round(
        self,
        streams: Sequence[Tracked],
        listing: Listing,
        tally: Tally,
        *,
        after: str | None,
        has_time: Callable[[], bool],
        cleanup: CleanupDue,
    ) -> Round:
        """From where the tick before stopped, as far as this one has time."""
        self.table.ensure()
        done = Round(self.table.load(), began_here=after is None)
        rest = sorted((each for each in streams if after is None or each.name > after), key=lambda s: s.name)
        for tracked in rest:
            try:
                self._sync(tracked, listing, tally, done, cleanup)
            except HeadraceError as error:
                done.failed[tracked.name] = error
                if isinstance(error, Unreachable):
                    break  # waiting for each of the others too would take the whole tick
            if tracked is not rest[-1] and not has_time():
                done.stopped_at = tracked.name
                break
        return done

    def plan(
        self, stream: StreamSettings, facts: StreamFacts, listing: Listing, *, state: TableState
    ) -> list[Change]:
        mine = rows_of(facts.stream, listing.leases)
        whole = self.settings.is_shared and bool(
            listing.leases
        )  # KCL asks for the scope at its first start only
        start = None if whole else state.positions.origins[facts.stream].start
        shards = self.source.list_shards(facts.stream, start)
        planner = plan_sync_kcl if self.settings.is_shared else plan_sync
        plan = planner(
            a_family(facts.stream, shards, leases=[r for r in mine if is_of_this_life(facts.stream, r)]),
            shards,
            mine,
            positions=state.positions,
            multi=self.settings.multi,
            sentinel=_SENTINELS[stream.initial_position],
        )
        odd = {row.key for row in listing.skipped}  # there, but not for us to understand or to change
        return [change for change in plan if change.key not in odd]

    def _sync(
        self, tracked: Tracked, listing: Listing, tally: Tally, done: Round, cleanup: CleanupDue
    ) -> None:
        facts = self.source.describe(tracked.settings.name)
        if not is_wanted_life(tracked, facts):
            tally.notes.append(f"former stream {tracked.name} was made anew: nothing asks for its new life")
            done.synced.append(tracked.name)
            return
        if tracked.life is not None and facts.stream not in done.state.positions.origins:
            tally.notes.append(
                f"former stream {tracked.name} was never begun here: nothing of it is read until it is asked for"
            )
            done.synced.append(tracked.name)
            return
        mine = rows_of(facts.stream, listing.leases)
        state = ensure_origin(self.table, done.state, facts, stream=tracked.settings, leases=mine)
        done.state = state
        plan = self.plan(tracked.settings, facts, listing, state=state)
        if lost := ends_lost(facts.stream, mine, state.positions):
            tally.notes.append(
                f"{len(lost)} ended shards ({lost[0]}, ...) are ahead of the lake table: it was rolled back or restored; nothing "
                "after it is read until `headrace reposition` decides"
            )
        if not mine and any(change.create and change.create.landed for change in plan):
            whole = "" if not self.settings.multi else f" of {tracked.name}"
            tally.notes.append(f"lease rows{whole} were gone: rebuilt from the positions in the lake table")
        for change in plan:
            if tally.apply(self.leases, change):
                tally.created += change.create is not None
                tally.deleted += change.delete
        if cleanup:
            self._clean(cleanup, facts, listing, tally=tally, state=state)
        done.synced.append(tracked.name)

    def _clean(
        self, due: CleanupDue, facts: StreamFacts, listing: Listing, *, tally: Tally, state: TableState
    ) -> None:
        cleaning = Cleaning(settings=self.settings, leases=self.leases, source=self.source, table=self.table)
        report = cleaning.pass_(due, facts.stream, listing=listing, state=state)
        tally.deleted += report.deleted
        tally.lost += report.lost
        if report.dropped:
            tally.notes.append(f"{report.dropped} ended positions let go")
