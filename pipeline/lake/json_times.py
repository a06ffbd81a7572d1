"""Texts of JSON payloads as dates and times: a date, or a date and a time of day, as ISO 8601 writes them.

A text without a full date doesn't fit, nor does one with the name of a region: whoever reads it would have to add what the payload doesn't say.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from typing import Annotated, Any

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from headrace.pipeline.lake.json_unfit import OutsideYears, Unfit
from headrace.pipeline.lake.time_range import DAYS, MICROS

_TIME = re.compile(
    r"[ \t\r\n]*([0-9]{4})-([0-9]{1,2})-([0-9]{1,2})"
    r"(?:[T ](?:([0-9]{1,2})(?::([0-9]{1,2})(?::([0-9]{1,2})(?:\.([0-9]*))?)?)?"
    r" ?(Z|UTC|GMT|[+-](?:[0-9]{1,2}(?::[0-9]{2})?|[0-9]{4}))?)?)?[ \t\r\n]*"
)
_ZONE = re.compile(r"([+-])([0-9]{1,2}):?([0-9]{2})?")
_FARTHEST = timedelta(hours=18)
"""Of a zone from UTC."""
_EPOCH, _FIRST_DAY = datetime(1970, 1, 1, tzinfo=UTC), date(1970, 1, 1)
_MICRO = timedelta(microseconds=1)
_DAY_FORM = r"^[0-9]{4}-[0-9]{2}-[0-9]{2}$"
_LOCAL_FORM = r"^[0-9]{4}-[0-9]{2}-[0-9]{2}[T ][0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]+)?$"
_ZONED_FORM = r"^[0-9]{4}-[0-9]{2}-[0-9]{2}[T ][0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]+)?(Z|[+-](0[0-9]|1[0-7]):[0-5][0-9])$"
"""What Arrow reads as `_TIME` does; all columns of most payloads are of one form."""
_BELOW_MICROS = r"(\.[0-9]{6})[0-9]+"
_SECONDS = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]


@dataclass(frozen=True, slots=True)
class Dates:
    arrow: pa.DataType
    exact: Any = field(init=False, default=str | None)
    wide: Any = field(init=False, default=str | None)

    def array(self, values: Sequence[Any]) -> pa.Array[Any]:
        if (days := _by_arrow(values, _DAY_FORM, self.arrow, pa.int32(), DAYS)) is not None:
            return days
        return pa.array([text if text is None else _days(text) for text in values], pa.int32()).cast(
            self.arrow
        )


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

    def array(self, values: Sequence[Any]) -> pa.Array[Any]:
        local = pa.timestamp("us")
        forms = [(_LOCAL_FORM, local)] if self.is_local else [(_ZONED_FORM, self.arrow), (_LOCAL_FORM, local)]
        for form, kind in forms:
            if (times := _by_arrow(values, form, kind, pa.int64(), MICROS)) is not None:
                return times.cast(self.arrow)
        micros = [
            value if value is None else _micros(value, is_local=self.is_local) for value in values
        ]
        return pa.array(micros, pa.int64()).cast(self.arrow)


def _by_arrow(
    values: Sequence[Any], form: str, kind: pa.DataType, number: pa.DataType, ends: tuple[int, int]
) -> Any:
    """The texts as Arrow reads them; None where one of them has another form, or is beyond the ends."""
    try:
        texts: Any = pa.array(values, pa.string())
        if not pc.all(pc.match_substring_regex(texts, form), min_count=0).as_py():
            return None
        try:
            times = texts.cast(kind)
        except pa.ArrowInvalid:
            times = pc.replace_substring_regex(texts, _BELOW_MICROS, r"\1").cast(kind)
    except pa.ArrowException:
        return None
    bounds: Any = pc.min_max(times.cast(number)).as_py()
    if bounds["min"] is not None and not ends[0] <= bounds["min"] <= bounds["max"] <= ends[1]:
        return None
    return times


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
        raise OutsideYears
    return micros


def _moment(match: re.Match[str]) -> datetime:
    """Without its zone. Digits below a microsecond are dropped."""
    year, month, day, hour, minute, second = (int(part or 0) for part in match.groups()[:6])
    if not year:
        raise OutsideYears
    micro = int((match[7] or "")[:6].ljust(6, "0"))
    return datetime(year, month, day, hour, minute, second, micro, tzinfo=UTC)


def _offset(zone: str | None) -> timedelta:
    if zone is None or (match := _ZONE.fullmatch(zone)) is None:
        return timedelta()
    hours, minutes = int(match[2]), int(match[3] or 0)
    offset = timedelta(hours=hours, minutes=minutes)
    if minutes > 59 or offset > _FARTHEST:  # noqa: PLR2004
        raise Unfit
    return -offset if match[1] == "-" else offset
