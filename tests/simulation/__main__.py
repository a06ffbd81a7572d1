"""`python -m tests.simulation --seeds 100 --from 0`: run simulated fleets, one for each seed, and judge what they
did."""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Iterable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from tests.simulation.batch import Line, line_of, run_batch, summed
from tests.simulation.bugs.blind_bugs import BLIND_BUGS
from tests.simulation.bugs.planted import a_bug, plant
from tests.simulation.bugs.planted_bugs import BUGS
from tests.simulation.quick import collect_after_seed, exclude_imports_from_gc, unfreeze_dataclasses

if TYPE_CHECKING:
    from tests.simulation.run import Outcome

_PLANTS = BUGS | BLIND_BUGS
_KEEPS_NOTHING = a_bug(
    "keeps-nothing",
    "each wave claims and releases its shards, as beside KCL workers",
    (
        "beside_kcl.kept_claims",
        "return not suspects or not not_ours(suspects, self.workers.get_many(suspects).workers)",
        "return False",
    ),
)
_TRACE = 60
"""How many lines of the history a failure prints."""


def main() -> int:
    asked = _parser().parse_args()
    unfreeze_dataclasses()
    if asked.plant:
        plant(_PLANTS[asked.plant])
    if asked.keep_nothing:
        plant(_KEEPS_NOTHING)
    if asked.stats:
        from tests.simulation.stats import report  # imported only once the bug is planted

        print(report(asked.seeds, asked.first))
        return 0
    seeds = range(asked.first, asked.first + asked.seeds)
    if asked.jobs > 1:
        lines = run_batch(seeds, jobs=asked.jobs, kept=asked.kept_in, digest=asked.digest)
    else:
        lines = list(_one_by_one(seeds, asked))
    if asked.digest:
        print(*(f"{line.seed} {line.digest}" for line in lines), sep="\n")
    summary = summed(lines)
    if asked.json is not None:
        asked.json.write_text(json.dumps(asdict(summary), indent=1) + "\n", encoding="utf-8")
    if not asked.digest:
        print(summary)
    return 1 if summary.failed or summary.too_wasteful else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.simulation", description=__doc__)
    parser.add_argument("--seeds", type=int, default=100, help="how many seeds to run")
    parser.add_argument("--from", dest="first", type=int, default=0, help="the first seed")
    parser.add_argument(
        "--jobs",
        type=int,
        default=1,
        help="how many processes; with two or more, all seeds are run even if one fails",
    )
    parser.add_argument(
        "--kept-in",
        type=Path,
        help="with --jobs: a file that gets one line for each seed; seeds that have a line there aren't run again",
    )
    parser.add_argument("--json", type=Path, help="also write the summary to this file, as JSON")
    parser.add_argument("--trace", action="store_true", help="print the whole history of each seed")
    parser.add_argument("--digest", action="store_true", help="print a digest of each history")
    parser.add_argument("--keep-going", action="store_true", help="go on after a seed that fails")
    parser.add_argument(
        "--stats",
        action="store_true",
        help="print how long leases stand unread after a worker dies or stops, or after a lease moves",
    )
    parser.add_argument(
        "--keep-nothing",
        action="store_true",
        help="let each wave claim and release its shards, to compare --stats with and without kept claims",
    )
    parser.add_argument(
        "--keep", action="store_true", help="save the plan of a seed that fails in tests/simulation/corpus"
    )
    parser.add_argument(
        "--plant", choices=sorted(_PLANTS), help="run with this bug in the product: a seed has to fail"
    )
    return parser


def _one_by_one(seeds: Iterable[int], asked: argparse.Namespace) -> Iterator[Line]:
    from tests.simulation.corpus_plans import keep  # imported only once the bug is planted
    from tests.simulation.plan import a_plan
    from tests.simulation.run import lines, run_plan

    exclude_imports_from_gc()
    bug = _PLANTS[asked.plant] if asked.plant else None
    for seed in seeds:
        began = time.process_time()
        outcome = run_plan(a_plan(seed, None if bug is None else bug.fitted))
        collect_after_seed()
        yield line_of(outcome, time.process_time() - began, digest=asked.digest)
        if asked.trace:
            print(outcome.plan, *lines(outcome.history), sep="\n")
        if outcome.violation is not None:
            print(failure_text(outcome))
            if asked.keep:
                print(f"saved as {keep(outcome.plan, str(outcome.violation))}")
            if not asked.keep_going:
                return


def failure_text(outcome: Outcome) -> str:
    """The broken invariant, the events that led to it, and the command that repeats the seed."""
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
            f"again: make sim SEEDS=1 FROM={outcome.plan.seed}    with the whole history: ARGS=--trace    to save it in the corpus: ARGS=--keep",
        ]
    )


if __name__ == "__main__":
    sys.exit(main())
