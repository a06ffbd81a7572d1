"""Runs the parts of an upkeep so that a part that fails, even by an unexpected error, doesn't prevent the others."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeVar

from headrace.pipeline.errors import HeadraceError, Terminal

T = TypeVar("T")


def foreseen(error: Exception, what: str) -> HeadraceError:
    """The error as one of Headrace's errors. `what`: the part of the upkeep that failed with it."""
    if isinstance(error, HeadraceError):
        return error
    # Only its type: the text of a library's error may quote rows, or whole snapshots.
    return Terminal(
        f"{what} was ended by an unexpected {type(error).__name__}. A commit lands as a whole or not at all, so that no record is lost or doubled, "
        "and all other parts of the upkeep were done. The next upkeep tries again; if it fails in the same way, report it as an error of Headrace"
    )


@dataclass(frozen=True, slots=True)
class Parts:
    table: str = "the lake table"
    """For people."""
    troubles: list[HeadraceError] = field(default_factory=list)

    def have(self, what: str, act: Callable[[], T]) -> T | None:
        """Call a part, and return its result; None where it has failed. `what`: what the part does, for people."""
        try:
            return act()
        except Exception as error:  # noqa: BLE001 - the other parts are done all the same, and the upkeep fails with this error at its end
            self.troubles.append(foreseen(error, f"{what} of {self.table}"))
            return None
