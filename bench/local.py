"""How fast is the AWS stand-in through boto3? Prints records and MB a second, and the CPU of client and server.

The client should take more CPU than the server: a benchmark against a slower stand-in would measure the stand-in.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from pipeline.local.endpoint import LocalAws, local_aws

SECONDS = 3.0  # for each measurement
SMALL, LARGE = 200, 50 * 1024


def main() -> None:
    with local_aws("--transition", "0") as aws:
        client = aws.client("kinesis")
        client.create_stream(StreamName="small", ShardCount=4)
        client.create_stream(StreamName="large", ShardCount=1)
        small = [{"Data": b"x" * SMALL, "PartitionKey": str(key)} for key in range(500)]
        large = [{"Data": b"x" * LARGE, "PartitionKey": "key"} for _ in range(100)]
        report(aws, f"puts of {SMALL} B", lambda: put(client, "small", small), SMALL)
        report(aws, f"reads of {SMALL} B", reader(client, "small", 10_000), SMALL)
        for _ in range(4):
            put(client, "large", large)
        report(aws, f"reads of {LARGE // 1024} KiB", reader(client, "large", 10_000), LARGE)


def put(client: Any, stream: str, records: list[dict[str, Any]]) -> int:
    answer = client.put_records(StreamName=stream, Records=records)
    return len(records) - int(answer["FailedRecordCount"])


def reader(client: Any, stream: str, limit: int) -> Callable[[], int]:
    """Read the first page of a shard again and again."""
    shard = client.list_shards(StreamName=stream)["Shards"][0]["ShardId"]
    start = client.get_shard_iterator(StreamName=stream, ShardId=shard, ShardIteratorType="TRIM_HORIZON")
    return lambda: len(client.get_records(ShardIterator=start["ShardIterator"], Limit=limit)["Records"])


def report(aws: LocalAws, what: str, once: Callable[[], int], size: int) -> None:
    server, client, began = aws.cpu_seconds(), time.process_time(), time.perf_counter()
    records = 0
    while time.perf_counter() - began < SECONDS:
        records += once()
    took = time.perf_counter() - began
    client, server = time.process_time() - client, aws.cpu_seconds() - server
    rate = records / took
    print(
        f"{what:>18}: {rate:>9,.0f}/s {rate * size / 1e6:>7.1f} MB/s; CPU client {client / took:.0%}, server "
        f"{server / took:.0%}: the client costs {client / server:.1f} times the server"
    )


if __name__ == "__main__":
    main()
