"""Does enhanced fan-out give a reader its own 2 MiB a second of a shard, and what does it cost in CPU? Against the stand-in, over HTTP.

First three polling applications read a throttled shard and throttle each other, and a reader with a consumer of its own reads beside them. The
exit code is 1 if it gets less than 90 % of 2 MiB a second. Then the same records are read by polling and by fan-out without limits, in turns:
the exit code is 1 if a record of 1 KB costs more than 1.3 times as much CPU by fan-out (events are JSON) as by polling in JSON. Figures are ratios
within one run.

    python bench/fan_out.py            40 s of reading, 100 MB
    python bench/fan_out.py --quick    15 s, 30 MB
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from typing import Any

from botocore.config import Config

from bench.limits import Other, Scene, a_backlog, reading_beside
from headrace.pipeline.aws.clients.access import KinesisAccess
from headrace.pipeline.aws.reading.fan_out import ConsumerNames, FanOutPages
from headrace.pipeline.aws.reading.pages import KinesisPages
from headrace.pipeline.core.landing.pace import BYTES_A_SECOND
from headrace.pipeline.core.ledger.batch import Batch
from headrace.pipeline.core.shards.position import TRIM
from headrace.pipeline.core.shards.stream import ShardKey
from headrace.pipeline.local.endpoint import LocalAws, local_aws
from headrace.pipeline.ports.pages import Pages
from headrace.pipeline.settings.choices import WireFormat
from headrace.pipeline.task_identity import DriverIdentity

LEAST = 0.9
"""The part of 2 MiB a second that the reader has to get."""
MOST = 1.3
"""How many times polling's CPU a record may cost."""
_CONSUMER = "bench"
_RECORD = 1024
_ROUNDS = 3


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="15 s of reading, 30 MB")
    is_quick = parser.parse_args().quick
    used = throughput(15.0 if is_quick else 40.0)
    dearer = cpu(30 if is_quick else 100)
    print(
        f"{used:.0%} of 2 MiB/s was used, wanted: {LEAST:.0%}; "
        f"a record costs {dearer:.2f} times polling's CPU, wanted: at most {MOST}"
    )
    return int(used < LEAST or dearer > MOST)


def throughput(seconds: float) -> float:
    """The part of 2 MiB a second that fan-out gives beside three polling applications."""
    scene = Scene("three that poll", 1.0, 0.25, limit=100)
    with local_aws("--transition", "0", "--throttle") as aws, ExitStack() as stack:
        os.environ |= aws.environment
        clients = [aws.client("kinesis", config=Config(retries={"total_max_attempts": 1})) for _ in range(3)]
        key = a_backlog(aws, clients[0], mebibytes=int(2.2 * seconds) + 10)
        reader = _fan_out(aws, clients[0], key)
        others = [Other(client, key.stream.name) for client in clients]
        for other in others:
            stack.enter_context(reading_beside(other, scene))
        read, began = 0, time.monotonic()
        for page in reader.pages(_batch(key)):
            if not page.behind:
                sys.exit("the backlog was too small for this measurement")
            if time.monotonic() - began >= seconds:
                break
            read += page.bytes
        refused, calls = sum(other.refused for other in others), sum(other.calls for other in others)
    used = read / (BYTES_A_SECOND * seconds)
    print(
        f"fan-out beside three that poll: {read / seconds / 2**20:.2f} MiB/s; "
        f"{refused} of {calls} calls of the three were refused"
    )
    return used


def cpu(megabytes: int) -> float:
    """How many times polling's CPU a record costs by fan-out: the cheapest of some rounds of each."""
    with local_aws("--transition", "0", "--heartbeat", "0.1") as aws:
        os.environ |= aws.environment
        client = aws.client("kinesis")
        key = a_backlog(aws, client, mebibytes=megabytes, record=_RECORD)
        fan_out = _fan_out(aws, client, key)
        costs: dict[str, float] = {}
        for _ in range(_ROUNDS):
            for name, reader in (
                ("polling, CBOR", _polling(aws, WireFormat.CBOR)),
                ("polling, JSON", _polling(aws, WireFormat.JSON)),
                ("fan-out", fan_out),
            ):
                cost = _microseconds(reader, key, lambda: aws.advance(6))
                costs[name] = min(cost, costs.get(name, cost))
    print("; ".join(f"{name}: {cost:.2f} us of CPU a record of 1 KB" for name, cost in costs.items()))
    return costs["fan-out"] / costs["polling, JSON"]


def _microseconds(reader: Pages, key: ShardKey, before: Callable[[], Any]) -> float:
    before()
    rows, began = 0, time.process_time()
    for page in reader.pages(_batch(key)):
        rows += page.rows
        if not page.behind:
            break
    return (time.process_time() - began) / rows * 1e6


def _fan_out(aws: LocalAws, client: Any, key: ShardKey) -> FanOutPages:
    client.register_stream_consumer(StreamARN=key.stream.arn, ConsumerName=_CONSUMER)
    return FanOutPages(access=_access(aws), consumers=ConsumerNames(others=_CONSUMER))


def _polling(aws: LocalAws, wire: WireFormat) -> KinesisPages:
    return KinesisPages(access=_access(aws), wire=wire)


def _access(aws: LocalAws) -> KinesisAccess:
    return KinesisAccess(aws.region, aws.endpoint, DriverIdentity().now())


def _batch(key: ShardKey) -> Batch:
    return Batch(key, None, TRIM, datetime.now(UTC), timedelta(days=1))


if __name__ == "__main__":
    sys.exit(main())
