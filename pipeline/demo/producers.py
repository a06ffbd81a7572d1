"""Producers that remember what they put: each record has an id, and each acknowledgement of Kinesis is kept.

The last producer puts aggregates, as the Kinesis Producer Library does. One record has a value of a wrong
type, which the typed table can't take.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError

from headrace.pipeline.demo.aggregate import aggregated
from headrace.pipeline.demo.evidence import Put
from headrace.pipeline.demo.home import NEW_COLUMN
from headrace.pipeline.errors import Unreachable

if TYPE_CHECKING:
    from mypy_boto3_kinesis import KinesisClient

PRODUCERS = 4
# Records of one PutRecords call, by Kinesis's API.
_MOST = 500
# About this many calls of each producer, so that records come evenly instead of in a few large groups.
_CALLS = 100
ONE_TRY = Config(retries={"total_max_attempts": 1}, read_timeout=60)
"""The config of the producers' client: a second try after a lost answer would put a record twice."""
# Seconds before what Kinesis refused is put again.
_BACKOFF = 0.2
# Primes, so that the partition keys and the shops don't repeat in step.
_CUSTOMERS = 997
_SHOPS = 7
# User records of one aggregate.
_TOGETHER = 10


@dataclass(frozen=True, slots=True)
class _KinesisRecord:
    ids: tuple[str, ...]
    """The ids of the records in it: more than one in an aggregate."""
    entry: Any
    """The entry of PutRecords."""


class Producers:
    """Four producers that together put `records`, evenly over `seconds`."""

    def __init__(self, client: KinesisClient, stream: str, *, records: int, seconds: float) -> None:
        self.records = records
        self._client = client
        self._stream = stream
        self._seconds = seconds
        self._puts: dict[str, Put] = {}
        self._stop = threading.Event()
        self._pool = ThreadPoolExecutor(PRODUCERS, "producer")
        self._jobs: list[Future[None]] = []

    def start(self) -> None:
        self._jobs = [self._pool.submit(self._produce, number) for number in range(PRODUCERS)]

    def stop(self) -> None:
        # The threads sleep between their calls, and would else be waited for until their next one.
        self._stop.set()
        self._pool.shutdown()

    @property
    def put(self) -> int:
        return len(self._puts)

    @property
    def puts(self) -> dict[str, Put]:
        # A copy, because the producers' threads go on putting.
        return dict(self._puts)

    @property
    def are_done(self) -> bool:
        """Whether all records are put. Raises a producer's error: without its acknowledgements the demo can't
        judge anything."""
        for job in self._jobs:
            if job.done():
                job.result()
        return bool(self._jobs) and all(job.done() for job in self._jobs)

    def _produce(self, number: int) -> None:
        mine = range(number, self.records, PRODUCERS)
        # Rounded up, so that the last calls leave no record over.
        size = max(1, min(_MOST, -(-len(mine) // _CALLS)))
        odd = self.records // 2
        began = time.monotonic()
        for first in range(0, len(mine), size):
            # The producers' calls alternate instead of all coming at the same moment.
            due = began + self._seconds * (first + size * number / PRODUCERS) / len(mine)
            if self._stop.wait(max(0.0, due - time.monotonic())):
                return
            together = _TOGETHER if number == PRODUCERS - 1 else 1
            due_now = mine[first : first + size]
            groups = [due_now[offset : offset + together] for offset in range(0, len(due_now), together)]
            self._put([_kinesis_record(number, group, odd) for group in groups])

    def _put(self, records: Sequence[_KinesisRecord]) -> None:
        """Put records until Kinesis has taken all: PutRecords may take some and refuse others."""
        while records and not self._stop.is_set():
            answer = self._ask([record.entry for record in records])
            refused = []
            for record, result in zip(records, answer["Records"], strict=True):
                if "SequenceNumber" in result:
                    shard, sequence = result["ShardId"], int(result["SequenceNumber"])
                    self._puts |= {record_id: Put(record_id, shard, sequence) for record_id in record.ids}
                else:
                    refused.append(record)
            records = refused
            if records:
                self._stop.wait(_BACKOFF)

    def _ask(self, entries: list[Any]) -> Any:
        try:
            return self._client.put_records(StreamName=self._stream, Records=entries)
        except (BotoCoreError, ClientError) as error:
            raise Unreachable(
                f"a producer got no answer from the stand-in ({error}): which records it put isn't known, "
                "so landed records can't be checked"
            ) from error


def _kinesis_record(producer: int, numbers: Sequence[int], odd: int) -> _KinesisRecord:
    ids = tuple(f"p{producer}-{number:06d}" for number in numbers)
    # A large prime spreads neighbouring numbers over the partition keys, and so over the shards.
    customer = f"customer-{numbers[0] * 7919 % _CUSTOMERS}"
    payloads = [
        {
            "id": name,
            "customer": customer,
            "cents": "unknown" if number == odd else number * 31 % 10_000,
            NEW_COLUMN: f"shop-{number % _SHOPS}",
        }
        for name, number in zip(ids, numbers, strict=True)
    ]
    encoded = [json.dumps(payload).encode() for payload in payloads]
    data = encoded[0] if len(encoded) == 1 else aggregated(customer, encoded)
    return _KinesisRecord(ids, {"Data": data, "PartitionKey": customer})
