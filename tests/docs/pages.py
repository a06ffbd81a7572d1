"""The documents of the repository, as the tests of this folder read them."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGES = sorted(
    [
        *ROOT.glob("*.md"),
        *(ROOT / "docs").rglob("*.md"),
        *(ROOT / "examples").rglob("*.md"),
        *(ROOT / ".github").rglob("*.md"),
        ROOT / "tests" / "README.md",
    ]
)
CODE = sorted(
    path
    for folder in ("pipeline", "assets", "kclpy", "resources", "sensors", "tests", "bench", "bin")
    for path in (ROOT / folder).rglob("*.py")
)


def named(page: Path) -> str:
    """The path of the page, for the names of test cases."""
    return str(page.relative_to(ROOT))


def table_rows(text: str) -> list[list[str]]:
    """The cells of the rows of all tables, without the head rows."""
    tables = re.findall(r"^\|.*\n\|[-|]+\|\n((?:\|.*\n?)+)", text, re.MULTILINE)
    lines = [line for table in tables for line in table.splitlines()]
    return [[cell.strip() for cell in re.split(r"(?<!\\)\|", line.strip("|"))] for line in lines]


def anchor(title: str) -> str:
    """The anchor that GitHub makes for a heading."""
    return re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-")
