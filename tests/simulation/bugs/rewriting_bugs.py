"""Planted bugs about compactions (I35)."""

from __future__ import annotations

from typing import Final

from tests.simulation.bugs.planted import a_bug

_OFTEN: Final = {"troubles": {"upkeep": 15.0}}
"""Fleets in which one compaction often begins before another one ends."""

REWRITING: Final = (
    a_bug(
        "planned-positions",
        "a compaction commits the positions of the look by which it was planned, and not those of its base",
        (
            "tests.memory.live",
            "        return self._live(self._lake.load())\n",
            "        self._planned = self._lake.load()\n        return self._live(self._planned)\n",
        ),
        (
            "tests.memory.live",
            "self._lake.exchange(base, added, removed)",
            "self._lake.exchange(TableState(self._planned.positions, base.snapshot, False), added, removed)",
        ),
        among=_OFTEN,
    ),
    a_bug(
        "replaced-unseen",
        "a compaction replaces files without looking whether they are still in the table",
        (
            "upkeep.rewrite_plan",
            "    for source in group.files:\n        if source.path",
            "    for source in ():\n        if source.path",
        ),
        among=_OFTEN,
    ),
    a_bug(
        "written-unread",
        "a compaction loses a row, and commits what it has written without comparing it with what it read",
        ("upkeep.rewrite_plan", "    if rewritten.before != rewritten.after:", "    if False:"),
        ("upkeep.rewrite_plan", "    if not file.rows == read == group.rows:", "    if False:"),
        ("tests.memory.live", "rows: rows\n", "rows: rows[1:]\n"),
        among=_OFTEN,
    ),
)
