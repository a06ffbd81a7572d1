"""`python -m tests.mutants [MODULE ...]`: plant small mistakes in the code, one at a time, and print those that no
test notices."""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path

from tests.mutants.judge import MOST_SURVIVORS, Verdict, accepted_of, as_entry, judge, modules
from tests.mutants.work import Result, copy_project, run_mutants


def main() -> int:
    asked = _parser().parse_args()
    chosen = {m: t for m, t in modules().items() if not asked.modules or m in asked.modules}
    unknown = set(asked.modules) - chosen.keys()
    if unknown:
        print(
            f"no tests are listed for {', '.join(sorted(unknown))}; listed are: {' '.join(modules())}",
            file=sys.stderr,
        )
        return 2
    good = True
    with tempfile.TemporaryDirectory(prefix="headrace-mutants-") as scratch:
        copy_project(Path(scratch))
        for module, tests in chosen.items():
            began = time.monotonic()
            result = run_mutants(Path(scratch), module, tests, processes=asked.processes)
            verdict = judge(result, accepted_of(module))
            print(_line(result, time.monotonic() - began), flush=True)
            _tell(result, verdict)
            good = good and verdict.is_good
    return 0 if good else 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description=__doc__)
    parser.add_argument(
        "modules", nargs="*", metavar="MODULE", help="such as pipeline/core/leases/due.py; else all"
    )
    parser.add_argument("--processes", type=int, default=2, help="mutants that are tested at the same time")
    return parser


def _line(result: Result, seconds: float) -> str:
    survived = len(result.survivors)
    killed = result.mutants - survived
    return (
        f"{result.module}: {result.mutants} mutants, {killed} noticed ({result.timed_out} by running too long), "
        f"{survived} survived, {seconds:.0f} s"
    )


def _tell(result: Result, verdict: Verdict) -> None:
    for mutant in verdict.new:
        print(
            "\nNo test notices this mutant. Write the test, or add a reason to tests/mutants/accepted.toml:"
        )
        print(as_entry(result.module, mutant), flush=True)
    for mutant in verdict.gone:
        print("\nThis accepted survivor survives no more. Remove it from tests/mutants/accepted.toml:")
        print(as_entry(result.module, mutant), flush=True)
    if verdict.too_many:
        print(f"\nMore than {MOST_SURVIVORS:.0%} of the mutants of {result.module} survived.", flush=True)


if __name__ == "__main__":
    sys.exit(main())
