"""The columns that JSON payloads make: the same whatever the order, and never less or other than before."""

from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.pipeline.typed.json.column_types import (
    ddl_of,
    has_not_null,
    nullable,
    spark_of,
    struct_of,
    struct_of_fields,
)
from headrace.pipeline.typed.json.columns import DEPTH, Items, Kind, Limits, Struct
from headrace.pipeline.typed.json.facts import counted_facts, facts_of
from headrace.pipeline.typed.json.fit import Judge
from headrace.pipeline.typed.json.growth import ColumnChange, changes, grow
from headrace.pipeline.typed.json.text import object_in

LIMITS = Limits(12, frozenset({"stream"}))
NONE = Struct()
NAMES = st.sampled_from(["a", "b", "A", "c", "", "x.y", "stream"])
SCALARS = st.one_of(
    st.none(), st.booleans(), st.integers(-(2**70), 2**70), st.floats(-10, 10), st.text(max_size=3)
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3),
    max_leaves=4,
)
PAYLOADS = st.lists(st.dictionaries(NAMES, VALUES, max_size=3), max_size=4)


def after(payloads: list[dict[str, Any]], columns: Struct = NONE, limits: Limits = LIMITS) -> Struct:
    return grow(columns, counted_facts(facts_of(each, columns, limits) for each in payloads), limits)


def why_not(payload: dict[str, Any], columns: Struct, limits: Limits = LIMITS) -> str | None:
    return Judge(columns, limits, is_whole=True).why_not(payload)


@given(PAYLOADS, PAYLOADS)
def test_neither_the_order_nor_the_tasks_change_the_columns(first: Any, second: Any):
    parts = [counted_facts(facts_of(each, Struct(), LIMITS) for each in part) for part in (second, first)]
    assert grow(Struct(), sum(parts, Counter()), LIMITS) == after([*first, *second])


@given(PAYLOADS, PAYLOADS)
def test_a_column_is_never_dropped_narrowed_or_retyped(first: Any, second: Any):
    before = after(first)
    now = after(second, before)
    assert all(each.is_new for each in changes(before, now))
    assert list(now.fields)[: len(before.fields)] == list(before.fields)
    assert now.size <= LIMITS.columns
    assert changes(now, now) == ()
    fit = [each for each in first if why_not(each, before) is None]
    # An empty list or object needs no column, and may contradict one that comes later.
    assert all(why_not(each, now) is None for each in fit if not _has_empty(each))


def _has_empty(value: Any) -> bool:
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else (None,)
    return not inner or any(map(_has_empty, inner if isinstance(value, dict | list) else ()))


@given(PAYLOADS)
def test_each_value_of_a_payload_that_fits_has_a_column(payloads: Any):
    columns = after(payloads)
    for payload in payloads:
        if why_not(payload, columns) is None:
            assert _paths(payload) <= _columns(columns)


def _paths(value: Any, at: str = "") -> set[str]:
    match value:
        case dict():
            return {path for name, each in value.items() for path in _paths(each, f"{at}/{name}")}
        case list():
            return {path for each in value for path in _paths(each, f"{at}/[]")}
        case _:
            return {at} if value is not None else set()


def _columns(kind: Kind, at: str = "") -> set[str]:
    match kind:
        case Struct():
            return {path for name, each in kind.fields.items() for path in _columns(each, f"{at}/{name}")}
        case Items():
            return _columns(kind.of, f"{at}/[]")
        case _:
            return {at}


@given(PAYLOADS)
def test_a_process_that_was_slower_goes_on_from_the_columns_of_the_faster_one(payloads: Any):
    facts = counted_facts(facts_of(each, Struct(), LIMITS) for each in payloads)
    others = struct_of(
        [("a", "string"), ("c", {"type": "struct", "fields": [{"name": "b", "type": "long"}]})]
    )
    grown = grow(others, facts, LIMITS)
    assert all(each.is_new for each in changes(others, grown))
    assert grow(grown, facts, LIMITS) == grown


def test_what_most_payloads_have_decides_the_type():
    assert ddl_of(after([{"a": 1}, {"a": "x"}, {"a": 2}])) == "a BIGINT"
    assert ddl_of(after([{"a": 1}, {"a": 2.5}])) == "a DOUBLE"
    assert ddl_of(after([{"a": 2**64}])) == "a STRING"
    assert (
        ddl_of(after([{"a": [{"b": 1}, {"c": [True]}]}])) == "a ARRAY<STRUCT<b: BIGINT, c: ARRAY<BOOLEAN>>>"
    )
    assert ddl_of(after([{"ID": 1}, {"id": 1}, {"id": 1}, {"": 1, "x.y": 1, "stream": 1}])) == "id BIGINT"
    assert ddl_of(after([{"a b": 1}])) == "`a b` BIGINT"
    assert ddl_of(after([{"a": None, "b": [], "c": {}, "d": [{"e": []}]}])) == ""


