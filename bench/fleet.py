"""What does a large fleet cost? The real ticks of 1,000 workers and a leader over 10,000 shards, on ports in memory and in virtual time.

Told are the CPU of a tick, ticks until each lease has a living owner, and how many leases change their owner: from nothing, at rest, and
after a tenth of the workers have died at once. CPU of requests to DynamoDB isn't in it; the units are those of the sizing formulas
(pipeline/cost/sizing.py), which tests hold to the real requests. The exit code is 1 if a tick takes longer than half of its deadline, if more than
twice the leases of the dead move, or if a lease moves at rest.

    python bench/fleet.py            10,000 shards and 1,000 workers, ten minutes
    python bench/fleet.py --quick    1,000 shards and 100 workers, half a minute
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from headrace.pipeline.cost.sizing import at_rest
from tests.duties.world import TICK, World

_LEADER_DEADLINE, _WORKER_DEADLINE = 40.0, 10.0
_AT_MOST = 60
"""Ticks until the fleet has settled."""
_REST = 24
"""Ticks at rest: two minutes, in which each of the leader's duties is done some times."""


@dataclass
class Fleet:
    world: World
    living: list[str]
    leader_cpu: list[float] = field(default_factory=list)
    worker_cpu: list[float] = field(default_factory=list)

    def tick(self) -> None:
        self.leader_cpu.append(_cpu(lambda: self.world.lead(self.living[0])))
        for worker in self.living:
            self.worker_cpu.append(_cpu(lambda worker=worker: self.world.work(worker)))  # type: ignore[misc]
        self.world.clock.advance(TICK)

    def owners(self) -> dict[str, str | None]:
        return {row.key: row.owner for row in self.world.leases.scan().leases}

    def until_settled(self) -> int:
        """Ticks until each lease has a living owner, and then one tick more."""
        for ticks in range(1, _AT_MOST):
            self.tick()
            owners = self.owners()
            if owners and set(owners.values()) <= set(self.living):
                return ticks
        sys.exit(f"after {_AT_MOST} ticks some leases have no living owner")

    def told(self, name: str, ticks: int, moves: int) -> None:
        print(
            f"{name:>18}: {ticks:>2} ticks, {moves:>6,} leases got another owner; CPU of a tick: the leader's at most "
            f"{max(self.leader_cpu):.2f} s, {sorted(self.leader_cpu)[len(self.leader_cpu) // 2]:.2f} s in the middle; a worker's at most "
            f"{max(self.worker_cpu) * 1000:.0f} ms, {sum(self.worker_cpu) / len(self.worker_cpu) * 1000:.1f} ms on average",
            flush=True,
        )


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="a tenth of shards and workers")
    shards, workers = (1_000, 100) if parser.parse_args().quick else (10_000, 1_000)
    names = tuple(f"w{number:04d}" for number in range(workers))
    fleet = Fleet(World(workers=names, shards=shards), list(names))
    print(f"{shards:,} shards, {workers:,} workers", flush=True)
    fleet.told("from nothing", fleet.until_settled(), shards)
    for _ in range(_REST):
        fleet.tick()
    slowest_leader, slowest_worker = max(fleet.leader_cpu), max(fleet.worker_cpu)
    before = fleet.owners()
    fleet.leader_cpu, fleet.worker_cpu = [], []
    for _ in range(_REST):
        fleet.tick()
    at_rest_moves = _moves(before, fleet.owners())
    fleet.told("at rest", _REST, at_rest_moves)
    before = fleet.owners()
    dead = set(fleet.living[-workers // 10 :])
    fleet.living = [worker for worker in fleet.living if worker not in dead]
    theirs = sum(owner in dead for owner in before.values())
    ticks = fleet.until_settled()
    for _ in range(_REST):
        fleet.tick()
    moves = _moves(before, fleet.owners())
    fleet.told("a tenth has died", ticks, moves)
    for deployments in (1, 50):
        units = at_rest(fleet.world.settings, shards=shards, workers=workers, deployments=deployments)
        print(
            f"{deployments:>18} deployments: {units.reads:,.0f} read units and {units.writes:,.0f} write units a second at rest"
        )
    goals = {
        "a tick of the leader": max(slowest_leader, *fleet.leader_cpu) < _LEADER_DEADLINE / 2,
        "a tick of a worker": max(slowest_worker, *fleet.worker_cpu) < _WORKER_DEADLINE / 2,
        "moves after a death": moves <= 2 * theirs,
        "moves at rest": at_rest_moves == 0,
    }
    for name, is_reached in goals.items():
        print(f"{'reached' if is_reached else 'MISSED':>8}  {name}")
    return int(not all(goals.values()))


def _moves(before: dict[str, str | None], after: dict[str, str | None]) -> int:
    return sum(before.get(key) != owner for key, owner in after.items())


def _cpu(work: Callable[[], object]) -> float:
    began = time.process_time()
    work()
    return time.process_time() - began


if __name__ == "__main__":
    sys.exit(main())
