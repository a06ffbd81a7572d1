"""How a run's survivors are compared with the list of accepted ones. The runs themselves take minutes (`make
mutants`)."""

from __future__ import annotations

import tomllib
from dataclasses import replace

import pytest

from tests.mutants.judge import HERE, accepted_of, as_entry, judge, modules
from tests.mutants.work import ROOT, Mutant, Result

KNOWN = Mutant("core.due.f", "a < b", "a <= b")
NEW = Mutant("core.due.f", "a + b", "a - b")
RESULT = Result("pipeline/core/leases/due.py", 100, 0, (KNOWN,))


def test_a_run_with_only_accepted_survivors_succeeds():
    assert judge(RESULT, [KNOWN]).is_good
    assert judge(replace(RESULT, survivors=()), []).is_good


def test_a_survivor_without_a_reason_fails_the_run():
    verdict = judge(replace(RESULT, survivors=(KNOWN, NEW)), [KNOWN])
    assert verdict.new == (NEW,)
    assert not verdict.is_good


def test_an_accepted_survivor_that_a_test_notices_now_fails_the_run():
    verdict = judge(RESULT, [KNOWN, NEW])
    assert verdict.gone == (NEW,)
    assert not verdict.is_good


@pytest.mark.parametrize(("mutants", "good"), [(20, True), (19, False)])
def test_more_than_a_twentieth_of_survivors_fails_the_run_even_with_reasons(mutants: int, *, good: bool):
    assert judge(replace(RESULT, mutants=mutants), [KNOWN]).is_good is good


def test_a_survivor_is_printed_in_the_form_of_the_list():
    (entry,) = tomllib.loads(as_entry("pipeline/core/leases/due.py", KNOWN))["survivor"]
    assert entry == {
        "module": "pipeline/core/leases/due.py",
        "function": "core.due.f",
        "was": "a < b",
        "became": "a <= b",
        "why": "",
    }


def test_each_listed_module_and_test_exists():
    paths = [path for module, tests in modules().items() for path in (module, *tests)]
    assert [path for path in paths if not (ROOT / path).is_file()] == []


def test_each_accepted_survivor_is_of_a_listed_module_and_has_a_reason():
    listed = tomllib.loads((HERE / "accepted.toml").read_text(encoding="utf-8")).get("survivor", [])
    assert {each["module"] for each in listed} <= modules().keys()
    assert len(listed) == sum(len(accepted_of(module)) for module in modules()), "a survivor is listed twice"
    assert [each for each in listed if len(each["why"].split()) < 5] == []


def test_an_accepted_survivor_changes_a_line_that_is_still_in_its_module():
    for module in modules():
        code = {line.strip() for line in (ROOT / module).read_text(encoding="utf-8").splitlines()}
        gone = [mutant for mutant in accepted_of(module) if not set(mutant.was.splitlines()) <= code]
        assert gone == []
