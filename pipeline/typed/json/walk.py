"""The values of a JSON payload beside the types of their columns, as Spark will read them."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from typing import Any

OfKind = Callable[[str], bool]
OfValue = Callable[[Any, str], bool]


class Fields(list[tuple[str, Any]]):
    """Of an object. The same name may come several times, and Spark reads each."""


def has_value(payload: bytes, kinds: Mapping[str, Any], is_wanted: OfValue) -> bool:
    """Whether a payload, which is one JSON value, has a value that is wanted, given the value and the type of its column. Numbers are texts, as
    they are written. True where the payload has so many levels that Spark doesn't read it either."""
    try:
        found = json.loads(payload, parse_int=str, parse_float=str, object_pairs_hook=Fields)
    except RecursionError:
        return True
    return _any_value(found, kinds, is_wanted)


def kinds_with(wanted: OfKind, columns: Iterable[tuple[str, Any]]) -> Mapping[str, Any]:
    """The columns with a value of a wanted type somewhere in them. `columns`: names, and types as Spark writes them in JSON."""
    return {name: kind for name, kind in columns if _has(kind, wanted)}


def _has(kind: Any, wanted: OfKind) -> bool:
    if isinstance(kind, str):
        return wanted(kind)
    match kind["type"]:
        case "struct":
            return any(_has(each["type"], wanted) for each in kind["fields"])
        case "array":
            return _has(kind["elementType"], wanted)
        case "map":
            return _has(kind["valueType"], wanted)
        case _:
            return False


def _any_value(found: Any, kinds: Mapping[str, Any], is_wanted: OfValue) -> bool:
    return isinstance(found, Fields) and any(
        _is_in(each, kinds[name], is_wanted) for name, each in found if name in kinds
    )


def _is_in(value: Any, kind: Any, is_wanted: OfValue) -> bool:
    """`kind`: the type of the value's column."""
    if isinstance(kind, str):
        return is_wanted(value, kind)
    match kind["type"], value:
        case "struct", Fields():
            return _any_value(value, {each["name"]: each["type"] for each in kind["fields"]}, is_wanted)
        case "map", Fields():
            return any(_is_in(each, kind["valueType"], is_wanted) for _, each in value)
        case "array", list():
            return any(_is_in(each, kind["elementType"], is_wanted) for each in value)
        case _:
            # Spark refuses the payload, or has a null there.
            return False
