"""The judge of leases that move to and fro (I6), also while faults happen: a lease that was moved from a living worker to another one doesn't
go back to the first one by the next passes, as long as both live and nothing else has changed between the workers."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

from headrace.pipeline.core.leases.change import Change
from headrace.pipeline.core.leases.change_kind import ChangeKind
from headrace.pipeline.core.leases.lease import Lease
from tests.simulation.scheduler import Process
from tests.simulation.watch.truth import Violation

if TYPE_CHECKING:
    from tests.simulation.world import World

_SOON = 60.0
"""Seconds in which a lease may not come back: two assignment passes."""
_BY_LEADER = frozenset({ChangeKind.ASSIGN, ChangeKind.MOVE, ChangeKind.INITIATE})


class ToAndFro:
    def __init__(self, world: World) -> None:
        self._world = world
        self._left: dict[tuple[str, str], tuple[float, str]] = {}
        """By lease and the worker that it was taken from although the worker lives: when, and to which worker it went."""
        self._changed = -1e9
        """When something last happened for which leases may have to move: a worker or a lease came, went, or was taken by somebody."""

    def judge(self, before: Lease, after: Lease, change: Change, by: Process) -> None:
        world, key = self._world, before.key
        if before.owner == after.owner or change.kind not in _BY_LEADER:
            return
        now, gone, to = world.sim.now, before.owner or "", after.owner or ""
        if not (self._lives(gone) and self._lives(to)):
            self._changed = now
            return
        at, through = self._left.get((key, to), (-1e9, ""))
        if through == gone and now - at < _SOON and self._changed < at and not self._is_disturbed(at):
            raise Violation(
                "I6",
                f"{by} moves {key} from {gone} back to {to}, from which it was taken {now - at:.0f} s ago",
                key,
            )
        self._left[key, gone] = now, to

    def _lives(self, worker: str) -> bool:
        beats = self._world.workers.beats_of(worker)
        return bool(beats) and self._world.sim.now - beats[-1] < 10.0

    def _is_disturbed(self, since: float) -> bool:
        """Whether a fault, a worker or a lease explains that the leases are divided anew."""
        world, now = self._world, self._world.sim.now
        if world.call_faults.last_fault >= since - 60.0 or world.script is not None:
            return True
        if any(row.stopping for row in world.workers.listing().workers):
            return True
        if any(at >= since - 60.0 for at in world.leases.made.values()):
            return True
        return any(
            _pauses(world.workers.beats_of(worker), since - 60.0, now) for worker in world.workers.names()
        )


def _pauses(beats: list[float], since: float, now: float) -> bool:
    recent = [at for at in beats if at >= since]
    times = [since, *recent, now]
    return any(later - earlier > 15.0 for earlier, later in pairwise(times))
