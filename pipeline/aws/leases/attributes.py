"""Write and read DynamoDB's AttributeValues. An attribute of an unexpected type raises WrongShape with the attribute's name,
so that a message can say in one sentence what is wrong with a row.
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
_MICRO: Final = Decimal("0.000001")
"""KCL rounds its decimals to six places."""
_WIDE: Final = Context(prec=330)
"""Enough digits for any float: a row of another program may hold numbers up to DynamoDB's largest, near 10^126."""


def text_value(text: str) -> Item:
    return {"S": text}


def number_value(number: float) -> Item:
    """A number as DynamoDB text. Fractions are rounded half up to six places, as in KCL, and written without an exponent."""
    if isinstance(number, int):
        return {"N": str(number)}
    rounded = Decimal(repr(number)).quantize(_MICRO, ROUND_HALF_UP, _WIDE).normalize()
    return {"N": f"{rounded:f}"}


def moment_value(at: datetime, unit: timedelta) -> Item:
    return {"N": str((at - EPOCH) // unit)}


def texts_value(texts: Iterable[str]) -> Item:
    return {"SS": sorted(texts)}


def text(item: Item, name: str) -> str | None:
    found = _typed(item, name, "S")
    if found is None:
        return None
    if not isinstance(found, str) or not found:
        raise WrongShape(f"{name} is an empty text")
    return found


def mandatory_text(item: Item, name: str) -> str:
    found = text(item, name)
    if found is None:
        raise WrongShape(f"{name} is missing")
    return found


def number(item: Item, name: str) -> Decimal | None:
    found = _typed(item, name, "N")
    return None if found is None else _decimal(found, name)


def integer(item: Item, name: str) -> int | None:
    found = number(item, name)
    return None if found is None else _whole(found, name)


def mandatory_integer(item: Item, name: str) -> int:
    found = integer(item, name)
    if found is None:
        raise WrongShape(f"{name} is missing")
    return found


def moment(item: Item, name: str, unit: timedelta) -> datetime | None:
    found = integer(item, name)
    if found is None:
        return None
    try:
        return EPOCH + found * unit
    except OverflowError as error:
        raise WrongShape(f"{name} is {found}, which is no moment in time") from error


def texts(item: Item, name: str) -> frozenset[str]:
    return frozenset(_typed(item, name, "SS") or ())


def blob(item: Item, name: str) -> bytes | None:
    found = _typed(item, name, "B")
    return None if found is None else bytes(found)


def flag(item: Item, name: str) -> bool:
    return _typed(item, name, "BOOL") is True


def table_of(item: Item, name: str) -> Item:
    """The entries of a map attribute; empty where it is missing."""
    return _typed(item, name, "M") or {}


def numbers(item: Item, name: str) -> tuple[Decimal, ...]:
    found = _typed(item, name, "L") or ()
    return tuple(_decimal(_typed({name: each}, name, "N"), name) for each in found)


def whole_numbers(item: Item, name: str) -> tuple[int, ...]:
    return tuple(_whole(each, name) for each in numbers(item, name))


def _typed(item: Item, name: str, kind: str) -> Any:
    value = item.get(name)
    if value is None:
        return None
    if kind not in value:
        raise WrongShape(f"{name} is of type {'/'.join(sorted(value))}, not {kind}")
    return value[kind]


def _decimal(found: Any, name: str) -> Decimal:
    try:
        return Decimal(found)
    except (InvalidOperation, TypeError, ValueError) as error:
        raise WrongShape(f"{name} is {found!r}, not a number") from error


def _whole(found: Decimal, name: str) -> int:
    """Java writes 5E+0 where others write 5: both are five."""
    if not found.is_finite() or found != found.to_integral_value():
        raise WrongShape(f"{name} is {found}, not a whole number")
    return int(found)