def test_a_flood_of_fields_costs_itself_only():
    flood = {f"k{n}": n for n in range(1000)}
    columns = after([flood, {"id": 1}])
    assert ddl_of(columns) == "id BIGINT"
    assert "most_columns (12)" in str(why_not(flood, columns))
    few = after([{"id": 1}, {"id": 2}, *({f"k{n}": n} for n in range(1000))])
    assert (next(iter(few.fields)), few.size) == ("id", 12)
    names = ({"id": 1, f"k{n}": n} for n in range(50_000))
    counts = counted_facts(facts_of(each, NONE, LIMITS) for each in names)
    assert (len(counts), counts[("id",), "long"]) == (20_000, 50_000)
    deep: Any = 1
    for _ in range(DEPTH):
        deep = {"d": deep}
    assert after([deep]).size == DEPTH
    assert after([{"d": deep}]) == Struct()
    assert f"deeper than {DEPTH}" in str(why_not({"d": deep}, Struct()))


@pytest.mark.parametrize("opens", ['{"d":', "["])
@pytest.mark.parametrize("inmost", ["1", '{"": 1}', "null"])
def test_a_payload_that_is_as_deep_as_the_json_reader_allows_is_judged_as_others_are(opens: str, inmost: str):
    closes = {"[": "]"}.get(opens, "}")
    deepest = b""
    for levels in range(100, 3000, 100):
        payload = f'{{"x": {opens * levels}{inmost}{closes * levels}}}'.encode()
        deepest = payload if object_in(payload) is not None else deepest
    content = object_in(deepest)
    assert content is not None
    assert len(deepest) > 500
    assert after([content, {"id": 1}]).size <= LIMITS.columns
    assert ("deeper than" in str(why_not(content, NONE))) == (inmost != "null")


def test_a_payload_that_does_not_fit_is_told_why():
    columns = struct_of([
        ("id", "long"),
        ("n", "integer"),
        ("ok", "boolean"),
        ("at", "timestamp"),
        ("tags", {"type": "map", "keyType": "string", "valueType": "long"}),
        ("items", {"type": "array", "elementType": spark_of(Struct({"sku": "string"}))}),
    ])  # fmt: skip
    fits: dict[str, Any] = {
        "id": 1,
        "n": None,
        "ok": True,
        "at": "any",
        "tags": {"k": 1},
        "items": [None, {"sku": 5}],
        "e": [{}],
    }
    assert why_not(fits, columns) is None
    told: list[tuple[dict[str, Any], str]] = [
        (
            {"id": 1.5},
            "the field id has a number with a fraction or an exponent, and its column is of type long",
        ),
        ({"id": True}, "the field id has true or false, and its column is of type long"),
        ({"id": 2**63}, "the field id has an integer, and its column is of type long"),
        ({"n": 2**31}, "the field n has an integer, and its column is of type integer"),
        ({"ok": 1}, "the field ok has an integer, and its column is of type boolean"),
        ({"items": {"sku": "a"}}, "the field items has an object, and its column is an array"),
        ({"items": ["a"]}, "the field items[] has text, and its column is a struct"),
        (
            {"items": [{"SKU": "a"}]},
            "the field items[].SKU has no column: the field's name differs from the column sku only in capital letters",
        ),
        ({"new": {"a": 1, "": 2}}, "the field new. has no column: the field's name is empty"),
        (
            {"Stream": 1},
            "the field Stream has no column: the field has the name of a column that Headrace itself gives to the table",
        ),
        ({"a\x00b": 1}, "the field a\\u0000b has no column: the field's name has a zero character"),
        ({"new": {"\x00": 1}}, "the field new.\\u0000 has no column: the field's name has a zero character"),
    ]
    for payload, reason in told:
        assert why_not(payload, columns) == reason
    assert ddl_of(columns).endswith("tags map<STRING, BIGINT>, items ARRAY<STRUCT<sku: STRING>>")
    assert Judge(columns, LIMITS, is_whole=False).why_not({"new": 1}) is None


def test_a_column_is_promoted_where_a_value_needs_it():
    columns = struct_of(
        [("n", "integer"), ("f", "float"), ("l", {"type": "array", "elementType": "integer"})]
    )
    assert after([{"n": 5, "f": 0.1, "l": [1]}], columns) == columns
    wide = after([{"n": 2**31, "f": 1e300, "l": [2**31]}], columns)
    assert changes(columns, wide) == (
        ColumnChange(("n",), "long", is_new=False),
        ColumnChange(("f",), "double", is_new=False),
        ColumnChange(("l", None), "long", is_new=False),
    )
    assert after([{"n": 2**64}], columns) == columns


def test_what_is_not_null_stays_so_where_payloads_add_columns():
    field = {"name": "a", "type": "long", "nullable": False}
    columns = struct_of_fields(
        [
            {"name": "id", "type": "string", "nullable": False},
            {"name": "s", "type": {"type": "struct", "fields": [field]}, "nullable": True},
            {"name": "l", "type": {"type": "array", "elementType": {"type": "struct", "fields": [field]}}},
        ]
    )
    grown = after([{"s": {"b": 1}, "l": [{"b": True}], "c": 1.5}], columns)
    stated = "id STRING NOT NULL, s STRUCT<a: BIGINT NOT NULL"
    assert ddl_of(columns) == f"{stated}>, l ARRAY<STRUCT<a: BIGINT NOT NULL>>"
    assert ddl_of(grown) == (
        f"{stated}, b: BIGINT>, l ARRAY<STRUCT<a: BIGINT NOT NULL, b: BOOLEAN>>, c DOUBLE"
    )
    (whole,) = spark_of(Struct({"x": grown}))["fields"]
    assert struct_of_fields(whole["type"]["fields"]) == grown
    assert has_not_null(whole["type"]["fields"])
    assert not has_not_null(nullable(whole["type"])["fields"])
