"""The real duties run through faults, seed by seed. `make sim` runs any number of seeds; these tests run a few."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.simulation.__main__ import failure_text
from tests.simulation.bugs.blind_bugs import BLIND_BUGS
from tests.simulation.bugs.planted import ROOT, patched, path_of
from tests.simulation.bugs.planted_bugs import BUGS
from tests.simulation.corpus_plans import CORPUS, read_plan, write_plan
from tests.simulation.plan import a_plan
from tests.simulation.run import run_plan, run_seed

SEEDS, FEW, AT_ONCE = 48, 24, 8


@pytest.mark.parametrize(
    "first",
    [pytest.param(at, marks=pytest.mark.slow if at >= FEW else ()) for at in range(0, SEEDS, AT_ONCE)],
)
def test_no_seed_breaks_an_invariant(first):
    landed = 0
    for seed in range(first, first + AT_ONCE):
        outcome = run_seed(seed)
        assert outcome.violation is None, failure_text(outcome)
        landed += outcome.landed
    # A fleet that starts at a time after its few records may land none.
    assert landed > 0


@pytest.mark.parametrize("kept", sorted(CORPUS.glob("*.json")), ids=lambda path: path.stem)
def test_no_saved_plan_breaks_an_invariant(kept: Path):
    outcome = run_plan(read_plan(kept.read_text(encoding="utf-8")))
    assert outcome.violation is None, failure_text(outcome)


def test_a_saved_plan_is_read_as_it_was_written():
    for seed in range(40):
        assert read_plan(write_plan(a_plan(seed), "a test")) == a_plan(seed)


@pytest.mark.parametrize("first", ["14", pytest.param("105", marks=pytest.mark.slow)])
def test_a_seed_has_the_same_history_with_every_hash_seed_of_python(first: str):
    asked = ["--digest", "--seeds", "6", "--from", first]
    outputs = {_run(asked, PYTHONHASHSEED=seed).stdout for seed in "145"}
    assert len(outputs) == 1
    assert len(outputs.pop().splitlines()) == 6


def test_a_seed_that_fails_prints_the_invariant_a_trace_and_the_command_that_repeats_it():
    done = _run(["--seeds", "40", "--plant", "silent-take-over"])
    assert done.returncode == 1
    assert "FAILED I" in done.stdout
    assert "no worker has the lease: worker " in done.stdout
    assert "again: make sim SEEDS=1 FROM=" in done.stdout


@pytest.mark.parametrize("bug", (BUGS | BLIND_BUGS).values(), ids=lambda bug: bug.name)
def test_the_text_that_each_planted_bug_replaces_is_in_its_module(bug):
    sources: dict[str, str] = {}
    for patch in bug.patches:
        source = sources.get(patch.module) or path_of(patch.module).read_text(encoding="utf-8")
        sources[patch.module] = patched(patch, source)
        assert sources[patch.module] != source, "the bug changes nothing"


@pytest.mark.slow
@pytest.mark.parametrize("bug", BUGS.values(), ids=lambda bug: bug.name)
def test_each_planted_bug_is_found_within_its_seeds(bug):
    done = _run(["--seeds", str(bug.seeds), "--plant", bug.name])
    assert done.returncode == 1, f"{bug.seeds} seeds didn't find {bug.name}: {bug.why}\n{done.stderr}"
    assert "FAILED " in done.stdout, done.stderr
    seed = int(done.stdout.partition("\n  seed ")[2].partition(":")[0])
    outcome = run_plan(a_plan(seed, bug.fitted))
    assert outcome.violation is None, (
        f"the seed that found the bug fails without the bug, too\n{failure_text(outcome)}"
    )


def _run(args, **environment):
    return subprocess.run(
        [sys.executable, "-m", "tests.simulation", *args],
        cwd=ROOT,
        env=os.environ | environment,
        capture_output=True,
        text=True,
        check=False,
    )
