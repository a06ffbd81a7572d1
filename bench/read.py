"""What does reading cost? CPU microseconds a record, from GetRecords answers to a Parquet file (zstd), in one process.

    python bench/read.py            # payloads of 200 B, 1 KB, 20 KB and 1 MB
    python bench/read.py --quick    # 200 B and 1 KB, under 50 s; exit 1 where 200 B costs more than a tenth of the measure

The measure is `plain_loop`, a loop of boto3 and pyarrow over the same records. Answers are made beforehand and given to botocore inside
the process, for both in the same way, so neither server nor network is measured. The plain loop gets JSON, because boto3 reads
nothing else. Of four readings of each the cheapest counts: the first one pays for fresh memory, and other work on the machine makes
any of them dearer.
"""

from __future__ import annotations

import argparse
import base64
import json
import os
import random
import struct
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from email.utils import formatdate
from functools import cached_property, partial
from itertools import chain, repeat
from typing import Any

import boto3
import pyarrow as pa
import pyarrow.parquet as pq
from botocore.awsrequest import AWSResponse, HTTPHeaders
from botocore.config import Config

from headrace.pipeline.aws.clients.access import KinesisAccess
from headrace.pipeline.aws.reading.asking import Host
from headrace.pipeline.aws.reading.pages import KinesisPages
from headrace.pipeline.aws.reading.pages_client import tapped
from headrace.pipeline.aws.reading.pages_decode import decode_answer, decode_cbor_answer, record_schema
from headrace.pipeline.core.ledger.batch import Batch, BatchLimits
from headrace.pipeline.core.shards.position import TRIM
from headrace.pipeline.core.shards.stream import ShardKey, StreamId
from headrace.pipeline.encoding.cbor import LIST, MAP, encoded, head
from headrace.pipeline.lake.files.sort_key import SORT_KEY
from headrace.pipeline.lake.files.stage_files import TaskFiles
from headrace.pipeline.lake.staging.host_load import host_gauge
from headrace.pipeline.lake.staging.stage_task import stage_batches
from headrace.pipeline.ports.staging import StagingSpec

_LEAST = 10.0
_ARN, _SHARD = "arn:aws:kinesis:eu-west-1:123456789012:stream/bench", "shardId-000000000000"
_KEY = ShardKey(StreamId(_ARN, 1_769_000_000), _SHARD)
_PLACE = json.dumps(
    {
        "ShardIterator": "first",
        "StreamDescriptionSummary": {"StreamARN": _ARN, "StreamCreationTimestamp": _KEY.stream.epoch},
    }
).encode()
"""The body of each answer but those of GetRecords."""
_QUICK = ((200, 20), (1024, 60))
_ALL = ((200, 80), (1024, 320), (20 * 1024, 320), (1024 * 1024, 320))
"""Bytes of a payload, and MB of payloads in one run."""

# --- the measure: frozen, so that figures of different versions of Headrace can be compared -------------------------

_COLUMNS: dict[str, pa.DataType] = {
    "stream": pa.string(),
    "shard_id": pa.string(),
    "sequence_number": pa.string(),
    "partition_key": pa.string(),
    "arrival_ts": pa.timestamp("us", tz="UTC"),
    "data": pa.binary(),
}
_PLAIN = pa.schema(_COLUMNS)


def plain_loop(client: Any, stream_arn: str, shard_id: str, path: str) -> int:
    """Read a shard up to its tip into one file, with the libraries' own settings and zstd. Returns the number of records."""
    iterator = client.get_shard_iterator(
        StreamARN=stream_arn, ShardId=shard_id, ShardIteratorType="TRIM_HORIZON"
    )["ShardIterator"]
    count = 0
    with pq.ParquetWriter(path, _PLAIN, compression="zstd") as writer:
        while iterator:
            answer = client.get_records(ShardIterator=iterator, StreamARN=stream_arn)
            records = answer["Records"]
            rows = {
                "stream": [stream_arn.rpartition("/")[2]] * len(records),
                "shard_id": [shard_id] * len(records),
                "sequence_number": [record["SequenceNumber"] for record in records],
                "partition_key": [record["PartitionKey"] for record in records],
                "arrival_ts": [record["ApproximateArrivalTimestamp"] for record in records],
                "data": [record["Data"] for record in records],
            }
            writer.write_table(pa.table(rows, _PLAIN))
            count += len(records)
            if answer["MillisBehindLatest"] == 0:
                break
            iterator = answer["NextShardIterator"]
    return count


