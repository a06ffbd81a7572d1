"""Aggregates that real libraries made, kept as a fixture for tests that run without Java: `made-aggregates.json`."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from headrace.pipeline.core.shards.shard import HashRange
from headrace.pipeline.kcl.deaggregate import MAGIC
from tests.interop.aggregates.user_records import Raw, Row

FILE = Path(__file__).parent / "made-aggregates.json"


class Kept(NamedTuple):
    made_by: str
    shard: HashRange
    """The hash range of the shard in which it was."""
    key: str
    data: bytes
    rows: list[tuple[int, str, str | None, bytes, str | None]]
    """Sub-sequence number, partition key, explicit hash key, data and reason of each row, as the libraries that read it agreed."""


def kept() -> list[Kept]:
    return [
        Kept(
            each["made_by"],
            HashRange(int(each["first_hash_key"]), int(each["last_hash_key"])),
            each["partition_key"],
            bytes.fromhex(each["data"]),
            [
                (sub, key, hash_key, bytes.fromhex(data), why)
                for sub, key, hash_key, data, why in each["rows"]
            ],
        )
        for each in json.loads(FILE.read_text())
    ]


def keep(
    shards: Sequence[Mapping[str, Any]],
    stream: Mapping[str, Sequence[Raw]],
    rows: Mapping[str, Sequence[Row]],
    *,
    kpl: str,
) -> None:
    """Renew the fixture by aggregates of this stream. `shards`: as Kinesis lists them."""
    ranges = {shard["ShardId"]: shard["HashKeyRange"] for shard in shards}
    found = [_written(ranges[shard], raw, of, kpl) for shard, raw, of in _chosen(stream, rows)]
    FILE.write_text(json.dumps(found, indent=1) + "\n")


def _chosen(
    stream: Mapping[str, Sequence[Raw]], rows: Mapping[str, Sequence[Row]]
) -> Iterator[tuple[str, Raw, list[Row]]]:
    by_record: dict[tuple[str, str], list[Row]] = {}
    for shard, each in rows.items():
        for row in each:
            by_record.setdefault((shard, row.sequence), []).append(row)
    found: dict[tuple[object, ...], list[tuple[str, Raw, list[Row]]]] = {}
    for shard, records in stream.items():
        for raw in records:
            if raw.data.startswith(MAGIC):
                of = by_record[shard, raw.sequence]
                kind = (_library(of), of[0].error, any(row.hash_key for row in of), len(of) > 1)
                found.setdefault(kind, []).append((shard, raw, of))
    for (library, *_), of_a_kind in found.items():
        shortest = sorted(of_a_kind, key=lambda one: len(one[1].data))
        # Two short ones of KPL, and one with many user records; the aggregates of the others are all alike.
        yield from (*shortest[:2], shortest[len(shortest) // 2]) if library == "KPL" else shortest[:1]


def _library(rows: Sequence[Row]) -> str:
    return {"java": "amazon-kinesis-aggregator 1.0.3", "python": "aws-kinesis-agg 1.2.3"}.get(
        rows[0].key.partition("-")[0], "KPL"
    )


def _written(hash_keys: Mapping[str, str], raw: Raw, rows: Sequence[Row], kpl: str) -> dict[str, Any]:
    library = _library(rows)
    return {
        "made_by": f"amazon-kinesis-producer {kpl}" if library == "KPL" else library,
        "first_hash_key": hash_keys["StartingHashKey"],
        "last_hash_key": hash_keys["EndingHashKey"],
        "partition_key": raw.key,
        "data": raw.data.hex(),
        "rows": [[row.sub, row.key, row.hash_key, row.data.hex(), row.error] for row in rows],
    }
