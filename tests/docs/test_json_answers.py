"""The documents tell each name that `--json` prints, as the golden files have them."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.docs.pages import ROOT

PAGES = {
    "lineage.json": "use/looking.md",
    "lineage-sequence.json": "use/looking.md",
    "prove.json": "use/proof.md",
}
OF_FILES = {"file", "arrival", "as_landed", "time"}
"""Names inside `found_in` and `valid_through`, which speak for themselves."""


def names(answer: Any) -> Iterator[str]:
    for each in answer if isinstance(answer, list) else answer.values() if isinstance(answer, dict) else ():
        yield from names(each)
    if isinstance(answer, dict):
        yield from answer


@pytest.mark.parametrize(("golden", "page"), PAGES.items())
def test_each_name_of_an_answer_is_in_the_documents(golden: str, page: str) -> None:
    answer = json.loads((ROOT / "tests" / "cli" / "golden" / golden).read_text(encoding="utf-8"))
    text = (ROOT / "docs" / page).read_text(encoding="utf-8")
    assert sorted(name for name in set(names(answer)) - OF_FILES if f"`{name}`" not in text) == []
