"""What must be true some time after the last fault (I1, I5, I6, I20-I22, I26, I30)."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta

from headrace.pipeline.core.leases.lease import Lease
from headrace.pipeline.core.shards.stream import ShardKey
from headrace.pipeline.settings.model import TimeSettings
from tests.memory.aggregates import numbers_of
from tests.simulation.watch.truth import ShardTruth, Violation
from tests.simulation.world import World

_CLEARED = timedelta(hours=2)
"""Time for four clean-ups."""
_LOOKED_AT = 90.0
"""Seconds by which the read of a quiet shard may be late: a tick, the start of a run, and the shards that the run
reads first."""
_REST = 45.0
"""Seconds: a little more than two assignment passes."""


def unsettled(world: World) -> Iterator[tuple[str, str]]:
    """What isn't as it should be: pairs of a shard or key and a sentence."""
    living = {
        w for d in world.deployments if d.is_up and any(h.alive for h in d.run_hosts) for w in d.workers
    }
    living -= {row.worker_id for row in world.workers.listing().workers if row.stopping}
    for shard in world.truth.shards.values():
        if world.truth.lives(shard.key.stream) and shard.key.stream.name not in world.truth.taken_out:
            yield from ((shard.key.shard_id, sentence) for sentence in _of_shard(world, shard, living))
    for row in world.leases.rows.values():
        stream = world.truth.stream_of(row)
        if stream is None or not world.truth.lives(stream) or row.stream_epoch != stream.epoch:
            yield row.key, f"its row belongs to another life of the stream ({row.stream_epoch} of {stream})"
        elif ShardKey(stream, row.shard_id) not in world.truth.shards:
            yield row.key, "its shard never existed"
        elif stream.name in world.truth.taken_out:
            yield row.key, f"the settings don't name {stream.name} any more, and the row still exists"
        if row.run_claim is not None and not row.has_ended and not world.runs[row.run_claim].process.alive:
            yield row.key, f"its row still carries the claim of the dead run {row.run_claim}"
        if row.checkpoint_owner is not None:
            yield row.key, f"its handover from {row.checkpoint_owner} to {row.owner} isn't over"
    yield from world.typed.unsettled()
    yield from () if world.application is None else world.application.unsettled()
    key, holder, at = world.leases.moved
    if holder in living and world.sim.now - at < _REST:
        yield key, f"it was taken from the living worker {holder} only {world.sim.now - at:.0f} s ago (I6)"


def left_over(world: World) -> Iterator[tuple[str, str]]:
    """What should have been deleted: worker rows a day after the worker's death, and rows and ENDs of shards that
    Kinesis has forgotten."""
    for worker in world.workers.listing().workers:
        silent = timedelta(seconds=world.workers.silence(worker.worker_id, world.sim.now))
        if silent > timedelta(days=1, hours=1) and not worker.stopping:
            yield worker.worker_id, f"the worker has been dead for {silent}, and its row still exists"
    now, placed = world.clock.now(), world.table.load().positions
    for shard in world.truth.shards.values():
        if shard.closed is None or now - shard.closed < world.losses.retention + _cleared(world, shard):
            continue
        stream, row = shard.key.stream, world.leases.rows.get(world.key_of(shard.key))
        # A row goes after those of its parents, and these wait for all of their children.
        family = [shard, *_above(world, shard)]
        below = [world.truth.shards[ShardKey(stream, child)] for each in family for child in each.children]
        began_long_ago = all(_began_before(world, child, now - _CLEARED) for child in below)
        if not world.truth.lives(stream) or not began_long_ago:
            continue
        if row is not None and row.stream_epoch == stream.epoch:
            yield (
                shard.key.shard_id,
                f"Kinesis forgot the shard hours ago, and its row still exists ({row.checkpoint})",
            )
        # Nobody lists the shards of a stream that was taken out of the settings.
        if placed.has_ended(shard.key) and stream.name not in world.truth.taken_out:
            yield shard.key.shard_id, "Kinesis forgot the shard hours ago, and the table still holds its END"


def _cleared(world: World, shard: ShardTruth) -> timedelta:
    """Time for the clean-ups of the shard and of the shards above it: an END goes one clean-up after those of its parents."""
    return _CLEARED + len(_above(world, shard)) * TimeSettings().garbage_cleanup


