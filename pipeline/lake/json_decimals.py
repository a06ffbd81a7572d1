"""JSON numbers that would hold Spark up where their column is a decimal: `1e999999999` has fifteen bytes, and Spark makes all of its zeros before it
finds that it doesn't fit. The time grows with more than the exponent: 40 seconds of CPU for 1e10000000. It grows with the square of the digits of a
number that is written as a text, too; numbers that are no texts may have a thousand digits.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

MOST_DIGITS = 1000
"""Of a number. Spark allows so many in a number that is no text."""
MOST_EXPONENT = 9999
TOO_LONG = (
    f"a number for a decimal column has an exponent beyond {MOST_EXPONENT}, or more than {MOST_DIGITS} digits"
)
# A text may have commas in its number, which Spark removes, and digits that aren't ASCII, and each character may be written as an escape. So a
# payload is looked at by kinds of characters: e, s for signs, 1 for digits and commas, x for what may be any character.
_KIND = {**dict.fromkeys(b"eE", "e"), **dict.fromkeys(b"+-", "s"), **dict.fromkeys(b"0123456789,", "1")}
_KINDS = bytes(ord(_KIND.get(byte, "x" if byte in b"\\" or byte >= 0x80 else " ")) for byte in range(256))
_MAYBE = re.compile(rb"e(?:11111|1*s11111|1*(?:s1*)?x)")
_ESCAPED = (b"\\u0065", b"\\u0045")
_OF_NUMBERS = bytes(
    ord("1" if byte in _KIND or byte in b".\\u" or byte >= 0x80 else " ") for byte in range(256)
)
_RUN = b"1" * MOST_DIGITS
_EXPONENT = re.compile(r"[eE]([+-]?\d+)")


class _Fields(list[tuple[str, Any]]):
    """Of an object. The same name may come several times, and Spark reads each."""


@dataclass(frozen=True, slots=True)
class JsonDecimals:
    """The decimal columns of a table. It can be pickled."""

    columns: tuple[tuple[str, Any], ...]
    """Names, and types as Spark writes them in JSON."""
    _kinds: Mapping[str, Any] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_kinds", {name: kind for name, kind in self.columns if _has_decimals(kind)})

    def have_too_long(self, payload: bytes) -> bool:
        """`payload`: one JSON value."""
        if not self._kinds or not _may_have_too_long(payload):
            return False
        try:
            found = json.loads(payload, parse_int=str, parse_float=str, object_pairs_hook=_Fields)
        except RecursionError:
            # Spark reads no payload with a thousand levels either.
            return True
        return isinstance(found, _Fields) and _any_in(found, self._kinds)


def _may_have_too_long(payload: bytes) -> bool:
    """False for nearly all payloads, so that they needn't be read."""
    kinds = payload.translate(_KINDS)
    if (b"e1" in kinds or b"es" in kinds or b"ex" in kinds) and _MAYBE.search(kinds):
        return True
    if b"\\u00" in payload and (_ESCAPED[0] in payload or _ESCAPED[1] in payload):
        return True
    return len(payload) > MOST_DIGITS and _RUN in payload.translate(_OF_NUMBERS)


def _has_decimals(kind: Any) -> bool:
    if isinstance(kind, str):
        return kind.startswith("decimal")
    match kind["type"]:
        case "struct":
            return any(_has_decimals(each["type"]) for each in kind["fields"])
        case "array":
            return _has_decimals(kind["elementType"])
        case "map":
            return _has_decimals(kind["valueType"])
        case _:
            return False


def _any_in(fields: _Fields, kinds: Mapping[str, Any]) -> bool:
    return any(_is_in(each, kinds[name]) for name, each in fields if name in kinds)


def _is_in(value: Any, kind: Any) -> bool:
    """`kind`: the type of the value's column."""
    if isinstance(kind, str):
        return kind.startswith("decimal") and isinstance(value, str) and _is_too_long(value)
    match kind["type"], value:
        case "struct", _Fields():
            return _any_in(value, {each["name"]: each["type"] for each in kind["fields"]})
        case "map", _Fields():
            return any(_is_in(each, kind["valueType"]) for _, each in value)
        case "array", list():
            return any(_is_in(each, kind["elementType"]) for each in value)
        case _:
            # Spark refuses the payload, or has a null there.
            return False


def _is_too_long(number: str) -> bool:
    if len(number) > MOST_DIGITS:
        return True
    exponent = _EXPONENT.search(number.replace(",", ""))
    return exponent is not None and abs(int(exponent[1])) > MOST_EXPONENT
