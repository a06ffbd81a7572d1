"""The origin of a stream: decided once, and committed to the lake table by an empty commit before anything is read."""

from __future__ import annotations

from collections.abc import Iterable

from headrace.pipeline.core.landing.landing import Proposal
from headrace.pipeline.core.leases.lease import Lease
from headrace.pipeline.core.order.first_start import why_no_origin, why_other_stream
from headrace.pipeline.core.shards.position import TRIM, Origin, Start
from headrace.pipeline.core.shards.stream import StreamId
from headrace.pipeline.core.sharing.sync_plan import is_of_this_life
from headrace.pipeline.core.words.words import counted
from headrace.pipeline.errors import OriginUnsafe, Transient
from headrace.pipeline.ports.landing import LandingTable, TableState
from headrace.pipeline.ports.reading import StreamFacts
from headrace.pipeline.settings.choices import InitialPosition
from headrace.pipeline.settings.model import StreamSettings


def ensure_origin(
    table: LandingTable,
    state: TableState,
    facts: StreamFacts,
    *,
    stream: StreamSettings,
    leases: Iterable[Lease],
) -> TableState:
    """Commit the stream's origin if it has none. Returns the table's state, in which the stream has an origin."""
    origin = plan_origin(state, facts, stream=stream, leases=leases)
    if origin is None:
        return state
    # Decided by compare-and-swap: two deployments that start at once resolve LATEST to two moments,
    # and whoever comes second goes on with the first one's.
    decided = table.commit(Proposal(origins=((facts.stream, origin),))).state
    # The commit was refused, because the table has a later life of the stream by now.
    if facts.stream not in decided.positions.origins:
        raise _earlier_life(facts.stream, decided)
    return decided


def plan_origin(
    state: TableState, facts: StreamFacts, *, stream: StreamSettings, leases: Iterable[Lease]
) -> Origin | None:
    """The origin to commit; None where the stream has one. Raises OriginUnsafe where records could be skipped or
    repeated.

    `leases`: all rows of the stream.
    """
    leases = tuple(leases)
    if (why := why_other_stream(facts.stream, leases, state.positions.streams())) is not None:
        raise OriginUnsafe(why)
    if facts.stream in state.positions.origins:
        return None
    if state.positions.has_later_life(facts.stream):
        raise _earlier_life(facts.stream, state)
    if state.positions.by_rows and _may_be_begun(facts.stream, leases, state):
        # An origin of this moment would pass over what has come since the rows were made.
        raise Transient(
            f"{facts.stream} couldn't be described when its lease rows were read, or was described as it was before it was "
            "created again, so that it isn't known where its shards are read from. Nothing was read, and no checkpoint moved; "
            "a tick or wave reads the rows again within a minute or two"
        )
    # Positions of other streams show that the table's history is whole: then only this stream is new.
    has_positions = bool(state.positions.origins or state.positions.shards)
    if not state.origin_allowed and not has_positions:
        raise OriginUnsafe(
            f"{facts.stream} has no origin in the lake table, and Headrace has used the table before, so the origin may "
            "have been lost; nothing was read. `headrace repair` rebuilds the positions"
        )
    if (why := why_no_origin(facts.stream, leases, others_have_positions=has_positions)) is not None:
        raise OriginUnsafe(why)
    # Digits in a checkpoint are a record that somebody has read: an origin would read from elsewhere. A shard that
    # somebody has read to its end would never be read, although its records haven't landed.
    read = sorted(
        row.key
        for row in leases
        if (row.checkpoint.is_digits or row.has_ended) and row.stream_epoch in {None, facts.stream.epoch}
    )
    if read:
        raise OriginUnsafe(
            f"{facts.stream} has no origin in the lake table, but checkpoints in {counted(len(read), 'lease row')} "
            f"({read[0]}, ...): another program has read this stream under this application's name. Nothing was read. "
            "Choose another application name, or adopt these leases (`headrace adopt`)"
        )
    return Origin(_start(state, facts, stream), facts.asked)


def _earlier_life(stream: StreamId, state: TableState) -> Transient:
    last = max(
        (life for life in state.positions.origins if life.arn == stream.arn), key=lambda life: life.epoch
    )
    return Transient(
        f"Kinesis describes {stream}, but the lake table already has a later stream of this name: {last}. Nothing was read. If "
        "the stream was deleted and created again just now, the next tick or wave describes it as it is. If this stays, the "
        "settings reach another AWS than before: set aws.endpoint, aws.profile and the block aws.kinesis as they were (or "
        "AWS_ENDPOINT_URL and the credentials in the environment), or land this stream in a table of its own (landing.table)"
    )


def _may_be_begun(stream: StreamId, leases: Iterable[Lease], state: TableState) -> bool:
    """Whether rows of the stream may tell where it is read from: not where all of them are of earlier lives, of which one is
    known. Then this life is read from its beginning."""
    rows = tuple(leases)
    is_later_life = any(earlier.arn == stream.arn for earlier in state.positions.origins)
    return any(is_of_this_life(stream, row) for row in rows) if is_later_life else bool(rows)


def _start(state: TableState, facts: StreamFacts, stream: StreamSettings) -> Start:
    if any(earlier.arn == facts.stream.arn for earlier in state.positions.origins):
        # A later life of a stream that was read before. LATEST would skip the records before this moment, and a
        # timestamp was meant for the first life.
        return TRIM
    match stream.initial_position:
        case InitialPosition.TRIM_HORIZON:
            return TRIM
        case InitialPosition.LATEST:
            # The time on Kinesis's clock: a host whose clock is fast would skip records.
            return Start(facts.asked.replace(microsecond=0))
        case InitialPosition.AT_TIMESTAMP:
            return Start(stream.timestamp)
