"""Which new columns a typed table gets for fields of its JSON payloads, and how the table is changed to have them.

A column is never dropped, narrowed or given another type, except Iceberg's promotions of int to long and of float
to double. What `grow` decides depends only on how many payloads have each fact, not on the order or the tasks in
which payloads were read.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from headrace.pipeline.typed.json.columns import Items, Kind, Limits, Path, Struct, why_no_name
from headrace.pipeline.typed.json.facts import TOO_LARGE, Fact, order_of

_PROMOTED = {"integer": "long", "float": "double"}
_LEAVES = ("boolean", "long", "double", "string", TOO_LARGE)
_GROUPS = ("object", "array", "string", "number", "boolean", TOO_LARGE)
"""Kinds of which one wins, where payloads contradict each other. The first of equals wins."""


def grow(columns: Struct, facts: Mapping[Fact, int], limits: Limits) -> Struct:
    """The columns, with new ones for what the payloads have and the columns lack: what most payloads have comes
    first, up to the limits.

    `facts` may have been found beside fewer columns than there are now: present columns stay as they are.
    """
    kinds = _winners(facts)
    # By count first, and then by a fixed order: two tasks that saw the same payloads make the same columns.
    leaves = sorted(
        ((path, kind, count) for path, (kind, count) in kinds.items() if kind in _LEAVES),
        key=lambda leaf: (-leaf[2], *order_of(leaf[:2])),
    )
    for path, *_ in leaves:
        grown = _put(columns, path, 0, kinds, limits)
        # A table that has more columns than the limit, after the setting was lowered, keeps them.
        if isinstance(grown, Struct) and grown.size <= max(limits.columns, columns.size):
            columns = grown
    return columns


def _winners(facts: Mapping[Fact, int]) -> dict[Path, tuple[str, int]]:
    """The kind that most payloads have there, and how many have it."""
    counts: dict[Path, Counter[str]] = {}
    for (path, kind), count in facts.items():
        counts.setdefault(path, Counter())[kind] += count
    return {path: _winner(kinds) for path, kinds in counts.items()}


def _winner(kinds: Counter[str]) -> tuple[str, int]:
    numbers = kinds["long"] + kinds["double"]
    groups = {**kinds, "number": numbers}
    best = max(_GROUPS, key=lambda group: (groups.get(group, 0), -_GROUPS.index(group)))
    if best != "number":
        return best, groups[best]
    return "double" if kinds["double"] else "long", numbers


def _put(
    kind: Kind | None, path: Path, at: int, kinds: Mapping[Path, tuple[str, int]], limits: Limits
) -> Kind | None:
    """The column with the value at the end of the path in it. None where it has no place there."""
    if at == len(path):
        new = kinds[path][0]
        # A number that is too large only widens a column, as Iceberg allows: files of the narrow type are read as the
        # wide one.
        if new == TOO_LARGE:
            return _PROMOTED.get(kind) if isinstance(kind, str) else None
        return new if kind is None else None
    step, here = path[at], kinds[path[:at]][0] if kind is None and path[:at] in kinds else None
    if step is None:
        if not (isinstance(kind, Items) or here == "array"):
            return None
        inner = _put(kind.of if isinstance(kind, Items) else None, path, at + 1, kinds, limits)
        return None if inner is None else Items(inner)
    if not (isinstance(kind, Struct) or here == "object"):
        return None
    fields = kind.fields if isinstance(kind, Struct) else {}
    if step not in fields and why_no_name(step, fields, limits if at == 0 else None):
        return None
    inner = _put(fields.get(step), path, at + 1, kinds, limits)
    required = kind.required if isinstance(kind, Struct) else frozenset[str]()
    return None if inner is None else Struct({**fields, step: inner}, required)


@dataclass(frozen=True, slots=True)
class ColumnChange:
    path: Path
    kind: Kind
    is_new: bool
    """Else it is a promotion."""


def changes(old: Struct, new: Struct) -> tuple[ColumnChange, ...]:
    """The changes that turn a table with the old columns into one with the new columns."""
    return tuple(_changes(old, new, ()))


def _changes(old: Kind, new: Kind, path: Path) -> Iterator[ColumnChange]:
    match old, new:
        case Struct(), Struct():
            for name, kind in new.fields.items():
                if name in old.fields:
                    yield from _changes(old.fields[name], kind, (*path, name))
                else:
                    yield ColumnChange((*path, name), kind, is_new=True)
        case Items(), Items():
            yield from _changes(old.of, new.of, (*path, None))
        case _ if old != new:
            yield ColumnChange(path, new, is_new=False)
