"""What a refused renewal means to KCL: an echo of one's own, a handover that began, or the loss of the lease."""

from dataclasses import replace

import pytest

from pipeline.core.change import Applied, Refused, create
from pipeline.core.checkpoint import Checkpoint
from pipeline.core.lease import Lease
from pipeline.core.shard import HashRange
from pipeline.kcl import writes
from pipeline.kcl.writes import HandingOver, Lost, Renewed, after_refused_renewal
from pipeline.memory.leases import MemoryLeaseStore

MINE = Lease("shardId-0", 5, owner="me")
HANDING = replace(MINE, owner="next", checkpoint_owner="me")


def test_the_echo_of_ones_own_write_is_a_renewal():
    found = replace(MINE, counter=6)
    assert after_refused_renewal(MINE, found) == Renewed(found)


@pytest.mark.parametrize(
    "found",
    [
        None,
        replace(MINE, counter=7),
        replace(MINE, counter=5),
        replace(MINE, counter=6, owner="other"),
        replace(MINE, counter=6, owner=None),
        replace(MINE, owner="next", checkpoint_owner="other"),
        replace(MINE, checkpoint_owner="me"),
    ],
    ids=["gone", "moved on", "unchanged", "taken", "evicted", "handed to others", "handed to oneself"],
)
def test_anything_else_is_the_loss_of_the_lease(found: Lease | None):
    assert after_refused_renewal(MINE, found) == Lost(found)


def test_a_handover_that_began_is_gone_on_with_and_renewed_by_the_counter_alone():
    begun = after_refused_renewal(MINE, HANDING)
    assert begun == HandingOver(HANDING)
    assert isinstance(begun, HandingOver)
    assert writes.renew(begun.lease).requires == {"counter": 5}


def test_the_counter_goes_on_from_what_was_remembered_not_from_what_was_found():
    """Somebody who moved the counter meanwhile is found out by the second renewal."""
    begun = after_refused_renewal(MINE, replace(HANDING, counter=9))
    assert isinstance(begun, HandingOver)
    assert begun.lease.counter == 5


def test_in_a_known_handover_an_echo_is_never_recognized():
    """As in KCL: the row's owner is the next one there, so the lease counts as lost."""
    found = replace(HANDING, counter=6)
    assert after_refused_renewal(HANDING, found) == Lost(found)


def test_a_holder_renews_through_a_whole_handover():
    store = MemoryLeaseStore([MINE])
    assert isinstance(store.apply(writes.begin_handover(MINE, "next", "balance")), Applied)
    refused = store.apply(writes.renew(MINE))
    assert isinstance(refused, Refused)
    begun = after_refused_renewal(MINE, refused.found)
    assert isinstance(begun, HandingOver)
    renewed = store.apply(writes.renew(begun.lease, throughput_kbps=2.5))
    assert renewed == Applied(replace(HANDING, counter=6, throughput_kbps=2.5))
    done = store.apply(writes.assign(renewed.lease, "next", "its last batch is done"))
    assert done == Applied(replace(renewed.lease, counter=7, checkpoint_owner=None))
    refused = store.apply(writes.renew(renewed.lease))
    assert isinstance(refused, Refused)
    assert isinstance(after_refused_renewal(renewed.lease, refused.found), Lost)


@pytest.mark.parametrize("plan", [writes.checkpoint, writes.prepare])
def test_what_the_holder_knows_of_the_shard_goes_with_each_checkpoint(plan):
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
def test_switches_are_counted_as_kcl_does(
    owner: str | None, checkpoint_owner: str | None, to: str, *, switched: bool
):
    read = Lease("k", owner=owner, checkpoint_owner=checkpoint_owner)
    for write in (writes.assign(read, to, "test"), writes.take(read, to)):
        store = MemoryLeaseStore()
        store.apply(create(read, "given"))
        answer = store.apply(write)
        assert answer == Applied(Lease("k", 1, owner=to, owner_switches=int(switched)))
