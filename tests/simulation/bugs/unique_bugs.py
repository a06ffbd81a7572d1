"""Planted bugs of typed tables that land the same event once (I38)."""

from __future__ import annotations

from typing import Any, Final

from tests.simulation.bugs.planted import a_bug
from tests.simulation.bugs.typed_bugs import typed_fleet


def _fleet(**typed: Any) -> dict[str, Any]:
    """Fleets whose rows are the same event often, with redrives beside the waves."""
    often = {"targets": 1, "unique": 60.0, "windows": 0.0, "every": 6.0, "redrives": 8.0}
    return typed_fleet(**often | typed)


UNIQUE: Final = (
    a_bug(
        "compared-and-overtaken",
        "rows that were compared with the typed table land although a redrive has brought rows into it since",
        (
            "typed.wave",
            "        compared = comparison.positions if comparison else merged.positions if merged else None\n",
            "        compared = merged.positions if merged else None\n",
        ),
        among=_fleet(),
    ),
    a_bug(
        "redriven-beside-a-wave",
        "rows that a redrive has compared with the typed table land although a wave has brought rows into it since",
        (
            "typed.quarantine.redrive",
            "            compared=comparison.positions if comparison else None,\n",
            "",
        ),
        among=_fleet(),
    ),
    a_bug(
        "told-apart-by-rows-left-out",
        "a row is left out for one that was left out itself, and no row of its event is there",
        (
            "typed.duplicates_plan",
            "        if self._last is not None and arrival - self._last <= self.within:\n            return False\n",
            "        last, self._last = self._last, arrival\n        if last is not None and arrival - last <= self.within:\n            return False\n",
        ),
        among=_fleet(unique=15.0),
    ),
    a_bug(
        "compared-with-what-arrived-meanwhile",
        "files of rows that arrived shortly before those of the wave aren't compared with them",
        (
            "typed.duplicates_plan",
            "    since, until = oldest - within, newest + within\n",
            "    since, until = oldest, newest\n",
        ),
        among=_fleet(),
    ),
    a_bug(
        "compared-with-earlier-rows-only",
        "a row is told apart only by rows that arrived before it, and not by those of a shard that was parsed earlier",
        (
            "typed.duplicates_plan",
            "        if place < len(self.there) and self.there[place] - arrival <= self.within:\n",
            "        if place < len(self.there) and self.there[place] <= arrival:\n",
        ),
        among=_fleet(),
    ),
)
