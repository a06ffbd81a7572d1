"""Planted bugs of record processors: rows, states and positions that don't belong together (I38)."""

from __future__ import annotations

from typing import Any, Final

from tests.simulation.bugs.planted import a_bug
from tests.simulation.bugs.typed_bugs import LIVES_LEFT_OUT, typed_fleet


def _fleet(**typed: Any) -> dict[str, Any]:
    """Fleets in which a processor fails often, in small calls."""
    often = {"processor": "retry", "call_records": 2, "dies": 0.1, "every": 8.0, "targets": 0}
    return typed_fleet(**often | typed)


PROCESSORS: Final = (
    a_bug(
        "retried-with-the-first-state",
        "a process that begins again in the middle of a wave gets the state of the wave's beginning",
        (
            "processors.turn",
            'state = {} if self.state is None else {"state": json.loads(self.state)}',
            'state = {} if self.work.state is None else {"state": json.loads(self.work.state)}',
        ),
        among=_fleet(),
    ),
    a_bug(
        "ended-by-its-last-record",
        "a shard counts as ended once its last record is processed, though the processor hasn't checkpointed its end",
        (
            "processors.account",
            "turn.taken == planned.rows and (turn.ended or not planned.upto.ended)",
            "turn.taken == planned.rows",
        ),
        among=_fleet(processor="halt"),
    ),
    a_bug(
        "redriven-state-forgotten",
        "the next wave begins with the state that the last wave has left, and not with that of a redrive since",
        ("processors.states", "redriven.get(key, state)", "state"),
        among=_fleet(processor="quarantine", redrives=8.0, deploys=15.0),
    ),
    a_bug(
        "processed-beside-a-redrive",
        "a wave lands by the state of before a redrive that has landed meanwhile",
        ("processors.wave", "compared=basis.target", "compared=None"),
        seeds=30,
        among=_fleet(processor="quarantine", redrives=4.0, deploys=15.0, every=4.0),
    ),
    a_bug(
        "redriven-without-the-state",
        "a redrive lands by the state of before a wave that has landed meanwhile",
        ("processors.redrive", "compared=positions", "compared=None"),
        seeds=30,
        among=_fleet(processor="quarantine", redrives=4.0, deploys=15.0, every=4.0),
    ),
    a_bug(
        "unknown-parents-unheeded",
        "a shard whose parents no position tells is processed while the processor has stopped at one of them",
        (
            "typed.plan",
            "    waiting = waits_for_unknown_parents(wishes, by_shard) | later\n",
            "    waiting = later\n",
        ),
        seeds=30,
        # A repair leaves out former lives, and the processor, which is made late, has stopped within them.
        among=_fleet(begins=170.0, deploys=30.0, redrives=0.0, cut=0.0, windows=0.0, unique=0.0)
        | LIVES_LEFT_OUT
        | {
            # It stops only while there are faults.
            "fault_seconds": 400.0,
            "troubles": {"expire": 50.0, "recreate": 50.0, "split": 30.0, "merge": 60.0},
        },
    ),
    a_bug(
        "window-from-the-shards-start",
        "a processor gets a window's shards from their first record on, and not from where the window begins",
        (
            "windows.copy_plan",
            "        if planned.after is not None and target.of(planned.key) is None\n",
            "        if False\n",
        ),
        seeds=20,
        among=_fleet(processor="quarantine", processed=15.0),
    ),
    a_bug(
        "window-with-other-shards",
        "a processor gets records of shards that aren't in the window",
        (
            "windows.copy_plan",
            "has_waiting=has_more, streams=window.streams, only_wanted=True)",
            "has_waiting=has_more, streams=window.streams)",
        ),
        seeds=20,
        among=_fleet(processor="quarantine", processed=15.0),
    ),
    a_bug(
        "window-children-first",
        "a processor gets a child's records of a window while it has stopped at the parent's",
        (
            "windows.copy_plan",
            "waiting = [planned for planned in open_ones if _is_in_the_way(planned, open_ones)]",
            "waiting: list[WindowRange] = []",
        ),
        seeds=30,
        among=_fleet(processor="halt", processed=15.0, rows=5) | {"troubles": {"split": 40.0, "merge": 40.0}},
    ),
)
