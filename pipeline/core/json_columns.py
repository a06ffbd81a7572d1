"""The columns of a typed table whose schema comes from its JSON payloads. Pure functions on values.

    payloads ─► facts (counted by Spark's tasks) ─► grow: the columns with what is new ─► why_not: does this payload fit them?

A column is never dropped, narrowed or given another type, except Iceberg's promotions of int to long and of float to double. What `grow`
decides depends on how many payloads have a fact, and not on the order or the tasks in which they were read. Only where a flood of names brings
more facts than a task keeps, rare ones may be counted too low.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

Kind: TypeAlias = "str | Struct | Items"
"""The type of a column. A text is Spark's name of a type whose inside isn't looked at (long, string, a map)."""


@dataclass(frozen=True, slots=True)
class Struct:
    fields: Mapping[str, Kind] = field(default_factory=dict)

    @property
    def size(self) -> int:
        """How many fields there are, also within other fields."""
        return sum(1 + _size(each) for each in self.fields.values())


@dataclass(frozen=True, slots=True)
class Items:
    """An array."""

    of: Kind


def _size(kind: Kind) -> int:
    match kind:
        case Struct():
            return kind.size
        case Items():
            return _size(kind.of)
        case _:
            return 0


Path: TypeAlias = tuple[str | None, ...]
"""The names from the payload down to a field; None stands for the items of an array."""
Fact: TypeAlias = tuple[Path, str]
"""A payload has a value of this kind there, and the columns have no place for it yet."""

OBJECT: Fact = ((), "object")
"""Each payload has this one."""

DEPTH = 10
"""The most steps of a path."""
_LONGEST_NAME = 255
_MOST_FACTS = 20_000
"""The most facts that one task reports: those that most payloads have. It holds at most twice as many, and one payload's."""
_FACTS_A_FIELD = 10
"""A payload with more facts for each field that is allowed isn't looked at further: there are a few kinds, and lists within lists."""
_INT, _LONG, _FLOAT = 2**31, 2**63, 3.4028235e38
_PROMOTED = {"integer": "long", "float": "double"}
_TOO_LARGE = "too large"
"""The kind of a value that its column could hold if it were promoted."""
_OF_SPARK = {"string", "binary", "date", "timestamp", "timestamp_ntz", "decimal", "map"}
_LEAVES = ("boolean", "long", "double", "string", _TOO_LARGE)
_GROUPS = ("object", "array", "string", "number", "boolean", _TOO_LARGE)
"""Kinds of which one wins, where payloads contradict each other. The first of equals wins."""


@dataclass(frozen=True, slots=True)
class Limits:
    columns: int
    """The most fields, also those within others."""
    taken: frozenset[str] = frozenset()
    """Names in small letters that no column may have."""


# --- what payloads have and the columns lack --------------------------------------------------------------------


def facts_of(payload: Mapping[str, Any], columns: Struct, limits: Limits) -> frozenset[Fact]:
    """None of a payload that would alone bring more fields than are allowed: it is no example of the others."""
    found = {OBJECT}
    if Judge(columns, limits, is_whole=True).why_not(payload) is None:
        return frozenset(found)
    _put_facts(payload, columns, (), found, _FACTS_A_FIELD * limits.columns)
    fields = {path for path, _ in found if path and path[-1] is not None}
    return frozenset() if len(fields) > limits.columns else frozenset(found)


def _put_facts(value: Any, kind: Kind | None, path: Path, found: set[Fact], most: int) -> None:
    """Put facts into `found`, and stop where there are too many."""
    if len(path) > DEPTH or len(found) > most or (kind is None and not _has_value(value)):
        return
    if isinstance(value, dict) and (kind is None or isinstance(kind, Struct)):
        if kind is None:
            found.add((path, "object"))
        inner: Mapping[str, Kind] = {} if kind is None else kind.fields
        for name, each in value.items():
            _put_facts(each, inner.get(name), (*path, name), found, most)
    elif isinstance(value, list) and (kind is None or isinstance(kind, Items)):
        if kind is None:
            found.add((path, "array"))
        for each in value:
            _put_facts(each, None if kind is None else kind.of, (*path, None), found, most)
    elif kind is None:
        found.add((path, _scalar(value)))
    elif _is_too_large(value, kind):
        found.add((path, _TOO_LARGE))


def _scalar(value: Any) -> str:
    match value:
        case bool():
            return "boolean"
        case int():
            # As text an integer of 30 digits keeps them all.
            return "long" if -_LONG <= value < _LONG else "string"
        case float():
            return "double"
        case _:
            return "string"


def _is_too_large(value: Any, kind: Kind) -> bool:
    if kind == "integer":
        return type(value) is int and not -_INT <= value < _INT and -_LONG <= value < _LONG
    return kind == "float" and type(value) is float and abs(value) > _FLOAT


