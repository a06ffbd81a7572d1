"""What does coordination cost in DynamoDB? Requests and units an hour beside KCL 3.5.1, and AWS's price for them.

The sensors' turns and the runs are the product's own, with default settings and in virtual time (tests/duties/virtual_time.py); each
request is counted. There is one deployment with one worker, alone in its tables. At rest nothing is put into the stream. Flowing means
that each shard gets a record every 5 s. The lake table has as many snapshots as after hours of work, so that expiries are in the bill.

The exit code is 1 if 200 flowing shards cost more than 0.03 writes of lease rows a second and shard or more than 100,000 read units an
hour, or 200 shards at rest more than 10,000 read units. Writes that don't grow with the shards (beats, the lock, passes) are printed apart. KCL's requests were measured; its read units are computed from these requests and from
the size of its rows, as if each Scan went through all lease rows.

    python bench/coordination.py                    10, 200, 1,000 and 10,000 shards
    python bench/coordination.py --shards 10 200    these numbers of shards
    python bench/coordination.py --quick            200 shards, less than a minute
    python bench/coordination.py --prices my.toml   with your own prices, in the form of pipeline/cost/prices.toml
"""

from __future__ import annotations

import argparse
import math
import os
import sys
import time
from dataclasses import dataclass
from datetime import timedelta

from headrace.pipeline.cost.prices import Prices, prices_of
from headrace.pipeline.cost.spent import Spent, costs_of
from headrace.pipeline.local.endpoint import LocalAws, local_aws
from headrace.pipeline.settings.blocks.aws import AwsSettings
from headrace.pipeline.settings.choices import InitialPosition
from headrace.pipeline.settings.model import Settings, StreamSettings, WorkerSettings
from tests.duties.bill import Bill
from tests.duties.virtual_time import Deployment

SHARDS = (10, 200, 1_000, 10_000)
GOAL_AT, GOAL = 200, 0.03
"""The number of flowing shards at which the goal is measured, and the goal: the most writes of lease rows a second and shard."""
READ_GOAL, READ_GOAL_AT_REST = 100_000, 10_000
"""The most read units an hour of so many shards, flowing and at rest."""
HOUR, FIVE_MINUTES, A_MINUTE = 3600.0, 300.0, 60.0
SNAPSHOTS = 400
"""Snapshots of the lake table: those of an hour of waves, which stay, and some more."""
QUIET_LOOK = 6 * HOUR
"""A shard at rest is read once in this time: a quarter of the retention, which is a day."""
WRITES = ("UpdateItem", "PutItem", "DeleteItem")
READS = ("GetItem", "BatchGetItem", "Query", "Scan")

KCL_AT_REST, KCL_FLOWING, KCL_FIXED = 0.30, 0.95, 0.033 + 0.033
"""Writes a second of KCL 3.5.1: for each shard at rest, for each shard with a checkpoint for each batch, and for one worker and the
leader's lock. Measured on fleets of 4, 50 and 200 shards with default settings."""
KCL_QUERIES, KCL_SCANS = 0.10, 0.058
"""Reads a second of KCL 3.5.1 with one worker at rest, measured on the same fleets: a Query of the index of owners for the worker's lease
keys, and Scans."""
KCL_ROW, KCL_KEY = 300, 60
"""Bytes of a lease row of KCL 3.5.1 (tests/interop/rows), and of an entry of its index of owners."""


@dataclass(frozen=True, slots=True)
class Hour:
    """What one deployment asks of DynamoDB in an hour."""

    shards: int
    bill: Bill
    lease_table: str

    @property
    def lease_writes(self) -> int:
        return sum(self.bill.of(kind, self.lease_table) for kind in WRITES)

    @property
    def fixed_writes(self) -> int:
        return self.bill.written - self.lease_writes

    @property
    def reads(self) -> int:
        return sum(map(self.bill.of, READS))

    @property
    def lease_writes_a_second(self) -> float:
        """For each shard."""
        return self.lease_writes / self.shards / HOUR


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="200 shards, flowing")
    parser.add_argument("--shards", type=int, nargs="+", default=SHARDS, help="how many shards")
    parser.add_argument("--prices", help="a file with prices")
    arguments = parser.parse_args()
    prices = prices_of(arguments.prices)
    print(prices)
    fine = True
    with local_aws("--transition", "0") as aws:
        os.environ |= aws.environment
        for shards in (GOAL_AT,) if arguments.quick else arguments.shards:
            began = time.monotonic()
            if not arguments.quick:
                rest = at_rest(aws, shards)
                report("at rest", rest, prices, KCL_AT_REST)
                fine &= shards != GOAL_AT or rest.bill.reads <= READ_GOAL_AT_REST
            flows = flowing(aws, shards)
            report("flowing", flows, prices, KCL_FLOWING)
            print(f"  measured in {time.monotonic() - began:.0f} s", flush=True)
            fine &= shards != GOAL_AT or (
                flows.lease_writes_a_second <= GOAL and flows.bill.reads <= READ_GOAL
            )
    print(
        f"{GOAL_AT} flowing shards may cost {GOAL} writes of lease rows a second and shard and {READ_GOAL:,} read units an hour; "
        f"at rest {READ_GOAL_AT_REST:,} read units: " + ("held" if fine else "MISSED")
    )
    return int(not fine)


