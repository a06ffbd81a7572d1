"""docs/use/operations.md names exactly the rights for the AWS calls that the code makes."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from botocore import xform_name
from botocore.session import get_session

ROOT = Path(__file__).parents[2]
SECTION = (
    (ROOT / "docs" / "use" / "operations.md")
    .read_text(encoding="utf-8")
    .partition("\n## Rights\n")[2]
    .partition("\n## ")[0]
)
ROWS = [line.split("|")[1:-1] for line in SECTION.splitlines() if line.startswith("| `")]
ASKED_FOR_BY_A_FIELD = {"dynamodb": {("Tags", "TagResource")}}
"""Fields of a request that need a right of their own."""


def words_of(code: Path) -> Iterator[str]:
    """All attribute names and strings in the code, because a call may be made by its name."""
    for node in ast.walk(ast.parse(code.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Attribute):
            yield node.attr
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value


@pytest.mark.parametrize("service", ["kinesis", "dynamodb", "cloudwatch"])
def test_the_documented_rights_are_those_that_the_code_needs(service: str) -> None:
    rooms = (ROOT / "pipeline" / "aws", ROOT / "pipeline" / "metrics")
    words = {word for room in rooms for code in room.rglob("*.py") for word in words_of(code)}
    operations = get_session().get_service_model(service).operation_names
    called = {name for name in operations if xform_name(name) in words}
    called |= {right for field, right in ASKED_FOR_BY_A_FIELD.get(service, ()) if field in words}
    named = re.findall(rf"`{service}:(\w+)`", " ".join(row[0] for row in ROWS))
    assert sorted(named) == sorted(called)


def test_only_rights_without_a_resource_are_given_for_all_resources() -> None:
    assert [row[0].strip() for row in ROWS if "`*`" in row[1]] == [
        "`kinesis:ListStreams`",
        "`cloudwatch:PutMetricData`",
    ]
