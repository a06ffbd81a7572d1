"""The series that are sent under KCL's names are KCL's: the same unit, level, dimensions and OpenTelemetry instrument."""

from __future__ import annotations

import pytest

from headrace.pipeline.metrics import kcl_series, own_series
from headrace.pipeline.metrics.otel_names import instrument_name, transformed, unit_of
from headrace.pipeline.metrics.series import Series
from tests.metrics.kcl_table import KCL_SERIES, KclSeries

_BY_NAME = {(row.operation, row.name): row for row in KCL_SERIES}


@pytest.mark.parametrize("series", kcl_series.ALL, ids=str)
def test_a_series_under_kcls_name_is_kcls(series: Series) -> None:
    row = _BY_NAME[series.operation, series.name]
    assert series.unit == row.unit
    assert series.level.name == row.level
    assert tuple(sorted(dimension.value for dimension in series.dimensions)) == row.dimensions
    assert (instrument_name(series), series.kind.value) == (row.otel, row.instrument)


@pytest.mark.parametrize("row", KCL_SERIES, ids=str)
def test_names_for_opentelemetry_are_made_by_kcls_rule(row: KclSeries) -> None:
    assert f"aws.kinesis.client.{transformed(row.name)}" == row.otel


def test_no_series_is_named_twice_and_own_ones_have_operations_of_their_own() -> None:
    every = [(series.operation, series.name) for series in (*kcl_series.ALL, *own_series.ALL)]
    assert len(set(every)) == len(every)
    assert all(series.operation.startswith("Headrace") for series in own_series.ALL)


def test_series_of_one_opentelemetry_instrument_have_one_unit_and_kind() -> None:
    """An instrument is one for all operations, told apart by an attribute."""
    forms: dict[str, set[tuple[str, str]]] = {}
    for series in (*kcl_series.ALL, *own_series.ALL):
        forms.setdefault(instrument_name(series), set()).add((unit_of(series), series.kind.value))
    assert {name: form for name, form in forms.items() if len(form) > 1} == {}
