"""Converts texts of JSON payloads to dates and times: an ISO 8601 date, or a date and a time of day.

A text without a full date doesn't fit, nor does one with the name of a time zone: the meaning of both depends on
what the payload doesn't say.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from functools import partial
from typing import Annotated, Any

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from headrace.pipeline.typed.columns.time_range import DAYS, MICROS
from headrace.pipeline.typed.json.unfit import OUTSIDE_YEARS, Unfit, Values, converted

_TIME = re.compile(
    r"[ \t\r\n]*([0-9]{4})-([0-9]{1,2})-([0-9]{1,2})"
    r"(?:[T ](?:([0-9]{1,2})(?::([0-9]{1,2})(?::([0-9]{1,2})(?:\.([0-9]*))?)?)?"
    r" ?(Z|UTC|GMT|[+-](?:[0-9]{1,2}(?::[0-9]{2})?|[0-9]{4}))?)?)?[ \t\r\n]*"
)
_ZONE = re.compile(r"([+-])([0-9]{1,2}):?([0-9]{2})?")
_FARTHEST = timedelta(hours=18)
"""The farthest that a zone may be from UTC."""
_EPOCH, _FIRST_DAY = datetime(1970, 1, 1, tzinfo=UTC), date(1970, 1, 1)
_MICRO = timedelta(microseconds=1)
_DAY = "[0-9]{4}-((0[1-9]|1[0-2])-(0[1-9]|1[0-9]|2[0-8])|(0[13-9]|1[0-2])-(29|30)|(0[13578]|1[02])-31)"
"""All days but the 29th of February."""
_MOMENT = f"{_DAY}[T ]([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9]([.][0-9]+)?"
_ZONED_FORM = f"^{_MOMENT}(Z|[+-](0[0-9]|1[0-7]):[0-5][0-9])$"
"""These forms Arrow reads as `_TIME` does, many at once and without an error."""
_DAY_FORM, _LOCAL_FORM = f"^{_DAY}$", f"^{_MOMENT}$"
_BELOW_MICROS = r"([.][0-9]{6})[0-9]+"
_LOCAL, _ZONED = pa.timestamp("us"), pa.timestamp("us", tz="UTC")
_SECONDS = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]


@dataclass(frozen=True, slots=True)
class Dates:
    arrow: pa.DataType
    exact: Any = field(init=False, default=str | None)
    wide: Any = field(init=False, default=str | None)

    def array(self, values: Sequence[Any]) -> Values:
        texts = _texts(values)
        days = _those(texts, _DAY_FORM).cast(pa.date32()).cast(pa.int32())
        return _filled(days, values, _days, DAYS).cast(self.arrow)


@dataclass(frozen=True, slots=True)
class Times:
    arrow: pa.DataType
    is_local: bool
    """Without a zone: a text with one doesn't fit."""
    exact: Any = field(init=False)
    wide: Any = field(init=False)

    def __post_init__(self) -> None:
        kind: Any = str | None if self.is_local else str | _SECONDS | None
        object.__setattr__(self, "exact", kind)
        object.__setattr__(self, "wide", kind)

    def array(self, values: Sequence[Any]) -> Values:
        texts = _texts(values)
        if self.is_local:
            common = _those(texts, _LOCAL_FORM)
        else:
            # Arrow raises one error for a whole array. So it only gets texts of forms that it
            # surely reads, and every other one goes to `_micros` by itself.
            common = _those(texts, _ZONED_FORM)
            if common.null_count > texts.null_count:
                in_utc: Any = pc.binary_join_element_wise(_those(texts, _LOCAL_FORM), "Z", "")
                common = pc.coalesce(common, in_utc)
        micros = (
            pc.replace_substring_regex(common, _BELOW_MICROS, r"\1")
            .cast(_LOCAL if self.is_local else _ZONED)
            .cast(pa.int64())
        )
        return _filled(micros, values, partial(_micros, is_local=self.is_local), MICROS).cast(self.arrow)


def _texts(values: Sequence[Any]) -> Any:
    return pa.array([value if isinstance(value, str) else None for value in values], pa.string())


def _those(texts: Any, form: str) -> Any:
    """The texts of a form; null in the place of unusual."""
    return pc.if_else(pc.match_substring_regex(texts, form), texts, None)


def _filled(numbers: Any, values: Sequence[Any], convert: Callable[[Any], int], ends: tuple[int, int]) -> Any:
    """The numbers, with those of values that have another form."""
    low, high = pa.scalar(ends[0], numbers.type), pa.scalar(ends[1], numbers.type)
    is_within: Any = pc.and_(pc.greater_equal(numbers, low), pc.less_equal(numbers, high))
    # What lies outside of the years counts as unusual, so that the function for one value refuses
    # it and says why.
    known = pc.if_else(is_within, numbers, None)
    unusual = [
        value if number is None else None for value, number in zip(values, known.to_pylist(), strict=True)
    ]
    return pc.coalesce(known, pa.array(converted(unusual, convert), known.type))


def _matched(text: str) -> re.Match[str]:
    if (match := _TIME.fullmatch(text)) is None:
        raise Unfit
    return match


def _days(text: str) -> int:
    """The day that is written, whatever the zone is."""
    match = _matched(text)
    _moment(match)
    return (date(int(match[1]), int(match[2]), int(match[3])) - _FIRST_DAY).days


def _micros(value: str | int, *, is_local: bool) -> int:
    """Since 1970. A number counts seconds."""
    if isinstance(value, int):
        micros = value * 1_000_000
    else:
        match = _matched(value)
        if is_local and match[8]:
            raise Unfit
        micros = (_moment(match) - _EPOCH) // _MICRO - _offset(match[8]) // _MICRO
    if not MICROS[0] <= micros <= MICROS[1]:
        raise Unfit(OUTSIDE_YEARS)
    return micros


def _moment(match: re.Match[str]) -> datetime:
    """Without its zone. Digits below a microsecond are dropped."""
    year, month, day, hour, minute, second = (int(part or 0) for part in match.groups()[:6])
    if not year:
        raise Unfit(OUTSIDE_YEARS)
    micro = int((match[7] or "")[:6].ljust(6, "0"))
    return datetime(year, month, day, hour, minute, second, micro, tzinfo=UTC)


def _offset(zone: str | None) -> timedelta:
    if zone is None or (match := _ZONE.fullmatch(zone)) is None:
        return timedelta()
    hours, minutes = int(match[2]), int(match[3] or 0)
    offset = timedelta(hours=hours, minutes=minutes)
    # As Java has it, and with it Spark: no zone is farther from UTC.
    if minutes > 59 or offset > _FARTHEST:
        raise Unfit
    return -offset if match[1] == "-" else offset
