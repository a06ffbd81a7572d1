"""docs/why/decisions: a page for each part of the code, short enough to be read, and each entry with its date."""

import re
from pathlib import Path

import pytest

from tests.docs.pages import ROOT, anchor, named

FOLDER = ROOT / "docs" / "why" / "decisions"
INDEX = (FOLDER / "README.md").read_text(encoding="utf-8")
DECISIONS = sorted(path for path in FOLDER.glob("*.md") if path.name != "README.md")
ROWS = re.findall(r"^\| \[(.+)\]\(([\w-]+)\.md\) \| .+ \| (\d+) \|$", INDEX, re.MULTILINE)


def entries(page: Path) -> list[tuple[str, str]]:
    """Title and text of each entry of a page."""
    _, *parts = re.split(r"^## ", page.read_text(encoding="utf-8"), flags=re.MULTILINE)
    return [(title, text.strip()) for title, _, text in (part.partition("\n") for part in parts)]


def test_the_index_names_each_page_once_with_the_number_of_its_entries():
    assert len(DECISIONS) > 10
    assert sorted((stem, int(count)) for _, stem, count in ROWS) == sorted(
        (page.stem, len(entries(page))) for page in DECISIONS
    )


def test_the_index_calls_pages_by_their_titles():
    titles = {page.stem: page.read_text(encoding="utf-8").partition("\n")[0] for page in DECISIONS}
    assert {stem: f"# Decisions: {title}".lower() for title, stem, _ in ROWS} == {
        stem: title.lower() for stem, title in titles.items()
    }


@pytest.mark.parametrize("page", DECISIONS, ids=named)
def test_a_page_has_no_more_than_200_lines_of_120_characters(page: Path):
    lines = page.read_text(encoding="utf-8").splitlines()
    assert len(lines) <= 200, "divide the page as its code is divided"
    assert [line for line in lines if len(line) > 120 and not line.startswith(("#", "|"))] == []


@pytest.mark.parametrize("page", DECISIONS, ids=named)
def test_each_entry_ends_with_its_date_and_entries_are_in_the_order_of_their_dates(page: Path):
    undated = [
        title for title, text in entries(page) if not re.search(r"\*\(\d{4}-\d\d-\d\d[^)]*\)\*$", text)
    ]
    assert undated == []
    days = [re.findall(r"\*\((\d{4}-\d\d-\d\d)", text)[-1] for _, text in entries(page)]
    assert days == sorted(days)


def test_no_two_entries_have_the_same_title():
    titles = [anchor(title) for page in DECISIONS for title, _ in entries(page)]
    assert len(titles) > 100
    assert len(titles) == len(set(titles))
