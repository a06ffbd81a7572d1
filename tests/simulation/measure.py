"""`python -m tests.simulation.measure`: plant each bug of `blind_bugs`, and print the first of the plain seeds that finds it.

Of a bug that survives, the histories are compared with those of the same seeds without it. Where none differs, no seed draws the
histories in which the bug shows; where many differ, nothing judges what it does.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial

from tests.simulation.bugs.blind_bugs import BLIND_BUGS
from tests.simulation.bugs.planted import ROOT, plant
from tests.simulation.quick import exclude_imports_from_gc, unfreeze_dataclasses

_NOTHING = "nothing"
"""In the place of a bug's name: the seeds as they are."""


@dataclass(frozen=True, slots=True)
class Seen:
    """What some seeds show."""

    digests: Mapping[int, str]
    """Of the histories of the seeds that passed."""
    broken: str | None
    """The message of the first seed that failed; None if none did."""


def seen(bug: str, *, seeds: int, first: int) -> Seen:
    """The seeds with this bug, up to the first one that fails."""
    asked = ["--seeds", str(seeds), "--from", str(first), "--child", bug]
    done = subprocess.run(
        [sys.executable, "-m", "tests.simulation.measure", *asked],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        raise AssertionError(f"{bug}: {done.stderr}")
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    passed = {seed: digest for seed, digest, broken in lines if broken is None}
    broken = next((f"seed {seed}: {broken}" for seed, _, broken in lines if broken is not None), None)
    return Seen(passed, broken)


def _lines(bug: str, seeds: range) -> Iterator[tuple[int, str, str | None]]:
    """Seed, digest and broken invariant of each seed, up to the first one that fails."""
    unfreeze_dataclasses()
    if bug != _NOTHING:
        plant(BLIND_BUGS[bug])
    from tests.simulation.run import run_seed  # imported only once the bug is planted

    exclude_imports_from_gc()
    for seed in seeds:
        done = run_seed(seed)
        broken = None if done.violation is None else str(done.violation).partition("\n")[0]
        yield seed, done.digest, broken
        if broken is not None and bug != _NOTHING:
            return


def _said(with_bug: Seen, plain: Seen) -> str:
    if with_bug.broken is not None:
        return with_bug.broken
    differ = sum(plain.digests.get(seed) != digest for seed, digest in with_bug.digests.items())
    return f"survived; {differ} of {len(with_bug.digests)} histories differ"


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.simulation.measure", description=__doc__)
    parser.add_argument("--seeds", type=int, default=40)
    parser.add_argument("--from", dest="first", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--child", help=argparse.SUPPRESS)
    parser.add_argument(
        "names", nargs="*", help="names of planted bugs; all of blind_bugs.py if none is given"
    )
    asked = parser.parse_args()
    if asked.child is not None:
        for line in _lines(asked.child, range(asked.first, asked.first + asked.seeds)):
            print(json.dumps(line), flush=True)
        return 0
    names = asked.names or list(BLIND_BUGS)
    look = partial(seen, seeds=asked.seeds, first=asked.first)
    plain = look(_NOTHING)
    found = 0
    with ThreadPoolExecutor(asked.jobs) as pool:
        for name, with_bug in zip(names, pool.map(look, names), strict=True):
            print(f"{name:36} {_said(with_bug, plain)}", flush=True)
            found += with_bug.broken is not None
    print(f"{found} of {len(names)} found by {asked.seeds} seeds")
    return 0


if __name__ == "__main__":
    sys.exit(main())