def counted_facts(of_payloads: Iterable[frozenset[Fact]]) -> Counter[Fact]:
    counts: Counter[Fact] = Counter()
    for facts in of_payloads:
        counts.update(facts)
        if len(counts) > 2 * _MOST_FACTS:
            counts = _most(counts)
    return _most(counts) if len(counts) > _MOST_FACTS else counts


def _most(counts: Counter[Fact]) -> Counter[Fact]:
    return Counter(dict(sorted(counts.items(), key=lambda each: (-each[1], *_order(each[0])))[:_MOST_FACTS]))


def _order(fact: Fact) -> tuple[tuple[str, ...], str]:
    # No field that counts has an empty name.
    return tuple(step or "" for step in fact[0]), fact[1]


# --- which columns there will be --------------------------------------------------------------------------------


def grow(columns: Struct, facts: Mapping[Fact, int], limits: Limits) -> Struct:
    """The columns with what the payloads have beyond them: what most payloads have comes first, and as much as the limits allow.

    `facts` may have been found beside fewer columns than there are now: what is there stays as it is.
    """
    kinds = _winners(facts)
    leaves = sorted(
        ((path, kind, count) for path, (kind, count) in kinds.items() if kind in _LEAVES),
        key=lambda leaf: (-leaf[2], *_order(leaf[:2])),
    )
    for path, *_ in leaves:
        grown = _put(columns, path, 0, kinds, limits)
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
        if new == _TOO_LARGE:
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
    if step not in fields and _why_no_name(step, fields, limits if at == 0 else None):
        return None
    inner = _put(fields.get(step), path, at + 1, kinds, limits)
    return None if inner is None else Struct({**fields, step: inner})


def _why_no_name(name: str, beside: Iterable[str], limits: Limits | None) -> str | None:
    """Why no column can have this name. `limits`: of a column that is in no other one."""
    if not name:
        return "has an empty name"
    if "." in name:
        return "has a dot in its name"
    if "\x00" in name:
        return "has a zero character in its name"
    if len(name) > _LONGEST_NAME:
        return f"has a name of more than {_LONGEST_NAME} characters"
    if limits and name.lower() in limits.taken:
        return "has the name of a column that Headrace itself gives to the table"
    if same := next((other for other in beside if other.lower() == name.lower() and other != name), None):
        return f"differs from the column {same} only in capital letters"
    return None


@dataclass(frozen=True, slots=True)
class ColumnChange:
    path: Path
    kind: Kind
    is_new: bool
    """Else it is a promotion."""


def changes(old: Struct, new: Struct) -> tuple[ColumnChange, ...]:
    """How a table with the old columns comes to the new ones."""
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


# --- whether a payload fits -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Judge:
    """Judges payloads by the columns of the table. It can be pickled."""

    columns: Struct
    limits: Limits
    is_whole: bool
    """Whether each value of a payload needs a column."""

    def why_not(self, payload: Mapping[str, Any]) -> str | None:
        return self._why_not(payload, self.columns, ())

    def _why_not(self, value: Any, kind: Kind, path: Path) -> str | None:
        if value is None:
            return None
        match kind:
            case Struct():
                return (
                    self._of_struct(value, kind, path)
                    if isinstance(value, dict)
                    else _other(value, kind, path)
                )
            case Items():
                if not isinstance(value, list):
                    return _other(value, kind, path)
                below = (*path, None)
                return next(filter(None, (self._why_not(each, kind.of, below) for each in value)), None)
            case _:
                return None if _fits(value, kind) else _other(value, kind, path)

    def _of_struct(self, value: Mapping[str, Any], kind: Struct, path: Path) -> str | None:
        for name, each in value.items():
            of = kind.fields.get(name)
            if each is None or (type(of) is str and _fits(each, of)):
                # Most values end here, without a path.
                continue
            if of is not None:
                if why := self._why_not(each, of, (*path, name)):
                    return why
            elif self.is_whole and _has_value(each):
                return self._why_no_column(each, (*path, name), kind.fields)
        return None

    def _why_no_column(self, value: Any, path: Path, beside: Mapping[str, Kind]) -> str:
        """`value`: of a field without a column. `beside`: the columns beside it."""
        if _is_deeper(value, DEPTH - len(path)):
            return f"the field {name_of(path)} has parts deeper than {DEPTH} levels"
        named, why = next(_bad_names(value, path, beside, self.limits), (path, None))
        if why is None:
            why = f"has no column: there would be more than most_columns ({self.limits.columns}), or most payloads have another kind of value there"
        return f"the field {name_of(named)} {why}"


