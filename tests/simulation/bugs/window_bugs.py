"""Planted bugs of windows: ranges of a typed table that are replaced (I39), and ranges of the lake table that are copied (I1)."""

from __future__ import annotations

from typing import Any, Final

from tests.simulation.bugs.planted import a_bug
from tests.simulation.bugs.typed_bugs import LIVES_LEFT_OUT, typed_fleet
from tests.simulation.bugs.unpack_bugs import UNPACKINGS


def _fleet(**typed: Any) -> dict[str, Any]:
    """Fleets whose windows often meet each other, redrives, and runs that die."""
    # Rows of a target that lands each event once can't be replaced.
    often = {"targets": 1, "cut": 0.05, "windows": 15.0, "copies": 0.0, "unique": 0.0}
    return typed_fleet(**often | typed)


_SEEDS = 40

WINDOWS: Final = (
    a_bug(
        "generation-uncompared",
        "a replacement raises the generations from where they are at its commit, and not from where they were at its look",
        (
            "windows.replace",
            "            before = positions.of(chain_of(key))\n",
            "            before = self.ports.table.load().positions.of(chain_of(key))\n",
        ),
        seeds=_SEEDS,
        among=_fleet(),
    ),
    a_bug(
        "others-of-the-file-lost",
        "the rows of a replaced file that lie outside of the window don't come back",
        (
            "windows.replace",
            "            (*parsed.files, *whole),\n",
            "            parsed.files,\n",
        ),
        seeds=_SEEDS,
        among=_fleet(),
    ),
    a_bug(
        "quarantine-not-exchanged",
        "the older rows of a window stay in the quarantine table",
        (
            "windows.replace_plan",
            "    taken = tuple(aside_name(file.path) for file in aside.files)\n",
            "    taken: tuple[str, ...] = ()\n",
        ),
        seeds=_SEEDS,
        among=_fleet(),
    ),
    a_bug(
        "replaced-from-the-start",
        "a run that goes on with a window, or the second of two runs, begins again where the window begins",
        (
            "windows.replace",
            "        done = done_up_to(ports.lineage.entries(filter_of(window, DONE_ANEW)), window)\n",
            "        done = done_up_to((), window)\n",
        ),
        seeds=_SEEDS,
        among=_fleet(),
    ),
    a_bug(
        "replaced-before-settled",
        "a replacement doesn't wait until the quarantine table has carried out what was decided before",
        (
            "windows.replace",
            "        if not is_carried_out(window, typed_look.positions, aside_look.positions):\n",
            "        if False:\n",
        ),
        seeds=120,
        among=_fleet(every=5.0, deploys=20.0, cut=0.1) | {"traffic_ends_early": None},
    ),
    a_bug(
        "copied-from-the-start",
        "a window's table begins with the first record of each shard, and not where the window does",
        (
            "windows.copy_plan",
            "        if planned.after is not None and target.of(planned.key) is None\n",
            "        if False\n",
        ),
        seeds=_SEEDS,
        among=_fleet(windows=0.0, copies=15.0),
    ),
    a_bug(
        "waits-for-a-life-left-out",
        "a window waits for ever for records of a former life that a repair of the lake table has left out",
        ("windows.former_lives", "if planned.key.stream in over and not", "if False and not"),
        seeds=20,
        # The typed tables are made late: they never know a life that a repair has left out before.
        among=_fleet(begins=300.0, every=20.0, targets=2, windows=12.0, deploys=0.0, redrives=0.0, cut=0.0)
        | LIVES_LEFT_OUT,
    ),
    a_bug(
        "taken-for-left-out",
        "a window comes to its end without rows of a former life that waves still parse",
        ("windows.former_lives", " - typed.streams()\n", "\n"),
        seeds=20,
        among=_fleet(begins=300.0, every=20.0, targets=2, windows=12.0, deploys=0.0, redrives=0.0, cut=0.0)
        | LIVES_LEFT_OUT
        | {
            "troubles": {"expire": 50.0, "recreate": 60.0},
            "traffic_ends_early": None,
            "fault_seconds": 600.0,
        },
    ),
    *UNPACKINGS,
)
