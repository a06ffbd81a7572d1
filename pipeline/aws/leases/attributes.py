"""Write and read DynamoDB's AttributeValues. An attribute of an unexpected type raises WrongShape with the
attribute's name, so that a message can say in one sentence what is wrong with a row.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from decimal import ROUND_HALF_UP, Context, Decimal, InvalidOperation
from typing import Any, Final

from headrace.pipeline.errors import WrongShape

Item = Mapping[str, Any]
"""A row in the form of DynamoDB's low-level API: attribute name -> {"S": ...}, {"N": ...} and so on."""

EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
SECOND: Final = timedelta(seconds=1)
MILLISECOND: Final = timedelta(milliseconds=1)
# KCL rounds its decimals to six places.
_MICRO: Final = Decimal("0.000001")
# Enough digits for any float: a row of another program may hold numbers up to DynamoDB's largest, near
# 10^126.
_WIDE: Final = Context(prec=330)


def text_value(text: str) -> Item:
    return {"S": text}


def number_value(number: float) -> Item:
    """A number as DynamoDB text. Fractions are rounded half up to six places, as in KCL, and written without
    an exponent."""
    if isinstance(number, int):
        return {"N": str(number)}
    rounded = Decimal(repr(number)).quantize(_MICRO, ROUND_HALF_UP, _WIDE).normalize()
    return {"N": f"{rounded:f}"}


def moment_value(when: datetime, unit: timedelta) -> Item:
    return {"N": str((when - EPOCH) // unit)}


def texts_value(texts: Iterable[str]) -> Item:
    return {"SS": sorted(texts)}


def text(item: Item, name: str) -> str | None:
    value = _typed(item, name, "S")
    if value is None:
        return None
    if not isinstance(value, str) or not value:
        # An owner without a name would look like a lease that somebody holds.
        raise WrongShape(f"{name} is an empty text")
    return value


def mandatory_text(item: Item, name: str) -> str:
    value = text(item, name)
    if value is None:
        raise WrongShape(f"{name} is missing")
    return value


def number(item: Item, name: str) -> Decimal | None:
    value = _typed(item, name, "N")
    return None if value is None else _decimal(value, name)


def integer(item: Item, name: str) -> int | None:
    value = number(item, name)
    return None if value is None else _whole(value, name)


def mandatory_integer(item: Item, name: str) -> int:
    value = integer(item, name)
    if value is None:
        raise WrongShape(f"{name} is missing")
    return value


def moment(item: Item, name: str, unit: timedelta) -> datetime | None:
    value = integer(item, name)
    if value is None:
        return None
    try:
        return EPOCH + value * unit
    except OverflowError as error:
        raise WrongShape(f"{name} is {value}, which is no moment in time") from error


def texts(item: Item, name: str) -> frozenset[str]:
    return frozenset(_typed(item, name, "SS") or ())


def blob(item: Item, name: str) -> bytes | None:
    value = _typed(item, name, "B")
    return None if value is None else bytes(value)


def flag(item: Item, name: str) -> bool:
    return _typed(item, name, "BOOL") is True


def table_of(item: Item, name: str) -> Item:
    """The entries of a map attribute; empty where it is missing."""
    return _typed(item, name, "M") or {}


def numbers(item: Item, name: str) -> tuple[Decimal, ...]:
    values = _typed(item, name, "L") or ()
    return tuple(_decimal(_typed({name: value}, name, "N"), name) for value in values)


def whole_numbers(item: Item, name: str) -> tuple[int, ...]:
    return tuple(_whole(value, name) for value in numbers(item, name))


def _typed(item: Item, name: str, kind: str) -> Any:
    value = item.get(name)
    if value is None:
        return None
    if kind not in value:
        raise WrongShape(f"{name} is of type {'/'.join(sorted(value))}, not {kind}")
    return value[kind]


def _decimal(value: Any, name: str) -> Decimal:
    try:
        return Decimal(value)
    except (InvalidOperation, TypeError, ValueError) as error:
        raise WrongShape(f"{name} is {value!r}, not a number") from error


def _whole(value: Decimal, name: str) -> int:
    """Java writes 5E+0 where others write 5: both are five."""
    if not value.is_finite() or value != value.to_integral_value():
        raise WrongShape(f"{name} is {value}, not a whole number")
    return int(value)
