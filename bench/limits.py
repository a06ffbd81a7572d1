"""How much of its share of a shard's limits does a reader use beside another application? Against the throttling stand-in, over HTTP.

Kinesis allows a shard 5 GetRecords calls and 2 MiB a second for all its readers. Headrace's reader keeps to half (`wave.shard_share: 0.5`), and
another application takes the other half: once by many small pages, once by pages of 10 MiB, after each of which Kinesis refuses everybody for
5 s. The exit code is 1 if the reader uses less than 90 % of its half. Time is the stand-in's, which is this machine's.

    python bench/limits.py            40 s for each of four scenes
    python bench/limits.py --quick    20 s
"""

from __future__ import annotations

import argparse
import os
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from botocore.config import Config
from botocore.exceptions import ClientError

from headrace.pipeline.aws.clients.access import KinesisAccess
from headrace.pipeline.aws.reading.pages import KinesisPages
from headrace.pipeline.core.landing.pace import BYTES_A_SECOND
from headrace.pipeline.core.ledger.batch import Batch
from headrace.pipeline.core.shards.position import TRIM
from headrace.pipeline.core.shards.stream import ShardKey, StreamId
from headrace.pipeline.local.endpoint import LocalAws, local_aws
from headrace.pipeline.task_identity import DriverIdentity

LEAST = 0.9
"""The part of its share that the reader has to use."""
_RECORD = 50_000


@dataclass(frozen=True, slots=True)
class Scene:
    name: str
    share: float
    every: float | None
    """Seconds between two calls of the other application; None: there is none."""
    limit: int = 10_000
    """Records that the other application asks for."""


SCENES = (
    Scene("alone", 1.0, None),
    Scene("alone, half", 0.5, None),
    Scene("beside small pages", 0.5, 1.0, limit=20),
    Scene("beside pages of 10 MiB", 0.5, 10.0),
)


@dataclass(slots=True)
class Other:
    """The other application: it repeats a refused call after half a second."""

    client: Any
    stream: str
    calls: int = 0
    refused: int = 0
    bytes: int = 0

    def read(self, scene: Scene, done: threading.Event) -> None:
        assert scene.every is not None
        iterator = self.client.get_shard_iterator(
            StreamName=self.stream, ShardId="shardId-000000000000", ShardIteratorType="TRIM_HORIZON"
        )["ShardIterator"]
        due = time.monotonic()
        while not done.wait(max(0.0, due - time.monotonic())):
            self.calls += 1
            try:
                page = self.client.get_records(ShardIterator=iterator, Limit=scene.limit)
            except ClientError:
                self.refused += 1
                due += 0.5
                continue
            iterator = page["NextShardIterator"]
            self.bytes += sum(len(r["Data"]) for r in page["Records"])
            due += scene.every


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="20 s for each scene")
    seconds = 20.0 if parser.parse_args().quick else 40.0
    worst = min(measure(scene, seconds) for scene in SCENES)
    print(f"at least {worst:.0%} of the share was used; wanted: {LEAST:.0%}")
    return int(worst < LEAST)


def measure(scene: Scene, seconds: float) -> float:
    """The part of its share of bytes that the reader used."""
    with local_aws("--transition", "0", "--throttle") as aws:
        os.environ |= aws.environment
        client = aws.client("kinesis", config=Config(retries={"total_max_attempts": 1}))
        key = a_backlog(aws, client, mebibytes=int(2.2 * seconds) + 20)
        other = Other(client, key.stream.name)
        with reading_beside(other, scene):
            began, read, took = time.monotonic(), 0, 0.0
            batch = Batch(key, None, TRIM, datetime.now(UTC), timedelta(days=1))
            for page in KinesisPages(
                access=KinesisAccess(aws.region, aws.endpoint, DriverIdentity().now()), share=scene.share
            ).pages(batch):
                if not page.behind:
                    sys.exit("the backlog was too small for this measurement")
                took = time.monotonic() - began
                if took >= seconds:
                    break
                read += page.bytes
        (reads,) = aws.reads()
    used = read / (scene.share * BYTES_A_SECOND * seconds)
    print(
        f"{scene.name:>22}, share {scene.share}: {read / seconds / 2**20:.2f} MiB/s, {used:.0%} of its share, "
        f"{reads['refused'] - other.refused} calls refused; the other: {other.bytes / seconds / 2**20:.2f} MiB/s, {other.refused} of "
        f"{other.calls} calls refused"
    )
    return used


def a_backlog(aws: LocalAws, client: Any, *, mebibytes: int, record: int = _RECORD) -> ShardKey:
    """A shard with so many MiB of records, each of so many bytes."""
    client.create_stream(StreamName="orders", ShardCount=1)
    entry = {"Data": b"x" * record, "PartitionKey": "customer"}
    for _ in range(mebibytes):
        left = 2**20 // (record + 8)
        while left > 0:
            client.put_records(StreamName="orders", Records=[entry] * min(left, 500))
            left -= 500
        aws.advance(1)  # a shard takes 1 MiB a second
    facts = client.describe_stream_summary(StreamName="orders")["StreamDescriptionSummary"]
    stream = StreamId(facts["StreamARN"], int(facts["StreamCreationTimestamp"].timestamp()))
    return ShardKey(stream, "shardId-000000000000")


@contextmanager
def reading_beside(other: Other, scene: Scene) -> Iterator[None]:
    if scene.every is None:
        yield
        return
    done = threading.Event()
    thread = threading.Thread(target=other.read, args=(scene, done))
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()


if __name__ == "__main__":
    sys.exit(main())
