"""What a process of an earlier version does with a table. Its `pipeline` comes from a zip file in tests/released: see `tests.lake.released`.

    python released_process.py <folder of the table> land|fill|upkeep

It prints one JSON object: the version's file, and what it did or the error that it met. It uses nothing of tests, whose helpers belong
to the present version.
"""

import json
import sys
from datetime import UTC, datetime
from pathlib import Path

import pipeline
from pipeline.clock import SystemClock
from pipeline.core.landing import Proposal
from pipeline.core.lineage import Kind, Range
from pipeline.core.position import TRIM, Origin, Position
from pipeline.core.stream import ShardKey, StreamId
from pipeline.errors import WrongShape
from pipeline.lake.catalog import embedded_catalog
from pipeline.lake.iceberg import IcebergTable
from pipeline.lake.table_files import IcebergFiles

NOON = datetime(2026, 1, 31, 12, tzinfo=UTC)
STREAM = StreamId("arn:aws:kinesis:eu-west-1:123456789012:stream/orders", 1_769_000_000)
MANY = 4_000
"""Shards whose positions don't fit into a summary."""


def fill(table: IcebergTable) -> str:
    """Make the table, with positions of very many shards."""
    table.ensure(create=True)
    ranges = (
        Range(
            Kind.ADOPT,
            key(n),
            None,
            Position(10**55 + pow(7, n + 1, 10**30 + 57), arrival=NOON),
            "old",
            "old/1",
        )
        for n in range(MANY)
    )
    origin = (STREAM, Origin(TRIM, NOON))
    return f"landed {len(table.commit(Proposal(tuple(ranges), origins=(origin,))).landing.page.ranges)}"


def land(table: IcebergTable) -> str:
    """A range of one more shard, as a run of that version lands it."""
    new = key(9_000 + len(table.load().positions.shards))
    committed = table.commit(Proposal((Range(Kind.LANDED, new, None, Position(1), "old", "old/1"),)))
    return f"landed {len(committed.landing.page.ranges)}"


def upkeep(table: IcebergTable) -> str:
    """The look by which upkeep decides what to delete."""
    look = IcebergFiles(table).look()
    return f"unnamed {len([each for each in look.stored if each.path not in look.named])}"


def key(number: int) -> ShardKey:
    return ShardKey(STREAM, f"shardId-{number:012d}")


def main() -> None:
    folder, act = Path(sys.argv[1]), {"fill": fill, "land": land, "upkeep": upkeep}[sys.argv[2]]
    table = IcebergTable(
        embedded_catalog(folder), "lake.records", state=str(folder / "state"), clock=SystemClock()
    )
    try:
        did = act(table)
    except WrongShape as error:
        did = f"refused: {error}"
    print(json.dumps({"version": pipeline.__file__, "did": did}))


if __name__ == "__main__":
    main()
