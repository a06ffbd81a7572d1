"""`headrace plan`: the writes that a leader's tick would make now, without making them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import TypeVar

from headrace.pipeline.core.leases.change import Change
from headrace.pipeline.core.leases.lease import Lease
from headrace.pipeline.core.shards.position import Origin, Positions
from headrace.pipeline.core.shards.stream import StreamId
from headrace.pipeline.core.sharing.sync_plan import rows_of_stream
from headrace.pipeline.duties.fleet.assignment_pass import plan_pass
from headrace.pipeline.duties.fleet.leader_report import LeaderMemory
from headrace.pipeline.duties.fleet.leader_tick import LeaderDuty
from headrace.pipeline.duties.policy.known_workers import sightings_to_keep
from headrace.pipeline.duties.streams.lake_table import check_new_table
from headrace.pipeline.duties.streams.origin import plan_origin
from headrace.pipeline.duties.streams.streams import StreamsLook, Tracked, is_wanted_life
from headrace.pipeline.errors import TablesMissing, Unknown
from headrace.pipeline.ports.landing import TableState
from headrace.pipeline.ports.leases import Listing, WorkerListing
from headrace.pipeline.settings.choices import Create, InitialPosition

_Found = TypeVar("_Found")


@dataclass(frozen=True, slots=True)
class Preview:
    memory: LeaderMemory
    changes: tuple[Change, ...]
    first_steps: tuple[str, ...] = ()
    """What a leader would do before it writes the changes, such as making tables, each in one sentence."""
    has_started: bool = True
    """At least one stream has its origin in the lake table."""
    why_not: str | None = None
    """Why a leader here wouldn't lead, or would assign nothing: another application's workers are in the way."""


def preview(duty: LeaderDuty, memory: LeaderMemory) -> Preview:
    """The writes that a leader's tick would make now. Nothing is written.

    `memory`: what the preview before this one remembered. A worker counts as living only once its beat has moved
    from one preview to the next, so that a single preview assigns nothing.
    """
    settings, now = duty.settings, duty.clock.now()
    workers, has_workers = _read_if_there(duty, duty.workers.listing, WorkerListing(()))
    listing, has_leases = _read_if_there(duty, duty.leases.scan, Listing(()))
    first = [] if has_workers and has_leases else ["make the coordination tables, which aren't there"]
    if not first and (why_not := duty.policy.other_workers.why_not_lead()) is not None:
        return Preview(memory, (), why_not=why_not)
    state, has_table = _state(duty, listing.leases)
    if not has_table:
        first.append(f"make the lake table {settings.landing.table}, which isn't there")
    since = None if memory.last_look is None else now - memory.last_look
    fleet = duty.watch(workers, memory.workers, since)
    streams = duty.tracking.look(memory.streams, listing, now)
    synced, origins = _sync(duty, streams, listing, state)
    # Some strategies balance workers only in some passes, the first among them: each preview shows such a pass.
    assignment = replace(memory.assignment, passes=0)
    plan = plan_pass(listing.leases, fleet, assignment, policy=duty.policy, times=settings.times, now=now)
    remembered = replace(
        memory,
        last_look=now,
        workers=sightings_to_keep(fleet, listing.leases, plan.presumed_dead),
        streams=streams.memory,
        assignment=plan.memory,
    )
    has_started = bool(state.positions.origins)
    changes = (*streams.deletions, *synced, *plan.changes)
    return Preview(remembered, changes, (*first, *origins), has_started, plan.why_not)


def _read_if_there(duty: LeaderDuty, ask: Callable[[], _Found], nothing: _Found) -> tuple[_Found, bool]:
    """What `ask` reads, and True; or `nothing`, and False, where a leader would create the missing tables first."""
    try:
        return ask(), True
    except TablesMissing:
        if duty.settings.coordination.create is Create.NEVER:
            raise
        return nothing, False


def _state(duty: LeaderDuty, leases: Iterable[Lease]) -> tuple[TableState, bool]:
    try:
        return duty.table.load(), True
    except Unknown:
        check_new_table(duty.settings.landing.table, leases)
        return TableState(Positions(), None, origin_allowed=True), False


def _sync(
    duty: LeaderDuty, streams: StreamsLook, listing: Listing, state: TableState
) -> tuple[list[Change], list[str]]:
    """The changes of a shard sync, as if missing origins had been committed; and a sentence for each missing origin."""
    shard_sync = duty.shard_sync
    changes: list[Change] = []
    first: list[str] = []
    for tracked in streams.streams:
        try:
            facts = duty.source.describe(tracked.settings.name)
        except Unknown:
            if tracked.life is None:
                raise
            continue  # a former stream that was deleted: there is nothing to sync
        is_begun = facts.stream in state.positions.origins
        if not is_wanted_life(tracked, facts) or (tracked.life is not None and not is_begun):
            continue
        mine = rows_of_stream(facts.stream, listing.leases)
        origin = plan_origin(state, facts, stream=tracked.settings, leases=mine)
        if origin is not None:
            first.append(_sentence(tracked, origin))
        with_origin = _with_origin(state, facts.stream, origin)
        changes += shard_sync.plan(tracked.settings, facts, listing, state=with_origin)
    return changes, first


def _with_origin(state: TableState, stream: StreamId, origin: Origin | None) -> TableState:
    if origin is None:
        return state
    return replace(state, positions=state.positions.with_origins({stream: origin}))


def _sentence(tracked: Tracked, origin: Origin) -> str:
    start = str(origin.start)
    if tracked.settings.initial_position is InitialPosition.LATEST and origin.start.at is not None:
        start = "LATEST, which means the time on Kinesis's clock at that moment"
    return f"commit the origin of stream {tracked.name} to the lake table: {start}"
