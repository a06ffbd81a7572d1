"""Turns a setting's text into its value and back, by the setting's type."""

import json
import re
import types
import typing
from collections.abc import Iterator, Mapping
from dataclasses import Field, fields, is_dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from functools import cache
from math import isfinite
from typing import Any, NamedTuple

SIZES = {"GiB": 1024**3, "MiB": 1024**2, "KiB": 1024}
LONGEST = timedelta(days=366)
"""Longer than Kinesis keeps any record, so a longer duration is a slip, such as milliseconds that were meant."""
_DURATION = re.compile(
    r"(?:(?P<days>[0-9]+)d)?(?:(?P<hours>[0-9]+)h)?(?:(?P<minutes>[0-9]+)m)?"
    r"(?:(?P<seconds>[0-9]+(?:\.[0-9]+)?)s)?(?:(?P<milliseconds>[0-9]+)ms)?"
)
_NUMBER = re.compile(r"[0-9]+(?:\.[0-9]+)?")
# A whole number; underscores may group its digits, as in 10_000.
_WHOLE = re.compile(r"[0-9][0-9_]*")


class Knob(NamedTuple):
    key: str
    """Dotted: streams.0.name."""
    spec: Field[Any]
    hint: Any
    """The setting's type, without `| None`."""


def element(hint: Any) -> Any:
    """The type of the items of a list setting: X for tuple[X, ...]; None for another type."""
    return typing.get_args(hint)[0] if typing.get_origin(hint) is tuple else None


def bare(hint: Any) -> Any:
    """The type without `| None`."""
    if isinstance(hint, types.UnionType):
        return next(arg for arg in typing.get_args(hint) if arg is not type(None))
    return hint


def is_mapping(hint: Any) -> bool:
    return typing.get_origin(hint) is Mapping


def settings_of(section: Any) -> tuple[Field[Any], ...]:
    """The fields of a section's class that are settings. A section may have others, which tell where it is written."""
    return _shape_of(section).settings


def hints_of(section: Any) -> Mapping[str, Any]:
    """The types of the fields of a section's class, without `| None`."""
    return _shape_of(section).hints


class _Shape(NamedTuple):
    settings: tuple[Field[Any], ...]
    hints: Mapping[str, Any]


@cache
def _shape_of(section: Any) -> _Shape:
    """Kept for each class, because finding out the types takes longer than reading the section's values."""
    settings = tuple(spec for spec in fields(section) if spec.metadata.get("is_setting", True))
    hints = {name: bare(hint) for name, hint in typing.get_type_hints(section).items()}
    return _Shape(settings, types.MappingProxyType(hints))


@cache
def knobs(section: type[Any], prefix: str = "", *, index: str = "0") -> tuple[Knob, ...]:
    """Every single setting below a section, as `Knob`s."""
    hints = hints_of(section)
    listed: list[Knob] = []
    for spec in settings_of(section):
        hint, key = hints[spec.name], f"{prefix}{spec.name}"
        inner = element(hint)
        if inner is not None and is_dataclass(inner):
            listed.extend(knobs(inner, f"{key}.{index}.", index=index))  # type: ignore[arg-type]  # a class
        elif inner is not None:
            listed.append(Knob(f"{key}.{index}", spec, inner))
        elif is_dataclass(hint):
            listed.extend(knobs(hint, f"{key}.", index=index))  # type: ignore[arg-type]  # a class, never an instance
        else:
            listed.append(Knob(key, spec, hint))
    return tuple(listed)


def leaves(value: Any, key: str = "", *, unit: str = "") -> Iterator[tuple[str, Any, str]]:
    """Every single setting below a section, with its value: dotted key, value, unit. Each entry of a mapping
    counts as one."""
    inner: Iterator[tuple[str, Any, str]]
    if is_dataclass(value):
        inner = (
            (spec.name, getattr(value, spec.name), spec.metadata.get("unit", ""))
            for spec in settings_of(type(value))
        )
    elif isinstance(value, tuple):
        inner = ((str(n), entry, "") for n, entry in enumerate(value))
    elif isinstance(value, Mapping) and value:
        inner = ((name, entry, "") for name, entry in value.items())
    else:
        yield key, value, unit
        return
    for name, entry, entry_unit in inner:
        yield from leaves(entry, f"{key}.{name}" if key else name, unit=entry_unit)


