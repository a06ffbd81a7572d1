"""The judge of origins: each stream's start is decided once, as the settings say; a later life of a stream is read from its first record on (I1,
I9)."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from headrace.pipeline.core.shards.position import Origin
from headrace.pipeline.core.shards.stream import StreamId
from headrace.pipeline.settings.choices import InitialPosition
from tests.memory.table import Snapshot
from tests.simulation.watch.truth import Violation

if TYPE_CHECKING:
    from tests.simulation.world import World


def is_dropped_life(world: World, stream: StreamId, made: Snapshot) -> bool:
    """Whether a late run decides the origin of a deleted stream again. That is allowed after a repair, which keeps no earlier lives: no
    record of that life is left to read."""
    table = world.table
    if table.repairing or stream not in table.origins or world.truth.lives(stream):
        return False
    return stream not in table.state_at(made.parent or 0).positions.origins


def judge_origin(world: World, stream: StreamId, origin: Origin, made: Snapshot) -> None:
    table, at = world.table, origin.start.at
    if world.adoption.is_awaited:
        raise Violation(
            "I1", f"the start of {stream} is decided, though KCL has read it and nobody has adopted its rows"
        )
    if stream in table.origins:
        if not table.repairing or table.origins[stream] != at:
            raise Violation("I9", f"the origin of {stream} was decided twice")
        return
    table.origins[stream], table.origins_since[stream] = at, world.sim.now
    world.note("table", f"origin of {stream.epoch}: {at}")
    if table.repairing:
        return
    if origin.decided not in world.source.answers.get(stream, {}):
        raise Violation(
            "I1",
            f"the origin of {stream} was decided at {origin.decided}, which isn't a Date that Kinesis answered",
        )
    wanted = _starts(world, stream, origin, made)
    if at not in wanted:
        texts = " or ".join(str(start or InitialPosition.TRIM_HORIZON) for start in wanted)
        raise Violation("I1", f"{stream} begins at {at or InitialPosition.TRIM_HORIZON}, not at {texts}")


def _starts(world: World, stream: StreamId, origin: Origin, made: Snapshot) -> list[datetime | None]:
    """Where the stream may begin."""
    table, first = world.table, _first(world, origin)
    # A repair keeps no earlier lives.
    known = table.origins if world.losses.sure else made.positions.origins
    earlier = [life for life in known if life.arn == stream.arn and life != stream]
    if not earlier:
        return [first]
    # An earlier life was read, so this life is read from its first record on. The origin of a life of which nothing was read may have been
    # committed late, after this start was decided.
    _, planned = table.made.get(made.id, (None, 0.0))
    is_late = all(table.origins_since.get(life, 0.0) > planned for life in earlier)
    return [None, first] if is_late and planned else [None]


def _first(world: World, origin: Origin) -> datetime | None:
    """The origin that the plan asks for, for a stream that the fleet reads for the first time."""
    plan = world.plan
    match InitialPosition.TRIM_HORIZON if plan.adopted else plan.position:
        case InitialPosition.LATEST:
            return origin.decided
        case InitialPosition.AT_TIMESTAMP:
            return world.start_of_time + timedelta(seconds=plan.starts_at)
        case InitialPosition.TRIM_HORIZON:
            return None