def at_rest(aws: LocalAws, shards: int) -> Hour:
    """Five minutes in which no shard is read, and the share of an hour in a run that looks at all quiet shards."""
    deployment = a_deployment(aws, "rest", shards)
    still, seconds = deployment.bill(FIVE_MINUTES)
    runs = deployment.runs_made
    deployment.clock.advance(timedelta(seconds=QUIET_LOOK))
    looked, took = deployment.bill(A_MINUTE)
    if deployment.runs_made == runs:
        raise AssertionError("no run has looked at the quiet shards")
    bill = looked.times(HOUR / QUIET_LOOK)
    bill.add(still.times((HOUR - took * HOUR / QUIET_LOOK) / seconds))
    return Hour(shards, bill, deployment.settings.lease_table)


def flowing(aws: LocalAws, shards: int) -> Hour:
    """A run that reads on for `times.linger`, from its beginning to its end. An earlier run has made the first landing of all,
    after which a run gives its shards away once, to record the ledger."""
    deployment = a_deployment(aws, "flow", shards)
    deployment.flows = True
    deployment.let_pass(A_MINUTE)
    for _ in range(SNAPSHOTS):
        deployment.ports.lake.carry()
    bill, seconds = deployment.bill(FIVE_MINUTES)
    return Hour(shards, bill.times(HOUR / seconds), deployment.settings.lease_table)


def a_deployment(aws: LocalAws, name: str, shards: int) -> Deployment:
    """A deployment whose leases are assigned, and whose first run has looked at each shard and has ended."""
    settings = Settings(
        application=f"{name}-{shards}",
        streams=(StreamSettings(name="orders", initial_position=InitialPosition.TRIM_HORIZON),),
        workers=(WorkerSettings(id="w1"),),
        aws=AwsSettings(region=aws.region, endpoint=aws.endpoint),
    )
    deployment = Deployment(settings, shards)
    deployment.let_pass(2 * A_MINUTE)
    if deployment.runs_made == 0:
        raise AssertionError("no run has looked at the new shards")
    return deployment


def report(what: str, hour: Hour, prices: Prices, kcl: float) -> None:
    """Print an hour of Headrace and an hour of KCL."""
    kcl_writes = (kcl * hour.shards + KCL_FIXED) * HOUR
    kcl_reads = (KCL_QUERIES + KCL_SCANS) * HOUR
    kcl_units = (KCL_QUERIES * units(KCL_KEY * hour.shards) + KCL_SCANS * units(KCL_ROW * hour.shards)) * HOUR
    price = costs_of(Spent(write_units=hour.bill.writes, read_units=hour.bill.reads), prices)["DynamoDB"]
    kcl_price = costs_of(Spent(write_units=kcl_writes, read_units=kcl_units), prices)["DynamoDB"]
    print(
        f"{hour.shards:>6,} shards {what:>8}, an hour: {hour.lease_writes:>9,} writes of lease rows "
        f"({hour.lease_writes_a_second:.4f} a second and shard), {hour.fixed_writes:>5,} others "
        f"({hour.fixed_writes / HOUR:.2f} a second)\n"
        f"{'':>24} {hour.reads:>9,} read requests, {hour.bill.reads:>11,.0f} read units "
        f"({hour.bill.reads / hour.shards / HOUR:.3f} a second and shard)\n"
        f"{'':>24} {price:.4f} {prices.currency}, {hour.bill.writes * prices.write_unit:.4f} of it for writes\n"
        f"{'':>24} KCL 3.5.1: {kcl_writes:>9,.0f} writes ({kcl:.2f} a second and shard), {kcl_reads:,.0f} read requests, about "
        f"{kcl_units:,.0f} read units; {kcl_price:.4f} {prices.currency}, {kcl_writes * prices.write_unit:.4f} of it for writes"
    )


def units(size: int) -> float:
    """Read units of one request of KCL, whose queries and scans are eventually consistent."""
    return max(1, math.ceil(size / 4096)) / 2


if __name__ == "__main__":
    sys.exit(main())
