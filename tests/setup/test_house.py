"""The shape of the repository: no folder and no file grows beyond what a person can look over."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

ROOT = Path(__file__).parents[2]
PRODUCT = ("pipeline", "assets", "resources", "sensors", "kclpy")
MOST_IN_A_FOLDER = 30
MOST_IN_CLI_AND_TESTS = 40
MOST_DIRECTLY_IN_PIPELINE = 5
MOST_LINES_OF_MOST_FILES = 300
"""Nineteen of twenty files are shorter."""


def modules(folder: str) -> list[Path]:
    return [path for path in sorted((ROOT / folder).rglob("*.py")) if path.name != "__init__.py"]


def test_no_folder_has_more_modules_than_a_person_can_look_over() -> None:
    crowded = {
        str(folder.relative_to(ROOT)): count
        for top in (*PRODUCT, "tests")
        for folder, count in Counter(path.parent for path in modules(top)).items()
        if count > (MOST_IN_CLI_AND_TESTS if top == "tests" or folder.name == "cli" else MOST_IN_A_FOLDER)
    }
    assert crowded == {}
    assert sum(path.parent == ROOT / "pipeline" for path in modules("pipeline")) <= MOST_DIRECTLY_IN_PIPELINE


def test_nineteen_of_twenty_files_of_the_product_are_short() -> None:
    sizes = sorted(
        len(path.read_text().splitlines()) for top in PRODUCT for path in (ROOT / top).rglob("*.py")
    )
    assert sizes[int(len(sizes) * 0.95)] < MOST_LINES_OF_MOST_FILES
