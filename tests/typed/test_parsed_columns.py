"""How a typed table gets the columns that payloads make, on real Iceberg and without Spark."""

from functools import partial
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.types import (
    DecimalType,
    DoubleType,
    FloatType,
    IcebergType,
    IntegerType,
    ListType,
    LongType,
    NestedField,
    StringType,
    StructType,
    TimeType,
)

from headrace.pipeline.errors import WrongShape
from headrace.pipeline.typed.json.column_types import ddl_of
from headrace.pipeline.typed.json.columns import Limits, Struct
from headrace.pipeline.typed.json.facts import counted_facts, facts_of
from headrace.pipeline.typed.json.growth import grow
from headrace.pipeline.typed.spark.frames import Frames
from headrace.pipeline.typed.table import IcebergTyped
from tests.lake.tables import before_next_swap
from tests.typed.parsings import SETTINGS, Bed

LIMITS = Frames(SETTINGS, None).limits  # type: ignore[arg-type] # no run


@pytest.fixture
def typed(tmp_path: Path) -> IcebergTyped:
    table = Bed(tmp_path).typed()
    table.ensure(create=True)
    return table


def growing(*payloads: dict[str, Any], limits: Limits = LIMITS) -> Any:
    facts = counted_facts(facts_of(each, Struct(), limits) for each in payloads)
    return partial(grow, facts=facts, limits=limits)


def columns(**kinds: IcebergType) -> list[NestedField]:
    return [NestedField(n, name, kind) for n, (name, kind) in enumerate(kinds.items(), start=10)]


def ddl(table: IcebergTyped) -> str:
    return ddl_of(table.own_columns().columns)


@pytest.mark.parametrize("freezes", [True, False])
def test_of_two_processes_one_commit_decides_what_is_frozen_and_both_add_columns_where_they_evolve(
    typed: IcebergTyped,
    tmp_path: Path,
    freezes: bool,  # noqa: FBT001 - a parameter of the test
):
    other = IcebergTyped(
        {**typed.catalog.properties}, typed.identifier, state=str(tmp_path / "state"), clock=typed.clock
    )
    before_next_swap(typed.catalog, lambda: other.grown(growing({"id": 1, "a": 1}), freezes=freezes))
    own, files, number = typed.grown(growing({"id": "one", "b": 1}), freezes=freezes)
    assert ddl_of(own.columns) == ("a BIGINT, id BIGINT" if freezes else "a BIGINT, id BIGINT, b BIGINT")
    assert own.are_frozen is freezes
    assert files.names[-2:] == list(own.columns.fields)[-2:]
    assert number == other.open().schema().schema_id
    if freezes:
        assert other.grown(growing({"c": 1}), freezes=True)[0] == own


def test_nothing_is_frozen_before_there_is_a_column(typed: IcebergTyped):
    assert not typed.grown(growing({"a": None}), freezes=True)[0].are_frozen
    typed.with_columns([NestedField(1, "id", LongType())])
    assert typed.grown(growing({"a": None}), freezes=True)[0].are_frozen
    assert ddl(typed) == "id BIGINT"


def test_parts_of_structs_in_lists_are_added_and_promoted(typed: IcebergTyped):
    item = StructType(NestedField(1, "n", IntegerType()), NestedField(2, "t", TimeType()))
    nested = ListType(3, ListType(4, StructType(NestedField(5, "n", IntegerType())), element_required=False))
    typed.with_columns(columns(items=nested, strange=item, f=FloatType()))
    typed.grown(growing({"items": [[{"n": 1, "new": {"x": True}}]], "strange": {"n": 2}}), freezes=False)
    assert ddl(typed).startswith(
        "items ARRAY<ARRAY<STRUCT<n: INT, new: STRUCT<x: BOOLEAN>>>>, strange struct<"
    )
    payload = {"items": [[{"n": 2**40}]], "f": 1e300}
    own = typed.own_columns()
    assert [each["name"] for each in own.spark] == ["items", "f"]
    typed.grown(
        partial(grow, facts=counted_facts([facts_of(payload, own.columns, LIMITS)]), limits=LIMITS),
        freezes=False,
    )
    assert [each.split(" ")[-1] for each in (ddl(typed).partition(",")[0], ddl(typed))] == [
        "BIGINT",
        "DOUBLE",
    ]


def test_a_type_in_the_settings_may_be_widened_and_an_older_deployment_goes_on(typed: IcebergTyped):
    def struct(n: IcebergType) -> StructType:
        return StructType(NestedField(1, "n", n))

    narrow = columns(id=IntegerType(), s=struct(FloatType()), d=DecimalType(8, 2))
    wide = columns(id=LongType(), s=struct(DoubleType()), d=DecimalType(12, 2))
    typed.with_columns(narrow)
    files, number = typed.with_columns(wide)
    assert ddl(typed) == "id BIGINT, s STRUCT<n: DOUBLE>, d DECIMAL(12,2)"
    assert typed.with_columns(narrow) == (files, number)
    for name, kind in (("id", StringType()), ("d", DecimalType(14, 3)), ("s", StructType())):
        with pytest.raises(WrongShape, match=f"the column {name}"):
            typed.with_columns(columns(**{name: kind}))
    typed.with_columns(columns(s=StructType()), may_have_more=True)


def test_the_name_of_the_partition_field_is_taken(typed: IcebergTyped):
    typed.grown(growing({"arrival_day": 1, "id": 1}), freezes=False)
    assert ddl(typed) == "id BIGINT"


def test_the_table_of_a_first_wave_that_was_refused_may_be_dropped_for_another_schema(typed: IcebergTyped):
    typed.with_columns(columns(tags=StringType()))
    with pytest.raises(
        WrongShape, match="that table has no row yet: drop it, and the next wave makes it anew"
    ):
        typed.with_columns(columns(tags=StructType()))
