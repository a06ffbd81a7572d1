"""docs/reference/glossary.md defines each word once, and only words that the project uses."""

import re
from collections import Counter

import pytest

from tests.docs.pages import CODE, PAGES, ROOT, table_rows

GLOSSARY = ROOT / "docs" / "reference" / "glossary.md"
ROWS = table_rows(GLOSSARY.read_text(encoding="utf-8"))
WORDS = [word.strip() for row in ROWS for word in row[0].split(",")]
ELSEWHERE = "\n".join(
    path.read_text(encoding="utf-8").lower() for path in [*PAGES, *CODE] if path != GLOSSARY
)


def test_every_word_is_defined_once() -> None:
    assert [word for word, times in Counter(WORDS).items() if times > 1] == []


@pytest.mark.parametrize("word", WORDS)
def test_every_word_is_used_in_code_or_documents(word: str) -> None:
    said = re.escape(word.removeprefix("to ").lower()).replace(r"\ ", r"[\s_-]+")
    assert re.search(rf"(?<![a-z]){said}(s|ed|d|es|ing)?(?![a-z])", ELSEWHERE), (
        f"only the glossary uses {word!r}"
    )


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[0])
def test_every_word_has_a_meaning_and_the_words_of_other_products(row: list[str]) -> None:
    _, meaning, elsewhere = row
    assert len(meaning.split()) > 2
    assert elsewhere == "-" or ": " in elsewhere, "the product that uses this word isn't named"


@pytest.mark.parametrize(
    "word",
    [
        "position",
        "checkpoint",
        "claim",
        "wave",
        "range",
        "ledger",
        "lineage",
        "lease",
        "holder",
        "owner",
        "handover",
        "origin",
        "witness",
        "gap",
        "epoch",
        "family",
        "orphan",
        "expired",
        "tip",
        "batch",
        "partition",
    ],
)
def test_the_glossary_has_the_words_that_a_newcomer_meets_first(word: str) -> None:
    assert word in WORDS
