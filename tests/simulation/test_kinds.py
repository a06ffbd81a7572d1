"""Kinds of histories that single draws hardly ever bring together come in plain seeds: each in at least six of a hundred."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.simulation.kinds.drawn import KINDS, kinds_of, with_kinds
from tests.simulation.plan import Plan, a_plan

_DRAWN = 1_000
_LEAST = 6
"""In a hundred."""


@pytest.fixture(scope="module")
def found() -> Counter[str]:
    return Counter(name for seed in range(_DRAWN) for name in kinds_of(a_plan(seed)))


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_each_kind_comes_in_six_of_a_hundred_plans(kind, found):
    assert found[kind.name] >= _LEAST * _DRAWN // 100


def test_a_plain_plan_has_the_kinds_that_it_gets():
    assert kinds_of(Plan(seed=0)) == frozenset()
    assert {name for seed in range(200) for name in kinds_of(with_kinds(Plan(seed=seed)))} == {
        k.name for k in KINDS
    }


def test_a_plan_is_drawn_the_same_each_time():
    assert [a_plan(seed) for seed in range(50)] == [a_plan(seed) for seed in range(50)]
