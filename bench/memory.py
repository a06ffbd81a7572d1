"""How much memory does a staging task need for a backlog of 2 GB over 64 shards? Prints its peak, exit 1 above 512 MiB.

    python bench/memory.py

Sixteen threads read full pages with payloads of 1 KB in CBOR, in one process, as a Python worker of Spark does. An answer is made in the
process when it is asked for, and comes in small parts over a third of a second, so that sixteen answers are under way at once.
"""

from __future__ import annotations

import json
import os
import random
import re
import resource
import struct
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from email.utils import formatdate
from typing import Any

import boto3
from botocore.awsrequest import AWSResponse, HTTPHeaders
from botocore.config import Config

from headrace.pipeline.aws.clients.access import KinesisAccess
from headrace.pipeline.aws.reading.asking import Host
from headrace.pipeline.aws.reading.pages import KinesisPages
from headrace.pipeline.aws.reading.pages_client import tapped
from headrace.pipeline.aws.reading.pages_decode import record_schema
from headrace.pipeline.core.ledger.batch import Batch, BatchLimits
from headrace.pipeline.core.shards.position import TRIM
from headrace.pipeline.core.shards.stream import ShardKey, StreamId
from headrace.pipeline.encoding.cbor import LIST, MAP, encoded, head
from headrace.pipeline.lake.files.sort_key import SORT_KEY
from headrace.pipeline.lake.spark.worker_daemon import MEMORY
from headrace.pipeline.lake.staging.stage_task import stage_batches
from headrace.pipeline.ports.staging import StagingSpec

_MOST = 512 * 1.048576
"""MB."""
_STREAM = StreamId("arn:aws:kinesis:eu-west-1:123456789012:stream/bench", 1_769_000_000)
_PLACE = json.dumps(
    {
        "ShardIterator": "iterator-0000",
        "StreamDescriptionSummary": {"StreamARN": _STREAM.arn, "StreamCreationTimestamp": _STREAM.epoch},
    }
).encode()
"""The body of each answer but those of GetRecords."""
_SHARDS, _PAGES, _RECORDS, _PAYLOAD = 64, 4, 8_000, 1024
_MARK = b"PAGE"
_ITERATOR = re.compile(rb"iterator-(\d{4})")
_PART = 60
"""Records that come together."""
_BEHIND, _AT_TIP = (encoded("MillisBehindLatest") + millis for millis in (b"\x19\x03\xe8", b"\x19\x00\x00"))


def _page() -> list[bytes]:
    """A full page. The page's number stands where `_MARK` is, in each sequence number and in the iterator."""
    dice, now = random.Random(1), round(time.time() * 1000)
    moment = b"\xc1" + struct.pack(">BQ", 27, now)
    records = [
        head(MAP, 4)
        + encoded("SequenceNumber") + encoded(f"4966427817326730PAGE{n:036}")
        + encoded("ApproximateArrivalTimestamp") + moment
        + encoded("Data") + encoded(dice.randbytes(_PAYLOAD // 2) + bytes(_PAYLOAD // 2))
        + encoded("PartitionKey") + encoded(f"customer-{dice.randrange(1000)}")
        for n in range(_RECORDS)
    ]  # fmt: skip
    around = (_BEHIND, encoded("NextShardIterator"), encoded("iterator-PAGE"))
    first = head(MAP, 3) + encoded("Records") + head(LIST, len(records))
    return [
        first,
        *(b"".join(records[n : n + _PART]) for n in range(0, len(records), _PART)),
        b"".join(around),
    ]


class _Body:
    """A body that comes from a slow network, in parts that are made when they come."""

    def __init__(self, parts: Sequence[bytes], *changes: tuple[bytes, bytes]) -> None:
        self._parts = parts
        self._changes = changes

    def stream(self, *_: Any, **__: Any) -> Iterator[bytes]:
        for part in self._parts:
            time.sleep(0.33 / len(self._parts))
            made = part
            for old, new in self._changes:
                made = made.replace(old, new)
            yield made


def _client(page: list[bytes]) -> Any:
    client: Any = boto3.session.Session("bench", "bench", region_name="eu-west-1").client(
        "kinesis", endpoint_url="http://in-process.invalid", config=Config(retries={"total_max_attempts": 1})
    )

    def send(request: Any, **_: Any) -> AWSResponse:
        headers = HTTPHeaders()
        headers["Date"] = formatdate(time.time(), usegmt=True)
        found = _ITERATOR.search(bytes(request.body))
        if found is None:
            return AWSResponse(request.url, 200, headers, _Body([_PLACE]))
        number = int(found[1])
        headers["Content-Type"] = "application/x-amz-cbor-1.1"
        changes = [(_MARK, f"{number + 1:04}".encode())]
        if number + 1 == _PAGES:
            changes.append((_BEHIND, _AT_TIP))
        return AWSResponse(request.url, 200, headers, _Body(page, *changes))

    client.meta.events.register("before-send.kinesis.*", send)
    return client


def _no_pause(_seconds: float) -> None:
    """Takes the place of the pauses that keep to a shard's limits, because only memory is measured."""


def main() -> int:
    before = _peak()
    client = tapped(_client(_page()))
    pages = KinesisPages(
        access=KinesisAccess("eu-west-1"), host=Host(connect=lambda _place: client, sleep=_no_pause)
    )
    now = datetime.now(UTC)
    batches = [
        Batch(ShardKey(_STREAM, f"shardId-{n:012}"), None, TRIM, now, timedelta(days=1))
        for n in range(_SHARDS)
    ]
    with tempfile.TemporaryDirectory() as folder:
        spec = StagingSpec(
            folder, tuple((name, i) for i, name in enumerate([*record_schema().names, SORT_KEY], 1))
        )
        limits = BatchLimits(10**9, 10**12, 3600.0)
        manifest = stage_batches(batches, pages, spec=spec, limits=limits, threads=16)
    staged = sum(each.bytes for each in manifest.staged)
    errors = {each.error for each in manifest.staged if each.error}
    print(
        f"{staged / 1e6:,.0f} MB staged from {_SHARDS} shards; peak {_peak():.0f} MB, of them {before:.0f} MB before the task {errors or ''}"
    )
    return 0 if _peak() <= _MOST and not errors else 1


def _peak() -> float:
    """MB of this process's largest resident memory."""
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 1e6


if __name__ == "__main__":
    os.environ.setdefault("AWS_EC2_METADATA_DISABLED", "true")
    if not MEMORY.items() <= os.environ.items():
        # Arrow reads the environment when it is loaded.
        os.execve(sys.executable, [sys.executable, *sys.argv], {**os.environ, **MEMORY})
    sys.exit(main())
