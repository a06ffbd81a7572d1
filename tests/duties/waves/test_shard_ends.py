"""Where the rows of an ended shard's children come from: the shard's last page, and a listing only where it tells less."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from headrace.pipeline.core.landing.landing import Proposal
from headrace.pipeline.core.ledger.batch import Batch, BatchLimits, Manifest
from headrace.pipeline.core.shards.shard import Child
from headrace.pipeline.core.shards.stream import ShardKey
from headrace.pipeline.duties.waves.attempt import Attempt
from headrace.pipeline.errors import Throttled
from headrace.pipeline.ports.landing import Committed
from headrace.pipeline.ports.staging import StagingSpec
from tests.duties.life import Life


def in_mid_life(shards: int) -> tuple[Life, Attempt]:
    """A run that has read each shard once."""
    life = Life(shards=shards)
    life.sync()
    for shard in range(shards):
        life.produce(shard)
    run = life.run()
    run.wave()
    return life, run


def test_a_split_and_a_merge_need_no_listing_at_the_shards_ends() -> None:
    life, run = in_mid_life(3)
    life.source.split(life.key(0))
    life.source.merge(life.key(1), life.key(2))
    life.source.fails_to_list = True

    report = run.wave()

    assert report.problems == ()
    assert [row.has_ended for row in map(life.row, range(3)) if row] == [True] * 3
    made = {
        child.shard_id: child for shard in range(3) for child in life.source.children(life.key(shard)) or ()
    }
    children = [row for row in map(life.row, (3, 4, 5)) if row is not None]
    assert len(children) == 3, "two of the split, one of the merge"
    for row in children:
        assert (row.parents, row.hash_range) == (frozenset(made[row.key].parents), made[row.key].hash_range)
        assert row.owner == "w1", "the same run's next wave reads the child"
    assert len(children[2].parents) == 2, "the row of a merge's child names both parents"

    life.source.fails_to_list = False
    for shard in (3, 4, 5):
        life.produce(shard)
    run.wave()
    life.check()


def test_two_hundred_shards_end_in_one_wave_without_a_listing() -> None:
    life, run = in_mid_life(200)
    for shard in range(200):
        life.source.split(life.key(shard))
    life.source.fails_to_list = True

    assert run.wave().problems == ()
    assert sum(row.has_ended for row in life.leases.scan().leases) == 200
    assert len(life.leases.scan().leases) == 600


def retold(life: Life, tell: list[Child]) -> None:
    """Let the last pages tell this of the children, whatever is true."""
    stage = life.stage.stage

    def stage_and_retell(batches: Sequence[Batch], spec: StagingSpec, limits: BatchLimits) -> Manifest:
        manifest = stage(batches, spec, limits)
        staged = tuple(replace(s, children=tuple(tell)) if s.upto.ended else s for s in manifest.staged)
        return replace(manifest, staged=staged)

    life.stage.stage = stage_and_retell  # type: ignore[method-assign]


def test_the_commit_of_a_shards_first_range_looks_for_the_children_that_its_last_page_names() -> None:
    """The split came after the listing of the run. By the commit another run may have read a child, after the same shard."""
    life = Life(shards=1)
    life.sync()
    life.produce(0)
    run, stage, commit = life.run(), life.stage.stage, life.table.commit
    proposals: list[Proposal] = []

    def split_and_stage(batches: Sequence[Batch], spec: StagingSpec, limits: BatchLimits) -> Manifest:
        life.source.split(life.key(0))
        return stage(batches, spec, limits)

    def noted(proposal: Proposal) -> Committed:
        proposals.append(proposal)
        return commit(proposal)

    life.stage.stage = split_and_stage  # type: ignore[method-assign]
    life.table.commit = noted  # type: ignore[method-assign]
    run.wave()
    (landed,) = (proposal for proposal in proposals if proposal.ranges)
    children = life.source.children(life.key(0))
    assert children is not None
    assert landed.below == {life.key(0): frozenset(child.shard_id for child in children)}


@pytest.mark.parametrize("lacks", ["the other parent", "this parent", "the hash keys"])
def test_where_the_last_page_lacks_something_the_stream_is_listed(lacks: str) -> None:
    life, run = in_mid_life(2)
    merged: ShardKey = life.source.merge(life.key(0), life.key(1))
    true = life.source.children(life.key(0))
    assert true is not None
    wrong = {
        "the other parent": replace(true[0], parents=(life.key(0).shard_id,)),
        "this parent": replace(true[0], parents=("shardId-000000000008", "shardId-000000000009")),
        "the hash keys": replace(true[0], hash_range=None),
    }
    retold(life, [wrong[lacks]])

    run.wave()

    row = life.leases.get(merged.shard_id)
    assert row is not None
    assert row.parents == {life.key(0).shard_id, life.key(1).shard_id}
    assert row.hash_range == true[0].hash_range


def test_where_neither_page_nor_listing_tells_the_parents_the_end_waits_for_a_later_wave() -> None:
    life, run = in_mid_life(2)
    merged = life.source.merge(life.key(0), life.key(1))
    retold(life, [Child(merged.shard_id, (life.key(0).shard_id,))])
    life.source.fails_to_list = True

    with pytest.raises(Throttled):
        run.wave()

    assert life.leases.get(merged.shard_id) is None, "a row with one parent would let the child start early"
    assert [row.has_ended for row in map(life.row, (0, 1)) if row] == [False] * 2
    life.source.fails_to_list = False
    life.wave()
    assert life.leases.get(merged.shard_id) is not None
    assert [row.has_ended for row in map(life.row, (0, 1)) if row] == [True] * 2
