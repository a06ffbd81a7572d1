"""Gaps of shards whose rows came from KCL, of which Headrace has read nothing."""

from __future__ import annotations

from datetime import timedelta

from headrace.pipeline.core.landing.landing import Proposal
from headrace.pipeline.core.ledger.author import Author
from headrace.pipeline.core.ledger.ledger import Kind
from headrace.pipeline.core.shards.checkpoint import LATEST, TRIM_HORIZON, Checkpoint
from headrace.pipeline.core.shards.position import TRIM, Origin, Position, Start
from headrace.pipeline.settings.choices import OnDataLoss
from tests.duties.life import DAY, Life

HOUR = timedelta(hours=1)


def test_a_gap_of_a_child_allows_for_records_that_are_older_than_the_last_one_of_an_adopted_shard() -> None:
    """The rows of shard 1, which KCL hadn't begun, and of its child name no parents, and the shards left the stream before
    Headrace's first wave. KCL had read shard 0 up to a record that is younger than those of the child.
    """
    life = Life(shards=2, on_data_loss=OnDataLoss.CONTINUE)
    began = life.clock.now()
    life.source.split(life.key(1))
    life.produce(2)
    life.later(2 * HOUR)
    life.produce(0, 1)
    read = Position(life.put[-1][1], arrival=life.clock.now())
    life.later(HOUR)
    life.source.split(life.key(0))
    now = life.clock.now()
    adopt = Author("adopt", "adopt").range
    adopted = {0: read, 1: Position(start=Start(now)), 2: Position(start=TRIM)}
    ranges = tuple(adopt(Kind.ADOPT, life.key(shard), None, upto) for shard, upto in adopted.items())
    life.table.commit(Proposal(ranges, origins=((life.stream, Origin(TRIM, now)),)))
    life.put_row(0, checkpoint=Checkpoint(str(read.sequence)), landed=Checkpoint(str(read.sequence)))
    life.put_row(1, checkpoint=LATEST)
    life.put_row(2, checkpoint=TRIM_HORIZON)
    life.later(DAY + 4 * HOUR)
    for _ in range(3):
        life.sync()
        life.wave()

    starts = {shard: since for shard, since, _ in life.skipped()}
    for shard in "12":
        since = starts[shard]
        assert since is not None
        assert since <= began, (
            f"the first record below shard 1 came later than the gap of shard {shard} begins"
        )
