"""Numbers of JSON payloads as columns of a typed table: whole numbers, floating-point numbers, and decimals.

A number that its column can't hold doesn't fit. Only digits after the point that a decimal column lacks are rounded.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from decimal import ROUND_HALF_UP, Context, Decimal, InvalidOperation
from math import inf, nan
from typing import Annotated, Any

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from headrace.pipeline.core.json_columns import FLOAT_END
from headrace.pipeline.lake.json_unfit import Unfit

MOST_DIGITS, MOST_EXPONENT = 1000, 9999
"""Of a number for a decimal column. Its text is looked at before any digit is made of it."""
_BITS = {"byte": 8, "short": 16, "integer": 32, "long": 64}
WHOLE = frozenset(_BITS)
_NO_NUMBERS = {
    "NaN": nan,
    **dict.fromkeys(("Infinity", "+Infinity", "+INF"), inf),
    **dict.fromkeys(("-Infinity", "-INF"), -inf),
}
"""JSON has no such numbers; producers write them as texts."""
_PLAIN = r'^"?-?[0-9]{1,38}(\.[0-9]{1,38})?"?$'
"""A decimal that Arrow reads, as a number or as a text: its value is a token of JSON, so that a quote at one end is one at both."""
_NUMBER = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE]([+-]?[0-9]+))?")


@dataclass(frozen=True, slots=True)
class Whole:
    arrow: pa.DataType
    bits: int
    exact: Any = field(init=False)
    wide: Any = field(init=False)

    def __post_init__(self) -> None:
        end = 1 << self.bits - 1
        kind = Annotated[int, msgspec.Meta(ge=-end, le=end - 1)] | None
        object.__setattr__(self, "exact", kind)
        object.__setattr__(self, "wide", kind)

    def array(self, values: Sequence[Any]) -> pa.Array[Any]:
        return pa.array(values, self.arrow)


def whole(name: str, arrow: pa.DataType) -> Whole:
    return Whole(arrow, _BITS[name])


@dataclass(frozen=True, slots=True)
class Real:
    arrow: pa.DataType
    is_float: bool
    """Of 32 bits."""
    exact: Any = field(init=False)
    wide: Any = field(init=False)

    def __post_init__(self) -> None:
        ends = msgspec.Meta(ge=-FLOAT_END, le=FLOAT_END)
        kind: Any = Annotated[float, ends] if self.is_float else float
        object.__setattr__(self, "exact", kind | None)
        object.__setattr__(self, "wide", kind | str | None)

    def array(self, values: Sequence[Any]) -> pa.Array[Any]:
        try:
            return pa.array(values, self.arrow)
        except pa.ArrowException:
            return pa.array([_real(value) for value in values], self.arrow)


def _real(value: Any) -> Any:
    if not isinstance(value, str):
        return value
    if value not in _NO_NUMBERS:
        raise Unfit
    return _NO_NUMBERS[value]


@dataclass(frozen=True, slots=True)
class Decimals:
    arrow: pa.DataType
    precision: int
    scale: int
    exact: Any = msgspec.Raw
    """As it is written: 0.1 is no number of 64 bits."""
    wide: Any = msgspec.Raw

    def array(self, values: Sequence[Any]) -> pa.Array[Any]:
        tokens = [None if value is None or (token := bytes(value)) == b"null" else token for value in values]
        kind = pa.decimal128(self.precision, self.scale)
        column: Any = pa.array(tokens, pa.string())
        if pc.all(pc.match_substring_regex(column, _PLAIN), min_count=0).as_py():
            try:
                return pc.replace_substring(column, '"', "").cast(kind).cast(self.arrow)
            except pa.ArrowInvalid:
                # One of them has to be rounded, or is too large.
                pass
        return pa.array([token and self._decimal(token) for token in tokens], kind).cast(self.arrow)

    def _decimal(self, token: bytes) -> Decimal:
        text = msgspec.json.decode(token, type=str) if token.startswith(b'"') else token.decode()
        if len(text) > MOST_DIGITS or not (number := _NUMBER.fullmatch(text)):
            raise Unfit
        if abs(int(number[1] or 0)) > MOST_EXPONENT:
            raise Unfit
        try:
            rounded = Decimal(text).quantize(Decimal(1).scaleb(-self.scale), context=_context(self.precision))
        except InvalidOperation:
            raise Unfit from None
        return rounded


def _context(precision: int) -> Context:
    """More digits than these can't come out of a rounding."""
    return Context(prec=precision, rounding=ROUND_HALF_UP, Emin=-20_000, Emax=20_000)
