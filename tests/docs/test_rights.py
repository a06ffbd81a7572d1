"""docs/use/iam.md names exactly the rights for the AWS calls that the code makes, and docs/use/dynamodb-streams.md those for
tables' streams."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from botocore import xform_name
from botocore.session import get_session

ROOT = Path(__file__).parents[2]
SECTION = (
    (ROOT / "docs" / "use" / "iam.md")
    .read_text(encoding="utf-8")
    .partition("\n## Rights\n")[2]
    .partition("\n## ")[0]
)
ROWS = [line.split("|")[1:-1] for line in SECTION.splitlines() if line.startswith("| `")]
TABLE_STREAMS = ROOT / "pipeline" / "aws" / "dynamodb_streams"
ASKED_FOR_BY_A_FIELD = {"dynamodb": {("Tags", "TagResource")}}
"""Fields of a request that need a right of their own."""


def words_of(code: Path) -> Iterator[str]:
    """All attribute names and strings in the code, because a call may be made by its name."""
    for node in ast.walk(ast.parse(code.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Attribute):
            yield node.attr
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value


def operations_in(words: set[str], service: str) -> set[str]:
    operations = get_session().get_service_model(service).operation_names
    return {name for name in operations if xform_name(name) in words}


@pytest.mark.parametrize("service", ["kinesis", "dynamodb", "cloudwatch"])
def test_the_documented_rights_are_those_that_the_code_needs(service: str) -> None:
    rooms = (ROOT / "pipeline" / "aws", ROOT / "pipeline" / "metrics")
    files = [code for room in rooms for code in room.rglob("*.py") if TABLE_STREAMS not in code.parents]
    words = {word for code in files for word in words_of(code)}
    called = operations_in(words, service)
    called |= {right for field, right in ASKED_FOR_BY_A_FIELD.get(service, ()) if field in words}
    named = re.findall(rf"`{service}:(\w+)`", " ".join(row[0] for row in ROWS))
    assert sorted(named) == sorted(called)


def test_only_rights_without_a_resource_are_given_for_all_resources() -> None:
    assert [row[0].strip() for row in ROWS if "`*`" in row[1]] == [
        "`kinesis:ListStreams`",
        "`cloudwatch:PutMetricData`",
    ]


def test_the_page_on_tables_streams_names_the_rights_that_their_reader_needs() -> None:
    page = (ROOT / "docs" / "use" / "dynamodb-streams.md").read_text(encoding="utf-8")
    rights = page.partition("\n## Rights\n")[2].partition("\n## ")[0]
    words = {word for code in TABLE_STREAMS.rglob("*.py") for word in words_of(code)}
    assert sorted(re.findall(r"`dynamodb:(\w+)`", rights)) == sorted(operations_in(words, "dynamodbstreams"))