# --- answers --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Answers:
    """Full pages of one shard. They differ only in their sequence numbers, and the last one in MillisBehindLatest."""

    payload: int
    pages: int
    cbor: bool

    @cached_property
    def bodies(self) -> list[bytes]:
        page, last = self._page(behind=1000), self._page(behind=0)
        marked = f"{_DIGITS}0000".encode()
        return [
            body.replace(marked, f"{_DIGITS}{n:04}".encode())
            for n, body in enumerate([*repeat(page, self.pages - 1), last])
        ]

    @property
    def kind(self) -> str:
        return "application/x-amz-cbor-1.1" if self.cbor else "application/x-amz-json-1.1"

    def _page(self, *, behind: int) -> bytes:
        records = list(_records(self.payload))
        around = {"MillisBehindLatest": behind, "NextShardIterator": "next"}
        if not self.cbor:
            said = [{**each, "Data": base64.b64encode(each["Data"]).decode()} for each in records]
            return json.dumps({"Records": said, **around}, separators=(",", ":")).encode()
        parts = (encoded(each) for each in chain.from_iterable(around.items()))
        return b"".join(
            (head(MAP, 3), encoded("Records"), head(LIST, len(records)), *map(_in_cbor, records), *parts)
        )


_DIGITS = "4966427817326730"
"""The first digits of every sequence number. Four digits for the page follow."""


