"""`python -m tests.simulation --seeds 100 --from 0`: a fleet's year in seconds, by many seeds."""

from __future__ import annotations

import argparse
import sys
import time
from typing import TYPE_CHECKING

from tests.simulation.planted import plant
from tests.simulation.planted_bugs import BUGS

if TYPE_CHECKING:
    from tests.simulation.run import Outcome

_TRACE = 60
"""Lines."""


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.simulation", description=__doc__)
    parser.add_argument("--seeds", type=int, default=100)
    parser.add_argument("--from", dest="first", type=int, default=0)
    parser.add_argument("--trace", action="store_true", help="the whole history of each seed")
    parser.add_argument("--digest", action="store_true", help="a digest of each history")
    parser.add_argument("--keep-going", action="store_true", help="don't stop at the first seed that fails")
    parser.add_argument(
        "--stats", action="store_true", help="how long leases stand unread after a death or a stop"
    )
    parser.add_argument("--keep", action="store_true", help="what fails joins tests/simulation/corpus")
    parser.add_argument("--plant", choices=sorted(BUGS), help="with this bug in the product: it must fail")
    asked = parser.parse_args()
    if asked.plant:
        plant(BUGS[asked.plant])
    from tests.simulation.corpus_plans import keep  # after the planting
    from tests.simulation.run import lines, run_seed

    if asked.stats:
        from tests.simulation.stats import report

        print(report(asked.seeds, asked.first))
        return 0
    began, failed, virtual = time.process_time(), 0, 0.0
    for seed in range(asked.first, asked.first + asked.seeds):
        outcome = run_seed(seed)
        virtual += outcome.seconds
        if asked.digest:
            print(f"{seed} {outcome.digest}")
        if asked.trace:
            print(outcome.plan, *lines(outcome.history), sep="\n")
        if outcome.violation is not None:
            failed += 1
            print(told(outcome))
            if asked.keep:
                print(f"kept: {keep(outcome.plan, str(outcome.violation))}")
            if not asked.keep_going:
                break
    took = time.process_time() - began
    if not asked.digest:
        print(f"{asked.seeds} seeds, {failed} failed, {virtual / 900 / took:.1f} seeds of 900 s a CPU second")
    return 1 if failed else 0


def told(outcome: Outcome) -> str:
    """The invariant, what led to it, and how to see it again."""
    from tests.simulation.run import lines

    broken = outcome.violation
    if broken is None:
        return ""
    about = [
        line
        for line in lines(outcome.history)
        if not broken.about or broken.about in line or " trouble " in line
    ]
    return "\n".join(
        [
            f"FAILED {broken}",
            f"  {outcome.plan}",
            *about[-_TRACE:],
            f"again: make sim SEEDS=1 FROM={outcome.plan.seed}    all of it: ARGS=--trace    for good, in the corpus: ARGS=--keep",
        ]
    )


if __name__ == "__main__":
    sys.exit(main())
