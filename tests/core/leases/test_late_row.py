"""What a wave leaves in the row of a shard that it read without trouble."""

from datetime import UTC, datetime, timedelta

import pytest

from headrace.pipeline.core.leases.lag import lag_of
from headrace.pipeline.core.leases.late_row import as_looked_at
from headrace.pipeline.core.leases.lease import Lease
from headrace.pipeline.core.ledger.batch import Staged
from headrace.pipeline.core.shards.position import Position
from headrace.pipeline.core.shards.stream import ShardKey, StreamId

NOW = datetime(2026, 1, 31, 12, tzinfo=UTC)
ASSIGNED, LOOKED = NOW - timedelta(hours=2), NOW - timedelta(hours=1)
KEY = ShardKey(StreamId("arn:aws:kinesis:eu-west-1:1:stream/orders", 1), "shardId-000000000001")


@pytest.mark.parametrize(("looked_at", "lag"), [(None, NOW - ASSIGNED), (LOOKED, NOW - LOOKED)])
def test_a_shard_that_a_wave_had_no_time_for_lags_as_before(
    looked_at: datetime | None, lag: timedelta
) -> None:
    row = Lease("shardId-000000000001", assigned_at=ASSIGNED, looked_at=looked_at, behind_ms=0)
    after = as_looked_at(row, Staged(KEY, None, Position(), behind=None), NOW)
    assert lag_of(after, NOW) == lag
    # It is due all the same.
    assert after.looked_at is None or after.behind_ms


def test_a_shard_that_a_wave_read_up_to_its_tip_was_looked_at_now() -> None:
    row = Lease("shardId-000000000001", assigned_at=ASSIGNED, looked_at=LOOKED, behind_ms=5)
    after = as_looked_at(row, Staged(KEY, None, Position(), behind=timedelta(0)), NOW)
    assert (after.looked_at, after.behind_ms) == (NOW, 0)
