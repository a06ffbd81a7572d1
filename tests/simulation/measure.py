"""`python -m tests.simulation.measure`: plant each bug of `blind_bugs`, and print the first of the plain seeds that
finds it."""

from __future__ import annotations

import argparse
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from functools import partial

from tests.simulation.bugs.blind_bugs import BLIND_BUGS
from tests.simulation.bugs.planted import ROOT, Plant


def measured(bug: Plant, *, seeds: int, first: int) -> str | None:
    """The message of the first seed that fails; None if no seed fails."""
    asked = ["--seeds", str(seeds), "--from", str(first), "--plant", bug.name]
    done = subprocess.run(
        [sys.executable, "-m", "tests.simulation", *asked],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode not in {0, 1} or "Traceback" in done.stderr:
        raise AssertionError(f"{bug.name}: {done.stderr}")
    before, _, rest = done.stdout.partition("\n  seed ")
    if not rest or "FAILED " not in before:
        return None
    return f"seed {rest.partition(':')[0]}: {before.rpartition('FAILED ')[2].splitlines()[0]}"


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.simulation.measure", description=__doc__)
    parser.add_argument("--seeds", type=int, default=40)
    parser.add_argument("--from", dest="first", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument(
        "names", nargs="*", help="names of planted bugs; all of blind_bugs.py if none is given"
    )
    asked = parser.parse_args()
    bugs = [BLIND_BUGS[name] for name in asked.names or BLIND_BUGS]
    found = 0
    with ThreadPoolExecutor(asked.jobs) as pool:
        results = pool.map(partial(measured, seeds=asked.seeds, first=asked.first), bugs)
        for bug, found_by in zip(bugs, results, strict=True):
            print(f"{bug.name:32} {found_by or 'survived'}", flush=True)
            found += found_by is not None
    print(f"{found} of {len(bugs)} found by {asked.seeds} seeds")
    return 0


if __name__ == "__main__":
    sys.exit(main())
