"""What a person can do about a table whose positions can't be found. It depends on which table it is."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Remedy:
    table: str
    """What messages call the table."""
    way: str
    """What to do, as the end of a message."""
    copied: str = ""
    """What to do where the table has a form that Headrace can't write, and a copy of the table in another form would do.
    Empty where no copy would do: then it is `way`."""

    @property
    def new_format(self) -> str:
        return self.copied or self.way


OF_THE_LAKE_TABLE = Remedy(
    "the lake table",
    "run `headrace repair`, which takes the positions from the rows",
    "let another engine copy the table into one of version 2 and run `headrace repair` on the copy (see docs/use/when-wrong.md)",
)
"""A repair of positions from rows works on this table only: the others are made of it, and can be made again."""


def of_typed(name: str, *, typed: str, quarantine: str) -> Remedy:
    """What a person can do about a typed table or its quarantine table.

    `name`: the table in question, which is one of the two.
    """
    return Remedy(
        name,
        f"stop the parsing of this target, drop {typed} together with {quarantine}, and all records that the lake table has are parsed again "
        "(`headrace repair` works on the lake table only)",
    )


def of_window(name: str) -> Remedy:
    return Remedy(
        name,
        "drop this table of a window and run the window again: it gets the same rows, as long as the lake table has them (`headrace repair` "
        "works on the lake table only)",
    )
