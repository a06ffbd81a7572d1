"""Pages whose records are given by their bytes, and what KCL's rules make of them one by one."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa

from headrace.pipeline.aws.reading.pages_decode import record_schema
from headrace.pipeline.core.shards.shard import HashRange
from headrace.pipeline.kcl.deaggregate import EVERYTHING, unpack
from headrace.pipeline.ports.pages import RecordPage
from tests.kcl.kpl import entry, message, sealed
from tests.lake.samples import NOON, a_key

Row = tuple[str, int, str, str | None, bytes, str | None]
"""Sequence number, sub-sequence number, both keys, data and the decode error."""


def aggregate(*payloads: bytes, key: bytes = b"user") -> bytes:
    return sealed(message(*(entry(0, data) for data in payloads), keys=(key,)))


def a_batch_of(datas: Sequence[bytes], first: int = 1) -> pa.RecordBatch:
    """Kinesis records with these bytes and the sequence numbers `first`, `first` + 1 ..."""
    key = a_key()
    rows: list[dict[str, Any]] = [
        {
            "stream": key.stream.name,
            "stream_epoch": key.stream.epoch,
            "shard_id": key.shard_id,
            "sequence_number": str(first + n),
            "sub_sequence_number": 0,
            "partition_key": f"record {n}",
            "arrival_ts": (NOON + timedelta(seconds=n)).astimezone(UTC),
            "data": data,
        }
        for n, data in enumerate(datas)
    ]
    return pa.RecordBatch.from_pylist(rows, record_schema())


def a_page_of(*datas: bytes, first: int = 1, answered: datetime = NOON) -> RecordPage:
    last = NOON + timedelta(seconds=len(datas) - 1)
    return RecordPage(
        records=a_batch_of(datas, first),
        rows=len(datas),
        bytes=sum(map(len, datas)),
        answered=answered,
        behind=timedelta(0),
        last_sequence=first + len(datas) - 1,
        first_arrival=NOON,
        last_arrival=last,
        children=None,
    )


def rows_in(parts: Sequence[pa.RecordBatch]) -> list[Row]:
    names = (
        "sequence_number",
        "sub_sequence_number",
        "partition_key",
        "explicit_hash_key",
        "data",
        "decode_error",
    )
    return [tuple(row[name] for name in names) for part in parts for row in part.to_pylist()]


def one_by_one(page: pa.RecordBatch, shard: HashRange | None) -> list[Row]:
    """The same rows by `unpack`, which knows nothing of pages."""
    found: list[Row] = []
    for row in page.to_pylist():
        number, key, data = row["sequence_number"], row["partition_key"], row["data"]
        unpacked = unpack(data, key, shard or EVERYTHING)
        if unpacked.broken is not None:
            found.append((number, 0, key, None, data, unpacked.broken))
            continue
        found += [
            (number, each.sub, each.partition_key, each.explicit_hash_key, each.data, None)
            for each in unpacked.records
        ]
    return found
