"""Planted bugs of tables of the latest rows (I38): rows that stay, and rows that come back."""

from __future__ import annotations

from typing import Any, Final

from tests.simulation.bugs.planted import a_bug
from tests.simulation.bugs.typed_bugs import typed_fleet


def _fleet(**typed: Any) -> dict[str, Any]:
    often = {"latest": True, "targets": 0, "every": 5.0, "rows": 20, "cut": 0.05, "processor": ""}
    return typed_fleet(**often | typed) | {"troubles": {"split": 40.0}}


LATEST: Final = (
    a_bug(
        "last-record-unjudged",
        "the last record of all that were compared stays, although it deletes its key",
        (
            "typed.latest.rule",
            "    if held is not None:\n        yield from _leaving(held, None)\n",
            "",
        ),
        seeds=20,
        among=_fleet(),
    ),
    a_bug(
        "replaced-and-kept",
        "a wave lands the newer rows, and the files with the older rows stay",
        (
            "typed.wave",
            "        gone = merged.gone if merged else ()\n",
            "        gone = tuple[str, ...]()\n",
        ),
        seeds=20,
        among=_fleet(),
    ),
    a_bug(
        "back-by-an-earlier-life",
        "rows of an earlier life of a stream come after a later life has deleted their keys",
        ("typed.wave", "wishes if self.merging is None else by_lives(wishes)", "wishes"),
        # The table is made late: a child of the earlier life waits for its parent's end, and the later life for nothing.
        among=_fleet(begins=150.0, every=20.0, rows=1000) | {"troubles": {"split": 20.0, "recreate": 60.0}},
    ),
)
