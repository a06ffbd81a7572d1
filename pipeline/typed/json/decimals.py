"""JSON numbers that would hold Spark up where their column is a decimal: `1e999999999` has fifteen bytes, and Spark makes all of its zeros before it
finds that it doesn't fit. The time grows with more than the exponent: 40 seconds of CPU for 1e10000000. It grows with the square of the digits of a
number that is written as a text, too; numbers that are no texts may have a thousand digits.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from headrace.pipeline.typed.json.walk import has_value, kinds_with

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


@dataclass(frozen=True, slots=True)
class JsonDecimals:
    """The decimal columns of a table. It can be pickled."""

    columns: tuple[tuple[str, Any], ...]
    """Names, and types as Spark writes them in JSON."""
    _kinds: Mapping[str, Any] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_kinds", kinds_with(_is_decimal, self.columns))

    def have_too_long(self, payload: bytes) -> bool:
        """`payload`: one JSON value."""
        return bool(self._kinds and _may_have_too_long(payload)) and has_value(
            payload,
            self._kinds,
            lambda value, kind: _is_decimal(kind) and isinstance(value, str) and _is_too_long(value),
        )


def _may_have_too_long(payload: bytes) -> bool:
    """False for nearly all payloads, so that they needn't be read."""
    kinds = payload.translate(_KINDS)
    if (b"e1" in kinds or b"es" in kinds or b"ex" in kinds) and _MAYBE.search(kinds):
        return True
    if b"\\u00" in payload and (_ESCAPED[0] in payload or _ESCAPED[1] in payload):
        return True
    return len(payload) > MOST_DIGITS and _RUN in payload.translate(_OF_NUMBERS)


def _is_decimal(kind: str) -> bool:
    return kind.startswith("decimal")


def _is_too_long(number: str) -> bool:
    if len(number) > MOST_DIGITS:
        return True
    exponent = _EXPONENT.search(number.replace(",", ""))
    return exponent is not None and abs(int(exponent[1])) > MOST_EXPONENT
