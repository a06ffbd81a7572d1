"""Whether a JSON payload fits the columns of a typed table, and if it doesn't, why."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from headrace.pipeline.typed.json.columns import (
    DEPTH,
    INT_END,
    LONG_END,
    Items,
    Kind,
    Limits,
    Path,
    Struct,
    path_in_words,
    why_no_name,
)

_OF_SPARK = {"string", "binary", "date", "timestamp", "timestamp_ntz", "decimal", "map"}


@dataclass(frozen=True, slots=True)
class Judge:
    """Judges whether payloads fit the columns of the table. It can be pickled."""

    columns: Struct
    limits: Limits
    is_whole: bool
    """Whether each value of a payload needs a column."""

    def why_not(self, payload: Mapping[str, Any]) -> str | None:
        return self._why_not(payload, self.columns, ())

    def _why_not(self, value: Any, kind: Kind, path: Path) -> str | None:
        if value is None:
            return None
        match kind:
            case Struct():
                return (
                    self._of_struct(value, kind, path)
                    if isinstance(value, dict)
                    else _other(value, kind, path)
                )
            case Items():
                if not isinstance(value, list):
                    return _other(value, kind, path)
                below = (*path, None)
                return next(filter(None, (self._why_not(item, kind.of, below) for item in value)), None)
            case _:
                return None if _fits(value, kind) else _other(value, kind, path)

    def _of_struct(self, value: Mapping[str, Any], kind: Struct, path: Path) -> str | None:
        for name, member in value.items():
            of = kind.fields.get(name)
            if member is None or (type(of) is str and _fits(member, of)):
                # Most values end here, without a path.
                continue
            if of is not None:
                if why := self._why_not(member, of, (*path, name)):
                    return why
            elif self.is_whole and has_value(member):
                return self._why_no_column(member, (*path, name), kind.fields)
        return None

    def _why_no_column(self, value: Any, path: Path, beside: Mapping[str, Kind]) -> str:
        """Why a field gets no column. `value`: of a field without a column. `beside`: the columns beside it."""
        # Before anything goes down into the value: the functions below call themselves for each
        # level.
        if _is_deeper(value, DEPTH - len(path)):
            return f"the field {path_in_words(path)} has parts deeper than {DEPTH} levels"
        named, why = next(_bad_names(value, path, beside, self.limits), (path, None))
        if why is None:
            why = f"there would be more than most_columns ({self.limits.columns}), or most payloads have another kind of value there"
        return f"the field {path_in_words(named)} has no column: {why}"


def _bad_names(
    value: Any, path: Path, beside: Iterable[str], limits: Limits
) -> Iterator[tuple[Path, str | None]]:
    """The columns that a value needs, each with the reason if it can't have one.

    `value`: not deeper than a column may be.
    """
    name = path[-1]
    if name is not None and (why := why_no_name(name, beside, limits if len(path) == 1 else None)):
        yield path, why
    elif isinstance(value, dict):
        # Only names that are alike in small letters are compared: each with each would take hours for a hundred
        # thousand of them.
        alike: dict[str, list[str]] = {}
        for inner in value:
            alike.setdefault(inner.lower(), []).append(inner)
        for inner, member in value.items():
            yield from _bad_names(member, (*path, inner), alike[inner.lower()], limits)
    elif isinstance(value, list):
        for member in value:
            yield from _bad_names(member, (*path, None), (), limits)


def _is_deeper(value: Any, levels: int) -> bool:
    """Whether a value has more levels below it. Nothing deeper is looked at: JSON may have more levels than Python can
    call functions."""
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return any(levels <= 0 or _is_deeper(member, levels - 1) for member in inner)


def has_value(value: Any) -> bool:
    """Whether a JSON value tells a type and so needs a column. Null doesn't, nor do lists and objects without any
    value in them.
    """
    if not isinstance(value, dict | list):
        return value is not None
    # A list of what is still to be seen, and no calls within calls: JSON may be deeper than
    # Python's stack.
    unseen: list[Any] = [value]
    while unseen:
        match unseen.pop():
            case dict() as fields:
                unseen.extend(fields.values())
            case list() as items:
                unseen.extend(items)
            case scalar if scalar is not None:
                return True
    return False


def _fits(value: Any, kind: str) -> bool:
    """Spark judges the values of its other types: it reads texts as times, and anything as text."""
    if kind == "string":
        return True
    of = type(value)
    if kind == "long":
        return of is int and -LONG_END <= value < LONG_END
    if kind in ("double", "float"):
        return of is float or of is int
    if kind == "boolean":
        return of is bool
    if kind == "integer":
        return of is int and -INT_END <= value < INT_END
    return kind.partition("(")[0].partition("<")[0] in _OF_SPARK


def _other(value: Any, kind: Kind, path: Path) -> str:
    match value:
        case bool():
            kind_of_value = "true or false"
        case int():
            kind_of_value = "an integer"
        case float():
            kind_of_value = "a number with a fraction or an exponent"
        case str():
            kind_of_value = "text"
        case list():
            kind_of_value = "a list"
        case _:
            kind_of_value = "an object"
    column = (
        "a struct"
        if isinstance(kind, Struct)
        else "an array"
        if isinstance(kind, Items)
        else f"of type {kind}"
    )
    return f"the field {path_in_words(path)} has {kind_of_value}, and its column is {column}"
