"""The columns of a typed table whose schema comes from its JSON payloads, as values, and the names that they may have.

    payloads ─► `facts`, counted by Spark's tasks ─► `growth`: the columns with what is new ─► `fit`: does this payload
    fit them?

`column_types` has the columns as Spark writes types.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

Kind: TypeAlias = "str | Struct | Items"
"""The type of a column. A text is Spark's name of a type whose inside isn't looked at (long, string, a map)."""


@dataclass(frozen=True, slots=True)
class Struct:
    fields: Mapping[str, Kind] = field(default_factory=dict)
    required: frozenset[str] = frozenset()
    """Names of the fields that are NOT NULL."""

    @property
    def size(self) -> int:
        """The number of fields, including those within other fields."""
        return sum(1 + _size(each) for each in self.fields.values())


@dataclass(frozen=True, slots=True)
class Items:
    """A column that is an array, with the kind of its items."""

    of: Kind


def _size(kind: Kind) -> int:
    match kind:
        case Struct():
            return kind.size
        case Items():
            return _size(kind.of)
        case _:
            return 0


Path: TypeAlias = tuple[str | None, ...]
"""The names from the payload down to a field; None stands for the items of an array."""

DEPTH = 10
"""The most steps of a path."""
_LONGEST_NAME = 255
INT_END, LONG_END, FLOAT_END = 2**31, 2**63, 3.4028235e38
"""Where the numbers end that a column of type integer, long or float holds."""


@dataclass(frozen=True, slots=True)
class Limits:
    columns: int
    """The most fields, also those within others."""
    taken: frozenset[str] = frozenset()
    """Names in small letters that no column may have."""


def why_no_name(name: str, beside: Iterable[str], limits: Limits | None) -> str | None:
    """Why no column can have this name; None where one can. `limits`: those of a column at the top; None for a
    field within another column.
    """
    if not name:
        return "the field's name is empty"
    # Spark and Iceberg write the path to a nested field with dots, so that such a column couldn't
    # be named.
    if "." in name:
        return "the field's name has a dot"
    if "\x00" in name:
        return "the field's name has a zero character"
    if len(name) > _LONGEST_NAME:
        return f"the field's name has more than {_LONGEST_NAME} characters"
    if limits and name.lower() in limits.taken:
        return "the field has the name of a column that Headrace itself gives to the table"
    # Engines that don't distinguish capital letters would take the two columns for one.
    if same := next((other for other in beside if other.lower() == name.lower() and other != name), None):
        return f"the field's name differs from the column {same} only in capital letters"
    return None


def path_in_words(path: Path) -> str:
    steps = ("[]" if step is None else f".{step[:_LONGEST_NAME]}" for step in path)
    return "".join(steps).removeprefix(".").replace("\x00", "\\u0000") or "''"