def _records(payload: int) -> Iterator[dict[str, Any]]:
    """The records of a full page. Half of each payload is random, so that it compresses about as well as real ones."""
    dice, now = random.Random(payload), int(time.time())
    first = int(f"{_DIGITS}0000919209422211173581000000000000000000")
    for n in range(min(10_000, 10 * 1024 * 1024 // payload)):
        yield {
            "SequenceNumber": str(first + n),
            "ApproximateArrivalTimestamp": now + n / 10_000,
            "Data": dice.randbytes(payload // 2) + b"x" * (payload - payload // 2),
            "PartitionKey": f"customer-{dice.randrange(1000)}",
        }


def _in_cbor(record: dict[str, Any]) -> bytes:
    parts = []
    for name, value in record.items():
        moment = isinstance(value, float)
        parts += [
            encoded(name),
            b"\xc1" + struct.pack(">BQ", 27, round(value * 1000)) if moment else encoded(value),
        ]
    return head(MAP, len(record)) + b"".join(parts)


class _Raw:
    def __init__(self, body: bytes) -> None:
        self._body = body

    def stream(self, *_: Any, **__: Any) -> list[bytes]:
        return [self._body]


def _client(answers: Answers) -> Any:
    """A boto3 client that gets these answers instead of sending its requests."""
    client: Any = boto3.session.Session("bench", "bench", region_name="eu-west-1").client(
        "kinesis", endpoint_url="http://in-process.invalid", config=Config(retries={"total_max_attempts": 1})
    )
    bodies = iter(answers.bodies)

    def send(request: Any, **_: Any) -> AWSResponse:
        records = b"GetRecords" in bytes(request.headers["X-Amz-Target"])
        headers = HTTPHeaders()
        headers["Date"] = formatdate(time.time(), usegmt=True)
        headers["Content-Type"] = answers.kind
        body = next(bodies) if records else _PLACE
        return AWSResponse(request.url, 200, headers, _Raw(body))

    client.meta.events.register("before-send.kinesis.*", send)
    return client


# --- what is measured -----------------------------------------------------------------------------------------------


def _no_pause(_seconds: float) -> None:
    """Takes the place of the pauses that keep to a shard's limits, because only CPU is measured."""


def _plain(client: Any, folder: str) -> int:
    return plain_loop(client, _ARN, _SHARD, f"{folder}/plain.parquet")


def _headrace(client: Any, folder: str) -> int:
    """A staging task, as Spark runs it."""
    tapped(client)
    pages = KinesisPages(
        access=KinesisAccess("eu-west-1"), host=Host(connect=lambda _place: client, sleep=_no_pause)
    )
    batch = Batch(_KEY, None, TRIM, datetime.now(UTC), timedelta(days=1))
    limits = BatchLimits(10**9, 10**12, 3600.0)
    manifest = stage_batches([batch], pages, spec=_spec(folder), limits=limits, threads=1, gauge=host_gauge())
    (staged,) = manifest.staged
    if staged.error:
        raise SystemExit(staged.error)
    return staged.rows


def _measured(work: Callable[[Any, str], int], answers: Answers) -> tuple[float, int]:
    """CPU seconds of this process with all its threads, and records, of the cheapest of four runs, without the making of the client.

    The first run pays for fresh memory, and neighbours on the machine make any run dearer, up to twice as dear.
    """
    taken, count = float("inf"), 0
    for _ in range(4):
        client = _client(answers)
        with tempfile.TemporaryDirectory() as folder:
            before = time.process_time()
            count = work(client, folder)
            taken = min(taken, time.process_time() - before)
    return taken, count


def reading_cpu(payload: int, pages: int = 10) -> float:
    """CPU seconds a record of reading and staging records of this size, as `wire: auto` does. For other benchmarks to compare with."""
    taken, count = _measured(_headrace, Answers(payload, pages, cbor=True))
    return taken / count


def _steps(answers: Answers, folder: str) -> tuple[float, float]:
    """CPU seconds of decoding the answers, and of writing their rows."""
    decode = decode_cbor_answer if answers.cbor else decode_answer
    files = TaskFiles(_spec(folder), now=partial(datetime.now, UTC), fresh=lambda: "part")
    decoding, writing, answered = 0.0, 0.0, datetime.now(UTC)
    for body in answers.bodies:
        begun = time.process_time()
        rows = decode(body, _KEY, answered).records
        between = time.process_time()
        if rows is not None:
            files.add(_KEY, rows)
        decoding, writing = decoding + between - begun, writing + time.process_time() - between
    begun = time.process_time()
    files.finish()
    return decoding, writing + time.process_time() - begun


def _spec(folder: str) -> StagingSpec:
    return StagingSpec(
        folder, tuple((name, i) for i, name in enumerate([*record_schema().names, SORT_KEY], 1))
    )


def _line(payload: int, megabytes: int) -> float:
    """Measure one size of payloads, and print a line for each format. Returns how many times fewer microseconds `wire: auto` takes."""
    pages = max(4, megabytes * 10**6 // (payload * min(10_000, 10 * 1024 * 1024 // payload)))
    plain, gain = 0.0, 0.0
    for cbor in (False, True):
        answers = Answers(payload, pages, cbor)
        if not cbor:
            plain, _ = _measured(_plain, answers)
        ours, count = _measured(_headrace, answers)
        with tempfile.TemporaryDirectory() as folder:
            decoding, writing = _steps(answers, folder)
        gain = plain / ours
        parts = [
            f"{part / count * 1e6:.2f}" for part in (decoding, writing, max(0.0, ours - decoding - writing))
        ]
        print(
            f"{payload:>9} {count:>8,} {'cbor' if cbor else 'json':>6} {ours / count * 1e6:>9.2f} {plain / count * 1e6:>11.2f}"
            f" {gain:>5.1f}x   {' + '.join(parts)}",
            flush=True,
        )
    return gain


def main() -> int:
    parser = argparse.ArgumentParser(description="CPU a record of reading, beside a plain loop of boto3")
    parser.add_argument(
        "--quick", action="store_true", help="two sizes of payloads; exit 1 where the gain is too small"
    )
    quick = parser.parse_args().quick
    print("CPU us a record\n  payload  records   wire  headrace  plain loop   gain   decode + write + rest")
    gains = [_line(*case) for case in (_QUICK if quick else _ALL)]
    if quick and gains[0] < _LEAST:
        print(
            f"at 200 B Headrace takes {gains[0]:.1f} times fewer microseconds than the plain loop, and not {_LEAST:g} times"
        )
        return 1
    return 0


if __name__ == "__main__":
    os.environ.setdefault("AWS_EC2_METADATA_DISABLED", "true")
    sys.exit(main())
