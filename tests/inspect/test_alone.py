"""`python -m headrace.pipeline.inspect` can be used without settings, and imports neither the engine nor heavy packages."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from headrace.pipeline.inspect.__main__ import main
from headrace.pipeline.local.endpoint import LocalAws
from tests.cli.kcl_tables import KclTables, a_lease, leases_of

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

ROOT = Path(__file__).parents[2]
HEAVY = {"dagster", "pandas", "pyarrow", "pyiceberg", "pyspark", "yaml"}
ENGINE = {
    "headrace.pipeline.cli",
    "headrace.pipeline.duties",
    "headrace.pipeline.lake",
    "headrace.pipeline.local",
    "tests.memory",
    "headrace.pipeline.settings.file",
    "headrace.assets",
    "headrace.resources",
    "headrace.sensors",
}
RUN = """
import runpy, sys
try:
    runpy.run_module("headrace.pipeline.inspect", run_name="__main__")
finally:
    print(*sorted(sys.modules), file=sys.stderr)
"""


@pytest.fixture
def kcl(dynamodb: "DynamoDBClient") -> KclTables:
    return KclTables(dynamodb)


def place(aws: LocalAws, kcl: KclTables) -> list[str]:
    """The options that name the table and the stand-in."""
    return ["--table", kcl.lease_table, "--region", aws.region, "--endpoint", aws.endpoint]


@pytest.mark.parametrize("shape", [[], ["--json"], ["--csv"]])
def test_a_new_interpreter_inspects_a_table_without_importing_the_engine(
    aws: LocalAws, kcl: KclTables, tmp_path: Path, shape: list[str]
):
    kcl.put(leases_of("east-1", "west-1"))
    environment = {name: value for name, value in os.environ.items() if not name.startswith("HEADRACE_")}
    done = subprocess.run(
        [sys.executable, "-c", RUN, *place(aws, kcl), *shape],
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,  # a folder without settings
        env=environment | aws.environment | {"PYTHONPATH": str(ROOT)},
    )
    assert done.returncode == 0, done.stderr
    assert "west-1" in done.stdout
    loaded = set(done.stderr.split())
    assert "headrace.pipeline.inspect.looking" in loaded
    assert not HEAVY & loaded
    assert not ENGINE & loaded


def test_the_inspector_has_the_same_exit_codes_as_the_headrace_command(
    aws: LocalAws, kcl: KclTables, no_backoff: None, capsys: pytest.CaptureFixture[str]
):
    kcl.put([*leases_of("a"), a_lease("broken", leaseCounter={"S": "x"})])
    assert main([*place(aws, kcl), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["needs_person"]
    assert main([*place(aws, kcl), "--strict"]) == 1
    assert main(["--table", "nosuch", *place(aws, kcl)[2:]]) == 2
    assert "there is no table nosuch" in capsys.readouterr().err
    aws.inject("throttle", operation="Scan", resource=kcl.lease_table)
    assert main(place(aws, kcl)) == 75
    assert "throttled" in capsys.readouterr().err


def test_without_a_table_the_usage_is_shown(capsys: pytest.CaptureFixture[str]):
    with pytest.raises(SystemExit) as caught:
        main([])
    assert caught.value.code == 2
    assert "--table" in capsys.readouterr().err
