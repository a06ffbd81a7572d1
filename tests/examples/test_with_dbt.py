"""The example with-dbt: dbt computes a day from the rows of that day in the lake table."""

from dataclasses import replace
from datetime import UTC, date, datetime
from pathlib import Path

import duckdb
import pytest

from headrace.pipeline.local.endpoint import LocalAws
from tests.docs.reading_table import LEFT, land, make_table
from tests.examples.example import Example, copied
from tests.examples.own_environment import environment_of, with_programs

MATERIALIZE = "dagster asset materialize -f dbt_days.py --select sales_by_day --partition 2026-01-31"
_GRAPH = """
from dbt_days import defs
graph = defs.resolve_asset_graph()
(key,) = (key for key in graph.get_all_asset_keys() if key.path[-1] == "sales_by_day")
print("parents", *(parent.to_user_string() for parent in graph.get(key).parent_keys))
"""


def days(example: Example) -> list[tuple[date, int, int]]:
    with duckdb.connect(example.folder / "shop.duckdb", read_only=True) as database:
        return database.execute("select day, sales, amount from sales_by_day order by day").fetchall()


@pytest.mark.slow
def test_dbt_computes_a_day_from_its_rows_and_replaces_it_when_it_is_computed_again(
    aws: LocalAws, tmp_path: Path
):
    programs = environment_of("with-dbt")
    example = copied("with-dbt", tmp_path, aws)
    example = replace(example, variables=with_programs(example.variables, programs))
    (example.folder / "home").mkdir()
    example.variables.update(DAGSTER_HOME=str(example.folder / "home"), DAGSTER_DISABLE_TELEMETRY="yes")
    table = make_table(example.folder)

    example.type("dbt parse --project-dir shop --profiles-dir shop")
    assert "Validation successful" in example.type("dagster definitions validate -f dbt_days.py")
    (example.folder / "graph.py").write_text(_GRAPH)
    assert "parents shop/complete_hours" in example.run("python", "graph.py")

    example.type(MATERIALIZE)
    assert days(example) == [(date(2026, 1, 31), 4, 100)]

    land(table, {LEFT: [(98 + 10, datetime(2026, 1, 31, 22, tzinfo=UTC))]})
    example.type(MATERIALIZE)
    assert days(example) == [(date(2026, 1, 31), 5, 100)], "the day replaced, and no row of 30 January"
