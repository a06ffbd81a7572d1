"""A shard that splits twice on one side before a start that is still to come: a shard in between has no row, since nothing in it is wanted."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

from headrace.pipeline.core.sharing.sync_plan import ends_lost
from headrace.pipeline.settings.choices import InitialPosition
from tests.duties.life import Life
from tests.memory.clock import START

HOUR = timedelta(hours=1)


def a_split_before_a_future_start() -> Life:
    """Shard 0 splits into 1 and 2, and 1 into 3 and 4, before the stream's start; 2 is open at the start, and splits later. The children of 1
    have landed, and the run after it has found that shard 0 counts as ended."""
    life = Life(position=InitialPosition.AT_TIMESTAMP, timestamp=START + 2 * HOUR)
    life.sync()
    life.source.split(life.key(0))
    life.later(HOUR)
    life.source.split(life.key(1))
    life.later(2 * HOUR)
    life.produce(2)
    life.produce(3)
    life.produce(4)
    life.source.split(life.key(2))
    life.sync()
    life.wave(["shardId-000000000003"])
    life.wave(["shardId-000000000000"])
    return life


def test_an_open_shard_is_read_though_its_parent_ended_by_a_descendant_over_a_shard_without_a_row() -> None:
    life = a_split_before_a_future_start()
    ended = life.row(0)
    assert ended is not None
    assert ended.has_ended
    assert life.at(0) is None, "shard 0 has no position of its own: its descendant 3 has one"
    for _ in range(4):
        life.sync()
        life.wave()
    life.check()


def test_an_open_shard_is_read_though_no_listing_shows_the_shard_without_a_row_any_more() -> None:
    life = a_split_before_a_future_start()
    life.source.hidden = frozenset({life.key(0).shard_id, life.key(1).shard_id})
    for _ in range(4):
        assert not any("rolled back" in why for why in life.sync())
        life.wave()
    life.check()


def test_an_end_that_a_listing_explains_isnt_told_as_a_table_that_was_rolled_back() -> None:
    life = a_split_before_a_future_start()
    # As rows are that an earlier version of Headrace has ended: they name no children.
    rows = tuple(replace(row, children=frozenset()) for row in life.leases.scan().leases)
    listed = life.source.list_shards(life.stream)
    assert ends_lost(life.stream, rows, life.positions) == ("shardId-000000000000",)
    assert ends_lost(life.stream, rows, life.positions, listed=listed) == ()
