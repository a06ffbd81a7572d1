"""Code and documents refer only to files and numbers that exist in the repository."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from headrace.pipeline.core.leases.change_kind import ChangeKind
from tests.docs.pages import CODE, PAGES, ROOT, anchor, named

PROTOCOL = (ROOT / "docs" / "reference" / "protocol.md").read_text(encoding="utf-8")
RULES = set(re.findall(r"^\| ([ID]\d+) \|", PROTOCOL, re.MULTILINE))
DOCUMENTS = [ROOT / "docs", *(path for path in (ROOT / "docs").rglob("*") if path.is_dir())]
_FOLDERS = "pipeline|assets|resources|sensors|tests|bench|bin|docs|examples"
_PATH = re.compile(rf"(?<![\w/.{{-])(?:{_FOLDERS})/[\w./-]*\w")
_DOCUMENT = re.compile(r"\b(?:[\w-]+/)*[\w-]+\.md\b")
_NUMBERED = re.compile(r'\(([A-Z]\d{1,2})[):,; ]|"""([A-Z]\d{1,2})[.:,]')
_SECTION = re.compile(r"docs/reference/protocol\.md, section (\d+)")
_MADE_BY_TESTS = {"d.md"}
"""Documents that a test writes into a folder of its own."""


def test_the_protocols_invariants_and_interleavings_are_numbered_without_gaps_except_for_the_kept_numbers() -> (
    None
):
    kept = {37}  # for a rule of a part that isn't built yet, as the page says
    assert {f"I{n}" for n in range(1, 54) if n not in kept} | {f"D{n}" for n in range(1, 21)} == RULES


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_every_path_that_a_page_names_exists(page: Path) -> None:
    said = set(_PATH.findall(page.read_text(encoding="utf-8")))
    assert {
        path for path in said if not (ROOT / path).exists() and not (page.parent / path).exists()
    } == set()


def in_code(found: Callable[[Path, str], set[str]]) -> dict[str, set[str]]:
    """The wrong references of each file."""
    each = {named(path): found(path, path.read_text(encoding="utf-8")) for path in CODE}
    return {name: wrong for name, wrong in each.items() if wrong}


def test_every_document_that_code_names_exists() -> None:
    def missing(path: Path, text: str) -> set[str]:
        places = (ROOT, path.parent, *DOCUMENTS)
        said = set(_DOCUMENT.findall(text)) - _MADE_BY_TESTS
        return {name for name in said if not any((place / name).exists() for place in places)}

    assert in_code(missing) == {}


def test_numbers_of_rules_in_code_exist_in_the_protocol() -> None:
    def unknown(_: Path, text: str) -> set[str]:
        said = {number or first for number, first in _NUMBERED.findall(text)}
        return {number for number in said if number[0] in "ABCDEFGHI"} - RULES

    assert in_code(unknown) == {}


def test_sections_of_the_protocol_that_code_names_exist() -> None:
    sections = set(re.findall(r"^## (\d+)\.", PROTOCOL, re.MULTILINE))
    assert in_code(lambda _, text: set(_SECTION.findall(text)) - sections) == {}


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_links_to_a_section_have_a_target(page: Path) -> None:
    dead = []
    for target, fragment in re.findall(r"\]\(([^)#:]*)#([^)]+)\)", page.read_text(encoding="utf-8")):
        other = (page.parent / target) if target else page
        titles = re.findall(r"^#+ (.+)$", other.read_text(encoding="utf-8"), re.MULTILINE)
        if fragment not in {anchor(title) for title in titles}:
            dead.append(f"{target}#{fragment}")
    assert dead == []


def test_every_write_on_a_lease_row_is_in_the_protocol() -> None:
    section = PROTOCOL.partition("\n## 5. ")[2].partition("\n## ")[0]
    untold = [kind for kind in ChangeKind if not re.search(rf"^\|[^|]*\b{kind}\b", section, re.MULTILINE)]
    assert untold == []


def test_every_interleaving_has_a_test_with_its_number() -> None:
    tests = "\n".join(
        path.read_text() for path in (ROOT / "tests" / "simulation" / "interleavings").glob("test_d*.py")
    )
    told = {f"D{number}" for number in re.findall(r"^def test_d(\d+)_", tests, re.MULTILINE)}
    assert told == {rule for rule in RULES if rule.startswith("D")}
