"""Writes settings as the text of a settings file. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

_ORDER = (
    "application",
    "streams",
    "workers",
    "coordination",
    "assignment",
    "times",
    "kcl",
    "landing",
    "processors",
    "metrics",
    "aws",
)
_PLAIN = re.compile(r"[A-Za-z][A-Za-z0-9_./ -]*|[0-9]+(\.[0-9]+)?(s|ms)?")
_OTHER_TYPES = frozenset({"true", "false", "yes", "no", "on", "off", "null", "y", "n"})
"""Words that YAML doesn't take for texts."""


def yaml_of(settings: Mapping[str, str]) -> str:
    """The settings as a YAML file.

    `settings`: dotted name -> value.
    """
    tree: dict[str, Any] = {}
    for key, value in settings.items():
        *folders, last = key.split(".")
        place = tree
        for folder in folders:
            place = place.setdefault(folder, {})
        place[last] = value
    blocks = sorted(tree, key=_ORDER.index)
    return "".join(f"{line}\n" for block in blocks for line in _lines(block, tree[block]))


def _lines(name: str, value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield f"{name}: {_scalar(value)}"
        return
    yield f"{name}:"
    if "0" not in value:
        yield from (f"  {line}" for inner, entry in value.items() for line in _lines(inner, entry))
        return
    # The name first, as people write an entry.
    entry = value["0"]
    first = [inner for inner in ("name", "id") if inner in entry]
    names = [*first, *(inner for inner in entry if inner not in first)]
    lines = [line for inner in names for line in _lines(inner, entry[inner])]
    yield f"  - {lines[0]}"
    yield from (f"    {line}" for line in lines[1:])


def _scalar(value: str) -> str:
    is_word = _PLAIN.fullmatch(value) and (value.lower() not in _OTHER_TYPES or value in ("true", "false"))
    return value if is_word and value == value.strip() else json.dumps(value, ensure_ascii=False)
