"""KCL's writes on a lease row."""

from dataclasses import replace

import pytest

from headrace.pipeline.core.leases.change import Applied, create
from headrace.pipeline.core.leases.lease import Lease
from headrace.pipeline.core.shards.checkpoint import Checkpoint
from headrace.pipeline.core.shards.shard import HashRange
from headrace.pipeline.kcl import writes
from tests.memory.leases import MemoryLeaseStore
from tests.vectors.rules import row_writes

MINE = Lease("shardId-0", 5, owner="me")
IN_HANDOVER = replace(MINE, owner="next", checkpoint_owner="me")


@pytest.mark.parametrize("plan", [row_writes.kcl_checkpoint, row_writes.kcl_prepare])
def test_what_the_holder_knows_of_the_shard_is_written_with_each_checkpoint(plan):
    poor = Lease("123456789012:orders:7:s", 5, owner="me", owner_switches=2)
    known = replace(
        poor, children=frozenset("c"), hash_range=HashRange(0, 9), stream="123456789012:orders:7", shard="s"
    )
    applied = MemoryLeaseStore([poor]).apply(plan(known, Checkpoint("9", 1)))
    assert isinstance(applied, Applied)
    row = applied.lease
    assert (row.children, row.hash_range) == (known.children, known.hash_range)
    assert (row.stream, row.shard) == (known.stream, known.shard)
    assert "children" not in plan(poor, Checkpoint("9", 1)).put


@pytest.mark.parametrize(
    ("owner", "checkpoint_owner", "to", "switched"),
    [
        (None, None, "w1", False),
        ("w0", None, "w1", True),
        ("w1", None, "w1", False),
        ("w1", "w0", "w1", False),
        ("w0", "w1", "w1", True),
        (None, "w1", "w1", True),
        ("w1", "w1", "w1", True),
    ],
)
def test_switches_of_the_owner_are_counted_as_kcl_does(
    owner: str | None, checkpoint_owner: str | None, to: str, *, switched: bool
):
    read = Lease("k", owner=owner, checkpoint_owner=checkpoint_owner)
    for write in (row_writes.kcl_assign(read, to, "test"), writes.take(read, to)):
        store = MemoryLeaseStore()
        store.apply(create(read, "given"))
        answer = store.apply(write)
        assert answer == Applied(Lease("k", 1, owner=to, owner_switches=int(switched)))
