"""ListShards is eventually consistent: of two listings the later one may show an earlier state."""

from datetime import timedelta

from headrace.pipeline.core.shards.position import Start
from headrace.pipeline.core.shards.shard import Shard
from headrace.pipeline.core.shards.stream import StreamId
from headrace.pipeline.settings.choices import InitialPosition
from tests.duties.life import Life

SECOND = timedelta(seconds=1)


def test_a_late_listing_doesnt_make_an_unread_parent_look_as_if_it_was_closed_before_the_start():
    life = Life(shards=2, position=InitialPosition.LATEST)
    life.sync()
    life.later(5 * SECOND)
    life.produce(0, 1)
    life.produce(1, 1)
    life.wave()
    life.source.split(life.key(0))
    life.later(SECOND)
    life.produce(3, 4)
    life.source.merge(life.key(3), life.key(1))
    life.later(SECOND)
    life.produce(4, 2)
    listed = life.source.list_shards
    before = tuple(
        s for s in listed(life.stream) if s.shard_id in {life.key(0).shard_id, life.key(1).shard_id}
    )
    life.lose_rows(0)

    def list_late(stream: StreamId, since: Start | None = None) -> tuple[Shard, ...]:
        return listed(stream) if since is None or since.at is None else before

    life.source.list_shards = list_late  # type: ignore[method-assign]
    for _ in range(4):
        life.wave()
    assert life.at(4) is None, "one of the shard's parents hasn't been read"
    life.source.list_shards = listed  # type: ignore[method-assign]
    for _ in range(6):
        life.sync()
        life.wave()
    assert sorted(life.landed()) == sorted(life.put)
