"""What JSON payloads have that the columns of their typed table lack. Spark's tasks find such facts and count the
payloads with each.

If payloads bring so many names that a task can't keep all facts, rare facts may be counted too low.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, TypeAlias

from headrace.pipeline.typed.json.columns import (
    DEPTH,
    FLOAT_END,
    INT_END,
    LONG_END,
    Items,
    Kind,
    Limits,
    Path,
    Struct,
)
from headrace.pipeline.typed.json.fit import Judge, has_value

Fact: TypeAlias = tuple[Path, str]
"""A payload has a value of this kind there, and the columns have no place for it yet."""

OBJECT: Fact = ((), "object")
"""Each payload has this one."""
TOO_LARGE = "too large"
"""The kind of a value that its column could hold if it were promoted."""
_MOST_FACTS = 20_000
"""The most facts that one task reports: those that most payloads have. It holds at most twice as many, and one
payload's."""
_FACTS_A_FIELD = 10
"""A payload with more facts for each field that is allowed isn't looked at further: there are a few kinds, and lists
within lists."""


def facts_of(payload: Mapping[str, Any], columns: Struct, limits: Limits) -> frozenset[Fact]:
    """What this payload has that the columns lack. Empty for a payload that alone would bring more fields than
    are allowed, because the other payloads are hardly like it.
    """
    facts = {OBJECT}
    # Most payloads bring nothing new, and the judge walks over most values without making a path
    # for them.
    if Judge(columns, limits, is_whole=True).why_not(payload) is None:
        return frozenset(facts)
    _put_facts(payload, columns, (), facts, _FACTS_A_FIELD * limits.columns)
    fields = {path for path, _ in facts if path and path[-1] is not None}
    # One payload with thousands of names must not use up the columns that the others need. It goes
    # to quarantine by itself.
    return frozenset() if len(fields) > limits.columns else frozenset(facts)


def _put_facts(value: Any, kind: Kind | None, path: Path, facts: set[Fact], most: int) -> None:
    """Put what is missing into `facts`, and stop where there are too many."""
    if len(path) > DEPTH or len(facts) > most or (kind is None and not has_value(value)):
        return
    if isinstance(value, dict) and (kind is None or isinstance(kind, Struct)):
        if kind is None:
            facts.add((path, "object"))
        inner: Mapping[str, Kind] = {} if kind is None else kind.fields
        for name, inner_value in value.items():
            _put_facts(inner_value, inner.get(name), (*path, name), facts, most)
    elif isinstance(value, list) and (kind is None or isinstance(kind, Items)):
        if kind is None:
            facts.add((path, "array"))
        for item in value:
            _put_facts(item, None if kind is None else kind.of, (*path, None), facts, most)
    elif kind is None:
        facts.add((path, _scalar(value)))
    elif _is_too_large(value, kind):
        facts.add((path, TOO_LARGE))


def _scalar(value: Any) -> str:
    match value:
        case bool():
            return "boolean"
        case int():
            # As text an integer of 30 digits keeps them all.
            return "long" if -LONG_END <= value < LONG_END else "string"
        case float():
            return "double"
        case _:
            return "string"


def _is_too_large(value: Any, kind: Kind) -> bool:
    if kind == "integer":
        return type(value) is int and not -INT_END <= value < INT_END and -LONG_END <= value < LONG_END
    return kind == "float" and type(value) is float and abs(value) > FLOAT_END


def counted_facts(of_payloads: Iterable[frozenset[Fact]]) -> Counter[Fact]:
    counts: Counter[Fact] = Counter()
    for facts in of_payloads:
        counts.update(facts)
        if len(counts) > 2 * _MOST_FACTS:
            # The names come from whoever writes into the stream, so that what a task remembers of
            # them has an end.
            counts = _most(counts)
    return _most(counts) if len(counts) > _MOST_FACTS else counts


def _most(counts: Counter[Fact]) -> Counter[Fact]:
    return Counter(
        dict(sorted(counts.items(), key=lambda entry: (-entry[1], *order_of(entry[0])))[:_MOST_FACTS])
    )


def order_of(fact: Fact) -> tuple[tuple[str, ...], str]:
    # No field that counts has an empty name.
    return tuple(step or "" for step in fact[0]), fact[1]
