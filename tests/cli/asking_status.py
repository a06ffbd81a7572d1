"""Runs `headrace status` on the tables of one test, and reads what it printed."""

import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest

from headrace.pipeline.cli import main
from headrace.pipeline.local.endpoint import LocalAws
from tests.cli.kcl_tables import KclTables

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

Say = Callable[..., tuple[int, str, str]]


@pytest.fixture
def kcl(dynamodb: "DynamoDBClient") -> KclTables:
    return KclTables(dynamodb)


@pytest.fixture
def say(kcl: KclTables, aws: LocalAws, capsys: pytest.CaptureFixture[str]) -> Say:
    """Run `headrace status --table` on this test's table. Returns exit code, stdout and stderr."""

    def run(*words: str) -> tuple[int, str, str]:
        where = ("--endpoint", aws.endpoint, "--region", aws.region)
        code = main(["status", "--table", kcl.lease_table, *where, *words])
        return code, *capsys.readouterr()

    return run


def json_of(result: tuple[int, str, str]) -> Any:
    """The JSON that a successful command printed."""
    code, out, _ = result
    assert code == 0
    return json.loads(out)
