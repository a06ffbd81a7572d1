"""What a leader's tick would write now, without writing it: `headrace plan`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TypeVar

from pipeline.core.change import Change
from pipeline.core.position import Origin, Positions
from pipeline.core.stream import StreamId
from pipeline.core.sync import rows_of
from pipeline.duties.assignment import plan_pass, uninvited
from pipeline.duties.fleet import mind, watch
from pipeline.duties.leader_tick import LeaderDuty, LeaderMemory
from pipeline.duties.origin import plan_origin
from pipeline.duties.shard_sync import ShardSync
from pipeline.duties.streams import Look, Tracked, Tracking, is_wanted_life, of_our_form
from pipeline.duties.taking import out_of_step
from pipeline.errors import TablesMissing, Unknown
from pipeline.ports import Listing, TableState, WorkerListing
from pipeline.settings_choices import Create, InitialPosition, Mode

_Found = TypeVar("_Found")


@dataclass(frozen=True, slots=True)
class Preview:
    memory: LeaderMemory
    changes: tuple[Change, ...]
    first: tuple[str, ...] = ()
    """What a leader would do before that: a first start, or what was lost is made anew."""
    has_started: bool = True
    """Some stream has its origin in the landing table."""
    why_not: str | None = None
    """Why nobody leads, or nothing is given out: KCL's workers are here, and agreed otherwise or weren't joined."""


def preview(duty: LeaderDuty, memory: LeaderMemory) -> Preview:
    """Nothing is written. Workers count from the second look on. Of KCL's strategies it shows a run that evens out, however
    many looks came before."""
    settings, now = duty.settings, duty.clock.now()
    workers, has_workers = _there(duty, duty.workers.listing, WorkerListing(()))
    listing, has_leases = _there(duty, duty.leases.scan, Listing(()))
    listing = of_our_form(listing, multi=settings.multi)
    first = [] if has_workers and has_leases else ["make the coordination tables, which aren't there"]
    if settings.is_shared and not first and (why_not := out_of_step(settings, duty.tables)) is not None:
        return Preview(memory, (), why_not=why_not)
    state, has_table = _state(duty)
    if not has_table:
        first.append(f"make the landing table {settings.landing.table}, which isn't there")
    since = None if memory.last_look is None else now - memory.last_look
    times = settings.times
    fleet = watch(workers, memory.workers, since, tick=times.leader_tick, duration=times.lease_duration)
    streams = Tracking(settings=settings, source=duty.source).look(memory.streams, listing, now)
    synced, origins = _sync(duty, streams, listing, state)
    assignment = replace(memory.assignment, runs=0)
    plan = plan_pass(listing.leases, fleet, assignment, settings=settings, now=now)
    seen = replace(
        memory,
        last_look=now,
        workers=mind(fleet, listing.leases, plan.condemned),
        streams=streams.memory,
        assignment=plan.memory,
    )
    moves = plan.changes if settings.coordination.mode is Mode.OWN else ()  # else workers help themselves
    has_started = bool(state.positions.origins)
    why_not = uninvited(plan.strangers) or None
    return Preview(seen, (*streams.forget, *synced, *moves), (*first, *origins), has_started, why_not)


def _there(duty: LeaderDuty, ask: Callable[[], _Found], nothing: _Found) -> tuple[_Found, bool]:
    """What lies in tables that a leader would make, if they aren't there."""
    try:
        return ask(), True
    except TablesMissing:
        if duty.settings.coordination.create is Create.NEVER:
            raise
        return nothing, False


def _state(duty: LeaderDuty) -> tuple[TableState, bool]:
    try:
        return duty.table.load(), True
    except Unknown:
        return TableState(Positions(), None, origin_allowed=True), False


def _sync(
    duty: LeaderDuty, streams: Look, listing: Listing, state: TableState
) -> tuple[list[Change], list[str]]:
    """The rows that a shard sync would make or retire, as if the origins that are missing were there."""
    duties = ShardSync(settings=duty.settings, leases=duty.leases, source=duty.source, table=duty.table)
    changes: list[Change] = []
    first: list[str] = []
    for tracked in streams.streams:
        try:
            facts = duty.source.describe(tracked.settings.name)
        except Unknown:
            if tracked.life is None:
                raise
            continue  # a former stream that is gone: nothing is to be synced
        is_begun = facts.stream in state.positions.origins
        if not is_wanted_life(tracked, facts) or (tracked.life is not None and not is_begun):
            continue
        mine = rows_of(facts.stream, listing.leases)
        origin = plan_origin(state, facts, stream=tracked.settings, leases=mine)
        if origin is not None:
            first.append(_told(tracked, origin))
        known = _with(state, facts.stream, origin)
        changes += duties.plan(tracked.settings, facts, listing, state=known)
    return changes, first


def _with(state: TableState, stream: StreamId, origin: Origin | None) -> TableState:
    if origin is None:
        return state
    return replace(state, positions=state.positions.with_origins({stream: origin}))


def _told(tracked: Tracked, origin: Origin) -> str:
    start = str(origin.start)
    if tracked.settings.initial_position is InitialPosition.LATEST and origin.start.at is not None:
        start = "LATEST, as the time that Kinesis says it is then"
    return f"commit to the landing table where stream {tracked.name} starts: {start}"
