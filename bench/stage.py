"""What does staging cost? CPU microseconds per record, from GetRecords answers to Parquet files (zstd), one process.

Pages are encoded beforehand and answered inside the process, so no server and no network is measured. The
baseline reads the same pages with boto3's own response parser and stages them with the same code.

    python bench/stage.py [--records 200000]
    python bench/stage.py --quick    50,000 records
"""

from __future__ import annotations

import argparse
import base64
import json
import os
import random
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from email.utils import formatdate
from functools import cache
from typing import Any

import boto3
import pyarrow as pa
from botocore.awsrequest import AWSResponse, HTTPHeaders
from botocore.config import Config

from pipeline.aws.pages import Host, KinesisPages
from pipeline.aws.pages_client import tapped
from pipeline.aws.pages_decode import record_schema
from pipeline.core.batch import Batch, BatchLimits
from pipeline.core.position import TRIM
from pipeline.core.stream import ShardKey, StreamId
from pipeline.lake.gauge import host_gauge
from pipeline.lake.stage_task import stage_batches
from pipeline.lake_ports import Pages, RecordPage, StagingSpec

_STREAM = StreamId("arn:aws:kinesis:eu-west-1:123456789012:stream/bench", 1_769_000_000)
_PAGE = 10_000


_FIRST_DIGITS = "4966427817326730"
"""The first digits of every sequence number. Four digits for the page follow."""


@cache
def _pages(size: int, count: int) -> list[bytes]:
    """Full pages, which differ only in their sequence numbers, and in MillisBehindLatest of the last page."""
    page, last = _page(size, last=False), _page(size, last=True)
    before = f'"SequenceNumber":"{_FIRST_DIGITS}'
    return [
        body.replace(f"{before}0000".encode(), f"{before}{n:04}".encode())
        for n, body in enumerate([*[page] * (count - 1), last])
    ]


def _page(size: int, *, last: bool) -> bytes:
    """A full page. Half of each payload is random, so that it compresses about as well as real ones."""
    dice = random.Random(size)
    now = int(time.time())
    first = int(f"{_FIRST_DIGITS}0000919209422211173581000000000000000000")
    records = [
        {
            "SequenceNumber": str(first + n),
            "ApproximateArrivalTimestamp": now + n / _PAGE,
            "Data": base64.b64encode(dice.randbytes(size // 2) + b"x" * (size - size // 2)).decode(),
            "PartitionKey": f"customer-{dice.randrange(1000)}",
        }
        for n in range(min(_PAGE, 10 * 1024 * 1024 // size))
    ]
    answer = {"Records": records, "MillisBehindLatest": 0 if last else 1000, "NextShardIterator": "next"}
    return json.dumps(answer, separators=(",", ":")).encode()


class _Raw:
    def __init__(self, body: bytes) -> None:
        self._body = body

    def stream(self, *_: Any, **__: Any) -> list[bytes]:
        return [self._body]


def _client(size: int, pages: int) -> Any:
    """A boto3 client that gets its answers from this function instead of the network."""
    client: Any = boto3.session.Session("bench", "bench", region_name="eu-west-1").client(
        "kinesis", endpoint_url="http://in-process.invalid", config=Config(retries={"total_max_attempts": 1})
    )
    bodies = iter(_pages(size, pages))

    def send(request: Any, **_: Any) -> AWSResponse:
        if b"GetRecords" in bytes(request.headers["X-Amz-Target"]):
            body = next(bodies)
        else:
            body = b'{"ShardIterator":"first"}'
        headers = HTTPHeaders()
        headers["Date"] = formatdate(time.time(), usegmt=True)
        return AWSResponse(request.url, 200, headers, _Raw(body))

    client.meta.events.register("before-send.kinesis.*", send)
    return client


@dataclass
class BotoPages:
    """The baseline: boto3 parses the answers, and the columns are made from its dictionaries."""

    client: Any

    def pages(self, batch: Batch) -> Iterator[RecordPage]:
        while True:
            answer = self.client.get_records(ShardIterator="next", StreamARN=batch.key.stream.arn)
            records, size = answer["Records"], len(answer["Records"])
            columns: dict[str, list[Any]] = {
                "stream": [batch.key.stream.name] * size,
                "stream_epoch": [batch.key.stream.epoch] * size,
                "shard_id": [batch.key.shard_id] * size,
                "sequence_number": [r["SequenceNumber"] for r in records],
                "sub_sequence_number": [0] * size,
                "partition_key": [r["PartitionKey"] for r in records],
                "explicit_hash_key": [None] * size,
                "arrival_ts": [r["ApproximateArrivalTimestamp"] for r in records],
                "data": [r["Data"] for r in records],
                "decode_error": [None] * size,
            }
            yield RecordPage(
                records=pa.RecordBatch.from_pydict(columns, record_schema()),
                rows=size,
                bytes=sum(len(r["Data"]) for r in records),
                answered=datetime.now(UTC),
                behind=timedelta(milliseconds=answer["MillisBehindLatest"]),
                last_sequence=int(records[-1]["SequenceNumber"]),
                first_arrival=records[0]["ApproximateArrivalTimestamp"],
                last_arrival=records[-1]["ApproximateArrivalTimestamp"],
                children=None,
            )


def _our_pages(client: Any) -> Pages:
    host = Host(connect=lambda _place: client, sleep=lambda _seconds: None)
    return KinesisPages(region="eu-west-1", host=host)


def _measure(pages: Pages, folder: str) -> tuple[float, int]:
    """CPU seconds of this process, with all its threads, and the number of staged records."""
    spec = StagingSpec(folder, tuple((name, i) for i, name in enumerate(record_schema().names, 1)))
    batch = Batch(ShardKey(_STREAM, "shardId-000000000000"), None, TRIM, datetime.now(UTC), timedelta(days=1))
    before = time.process_time()
    limits = BatchLimits(10**9, 10**12, 3600.0)
    manifest = stage_batches([batch], pages, spec=spec, limits=limits, threads=1, gauge=host_gauge())
    taken = time.process_time() - before
    (staged,) = manifest.staged
    if staged.error:
        raise SystemExit(staged.error)
    return taken, staged.rows


def main() -> None:
    parser = argparse.ArgumentParser(description="CPU per record of staging, against boto3's decoding")
    parser.add_argument("--records", type=int, default=200_000)
    parser.add_argument("--quick", action="store_true", help="50,000 records")
    said = parser.parse_args()
    asked = min(said.records, 50_000) if said.quick else said.records
    print(f"{'payload':>8} {'records':>9} {'headrace':>12} {'boto3':>12} {'ratio':>7} {'MB per CPU s':>13}")
    for size in (200, 1024):
        pages = max(1, asked // _PAGE)
        _pages(size, pages)
        with tempfile.TemporaryDirectory() as folder:
            taken, rows = _measure(_our_pages(tapped(_client(size, pages))), f"{folder}/ours")
            boto_taken, boto_rows = _measure(BotoPages(_client(size, pages)), f"{folder}/boto3")
        mine, theirs = taken / rows * 1e6, boto_taken / boto_rows * 1e6
        speed = size * rows / taken / 1e6
        print(
            f"{size:>6} B {rows:>9,} {mine:>9.2f} us {theirs:>9.2f} us {theirs / mine:>6.1f}x {speed:>13.0f}"
        )


if __name__ == "__main__":
    os.environ.setdefault("AWS_EC2_METADATA_DISABLED", "true")
    main()
