"""How long does the leader need to give 1,000 leases to four workers? One assignment pass, on the stand-in's DynamoDB.

The baseline is a pass over a quarter of the leases, in the same run, with one write after the other. The stand-in answers each
write 15 ms late, as a network and DynamoDB do. Client and stand-in need about 6 ms of CPU each for a write, so the ratio
is smaller on a busy machine. The exit code is 1 if the workers don't get equally many leases.

    python bench/assign.py            1,000 leases
    python bench/assign.py --quick    200 leases
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections import Counter
from datetime import timedelta
from typing import TYPE_CHECKING

from headrace.pipeline.app.adapters import Adapters
from headrace.pipeline.app.wiring import Wiring
from headrace.pipeline.aws.leases.leases import DynamoLeaseStore
from headrace.pipeline.core.leases import change
from headrace.pipeline.core.leases.lease import Lease
from headrace.pipeline.duties.fleet.assignment_pass import Assigning, AssignmentMemory
from headrace.pipeline.duties.policy.known_workers import KnownWorkers, watch
from headrace.pipeline.duties.streams.writing import Tally
from headrace.pipeline.local.endpoint import LocalAws, local_aws
from headrace.pipeline.settings.blocks.aws import AwsSettings
from headrace.pipeline.settings.model import Settings, StreamSettings, WorkerSettings

if TYPE_CHECKING:
    from headrace.pipeline.ports.leases import LeaseStore

WORKERS = ("a", "b", "c", "d")


class OneAfterTheOther(DynamoLeaseStore):
    @property
    def at_once(self) -> int:
        return 1


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="200 leases")
    parser.add_argument(
        "--late", type=float, default=15.0, help="milliseconds by which a write's answer is late"
    )
    asked = parser.parse_args()
    count = 200 if asked.quick else 1_000
    with local_aws("--transition", "0") as aws:
        os.environ |= aws.environment
        usual = measure(aws, "sixteen", count, late=asked.late / 1000)
        slow = measure(aws, "one", count // 4, late=asked.late / 1000)
    print(f"sixteen writes at a time are {slow / usual:.1f} times as fast as one after the other")


def measure(aws: LocalAws, name: str, count: int, *, late: float) -> float:
    """The seconds that one assignment pass over new leases takes for each lease."""
    settings = Settings(
        application=f"assign-{name}",
        streams=(StreamSettings(name="orders"),),
        workers=tuple(WorkerSettings(id=worker) for worker in WORKERS),
        aws=AwsSettings(region=aws.region, endpoint=aws.endpoint),
    )
    ports = Adapters(settings)
    wiring = Wiring(settings, ports)
    ports.tables().ensure()
    ports.leases().apply_all([change.create(Lease(f"shardId-{n:012d}"), "new") for n in range(count)])
    leases: LeaseStore = ports.leases()
    if name == "one":
        leases = OneAfterTheOther(ports.dynamodb(), settings.lease_table)
    fleet = a_living_fleet(wiring)
    aws.inject("delay", service="dynamodb", operation="UpdateItem", seconds=late)
    server, began = aws.cpu_seconds(), time.perf_counter()
    assign(wiring, leases, fleet)
    took = time.perf_counter() - began
    server = aws.cpu_seconds() - server
    aws.clear_faults()
    owned = Counter(row.owner for row in leases.scan().leases)
    print(
        f"{leases.at_once:>2} at a time: {count:,} leases in {took:5.1f} s, {took / count * 1000:5.1f} ms a lease; the stand-in took "
        f"{server:.1f} CPU s"
    )
    if (
        owned.total() != count
        or owned.keys() != set(WORKERS)
        or max(owned.values()) - min(owned.values()) > 1
    ):
        sys.exit(f"the workers don't have equally many leases: {dict(owned)}")
    return took / count


def a_living_fleet(wiring: Wiring) -> KnownWorkers:
    """The workers as a leader sees them that has looked twice, with a beat of each worker between."""
    workers, times = wiring.ports.workers(), wiring.settings.times
    fleet, since = None, None
    for beat in range(2):
        for name in WORKERS:
            workers.beat(name, "bench", found="bench" if beat else None)
        fleet = watch(
            workers.listing(),
            fleet.seen if fleet else {},
            since,
            tick=times.leader_tick,
            duration=times.lease_duration,
            patience=lambda _: times.lease_duration,
        )
        since = timedelta(seconds=5)
    assert fleet is not None
    return fleet


def assign(wiring: Wiring, leases: LeaseStore, fleet: KnownWorkers) -> None:
    ports = wiring.ports
    passing = Assigning(
        leader_id=WORKERS[0],
        policy=wiring.policy(),
        times=wiring.settings.times,
        leases=leases,
        workers=ports.workers(),
    )
    passing.make_pass(
        leases.scan(), fleet, AssignmentMemory(), now=ports.clock.now(), tally=Tally(), has_time=lambda: True
    )


if __name__ == "__main__":
    main()
