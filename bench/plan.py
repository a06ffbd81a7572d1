"""What does an assignment plan of the leader cost? 1,000 workers, 10,000 leases, strategy `gap`.

The baseline is the decoding of the 10,000 rows from DynamoDB's form. A plan may cost three times the baseline. It has to
leave the leases balanced, so that the next plan is empty. The exit code is 1 if it costs more, or leaves them unbalanced.

    python bench/plan.py            three tries of each plan, of which the cheapest counts
    python bench/plan.py --quick    one try, and only one cluster and twenty
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Iterable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial
from random import Random
from typing import TypeVar

from headrace.pipeline.aws.leases.attributes import Item
from headrace.pipeline.aws.leases.lease_item import read_lease, write_lease
from headrace.pipeline.core.leases.change import Applied, Change
from headrace.pipeline.core.leases.lease import Lease
from headrace.pipeline.core.shards.checkpoint import Checkpoint
from headrace.pipeline.core.sharing.assign_plan import AssignmentInput, GapRules, plan_assign
from headrace.pipeline.ports.leases import SkippedRow
from tests.memory.leases import MemoryLeaseStore

T = TypeVar("T")

WORKERS, LEASES, DEAD = 1_000, 10_000, 100
AT_MOST = 3.0  # times the baseline
NOW = datetime(2026, 1, 1, tzinfo=UTC)
RULES = GapRules(dwell=timedelta(minutes=5))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="one try, and only one cluster and twenty")
    quick = parser.parse_args().quick
    tries = 1 if quick else 3
    fine = True
    for clusters in (1, 20) if quick else (1, 2, 20):
        names = [f"c{n % clusters}-{n}" for n in range(WORKERS)]
        cold = AssignmentInput(leases=rows(), living=frozenset(names), now=NOW)
        items = [write_lease(row) for row in cold.leases]
        baseline, _ = cpu(partial(decode, items), tries)
        print(
            f"{WORKERS:,} workers in {clusters} clusters; {LEASES:,} rows are decoded in {baseline * 1000:.0f} ms"
        )
        even = carried_out(cold, plan_assign(cold, RULES))
        for what, scene in (
            ("cold start", cold),
            ("first balancing", owned_at_random(cold)),
            ("one worker joins", replace(even, living=even.living | {"c0-new"})),
            (f"{DEAD} workers die", without(even, frozenset(names[:DEAD]))),
            ("nothing to do", even),
        ):
            fine &= report(what, scene, baseline, tries=tries)
    sys.exit(not fine)


def decode(items: list[Item]) -> list[Lease | SkippedRow]:
    return [read_lease(item) for item in items]


def rows() -> tuple[Lease, ...]:
    """Leases with mixed throughputs: most are small, a few are ten times the average."""
    dice = Random(1)
    return tuple(
        Lease(
            f"shardId-{n:012d}",
            dice.randrange(10**6),
            Checkpoint(str(10**55 + n)),
            throughput_kbps=round(dice.expovariate(1 / 200), 6),
            parents=frozenset({f"shardId-{n + LEASES:012d}"}),
            stream_epoch=1_700_000_000,
        )
        for n in range(LEASES)
    )


def owned_at_random(scene: AssignmentInput) -> AssignmentInput:
    dice, names = Random(2), sorted(scene.living)
    return replace(scene, leases=tuple(replace(row, owner=dice.choice(names)) for row in scene.leases))


def without(scene: AssignmentInput, dead: frozenset[str]) -> AssignmentInput:
    lost = frozenset(row.key for row in scene.leases if row.holder in dead)
    return replace(scene, living=scene.living - dead, dead=dead, lost=lost)


def carried_out(scene: AssignmentInput, plan: Iterable[Change]) -> AssignmentInput:
    store = MemoryLeaseStore(scene.leases)
    for change in plan:
        if not isinstance(store.apply(change), Applied):
            raise TypeError(f"refused: {change}")
    found = store.scan().leases
    return replace(scene, leases=found, lost=frozenset(r.key for r in found if r.holder in scene.dead))


def report(what: str, scene: AssignmentInput, baseline: float, *, tries: int) -> bool:
    took, plan = cpu(lambda: plan_assign(scene, RULES), tries)
    then = carried_out(scene, plan)
    later = replace(then, now=NOW + 2 * RULES.dwell)
    again = len(plan_assign(later, RULES))
    load = dict.fromkeys(scene.living, 0.0)
    for row in then.leases:
        load[row.owner or ""] += row.throughput_kbps or 0.0
    average = sum(load.values()) / len(load)
    ratio = took / baseline
    print(
        f"  {what:>16}: {ratio:>5.2f} times the baseline (at most {AT_MOST:.0f}), {len(plan):>6,} moves, then {again}; "
        f"loads {min(load.values()) / average:.2f} to {max(load.values()) / average:.2f} of the average"
    )
    return ratio <= AT_MOST and not again


def cpu(once: Callable[[], T], tries: int) -> tuple[float, T]:
    """The least CPU seconds of a few tries, and the result."""
    best = float("inf")
    for _ in range(tries):
        began = time.process_time()
        found = once()
        best = min(best, time.process_time() - began)
    return best, found


if __name__ == "__main__":
    main()
