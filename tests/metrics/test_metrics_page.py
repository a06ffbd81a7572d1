"""docs/use/metrics.md says of each of KCL's series whether it is sent, and names each of Headrace's own."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from headrace.pipeline.metrics import kcl_series, own_series
from headrace.pipeline.metrics.series import Level
from tests.metrics.kcl_table import KCL_SERIES

_PAGE = Path(__file__).parents[2] / "docs/use/metrics.md"
_CODE = re.compile(r"`([^`]+)`")
_LEAST_OF_A_REASON = 15
"""Letters."""


def _table(section: str) -> Iterator[list[str]]:
    text = _PAGE.read_text(encoding="utf-8").partition(f"## {section}\n")[2].partition("\n## ")[0]
    lines = [line for line in text.splitlines() if line.startswith("|")]
    for line in lines[2:]:
        yield [cell.strip() for cell in line.strip("|").split("|")]


def test_the_page_tells_of_each_of_kcls_series_whether_it_is_sent() -> None:
    told: dict[tuple[str, str], str] = {}
    for operation, names, what in _table("KCL's series"):
        for name in _CODE.findall(names):
            assert (operation, name) not in told
            told[operation, name] = what
    assert told.keys() == {(row.operation, row.name) for row in KCL_SERIES}
    sent = {key for key, what in told.items() if what.startswith("sent")}
    assert sent == {(series.operation, series.name) for series in kcl_series.ALL}
    without_reason = {key for key, what in told.items() if key not in sent and len(what) < _LEAST_OF_A_REASON}
    assert without_reason == {
        ("ProcessTask", f"KinesisDataFetcher.getShardIterator.{n}") for n in ("Success", "Time")
    }


def test_the_page_has_each_of_headraces_own_series() -> None:
    told = set()
    for operation, names, units, dimension, _ in _table("Headrace's own series"):
        found = re.findall(r"`([^`]+)`( \(D\))?", names)
        of_each = [unit.strip() for unit in units.split(",")] * len(found)
        for (name, detailed), unit in zip(found, of_each, strict=False):
            dimensions = tuple(_CODE.findall(dimension))
            told.add((*_CODE.findall(operation), name, unit, dimensions, bool(detailed)))
    assert told == {
        (
            series.operation,
            series.name,
            series.unit.value,
            tuple(each.value for each in series.dimensions),
            series.level is Level.DETAILED,
        )
        for series in own_series.ALL
    }
