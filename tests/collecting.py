"""Where a process of pytest-xdist begins to collect: each at a place of its own.

Each process collects all tests, and pytest compiles each module of tests anew where no process has left it compiled: 11 s of
CPU in a fresh clone. Processes that all began with the first folder would compile every module at the same time; so each
compiles its part, and finds the others' parts compiled.
"""

import os
from pathlib import Path

import pytest

_PART = "PYTEST_XDIST_WORKER"
_PARTS = "PYTEST_XDIST_WORKER_COUNT"


def begin_at_own_place(config: pytest.Config) -> None:
    """Where the process is one of several, and all tests were asked for."""
    asked = config.getini("testpaths")
    if _PART not in os.environ or config.args != asked or len(asked) != 1:
        return
    folder = config.rootpath / asked[0]
    places = sorted(str(path) for path in folder.iterdir() if holds_tests(path))
    first = len(places) * int(os.environ[_PART].removeprefix("gw")) // int(os.environ[_PARTS])
    config.args = places[first:] + places[:first]


def holds_tests(path: Path) -> bool:
    return path.name.startswith("test_") if path.is_file() else (path / "__init__.py").exists()


def in_order(items: list[pytest.Item]) -> None:
    """The order in which a process collects that begins with the first folder: all processes have to have the same one."""
    # Sorting keeps the order of the tests of one module.
    items.sort(key=lambda item: item.path.parts)
