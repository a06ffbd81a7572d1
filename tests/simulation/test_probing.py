"""Probes tell where a planted bug would matter, and change nothing."""

from __future__ import annotations

import builtins
from typing import Any

import pytest

from tests.simulation.bugs.blind_bugs import BLIND_BUGS
from tests.simulation.bugs.planted import Patch, path_of
from tests.simulation.bugs.probing import Probes, with_probes

_SOURCE = """
def is_late(age, limit):
    return abs(age) > limit and limit > 0

def taken(rows, most):
    out = []
    for row in rows:
        if len(out) < most:
            out.append(row)
    return out

def names(rows):
    return [row for row in rows if row and row != "x"]
"""


@pytest.fixture
def probes(monkeypatch: pytest.MonkeyPatch) -> Probes:
    made = Probes()
    monkeypatch.setattr(builtins, "__probe__", made.compare, raising=False)
    return made


def _loaded(*patches: tuple[str, str, str]) -> dict[str, Any]:
    module: dict[str, Any] = {}
    exec(with_probes(_SOURCE, [(name, Patch("m", old, new)) for name, old, new in patches]), module)
    return module


def test_a_changed_expression_is_noted_only_where_its_value_would_be_another(probes: Probes) -> None:
    module = _loaded(("sign", "abs(age) > limit and", "age > limit and"))
    assert module["is_late"](5, 3)
    assert not probes.differed
    assert module["is_late"](-5, 3)
    assert probes.differed == {"sign": 1}


def test_two_bugs_of_one_module_are_noted_apart(probes: Probes) -> None:
    module = _loaded(("sign", "abs(age)", "age"), ("bound", "len(out) < most", "len(out) <= most"))
    assert module["taken"](["a", "b"], 1) == ["a"]
    assert set(probes.differed) == {"bound"}
    assert module["is_late"](-5, 3)
    assert set(probes.differed) == {"bound", "sign"}


def test_a_changed_condition_of_a_list_is_noted_by_the_whole_list(probes: Probes) -> None:
    module = _loaded(("all", 'if row and row != "x"', "if row"))
    assert module["names"](["a", ""]) == ["a"]
    assert not probes.differed
    assert module["names"](["a", "x"]) == ["a"]
    assert probes.differed == {"all": 1}


def test_a_changed_statement_is_noted_where_it_is_come_to(probes: Probes) -> None:
    module = _loaded(("none", "            out.append(row)\n", "            pass\n"))
    assert module["taken"](["a"], 0) == []
    assert not probes.differed
    assert module["taken"](["a"], 1) == ["a"]
    assert probes.differed == {"none": 1}


def test_a_bug_that_would_raise_makes_a_difference(probes: Probes) -> None:
    module = _loaded(("division", "limit > 0", "limit / 0 > 0"))
    assert module["is_late"](5, 3)
    assert probes.differed == {"division": 1}


@pytest.mark.parametrize("bug", BLIND_BUGS.values(), ids=lambda bug: bug.name)
def test_each_bug_that_was_invented_blindly_has_a_place_for_a_probe(bug) -> None:
    for patch in bug.patches:
        source = path_of(patch.module).read_text(encoding="utf-8")
        assert "__probe__" in with_probes(source, [(bug.name, patch)])
