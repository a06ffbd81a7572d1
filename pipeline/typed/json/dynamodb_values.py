"""Values of DynamoDB's JSON as values of plain JSON.

    {"id": {"S": "4711"}, "total": {"N": "12.50"}, "tags": {"SS": ["new"]}}  ──>  {"id": "4711", "total": 12.50, "tags": ["new"]}

A number keeps all its digits, because it isn't converted to a Python number.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any

import msgspec

from headrace.pipeline.typed.json.numbers import MOST_DIGITS

_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")
"""Numbers as JSON writes them, and DynamoDB too."""


class NoValue(Exception):
    """An attribute has no valid DynamoDB value. The argument is the reason, as words that follow the attribute's
    name.
    """


def plain_attributes(attributes: Mapping[str, Any], names: Iterable[str] | None = None) -> dict[str, Any]:
    """The attributes of an item as fields of a JSON object. `names`: the attributes to take; None for all. Raises
    NoValue.
    """
    wanted = attributes if names is None else [name for name in names if name in attributes]
    return {name: _attribute(name, attributes[name]) for name in wanted}


def _attribute(name: str, value: Any) -> Any:
    try:
        return _plain(value)
    except NoValue as error:
        inner = str(error)
        # The path of an attribute within maps has dots.
        raise NoValue(f"{name}{inner if inner.startswith('.') else f' {inner}'}") from None


def _plain(value: Any) -> Any:
    if not isinstance(value, dict) or len(value) != 1:
        raise NoValue("isn't an object with one type and its value")
    [(kind, inner)] = value.items()
    if kind == "NULL":
        return None
    form, plain = _KINDS.get(kind, (None, None))
    if form is None or plain is None or not isinstance(inner, form):
        raise NoValue(f"has no value of DynamoDB's type {kind[:10]}")
    return plain(inner)


def _as_it_is(value: Any) -> Any:
    return value


def _number(text: str) -> msgspec.Raw:
    # The text goes into the JSON as it is. What isn't a number there would change the payload
    # around it.
    if len(text) > MOST_DIGITS or not _NUMBER.fullmatch(text):
        raise NoValue("isn't a number, and its type is N")
    return msgspec.Raw(text.encode())


def _map(attributes: Mapping[str, Any]) -> dict[str, Any]:
    try:
        return plain_attributes(attributes)
    except NoValue as error:
        raise NoValue(f".{error}") from None


def _list(items: Sequence[Any]) -> list[Any]:
    return [_plain(item) for item in items]


def _set(kind: str, items: Sequence[Any]) -> list[Any]:
    return [_plain({kind: item}) for item in items]


_KINDS: Mapping[str, tuple[type, Callable[[Any], Any]]] = {
    "S": (str, _as_it_is),
    "N": (str, _number),
    # In base64, as JSON columns of bytes have them.
    "B": (str, _as_it_is),
    "BOOL": (bool, _as_it_is),
    "M": (dict, _map),
    "L": (list, _list),
    "SS": (list, partial(_set, "S")),
    "NS": (list, partial(_set, "N")),
    "BS": (list, partial(_set, "B")),
}
"""DynamoDB's types, each with the form of its values in JSON and what makes them plain."""
