"""A shard that code of the user's gives to another worker."""

from dataclasses import replace
from datetime import timedelta

import pytest

from headrace.pipeline.beside_kcl.kcl_workers import why_not_handed_over
from headrace.pipeline.core.leases.change import Applied, claim
from headrace.pipeline.core.leases.lease import Lease
from headrace.pipeline.duties.fleet.handing_over import HandingOver
from headrace.pipeline.errors import BadSetting, Transient
from headrace.pipeline.settings.blocks.kcl import KclSettings
from tests.duties.world import World

SHARD = "shardId-000000000000"


@pytest.fixture
def world() -> World:
    world = World(workers=("w1", "w2"))
    world.settle()
    return world


def handing_over(world: World) -> HandingOver:
    return HandingOver(why_not=None, leases=world.leases, workers=world.rows, clock=world.clock)


def row(world: World) -> Lease:
    lease = world.leases.get(SHARD)
    assert lease is not None
    return lease


def other(world: World) -> str:
    return "w2" if row(world).holder == "w1" else "w1"


def test_a_shard_at_rest_moves_at_once_and_the_next_worker_lands_its_records(world: World):
    to = other(world)

    assert handing_over(world).hand_over(row(world), to) == f"{SHARD} is {to}'s now"

    world.produce(0)
    world.wave(to)
    world.check()


def test_the_run_that_reads_the_shard_finishes_its_wave_before_the_next_worker_reads(world: World):
    holder, to = row(world).holder, other(world)
    assert holder is not None
    assert isinstance(world.leases.apply(claim(row(world), holder, "run/1")), Applied)
    asked = world.rows.get(holder)

    sentence = handing_over(world).hand_over(row(world), to)

    assert sentence == f"{holder} finishes its wave of {SHARD}, and hands the shard over to {to}"
    assert (row(world).holder, row(world).owner, row(world).run_claim) == (holder, to, "run/1")
    after = world.rows.get(holder)
    assert asked is not None
    assert after is not None
    assert after.asked == asked.asked + 1
    assert handing_over(world).hand_over(row(world), to) == f"{holder} hands {SHARD} over to {to} already"
    with pytest.raises(BadSetting, match=f"is being handed over from {holder} to {to}"):
        handing_over(world).hand_over(row(world), "w3")


def test_the_owner_keeps_its_shard_where_it_is_named_itself(world: World):
    holder = row(world).holder or ""
    before = row(world)

    assert handing_over(world).hand_over(before, holder) == f"{SHARD} is {holder}'s already"
    assert row(world) == before


@pytest.mark.parametrize(
    ("to", "why"),
    [("nobody", "there is no worker 'nobody'"), ("stopping", "is stopping")],
    ids=["unknown", "stopping"],
)
def test_a_worker_that_is_not_there_or_stops_gets_no_shard(world: World, to: str, why: str):
    if to == "stopping":
        to = other(world)
        world.rows.set_stopping(to, stopping=True)
    before = row(world)

    with pytest.raises(BadSetting, match=why):
        handing_over(world).hand_over(before, to)
    assert row(world) == before


def test_beside_workers_of_kcl_only_the_leader_assigns(world: World):
    shared = replace(world.settings, kcl=replace(KclSettings(), failover=timedelta(seconds=10)))
    assert why_not_handed_over(world.settings) is None

    duty = replace(handing_over(world), why_not=why_not_handed_over(shared))

    with pytest.raises(BadSetting, match="the leader of the fleet alone assigns"):
        duty.hand_over(row(world), other(world))


def test_a_row_that_has_changed_since_it_was_read_stays_as_it_is(world: World):
    old = row(world)
    holder = old.holder or ""
    assert isinstance(world.leases.apply(claim(old, holder, "run/1")), Applied)
    changed = row(world)

    with pytest.raises(Transient, match="Nothing was written"):
        handing_over(world).hand_over(old, other(world))
    assert row(world) == changed
