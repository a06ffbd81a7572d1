"""`python -m tests.simulation.measure`: plant each bug of `blind_bugs`, and print the first of the plain seeds that finds it.

A run without any bug comes first. It tells in which seeds which bugs matter at all (`bugs/probing.py`), and each bug is planted in these
seeds only. A bug that survives although it matters in many seeds lacks a judge; one that matters in none lacks a history.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial

from tests.simulation.bugs.blind_bugs import BLIND_BUGS
from tests.simulation.bugs.planted import ROOT, plant
from tests.simulation.bugs.probing import probe
from tests.simulation.quick import collect_after_seed, exclude_imports_from_gc, unfreeze_dataclasses

_PROBES = "probes"
"""In the place of a bug's name: the seeds as they are, with probes."""
_AT_ONCE = 10
"""Seeds that a process with probes is given."""

_Line = tuple[int, str | None, Mapping[str, int]]
"""Seed, the broken invariant, and how often each bug would have made a difference."""


@dataclass(frozen=True, slots=True)
class Measured:
    matters: int
    """In how many of the seeds the bug makes a difference."""
    broken: str | None
    """The message of the first seed that failed; None if none did."""

    def __str__(self) -> str:
        where = f"matters in {self.matters:2}"
        return f"{where}  {'survived' if self.broken is None else self.broken}"


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.simulation.measure", description=__doc__)
    parser.add_argument("--seeds", type=int, default=40)
    parser.add_argument("--from", dest="first", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument(
        "--only-where", action="store_true", help="plant nothing: tell only where bugs matter"
    )
    parser.add_argument(
        "--most", type=int, help="plant each bug in so many seeds at most, where it matters most"
    )
    parser.add_argument("--child", help=argparse.SUPPRESS)
    parser.add_argument(
        "names", nargs="*", help="names of planted bugs; all of blind_bugs.py if none is given"
    )
    asked = parser.parse_args()
    if asked.child is not None:
        for line in _lines(asked.child, map(int, asked.names)):
            print(json.dumps(line), flush=True)
        return 0
    names = asked.names or list(BLIND_BUGS)
    seeds = range(asked.first, asked.first + asked.seeds)
    with ThreadPoolExecutor(asked.jobs) as pool:
        parts = [seeds[at : at + _AT_ONCE] for at in range(0, len(seeds), _AT_ONCE)]
        plain = [line for part in pool.map(partial(_run, _PROBES), parts) for line in part]
        for seed, broken, _ in plain:
            if broken is not None:
                print(f"seed {seed} fails without a bug: {broken}", flush=True)
        look = partial(_measured, plain=plain, most=0 if asked.only_where else asked.most)
        found = 0
        for name, measured in zip(names, pool.map(look, names), strict=True):
            print(f"{name:36} {measured}", flush=True)
            found += measured.broken is not None
    print(f"{found} of {len(names)} found by {asked.seeds} seeds")
    return 0


def _measured(bug: str, *, plain: Iterable[_Line], most: int | None) -> Measured:
    where = {seed: differed[bug] for seed, broken, differed in plain if broken is None and bug in differed}
    first = sorted(where, key=lambda seed: (-where[seed], seed))[:most]
    lines = _run(bug, first) if first else []
    broken = next((f"seed {seed}: {broken}" for seed, broken, _ in lines if broken is not None), None)
    return Measured(len(where), broken)


def _run(bug: str, seeds: Iterable[int]) -> list[_Line]:
    done = subprocess.run(
        [sys.executable, "-m", "tests.simulation.measure", "--child", bug, *map(str, seeds)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        raise AssertionError(f"{bug}: {done.stderr}")
    return [json.loads(line) for line in done.stdout.splitlines()]


def _lines(bug: str, seeds: Iterable[int]) -> Iterator[_Line]:
    """With a bug: up to the first seed that fails."""
    unfreeze_dataclasses()
    probes = None
    if bug == _PROBES:
        probes = probe(BLIND_BUGS.values())
    else:
        plant(BLIND_BUGS[bug])
    from tests.simulation.run import run_seed  # imported only once the bug is planted

    exclude_imports_from_gc()
    for seed in seeds:
        if probes is not None:
            probes.differed.clear()
        done = run_seed(seed)
        collect_after_seed()
        broken = None if done.violation is None else str(done.violation).partition("\n")[0]
        yield seed, broken, {} if probes is None else probes.differed
        if broken is not None and probes is None:
            return


if __name__ == "__main__":
    sys.exit(main())
