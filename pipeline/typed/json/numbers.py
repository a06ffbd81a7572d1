"""Numbers of JSON payloads as columns of a typed table: whole numbers, floating-point numbers, and decimals.

A number that its column can't hold doesn't fit, with one exception: digits after the decimal point for
which a decimal column has no place are rounded.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from decimal import ROUND_HALF_UP, Context, Decimal
from math import inf, nan
from typing import Annotated, Any

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from headrace.pipeline.typed.json.columns import FLOAT_END
from headrace.pipeline.typed.json.unfit import Unfit, Values, converted

MOST_DIGITS, MOST_EXPONENT = 1000, 9999
"""The most digits, and the largest exponent, of a number for a decimal column. Its text is looked at before any digit
is made of it."""
_BITS = {"byte": 8, "short": 16, "integer": 32, "long": 64}
WHOLE = frozenset(_BITS)
_NO_NUMBERS = {
    "NaN": nan,
    **dict.fromkeys(("Infinity", "+Infinity", "+INF"), inf),
    **dict.fromkeys(("-Infinity", "-INF"), -inf),
}
"""JSON has no such numbers; producers write them as texts."""
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

    def array(self, values: Sequence[Any]) -> Values:
        return pa.array(values, self.arrow)


def whole(name: str, arrow: pa.DataType) -> Whole:
    return Whole(arrow, _BITS[name])


@dataclass(frozen=True, slots=True)
class Real:
    arrow: pa.DataType
    is_float: bool
    """Whether the numbers have 32 bits."""
    exact: Any = field(init=False)
    wide: Any = field(init=False)

    def __post_init__(self) -> None:
        # A number beyond 32 bits would become infinite in silence.
        ends = msgspec.Meta(ge=-FLOAT_END, le=FLOAT_END)
        kind: Any = Annotated[float, ends] if self.is_float else float
        object.__setattr__(self, "exact", kind | None)
        object.__setattr__(self, "wide", kind | str | None)

    def array(self, values: Sequence[Any]) -> Values:
        try:
            return pa.array(values, self.arrow)
        # Texts are among them: looked at only now, because they are rare and each takes a step of Python.
        except pa.ArrowException:
            return pa.array(converted(values, _real), self.arrow)


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
    """The number as it is written: 0.1 is no number of 64 bits."""
    wide: Any = msgspec.Raw

    def array(self, values: Sequence[Any]) -> Values:
        tokens = [None if value is None or (token := bytes(value)) == b"null" else token for value in values]
        kind = pa.decimal128(self.precision, self.scale)
        column: Any = pa.array(tokens, pa.string())
        # Arrow reads the usual forms, many at once. What has to be rounded, or has an exponent, goes one by one.
        is_plain = pc.match_substring_regex(column, self._plain)
        plain = pc.replace_substring(pc.if_else(is_plain, column, None), '"', "").cast(kind)
        if plain.null_count > column.null_count:
            unusual = [
                None if is_so else token for is_so, token in zip(is_plain.to_pylist(), tokens, strict=True)
            ]
            plain = pc.coalesce(plain, pa.array(converted(unusual, self._decimal), kind))
        return plain.cast(self.arrow)

    @property
    def _plain(self) -> str:
        """A number, or a text with one, that Arrow reads and that needs no rounding. The value is a token of JSON, so
        that a quote at one end is one at both."""
        before = f"[0-9]{{1,{self.precision - self.scale}}}" if self.precision > self.scale else "0"
        after = rf"(\.[0-9]{{1,{self.scale}}})?" if self.scale else ""
        return f'^"?-?{before}{after}"?$'

    def _decimal(self, token: bytes) -> Decimal:
        text = msgspec.json.decode(token, type=str) if token.startswith(b'"') else token.decode()
        if len(text) > MOST_DIGITS or not (number := _NUMBER.fullmatch(text)):
            raise Unfit
        # Before any digit is made: 1e999999999 would take gigabytes.
        if abs(int(number[1] or 0)) > MOST_EXPONENT:
            raise Unfit
        # InvalidOperation where it has too many digits before the point.
        return Decimal(text).quantize(Decimal(1).scaleb(-self.scale), context=_context(self.precision))


def _context(precision: int) -> Context:
    """More digits than these can't come out of a rounding."""
    return Context(prec=precision, rounding=ROUND_HALF_UP, Emin=-20_000, Emax=20_000)
