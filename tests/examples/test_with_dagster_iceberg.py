"""The example with-dagster-iceberg: a code location without Headrace reads the typed table."""

import re
from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from headrace.pipeline.lake.table.catalog import embedded_catalog, open_catalog
from headrace.pipeline.local.endpoint import LocalAws
from tests.examples.example import copied
from tests.examples.own_environment import environment_of, with_programs
from tests.examples.shop import landed_shop


@pytest.mark.slow
def test_assets_of_dagster_iceberg_read_the_typed_table_and_write_beside_it(aws: LocalAws, tmp_path: Path):
    programs = environment_of("with-dagster-iceberg")
    with landed_shop(tmp_path, aws, 10, 20, 20) as shop:
        example = copied("with-dagster-iceberg", tmp_path, aws)
        example = replace(example, variables=with_programs(example.variables, programs))
        said = example.type("dagster asset materialize -f iceberg_assets.py --select '*'")
    assert "RUN_SUCCESS" in said

    written = open_catalog(embedded_catalog(shop.folder / "headrace-data")).load_table("lake.amounts").scan().to_arrow()
    assert written.to_pylist() == [{"amount": 10, "sales": 1}, {"amount": 20, "sales": 2}]


def test_the_workspace_names_both_code_locations(tmp_path: Path):
    folder = Path(__file__).parents[2] / "examples" / "with-dagster-iceberg"
    module, file = (
        next(iter(entry.values()))
        for entry in yaml.safe_load((folder / "workspace.yaml").read_text())["load_from"]
    )
    assert (
        (folder / module["working_directory"] / re.sub(r"\.", "/", module["module_name"]))
        .with_suffix(".py")
        .is_file()
    )
    assert (folder / file["relative_path"]).is_file()