def _began_before(world: World, shard: ShardTruth, moment: datetime) -> bool:
    """Whether a record that is wanted of the shard had arrived at that moment. Until one has, the shard's position is at its start, and
    the rows of its parents stay."""
    wanted = shard.arrivals[world.truth.first(shard, world.table.origins.get(shard.key.stream)) :]
    return bool(wanted) and wanted[0] < moment


def _above(world: World, shard: ShardTruth) -> list[ShardTruth]:
    """All ancestors of the shard."""
    found: dict[ShardKey, ShardTruth] = {}
    todo = [shard]
    while todo:
        each = todo.pop()
        parents = (world.truth.shards[ShardKey(each.key.stream, name)] for name in each.parents)
        new = [parent for parent in parents if parent.key not in found]
        found |= {parent.key: parent for parent in new}
        todo += new
    return list(found.values())


def _of_shard(world: World, shard: ShardTruth, living: set[str]) -> Iterator[str]:
    origin = world.table.origins.get(shard.key.stream)
    row = world.leases.rows.get(world.key_of(shard.key))
    trimmed_unread = shard.token is None and world.is_unlisted(shard.key)
    if trimmed_unread or world.truth.is_out_of_scope(shard, origin):
        return
    first = world.truth.first(shard, origin)
    rest, now = shard.arrivals[max(first, shard.read) :], world.clock.now()
    left = sum(not world.losses.is_reported(shard, at, now) for at in rest)
    if left:
        yield f"{left} records haven't landed"
    if shard.closed is None:
        yield from _of_open_shard(world, shard, row, living)
    elif not shard.ended and not (shard.token is None and world.truth.is_passed(shard, world.truth.placed())):
        yield f"the shard is closed, and hasn't ended in the table ({shard.token})"
    elif shard.ended and row is not None and not row.has_ended:
        yield f"the shard has ended in the table, but its row says {row.checkpoint}"


def _of_open_shard(world: World, shard: ShardTruth, row: Lease | None, living: set[str]) -> Iterator[str]:
    since = world.sim.now - world.losses.last_read.get(shard.key, 0.0)
    if row is None:
        yield "the shard is open and has no row"
    elif row.holder not in living:
        yield f"its row is held by {row.holder}, which is dead ({', '.join(sorted(living))} are alive)"
    elif row.looked_at is None:
        yield "the shard was never read"
    elif row.failure is not None:
        yield f"its row says that it can't be read ({row.failure.why})"
    elif since > world.plan.retention / 4 + _LOOKED_AT:
        yield "the shard hasn't been read for more than a quarter of the retention"


def _unaccounted_records(world: World) -> Iterator[tuple[str, str]]:
    """I1, I13: each record of a stream that is still read is in the table once, or was trimmed and reported."""
    landed: dict[ShardKey, dict[int, int]] = {}
    for file in world.table.files_at(world.table.head):
        for row in world.stage.rows[file.path]:
            its = landed.setdefault(row[0], {})
            for sequence in numbers_of(row):
                its[sequence] = its.get(sequence, 0) + 1
    for (key, sequence), times in world.table.dropped.items():
        its = landed.setdefault(key, {})
        its[sequence] = its.get(sequence, 0) + times
    for shard in world.truth.shards.values():
        stream = shard.key.stream
        if (
            stream in world.losses.decided
            and world.truth.lives(stream)
            and stream.name not in world.truth.taken_out
        ):
            sentences = world.losses.unaccounted(shard, landed.get(shard.key, {}))
            yield from ((shard.key.shard_id, sentence) for sentence in sentences)


def require_cleared(world: World) -> None:
    for about, sentence in left_over(world):
        raise Violation("I30", f"{about}: {sentence}", about)


def require_settled(world: World) -> None:
    for about, sentence in unsettled(world):
        raise Violation(
            "I30",
            f"{about}: {sentence}, {world.sim.now - world.plan.fault_seconds - world.plan.quiet:.0f} s after the last fault",
            about,
        )
    for about, sentence in _unaccounted_records(world):
        raise Violation("I1", f"{about}: {sentence}", about)
    world.typed.require_accounted()
