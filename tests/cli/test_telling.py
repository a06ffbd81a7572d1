"""Text for people is printed by one module, so that no control character from a table reaches a terminal."""

import ast
import csv
import io
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import headrace.pipeline.cli
from headrace.pipeline.cli import main
from headrace.pipeline.cli.plan import lines
from headrace.pipeline.cli.telling import tell
from headrace.pipeline.core.leases import change
from headrace.pipeline.core.leases.lease import Lease
from headrace.pipeline.core.words.words import cell, clean
from headrace.pipeline.local.endpoint import LocalAws
from tests.cli.kcl_tables import KclTables, leases_of

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

HOSTILE_NAME = 'w-\x1b[2J\x1b]0;owned\x07\r\nnext, "line"\u202e'
ESCAPED_NAME = 'w-\\x1b[2J\\x1b]0;owned\\x07\\r\\nnext, "line"\\u202e'

Status = Callable[..., str]


@pytest.fixture
def status(dynamodb: "DynamoDBClient", aws: LocalAws, capsys: pytest.CaptureFixture[str]) -> Status:
    """Run the command on a KCL table whose worker has this name, and return its stdout."""

    def run(owner: str, *words: str) -> str:
        kcl = KclTables(dynamodb)
        kcl.put(leases_of(owner, owner, "w-2"))
        where = ("--endpoint", aws.endpoint, "--region", aws.region)
        assert main(["status", "--table", kcl.lease_table, *where, *words]) == 0
        return capsys.readouterr().out

    return run


@pytest.mark.parametrize(
    ("raw", "shown"),
    [
        ("shardId-000000000000", "shardId-000000000000"),
        ("Zürich 東京 🌊", "Zürich 東京 🌊"),
        (HOSTILE_NAME, ESCAPED_NAME),
        ("\x9b31m\x7f", "\\x9b31m\\x7f"),
        ("a\u2028b\ud800", "a\\u2028b\\ud800"),
    ],
)
def test_letters_are_printed_and_control_characters_are_escaped(raw: str, shown: str):
    assert clean(raw) == shown
    assert clean(shown) == shown


def test_each_argument_is_printed_on_one_line(capsys: pytest.CaptureFixture[str]):
    tell("a\nb", 3)
    assert capsys.readouterr().out == "a\\nb\n3\n"


def test_a_cell_has_a_greatest_width_which_the_longest_lease_key_fits():
    key = f"123456789012:{'s' * 128}:1700000000:shardId-000000000000"
    assert cell(key) == key
    assert len(cell("\x1b" * 2000)) == 200
    assert cell("x" * 2000).endswith("x...")


def test_control_characters_in_a_workers_name_are_escaped_and_columns_stay_aligned(status: Status):
    out = status(HOSTILE_NAME)
    assert all(line.isprintable() for line in out.splitlines())
    head, evil, other = next(block for block in table_of(out))
    assert ESCAPED_NAME in evil
    assert head.index("moved") + len("moved") == len(evil) == len(other)


def table_of(out: str) -> Iterator[tuple[str, str, str]]:
    every = out.splitlines()
    start = next(n for n, line in enumerate(every) if line.startswith("worker "))
    yield every[start], every[start + 1], every[start + 2]


def test_a_very_long_name_doesnt_fill_the_screen_for_each_row(status: Status):
    _, long, other = next(table_of(status("w" * 1500)))
    assert len(long) == len(other) < 300


def test_json_and_csv_keep_the_name(status: Status):
    assert HOSTILE_NAME in {each["worker"] for each in json.loads(status(HOSTILE_NAME, "--json"))["workers"]}
    out = status(HOSTILE_NAME, "--csv")
    rows = list(csv.reader(io.StringIO(out, newline="")))
    assert sum(HOSTILE_NAME in row for row in rows) == 2


def test_a_plan_has_one_line_for_each_change():
    told = lines([change.assign(Lease(HOSTILE_NAME, 1, owner=HOSTILE_NAME), HOSTILE_NAME, "unowned")])
    assert len(told) == 2
    assert told[0].count(ESCAPED_NAME) == 3


def test_control_characters_in_an_error_are_escaped(capsys: pytest.CaptureFixture[str]):
    assert main(["plan", "--config", f"\x1b[2J{HOSTILE_NAME}"]) == 2
    err = capsys.readouterr().err
    assert err.startswith("headrace: ")
    assert err.removesuffix("\n").isprintable()


def test_commands_print_by_one_module_only():
    """Exceptions are JSON, which is escaped anyway, and the demo, which prints only its own names."""
    found = [
        f"{file.name}:{call.lineno}"
        for file in sorted(Path(headrace.pipeline.cli.__file__).parent.rglob("*.py"))
        if file.stem not in {"telling", "demo", "show"}
        for call in ast.walk(ast.parse(file.read_text(encoding="utf-8")))
        if isinstance(call, ast.Call) and ast.unparse(call.func) == "print"
        if not ast.unparse(call.args[0]).startswith("json.dumps(")
    ]
    assert found == []


def test_without_lines_nothing_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    tell()
    assert capsys.readouterr().out == ""
