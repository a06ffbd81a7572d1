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


def judge_rest(
    world: World, process: Process, worker: str, *, saw: tuple[str, ...], began: float, tick: float
) -> None:
    """A tick of the worker is over, and hasn't failed. `saw`: the keys of the rows that the tick went by.

    A row that has only just come to the worker may be missing among these: the index of owners may not have it yet. What another worker
    of the same process read of such a row long ago decides nothing.
    """
    least = began - _TICKS * tick
    if world.call_faults.met.get(process, -1e9) >= least - 60.0 or process.frozen_until >= least - 60.0:
        return
    for key in saw:
        row = world.leases.rows.get(key)
        if row is None or row.holder != worker or row.has_ended:
            continue
        read = process.read_of_row.get(key)
        if read is not None and read < least - _CALLS:
            raise Violation(
                "I48", f"{worker} decides about {key} by what {process} read {began - read:.0f} s ago", key
            )