def read_value(hint: Any, text: str, *, unit: str = "") -> Any:
    """The value that a text stands for. Raises ValueError or OverflowError when the text isn't what `allowed` says."""
    # Before int, because bool is a subclass of int.
    if hint is bool:
        return _one_of({"true": True, "false": False}, text.lower())
    if hint is int:
        return _size(text) if unit == "bytes" else _positive(text)
    if hint is timedelta:
        return _duration(text)
    if issubclass(hint, StrEnum):
        return hint(text)
    value = datetime.fromisoformat(text) if hint is datetime else hint(text)
    # A moment without a zone would be another one on each host.
    naive = isinstance(value, datetime) and value.tzinfo is None
    if naive or not text.strip() or (isinstance(value, float) and not isfinite(value)):
        raise ValueError(text)
    return value


def allowed(hint: Any, *, unit: str = "") -> str:
    if is_mapping(hint):
        return "`name: value` pairs"
    if issubclass(hint, StrEnum):
        return " | ".join(hint)
    if hint is int and unit == "bytes":
        return "bytes, more than 0, such as 1048576, 512KiB, 256MiB or 1GiB"
    words = {
        bool: "true | false",
        int: "a whole number, more than 0",
        float: "a number",
        timedelta: "a duration, more than 0 and at most 366d, such as 250ms, 20s, 5m, 1h30m; a bare number is seconds",
        datetime: "a moment with its time zone, such as 2026-01-31T00:00:00Z",
        str: "text that isn't empty",
    }
    return words[hint]


def show(value: Any, *, unit: str = "") -> str:
    """The text of a value, as `read_value` would read it."""
    match value:
        case None:
            return "-"
        # Before int, because True is an int too.
        case bool():
            return str(value).lower()
        case int() if unit == "bytes":
            return next(
                (f"{value // size}{name}" for name, size in SIZES.items() if value % size == 0), str(value)
            )
        case timedelta():
            return _show_duration(value)
        case datetime():
            return value.isoformat()
        case Mapping():
            return json.dumps(dict(value), ensure_ascii=False)
        case _:
            return str(value)


def _one_of(values: Mapping[str, Any], text: str) -> Any:
    if text not in values:
        raise ValueError(text)
    return values[text]


def _positive(text: str) -> int:
    number = int(text) if _WHOLE.fullmatch(text) else 0
    if number <= 0:
        raise ValueError(text)
    return number


def _size(text: str) -> int:
    for name, size in SIZES.items():
        if text.endswith(name):
            return _positive(text.removesuffix(name).rstrip()) * size
    return _positive(text)


def _duration(text: str) -> timedelta:
    duration = timedelta()
    if _NUMBER.fullmatch(text):
        duration = timedelta(seconds=float(text))
    elif match := _DURATION.fullmatch(text):
        duration = timedelta(**{unit: float(number) for unit, number in match.groupdict().items() if number})
    if not timedelta() < duration <= LONGEST:
        raise ValueError(text)
    return duration


def _show_duration(value: timedelta) -> str:
    # Parts of milliseconds have no unit of their own.
    if value.microseconds % 1000:
        return f"{value.total_seconds():.6f}".rstrip("0") + "s"
    hours, rest = divmod(value.seconds, 3600)
    minutes, seconds = divmod(rest, 60)
    amounts = {"d": value.days, "h": hours, "m": minutes, "s": seconds, "ms": value.microseconds // 1000}
    return "".join(f"{number}{name}" for name, number in amounts.items() if number) or "0s"