def _bad_names(
    value: Any, path: Path, beside: Iterable[str], limits: Limits
) -> Iterator[tuple[Path, str | None]]:
    """`value`: not deeper than a column may be."""
    name = path[-1]
    if name is not None and (why := _why_no_name(name, beside, limits if len(path) == 1 else None)):
        yield path, why
    elif isinstance(value, dict):
        # Only names that are alike in small letters are compared: each with each would take hours for a hundred thousand of them.
        alike: dict[str, list[str]] = {}
        for inner in value:
            alike.setdefault(inner.lower(), []).append(inner)
        for inner, each in value.items():
            yield from _bad_names(each, (*path, inner), alike[inner.lower()], limits)
    elif isinstance(value, list):
        for each in value:
            yield from _bad_names(each, (*path, None), (), limits)


def _is_deeper(value: Any, levels: int) -> bool:
    """Whether a value has more levels below it. Nothing deeper is looked at: JSON may have more levels than Python can call functions."""
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return any(levels <= 0 or _is_deeper(each, levels - 1) for each in inner)


def _has_value(value: Any) -> bool:
    """Null, and lists and objects without any value, tell no type and need no column."""
    if not isinstance(value, dict | list):
        return value is not None
    unseen: list[Any] = [value]
    while unseen:
        match unseen.pop():
            case dict() as fields:
                unseen.extend(fields.values())
            case list() as items:
                unseen.extend(items)
            case each if each is not None:
                return True
    return False


def _fits(value: Any, kind: str) -> bool:
    """Spark judges the values of its other types: it reads texts as times, and anything as text."""
    if kind == "string":
        return True
    of = type(value)
    if kind == "long":
        return of is int and -_LONG <= value < _LONG
    if kind in ("double", "float"):
        return of is float or of is int
    if kind == "boolean":
        return of is bool
    if kind == "integer":
        return of is int and -_INT <= value < _INT
    return kind.partition("(")[0].partition("<")[0] in _OF_SPARK


def _other(value: Any, kind: Kind, path: Path) -> str:
    match value:
        case bool():
            found = "true or false"
        case int():
            found = "an integer"
        case float():
            found = "a number with a fraction or an exponent"
        case str():
            found = "text"
        case list():
            found = "a list"
        case _:
            found = "an object"
    column = (
        "a struct"
        if isinstance(kind, Struct)
        else "an array"
        if isinstance(kind, Items)
        else f"of type {kind}"
    )
    return f"the field {name_of(path)} has {found}, and its column is {column}"


def name_of(path: Path) -> str:
    steps = ("[]" if step is None else f".{step[:_LONGEST_NAME]}" for step in path)
    return "".join(steps).removeprefix(".").replace("\x00", "\\u0000") or "''"


# --- as Spark writes types --------------------------------------------------------------------------------------


def struct_of(fields: Iterable[tuple[str, Any]]) -> Struct:
    """Columns, each with its type as Spark writes it in JSON."""
    return Struct({name: _kind_of(spark) for name, spark in fields})


def _kind_of(spark: Any) -> Kind:
    if isinstance(spark, str):
        return spark
    if spark["type"] == "struct":
        return struct_of((each["name"], each["type"]) for each in spark["fields"])
    if spark["type"] == "array":
        return Items(_kind_of(spark["elementType"]))
    return f"map<{_ddl(_kind_of(spark['keyType']))}, {_ddl(_kind_of(spark['valueType']))}>"


def spark_of(kind: Kind) -> Any:
    """The type as Spark writes it in JSON."""
    match kind:
        case Struct():
            fields = [
                {"name": name, "type": spark_of(each), "nullable": True, "metadata": {}}
                for name, each in kind.fields.items()
            ]
            return {"type": "struct", "fields": fields}
        case Items():
            return {"type": "array", "elementType": spark_of(kind.of), "containsNull": True}
        case _:
            return kind


_DDL = {"long": "BIGINT", "integer": "INT"}


def ddl_of(columns: Struct) -> str:
    """The columns as `schema` in the settings has them."""
    return ", ".join(f"{_quoted(name)} {_ddl(kind)}" for name, kind in columns.fields.items())


def _ddl(kind: Kind) -> str:
    match kind:
        case Struct():
            inner = ", ".join(f"{_quoted(name)}: {_ddl(each)}" for name, each in kind.fields.items())
            return f"STRUCT<{inner}>"
        case Items():
            return f"ARRAY<{_ddl(kind.of)}>"
        case _:
            # Names within a map keep their letters.
            return _DDL.get(kind, kind.upper() if "<" not in kind else kind)


def _quoted(name: str) -> str:
    return name if name.isidentifier() and name.isascii() else "`" + name.replace("`", "``") + "`"
