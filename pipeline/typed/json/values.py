"""Counts how many values a JSON payload makes in a table's columns: each object makes one value for each of its
columns, even an empty object.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec

from headrace.pipeline.typed.formats.value_limit import TooManyValues, ValuesLeft

_TEXT = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"', re.DOTALL)
_LEAST = 2
"""The fewest bytes of an object, and of another value with the comma before it."""
_OTHERS = 4
"""The most values of an object beside those of its columns: itself, its place in what is around it, and the first entry
of a map."""


@dataclass(frozen=True, slots=True)
class JsonValues:
    """How many values the JSON payloads of a target may make. It can be pickled."""

    columns: tuple[tuple[str, Any], ...]
    """Names, and types as Spark writes them in JSON."""
    most: int
    _an_object: int = field(init=False, repr=False)
    """The most values of one object, without those of objects within it."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "_an_object", _OTHERS + _widest(dict(self.columns)))

    def are_too_many(self, payload: bytes) -> bool:
        """Whether the payload makes more values than allowed. `payload`: one JSON value."""
        if self.at_most(payload) <= self.most:
            return False
        # An estimate: it counts what texts say, too, and takes each object for one of the widest kind.
        if are_surely_more(payload, self.most):
            return True
        try:
            payload_value = msgspec.json.decode(payload)
            _take(payload_value, {"type": "struct", "fields": _fields(self.columns)}, ValuesLeft(self.most))
        except (msgspec.DecodeError, RecursionError, TooManyValues):
            # What can't be counted exactly, such as a number of very many digits, counts by the estimate.
            return True
        return False

    def at_most(self, payload: bytes) -> float:
        """The most values that a payload, or several joined ones, can make."""
        quick = self._an_object / _LEAST * len(payload)
        if quick <= self.most:
            return quick
        return self._an_object * payload.count(b"{") + 2 * (1 + payload.count(b"[") + payload.count(b","))


def _fields(columns: tuple[tuple[str, Any], ...]) -> list[dict[str, Any]]:
    return [{"name": name, "type": kind} for name, kind in columns]


def are_surely_more(payload: bytes, most: int) -> bool:
    """Whether the payload has more than `most` values by itself, whatever the columns are."""
    # With what texts say, too, which is quickly counted.
    return _at_least(payload) > most and _at_least(_TEXT.sub(b"", payload)) > most


def _at_least(payload: bytes) -> int:
    return max(1 + payload.count(b","), payload.count(b"{") + payload.count(b"["))


def _widest(columns: Mapping[str, Any]) -> int:
    return max(len(columns), *map(_within, columns.values()), 0)


def _within(kind: Any) -> int:
    if isinstance(kind, str):
        return 0
    match kind["type"]:
        case "struct":
            return _widest({column["name"]: column["type"] for column in kind["fields"]})
        case "array":
            return _within(kind["elementType"])
        case "map":
            return max(_within(kind["keyType"]), _within(kind["valueType"]))
        case _:
            return 0


def _take(value: Any, kind: Any, values_left: ValuesLeft) -> None:
    """Count what becomes of a value. `kind`: the type of its column."""
    values_left.take(1)
    if isinstance(kind, str):
        return
    match kind["type"], value:
        case "struct", dict():
            values_left.take(len(kind["fields"]))
            for column in kind["fields"]:
                if not isinstance(column["type"], str) and column["name"] in value:
                    _take(value[column["name"]], column["type"], values_left)
        case "array", list():
            for item in value:
                _take(item, kind["elementType"], values_left)
        case "map", dict():
            for item in value.values():
                values_left.take(1)
                _take(item, kind["valueType"], values_left)
        case _:
            # The payload doesn't fit.
            pass
