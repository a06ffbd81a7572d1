"""The judge of what is told of a shard's lag (I49): a shard that can't be read, or hasn't been read up to now, is told to be at least as far behind
as its oldest unread record has waited, and one that counts as read up to a moment has no unread record from before it."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from headrace.pipeline.core.leases.lag import is_read_by_others, open_lags, readers_among
from headrace.pipeline.core.leases.lease import Lease
from tests.simulation.watch.truth import Violation

if TYPE_CHECKING:
    from tests.simulation.world import World

_EVERY = 10.0
_ROUNDED = timedelta(seconds=3)
"""Kinesis tells its time in whole seconds, and a wave writes a moment after it has read."""


class LagWatch:
    """Looks at the lags now and then, as the leader's metrics, `headrace status` and the doctor do."""

    def __init__(self, world: World) -> None:
        self._world = world

    def start(self) -> None:
        # After a rollback or a repair the rows tell of reads that the table doesn't have any more, and what KCL's workers have
        # read isn't in the table.
        if not (self._world.plan.quiet or self._world.plan.foreign or self._world.plan.adopted):
            self._world.sim.after(_EVERY, self._look)

    def _look(self) -> None:
        world = self._world
        world.sim.after(_EVERY, self._look)
        if world.losses.sure:
            workers = world.workers.listing().workers
            readers = readers_among((row.worker_id for row in workers), workers)
            rows = {row.key: row for row in world.leases.rows.values()}
            for key, lag in open_lags(rows.values(), world.clock.now(), readers=readers).items():
                if rows[key].failure is None and rows[key].behind_ms == 0:
                    self._judge_tip(rows[key])
                elif lag is not None and (rows[key].failure is not None or rows[key].behind_ms):
                    self._judge(rows[key], lag)

    def _judge(self, row: Lease, lag: timedelta) -> None:
        waiting = self._oldest_unread(row)
        if waiting is not None and self._world.clock.now() - waiting > lag + _ROUNDED:
            why = "" if row.failure is None else f" and its last wave failed ({row.failure.why})"
            raise Violation(
                "I49",
                f"{row.key} is told to be {lag} behind, but a record of {waiting} is unread{why}",
                row.key,
            )

    def _judge_tip(self, row: Lease) -> None:
        """The row's last wave has read all there was when it looked."""
        looked_at, waiting = row.looked_at, self._oldest_unread(row)
        if is_read_by_others(row) or looked_at is None or waiting is None:
            return
        if looked_at - waiting > _ROUNDED:
            raise Violation(
                "I49",
                f"{row.key} counts as read up to {looked_at}, but a record of {waiting} is unread",
                row.key,
            )

    def _oldest_unread(self, row: Lease) -> datetime | None:
        """None also where nothing of the shard has landed: what it begins with is told by the lags of its parents."""
        world = self._world
        shard = world.leases.shard(row)
        if (
            shard is None
            or shard.token is None
            or row.looked_at is None
            or not world.truth.lives(shard.key.stream)
        ):
            return None
        first, now = world.truth.first(shard, world.table.origins.get(shard.key.stream)), world.clock.now()
        # What the stream has lost is told in the ledger, and nobody can read it any more.
        unread = shard.arrivals[max(first, shard.read) :]
        return next((at for at in unread if not world.losses.is_reported(shard, at, now)), None)
