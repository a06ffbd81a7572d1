"""The judge of workers at rest (I48): a tick goes by rows that its process has read within the last three ticks, so that it sees what a
person or another program has written into them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.simulation.scheduler import Process
from tests.simulation.watch.truth import Violation

if TYPE_CHECKING:
    from tests.simulation.world import World

_TICKS = 3.0
_CALLS = 10.0
"""Seconds that the calls of one tick take at most, where none fails."""


def judge_rest(world: World, process: Process, worker: str, *, began: float, tick: float) -> None:
    """A tick of the worker is over, and hasn't failed."""
    least = began - _TICKS * tick
    if world.call_faults.met.get(process, -1e9) >= least - 60.0 or process.frozen_until >= least - 60.0:
        return
    for row in world.leases.rows.values():
        if row.holder != worker or row.has_ended:
            continue
        # A row that came to the worker only just now may not be in the index of owners yet.
        read = process.read_of_row.get(row.key)
        if read is not None and read < least - _CALLS:
            raise Violation(
                "I48",
                f"{worker} decides about {row.key} by what {process} read {began - read:.0f} s ago",
                row.key,
            )
