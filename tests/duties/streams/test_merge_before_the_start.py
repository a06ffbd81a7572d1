"""A merge of two shards of which one was read, and the lease row of the other was lost before any run had read it."""

from datetime import timedelta

import pytest

from headrace.pipeline.core.ledger.ledger import ParentIs
from headrace.pipeline.core.shards.position import Start
from headrace.pipeline.core.shards.shard import Shard
from headrace.pipeline.core.shards.stream import StreamId
from headrace.pipeline.settings.choices import InitialPosition, OnDataLoss
from tests.duties.life import DAY, Life
from tests.memory.clock import START

HOUR = timedelta(hours=1)


def a_merge_before_a_future_start() -> Life:
    """Shards 0 and 1 merge into 2, an hour before the stream's start. The lease row of shard 1 is lost."""
    life = Life(
        shards=2,
        position=InitialPosition.AT_TIMESTAMP,
        timestamp=START + 2 * HOUR,
        on_data_loss=OnDataLoss.CONTINUE,
    )
    life.sync()
    life.later(HOUR)
    life.source.merge(life.key(0), life.key(1))
    life.lose_rows(1)
    return life


@pytest.mark.parametrize("when", [2 * HOUR, DAY - HOUR, DAY + HOUR])
def test_a_child_waits_for_no_parent_that_closed_before_a_start_that_was_still_to_come(
    when: timedelta,
) -> None:
    life = a_merge_before_a_future_start()
    life.wave(["shardId-000000000000"])
    ended = life.at(0)
    assert ended is not None
    assert ended.ended
    life.sync()
    assert life.wave().problems == (), "no shard has to be read before the start"
    life.later(when)
    life.produce(2)
    assert life.wave().problems == ()
    life.check()
    reasons = {
        p.shard_id[-1]: p.why for s in life.table.snapshots.values() for r in s.page.ranges for p in r.parents
    }
    assert reasons["0"] is ParentIs.ENDED
    # Kinesis lists a closed shard until its retention is over.
    assert reasons["1"] is (ParentIs.GONE if when > DAY else ParentIs.BEFORE_START)


def test_a_parent_whose_records_since_the_start_left_the_stream_unread_is_not_taken_for_empty() -> None:
    """Kinesis finds no record in shard 1, because the retention no longer covers the start. Only
    the listing still shows the shard."""
    life = Life(shards=2, position=InitialPosition.LATEST, on_data_loss=OnDataLoss.CONTINUE)
    life.sync()
    life.later(timedelta(seconds=2))
    life.produce(1)
    life.later(23 * HOUR)
    life.source.merge(life.key(0), life.key(1))
    life.lose_rows(1)
    life.wave(["shardId-000000000000"])
    life.later(2 * HOUR)
    listed = life.source.list_shards

    def late(stream: StreamId, since: Start | None = None) -> tuple[Shard, ...]:
        """The listing for the start leaves shard 1 out."""
        hidden = since is not None and since.at is not None
        return tuple(s for s in listed(stream, since) if not hidden or s.shard_id[-1] != "1")

    life.source.list_shards = late  # type: ignore[method-assign]
    assert "shardId-000000000001 may have been open" in life.wave().problems[0].why
    assert life.at(2) is None
    life.source.list_shards = listed  # type: ignore[method-assign]
    life.sync()
    life.wave()
    life.wave()
    assert life.at(2) is not None
    assert life.skipped()[0][0] == "1", "the loss of shard 1's records is reported"
