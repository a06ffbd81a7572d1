"""How fast is the AWS stand-in through boto3? Prints records and MB a second, and the CPU of client and server.

The client should take more CPU than the server: a benchmark against a slower stand-in would measure the stand-in. The exit code is 1
where it doesn't.

    python bench/local.py            3 s for each measurement
    python bench/local.py --quick    1 s
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from typing import Any

from headrace.pipeline.local.endpoint import LocalAws, local_aws

SMALL, LARGE = 200, 50 * 1024


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="1 s for each measurement")
    seconds = 1.0 if parser.parse_args().quick else 3.0
    with local_aws("--transition", "0") as aws:
        client = aws.client("kinesis")
        client.create_stream(StreamName="small", ShardCount=4)
        client.create_stream(StreamName="large", ShardCount=1)
        small = [{"Data": b"x" * SMALL, "PartitionKey": str(key)} for key in range(500)]
        large = [{"Data": b"x" * LARGE, "PartitionKey": "key"} for _ in range(100)]
        ratios = [
            report(
                aws, f"puts of {SMALL} B", lambda: put(client, "small", small), size=SMALL, seconds=seconds
            ),
            report(aws, f"reads of {SMALL} B", reader(client, "small", 10_000), size=SMALL, seconds=seconds),
        ]
        for _ in range(4):
            put(client, "large", large)
        what = f"reads of {LARGE // 1024} KiB"
        ratios.append(report(aws, what, reader(client, "large", 10_000), size=LARGE, seconds=seconds))
    return int(min(ratios) < 1.0)


def put(client: Any, stream: str, records: list[dict[str, Any]]) -> int:
    answer = client.put_records(StreamName=stream, Records=records)
    return len(records) - int(answer["FailedRecordCount"])


def reader(client: Any, stream: str, limit: int) -> Callable[[], int]:
    """Read the first page of a shard again and again."""
    shard = client.list_shards(StreamName=stream)["Shards"][0]["ShardId"]
    start = client.get_shard_iterator(StreamName=stream, ShardId=shard, ShardIteratorType="TRIM_HORIZON")
    return lambda: len(client.get_records(ShardIterator=start["ShardIterator"], Limit=limit)["Records"])


def report(aws: LocalAws, what: str, once: Callable[[], int], *, size: int, seconds: float) -> float:
    """Print one measurement. Returns how many times the server's CPU the client takes."""
    server, client, began = aws.cpu_seconds(), time.process_time(), time.perf_counter()
    records = 0
    while time.perf_counter() - began < seconds:
        records += once()
    took = time.perf_counter() - began
    client, server = (
        time.process_time() - client,
        max(0.01, aws.cpu_seconds() - server),
    )  # CPU time is counted in steps of 10 ms
    rate = records / took
    print(
        f"{what:>18}: {rate:>9,.0f}/s {rate * size / 1e6:>7.1f} MB/s; CPU client {client / took:.0%}, server "
        f"{server / took:.0%}: the client costs {client / server:.1f} times the server"
    )
    return client / server


if __name__ == "__main__":
    sys.exit(main())
