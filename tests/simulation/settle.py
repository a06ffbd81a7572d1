"""Is all well again? What must be true once faults have stopped for a while (I1, I5, I6, I20-I22, I26, I30)."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

from pipeline.core.stream import ShardKey
from tests.simulation.truth import ShardTruth, Violation
from tests.simulation.world import World

_CLEARED = timedelta(hours=2)
"""Time enough for four rounds of clearing away: parents go first."""
_LOOKED_AT = 90.0
"""Seconds that the look of a quiet shard may come late: a tick, a run's start, and what it reads before."""
_REST = 45.0
"""Two assignment passes and a little."""


def unsettled(world: World) -> Iterator[tuple[str, str]]:
    """What isn't well: (shard, sentence)."""
    living = {
        w for d in world.deployments if d.is_up and any(h.alive for h in d.run_hosts) for w in d.workers
    }
    living -= {row.worker_id for row in world.workers.listing().workers if row.stopping}
    for shard in world.truth.shards.values():
        if world.truth.lives(shard.key.stream) and shard.key.stream.name not in world.truth.unasked:
            yield from ((shard.key.shard_id, said) for said in _of_shard(world, shard, living))
    for row in world.leases.rows.values():
        stream = world.truth.stream_of(row)
        if stream is None or not world.truth.lives(stream) or row.stream_epoch != stream.epoch:
            yield row.key, f"its row is of another life ({row.stream_epoch} of {stream})"
        elif ShardKey(stream, row.shard_id) not in world.truth.shards:
            yield row.key, "its shard never was"
        elif stream.name in world.truth.unasked:
            yield row.key, f"nobody asks for {stream.name} any more, and its row is still here"
        if row.run_claim is not None and not row.has_ended and not world.runs[row.run_claim].process.alive:
            yield row.key, f"its row carries the claim of a dead run, {row.run_claim}"
        if row.checkpoint_owner is not None:
            yield row.key, f"its handover from {row.checkpoint_owner} to {row.owner} isn't over"
    key, holder, at = world.leases.moved
    if holder in living and world.sim.now - at < _REST:
        yield key, f"it was taken from {holder}, who is at work, only {world.sim.now - at:.0f} s ago (I6)"


def left_over(world: World) -> Iterator[tuple[str, str]]:
    """What nobody needs any more goes: rows of the dead after a day, rows and ENDs of shards that Kinesis has forgotten."""
    for worker in world.workers.listing().workers:
        silent = timedelta(seconds=world.workers.silence(worker.worker_id, world.sim.now))
        if silent > timedelta(days=1, hours=1) and not worker.stopping:
            yield worker.worker_id, f"it has been gone for {silent}, and its row is still here"
    now, placed = world.clock.now(), world.table.load().positions
    for shard in world.truth.shards.values():
        if shard.closed is None or now - shard.closed < world.losses.retention + _CLEARED:
            continue
        stream, row = shard.key.stream, world.leases.rows.get(world.key_of(shard.key))
        below = [world.truth.shards[ShardKey(stream, child)] for child in shard.children]
        began_long_ago = all(child.arrivals and child.arrivals[0] < now - _CLEARED for child in below)
        if not world.truth.lives(stream) or not began_long_ago:
            continue
        if row is not None and row.stream_epoch == stream.epoch:
            yield (
                shard.key.shard_id,
                f"Kinesis forgot it hours ago, and its row is still here ({row.checkpoint})",
            )
        if placed.has_ended(shard.key):
            yield shard.key.shard_id, "Kinesis forgot it hours ago, and the table still carries its END"


def _of_shard(world: World, shard: ShardTruth, living: set[str]) -> Iterator[str]:
    origin = world.table.origins.get(shard.key.stream)
    row = world.leases.rows.get(world.key_of(shard.key))
    trimmed_unread = shard.token is None and world.is_unlisted(shard.key)
    if trimmed_unread or world.truth.is_out_of_scope(shard, origin):
        return
    first = world.truth.first(shard, origin)
    rest, now = shard.arrivals[max(first, shard.read) :], world.clock.now()
    left = sum(not world.losses.is_told(shard, at, now) for at in rest)
    if left:
        yield f"{left} records aren't landed"
    if shard.closed is None:
        if row is None:
            yield "it is open and has no row"
        elif row.holder not in living:
            yield f"its row is held by {row.holder}, who isn't at work ({', '.join(sorted(living))} are)"
        elif row.looked_at is None:
            yield "nobody ever read it"
        elif (
            world.sim.now - world.losses.last_read.get(shard.key, 0.0) > world.plan.retention / 4 + _LOOKED_AT
        ):
            yield "nobody has looked at it for more than a quarter of the retention"
    elif not shard.ended and not (shard.token is None and world.truth.is_passed(shard, world.truth.placed())):
        yield f"it is closed, and hasn't ended in the table ({shard.token})"
    elif shard.ended and row is not None and not row.has_ended:
        yield f"it has ended in the table, its row says {row.checkpoint}"


def _account(world: World) -> Iterator[tuple[str, str]]:
    """I1, I13: every record of the streams that are still read is in the table once, or trimmed and told of."""
    landed: dict[ShardKey, dict[int, int]] = {}
    for snapshot in world.table.history(world.table.head):
        for file in snapshot.files:
            for key, sequence in world.stage.rows[file.path]:
                its = landed.setdefault(key, {})
                its[sequence] = its.get(sequence, 0) + 1
    for shard in world.truth.shards.values():
        stream = shard.key.stream
        if (
            stream in world.losses.decided
            and world.truth.lives(stream)
            and stream.name not in world.truth.unasked
        ):
            told = world.losses.unaccounted(shard, landed.get(shard.key, {}))
            yield from ((shard.key.shard_id, said) for said in told)


def require_cleared(world: World) -> None:
    for about, said in left_over(world):
        raise Violation("I30", f"{about}: {said}", about)


def require_settled(world: World) -> None:
    for about, said in unsettled(world):
        raise Violation(
            "I30",
            f"{about}: {said}, {world.sim.now - world.plan.storm - world.plan.quiet:.0f} s after all trouble",
            about,
        )
    for about, said in _account(world):
        raise Violation("I1", f"{about}: {said}", about)
