"""Java's .properties files, as far as KCL's daemon uses them. Pure functions."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

_BLANK = " \t\f"
_ESCAPED = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_UNICODE = re.compile(r"u([0-9A-Fa-f]{4})")


@dataclass(frozen=True, slots=True)
class Property:
    name: str
    value: str
    line: int
    """The number of the line on which it begins."""


def properties_in(text: str) -> Iterator[Property]:
    """The entries, in the order of the file."""
    for number, line in _logical_lines(text):
        end = _end_of_name(line)
        value = line[end:].lstrip(_BLANK)
        if value[:1] in ("=", ":"):
            value = value[1:].lstrip(_BLANK)
        # The daemon strips what Java's own reader leaves at the end of a value.
        yield Property(_unescaped(line[:end]), _unescaped(value).strip(), number)


def _logical_lines(text: str) -> Iterator[tuple[int, str]]:
    """The lines with an entry, each with its number. A line that ends in a single backslash goes on in the next one."""
    begun, first = "", 0
    for number, natural in enumerate(re.split(r"\r\n|\r|\n", text), 1):
        line = natural.lstrip(_BLANK)
        if not begun and (not line or line[0] in "#!"):
            continue
        first = first if begun else number
        if _goes_on(line):
            begun += line[:-1]
            continue
        yield first, begun + line
        begun = ""
    if begun:
        yield first, begun


def _goes_on(line: str) -> bool:
    return (len(line) - len(line.rstrip("\\"))) % 2 == 1


def _end_of_name(line: str) -> int:
    place = 0
    while place < len(line) and line[place] not in f"=:{_BLANK}":
        place += 2 if line[place] == "\\" else 1
    return min(place, len(line))


def _unescaped(text: str) -> str:
    parts: list[str] = []
    place = 0
    while place < len(text):
        if text[place] != "\\":
            parts.append(text[place])
            place += 1
        elif code := _UNICODE.match(text, place + 1):
            parts.append(chr(int(code[1], 16)))
            place = code.end()
        else:
            letter = text[place + 1 : place + 2]
            parts.append(_ESCAPED.get(letter, letter))
            place += 2
    return "".join(parts)
