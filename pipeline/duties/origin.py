"""Where a stream starts: decided once, by an empty commit, before anything of it is read."""

from __future__ import annotations

from collections.abc import Iterable

from pipeline.core.landing import Proposal
from pipeline.core.lease import Lease
from pipeline.core.position import TRIM, Origin, Start
from pipeline.core.words import counted
from pipeline.errors import OriginUnsafe
from pipeline.ports import LandingTable, StreamFacts, TableState
from pipeline.settings.choices import InitialPosition
from pipeline.settings.model import StreamSettings


def ensure_origin(
    table: LandingTable,
    state: TableState,
    facts: StreamFacts,
    *,
    stream: StreamSettings,
    leases: Iterable[Lease],
) -> TableState:
    """The state as it is once the stream has an origin; unchanged where it has one."""
    origin = plan_origin(state, facts, stream=stream, leases=leases)
    return state if origin is None else table.commit(Proposal(origins=((facts.stream, origin),))).state


def plan_origin(
    state: TableState, facts: StreamFacts, *, stream: StreamSettings, leases: Iterable[Lease]
) -> Origin | None:
    """None where it has one already."""
    if facts.stream in state.positions.origins:
        return None
    has_positions = bool(state.positions.origins or state.positions.shards)
    if not state.origin_allowed and not has_positions:
        raise OriginUnsafe(
            f"{facts.stream} has no origin in the lake table, and the table was used before: where its records "
            "begin can't be told; nothing was read. `headrace repair` rebuilds the positions"
        )
    read = sorted(
        row.key
        for row in leases
        if row.checkpoint.is_digits and row.stream_epoch in {None, facts.stream.epoch}
    )
    if read:
        raise OriginUnsafe(
            f"{facts.stream} has no origin in the lake table, but checkpoints in {counted(len(read), 'lease row')} "
            f"({read[0]}, ...): somebody read this stream under this application's name. Nothing was read. Choose "
            "another application name, or adopt these leases"
        )
    return Origin(_start(state, facts, stream), facts.asked)


def _start(state: TableState, facts: StreamFacts, stream: StreamSettings) -> Start:
    if any(known.arn == facts.stream.arn for known in state.positions.origins):
        return TRIM  # a later life of a stream that we know: nothing of it was ever ours to skip
    match stream.initial_position:
        case InitialPosition.TRIM_HORIZON:
            return TRIM
        case InitialPosition.LATEST:
            # By Kinesis's clock: a host whose clock is fast would skip records.
            return Start(facts.asked.replace(microsecond=0))
        case InitialPosition.AT_TIMESTAMP:
            return Start(stream.timestamp)
