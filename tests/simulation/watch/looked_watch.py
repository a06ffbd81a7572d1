"""The judge of a row that says when its shard was looked at: does it tell of a read without trouble (I13)?"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from headrace.pipeline.core.leases.change import Change
from headrace.pipeline.core.leases.lease import Lease
from headrace.pipeline.core.ledger.batch import Staged
from headrace.pipeline.core.shards.checkpoint import Checkpoint
from tests.simulation.scheduler import Process
from tests.simulation.watch.truth import ShardTruth, Violation

if TYPE_CHECKING:
    from tests.simulation.world import World

_MILLISECOND = timedelta(milliseconds=1)


def judge_looked(world: World, shard: ShardTruth | None, row: Lease, change: Change, *, by: Process) -> None:
    """A release may say that the shard was looked at only if the run read the shard without trouble and the row
    says how far."""
    losses = world.losses
    reads = losses.newest_reads(by.claim, shard.key) if shard is not None else ()
    if shard is None or not reads or not losses.sure:
        return
    read, at = reads[0]
    if read.upto.ended and read.error is None:
        return  # a wave reached the end and failed before it landed the end; the row tells of an earlier wave
    said = change.put["looked_at"], change.put.get("behind_ms")
    if not _tells_of(read, *said):
        return  # this release belongs to an earlier wave and arrives late
    # The last wave may have failed after its read. Its row then tells of the wave before, which may have had the same times,
    # because Kinesis's Date is in whole seconds. Or the shard is gone since: its row has ended, by the wave that found that.
    by_kcl = world.foreign.get(shard.key)
    foreign = None if by_kcl is None else shard.checkpoint(by_kcl)
    before = [
        each
        for each, _ in reads[1:]
        if _tells_of(each, *said) and not (each.error if row.has_ended else _trouble(each, row, foreign))
    ]
    if (why := _trouble(read, row, foreign)) and not before:
        raise Violation(
            "I13",
            f"{by} writes that it looked at {row.key}, though it had trouble with the shard: {why}",
            row.key,
        )
    if not why and read.at_tip:
        losses.judge_looked(shard, read.upto.witness or at, planned=by.loaded)


def judge_tip(world: World, shard: ShardTruth | None, before: Lease, *, by: Process) -> None:
    """I49: a release says that the shard is at its tip only if a wave has asked for records and found no more."""
    reads = world.losses.newest_reads(by.claim, shard.key) if shard is not None else ()
    if not reads or before.behind_ms == 0 or any(read.at_tip for read, _ in reads):
        return
    raise Violation(
        "I49",
        f"{by} writes that {before.key} is at its tip, and has asked for none of its records since it was {before.behind_ms} ms behind",
        before.key,
    )


def _tells_of(read: Staged, looked_at: datetime, behind_ms: int | None) -> bool:
    """Whether a row with these times tells of this read."""
    stamp = read.upto.witness or looked_at
    left = 1 if read.behind is None else read.behind // _MILLISECOND
    return abs(stamp - looked_at) <= _MILLISECOND and left == behind_ms


def _trouble(read: Staged, row: Lease, foreign: Checkpoint | None) -> str:
    """Why the row may not tell of this read; empty if it may. `foreign`: the newest checkpoint of a KCL worker."""
    # A KCL worker may have read on since. Then the row says beside its checkpoint how far Headrace has landed, which keeps the shard due.
    said = row.landed if foreign is not None and row.checkpoint == foreign else row.checkpoint
    behind = read.upto.sequence is not None and said != read.upto.checkpoint
    return read.error or (
        f"the shard was read to {read.upto}, and the row says {row.checkpoint}" if behind else ""
    )
