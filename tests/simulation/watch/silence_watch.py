"""The judges of a take-over (I20): had the worker really been silent, and did the taker look once more just before its write?"""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.pipeline.core.leases.change import Change
from headrace.pipeline.core.leases.change_kind import ChangeKind
from headrace.pipeline.core.leases.lease import Lease
from headrace.pipeline.settings.choices import Heartbeat, Mode
from headrace.pipeline.settings.model import TimeSettings
from tests.simulation.scheduler import Process
from tests.simulation.watch.truth import Violation

if TYPE_CHECKING:
    from tests.simulation.world import World

_DURATION = TimeSettings().lease_duration.total_seconds()
_SCANS = 4 * _DURATION
_MOMENT = 3.0
"""Seconds between a look at a worker's row and a write that goes by it, where no call fails."""


def judge_silence(world: World, before: Lease, by: Process, looked: float) -> None:
    """No worker counts as dead because a clock jumped. A jump adds a tick and a half of credit at most; the rest has to be real silence."""
    jumps = sum(host is by.host and at > looked - 60.0 for at, host in world.jumps)
    silent = world.workers.silence(before.holder or "", looked)
    if world.plan.heartbeat is Heartbeat.WORKER and silent < 18.5 - 7.5 * jumps:
        raise Violation(
            "I20", f"{by}: {before.holder} lost {before.key} after {silent:.1f} s of silence", before.key
        )


def judge_taken(world: World, before: Lease, change: Change, by: Process, *, moved: float) -> None:
    """Without a leader a worker takes a lease for itself as one that nobody renews, or steals one from the worker with the most (a change of
    another kind). The first only once the lease's counter has really stood still for the lease duration, whatever the clocks say: a stale scan shows
    another counter, and the write is refused. `moved`: when it was last counted up."""
    # A row that is made anew may come to the very counter that an earlier scan saw in the old one. That scan may have been long ago: a worker that
    # stops, or whose process is frozen, doesn't scan, and after an outage of its host the cursor remembers it.
    scanned_earlier, _ = world.leases.scan_times[by.name]
    is_new = world.leases.made.get(before.key, -1e9) > min(world.sim.now - _SCANS, scanned_earlier)
    if change.kind is not ChangeKind.TAKE or is_new or before.holder is None:
        return
    still = world.sim.now - moved
    if still < _DURATION:
        raise Violation(
            "I20",
            f"{by} takes {before.key} from {before.holder}, which renewed it {still:.1f} s ago",
            before.key,
        )


def judge_second_look(world: World, before: Lease, by: Process) -> None:
    """The task that takes a dead worker's lease has read the worker's row once more since it looked at all workers, however long that look was ago."""
    task, holder = world.sim.current, before.holder or ""
    plain = world.plan.heartbeat is Heartbeat.WORKER and world.plan.mode is Mode.OWN
    if task is None or not plain:
        return  # a late request; and by the counters of leases, leases are taken from workers that live
    read = task.read_of_worker.get(holder, -1e9)
    if read < task.looked_at_workers:
        raise Violation(
            "I20", f"{by} takes {before.key} from {holder} without a second look at its row", before.key
        )


def judge_beaten_since(world: World, before: Lease, by: Process, *, looked: float, sent: float) -> None:
    """Just before the write the taker reads the dead workers' rows again. So it takes nothing from a worker that has beaten since its look, unless
    the beat came in the moment of the write, or a fault delayed the taker."""
    holder = before.holder or ""
    beaten = sent - world.workers.silence(holder, sent)
    read = max(looked, by.read_of_worker.get(holder, -1e9))
    was_delayed = world.call_faults.met.get(by, -1e9) >= read - 1.0 or by.frozen_until >= read
    if read < beaten < sent - _MOMENT and not was_delayed:
        raise Violation(
            "I20",
            f"{by}: {holder} lost {before.key} although it had beaten {sent - beaten:.1f} s before; {by} had read its row {sent - read:.1f} s before",
            before.key,
        )
