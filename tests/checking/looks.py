"""A look at a healthy application, for tests to damage."""

from datetime import UTC, datetime, timedelta

from headrace.pipeline.checking.look import CheckLook, TargetLook
from headrace.pipeline.core.leases.lag import A_LIVING_WORKER
from headrace.pipeline.core.leases.lease import Lease
from headrace.pipeline.core.shards.checkpoint import SHARD_END
from headrace.pipeline.core.shards.position import Position, Positions
from headrace.pipeline.core.shards.shard import MAX_HASH_KEY, HashRange
from headrace.pipeline.core.shards.stream import ShardKey, StreamId
from headrace.pipeline.ports.described_table import TableDescription

NOW = datetime(2026, 1, 31, 12, tzinfo=UTC)
STREAM = StreamId("arn:aws:kinesis:eu-west-1:123456789012:stream/orders", 1_769_000_000)
HALF = MAX_HASH_KEY // 2
DAY, HOUR, MINUTE = timedelta(days=1), timedelta(hours=1), timedelta(minutes=1)


def shard(number: int) -> str:
    return f"shardId-{number:012d}"


def key(number: int) -> ShardKey:
    return ShardKey(STREAM, shard(number))


def rows() -> tuple[Lease, ...]:
    """Shard 0 was split into 1 and 2."""
    return (
        Lease(shard(0), checkpoint=SHARD_END, looked_at=NOW - HOUR),
        Lease(
            shard(1),
            parents=frozenset({shard(0)}),
            hash_range=HashRange(0, HALF),
            owner="w1",
            looked_at=NOW,
            behind_ms=0,
        ),
        Lease(
            shard(2),
            parents=frozenset({shard(0)}),
            hash_range=HashRange(HALF + 1, MAX_HASH_KEY),
            owner="w1",
            looked_at=NOW,
            behind_ms=0,
        ),
    )


def positions() -> dict[ShardKey, Position]:
    return {
        key(0): Position(10, ended=True, children=(shard(1), shard(2))),
        key(1): Position(20, arrival=NOW),
        key(2): Position(30, arrival=NOW),
    }


def facts(
    name: str = "lake.orders", *, rows: int = 1000, files: int = 3, lately: int = 0
) -> TableDescription:
    return TableDescription(
        name=name, location=f"/lake/{name}", rows=rows, files=files, bytes=9000, added_lately=lately
    )


def healthy(at: datetime = NOW) -> CheckLook:
    return CheckLook(
        at=at,
        leases=rows(),
        readers={"w1": A_LIVING_WORKER},
        positions=Positions({}, positions()),
        through={STREAM: at - 5 * MINUTE},
        retention={"": DAY},
        facts=facts(),
        snapshots=120,
        lost_ledgers=0,
        targets=(
            TargetLook(
                name="sold",
                table="lake.sold",
                quarantine="lake.sold_quarantine",
                typed=facts("lake.sold", lately=9_950),
                aside=facts("lake.sold_quarantine", lately=50),
            ),
        ),
        proved_at=at - HOUR,
    )
