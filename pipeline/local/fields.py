"""Read fields out of a request: the wrong type is a SerializationException, a broken constraint a
ValidationException."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import Any

from headrace.pipeline.local.errors import AwsError, invalid, invalid_argument, unreadable

Request = Mapping[str, Any]

STREAM_NAME = re.compile(r"[a-zA-Z0-9_.-]{1,128}")
SHARD_ID = re.compile(r"[a-zA-Z0-9_.-]{1,128}")
SEQUENCE_NUMBER = re.compile(r"0|[1-9][0-9]{0,128}")
# The year 10000: Python has no dates after it.
_LATEST = 253_402_300_800
_TAG_LETTERS = re.compile(r"[\w\s./=+\-@:,]*")
HASH_KEY = re.compile(r"0|[1-9][0-9]{0,38}")


def broken(field: str, value: object, constraint: str) -> AwsError:
    """Write a constraint violation as AWS does. Values are shortened, since they may be megabytes."""
    shown = "null" if value is None else f"'{str(value)[:200]}'"
    spelled = field[:1].lower() + field[1:]
    return invalid(
        f"1 validation error detected: Value {shown} at '{spelled}' failed to satisfy constraint: {constraint}"
    )


def maybe_text(request: Request, field: str, pattern: re.Pattern[str] | None = None) -> str | None:
    """Give a string field, or None where it is absent."""
    value = request.get(field)
    if value is None:
        return None
    if not isinstance(value, str):
        raise unreadable(f"{field}: {type(value).__name__} can not be converted to a String")
    if pattern is not None and pattern.fullmatch(value) is None:
        raise broken(field, value, f"Member must satisfy regular expression pattern: {pattern.pattern}")
    return value


def text_field(request: Request, field: str, pattern: re.Pattern[str] | None = None) -> str:
    """Give a string field that has to be there."""
    value = maybe_text(request, field, pattern)
    if value is None:
        raise broken(field, None, "Member must not be null")
    return value


def choice(request: Request, field: str, allowed: Collection[str]) -> str:
    """Give a string field that has to be one of some."""
    value = text_field(request, field)
    if value not in allowed:
        raise broken(field, value, f"Member must satisfy enum value set: [{', '.join(sorted(allowed))}]")
    return value


def maybe_number(
    request: Request, field: str, *, least: int | None = None, most: int | None = None
) -> int | None:
    """Give an integer field within bounds, or None where it is absent."""
    value = request.get(field)
    if value is None:
        return None
    # A bool is an int in Python, but true is no number in JSON.
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise unreadable(f"{field}: {type(value).__name__} can not be converted to an Integer")
    integer = int(value)
    if least is not None and integer < least:
        raise broken(field, integer, f"Member must have value greater than or equal to {least}")
    if most is not None and integer > most:
        raise broken(field, integer, f"Member must have value less than or equal to {most}")
    return integer


def number_field(request: Request, field: str, *, least: int | None = None, most: int | None = None) -> int:
    """Give an integer field that has to be there."""
    value = maybe_number(request, field, least=least, most=most)
    if value is None:
        raise broken(field, None, "Member must not be null")
    return value


def maybe_instant(request: Request, field: str) -> float | None:
    """Give a timestamp in epoch seconds, or None where it is absent."""
    value = request.get(field)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise unreadable(f"{field}: {type(value).__name__} can not be converted to milliseconds since epoch")
    if not abs(value) < _LATEST:
        raise unreadable(f"{field}: {value:.3g} can not be converted to milliseconds since epoch")
    return float(value)


def maybe_mapping(request: Request, field: str) -> Request | None:
    """Give a structure or map field, or None where it is absent."""
    value = request.get(field)
    if value is None:
        return None
    if not isinstance(value, dict):
        raise unreadable(f"{field}: Expected map or null")
    return value


def sequence_of(request: Request, field: str, *, most: int) -> list[Any]:
    """Give a list field that has to be there, with 1 to `most` members."""
    value = request.get(field)
    if value is None:
        raise broken(field, None, "Member must not be null")
    if not isinstance(value, list):
        raise unreadable(f"{field}: Expected list or null")
    if not value:
        raise broken(field, "[]", "Member must have length greater than or equal to 1")
    if len(value) > most:
        raise broken(field, "[...]", f"Member must have length less than or equal to {most}")
    return value


def tags_field(request: Request) -> dict[str, str]:
    """Give the tags of a request, which have to be there."""
    given = maybe_mapping(request, "Tags")
    if not given:
        raise broken("tags", given, "Member must have length greater than or equal to 1")
    tags = {key: maybe_text(given, key) or "" for key in given}
    for key, value in tags.items():
        if not 1 <= len(key) <= 128 or len(value) > 256:
            raise broken("tags", key, "Map keys must have 1 to 128 letters, values up to 256")
        if not (_TAG_LETTERS.fullmatch(key) and _TAG_LETTERS.fullmatch(value)):
            raise invalid_argument("Some tags contain invalid characters.")
    return tags
