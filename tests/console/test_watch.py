"""When a console looks, what it keeps while AWS fails, and what it has seen happen."""

from dataclasses import replace
from datetime import timedelta

import pytest

from headrace.pipeline.console.events import events_between
from headrace.pipeline.console.pace import LookCost, next_look_after
from headrace.pipeline.core.leases.lease import Lease
from headrace.pipeline.core.shards.checkpoint import SHARD_END
from headrace.pipeline.errors import Throttled
from headrace.pipeline.ports.usage import ProcessUsage
from tests.console.scenes import Scene, a_scene

KEY = "shardId-000000000004"
TEN = timedelta(seconds=10)


class Counted(Scene):
    """A scene that counts how often its tables are read."""

    def read(self):
        self.reads = getattr(self, "reads", 0) + 1
        return super().read()


def counted() -> Counted:
    scene = a_scene(4)
    return Counted(scene.shards, scene.tables, scene.clock, scene.stream, scene.unread)


# --- when ---------------------------------------------------------------------------------------------------------


def test_many_pages_cost_as_much_as_one_and_no_page_costs_nothing():
    scene = counted()
    console = scene.console()
    scene.later(3_600)
    for _ in range(10):
        console.look("", 0)
    assert scene.reads == 1
    scene.later(9)
    console.look("", 0)
    assert scene.reads == 1
    scene.later(1)
    console.look("", 0)
    assert scene.reads == 2


@pytest.mark.parametrize(
    ("cost", "seconds"),
    [
        (LookCost(0.0), 10.0),
        (LookCost(0.2), 10.0),
        (LookCost(0.7), 20.0),
        (LookCost(0.1, units=300), 10.0),
        (LookCost(0.1, units=300, provisioned=100), 30.0),
    ],
    ids=str,
)
def test_looks_take_at_most_a_small_part_of_a_core_and_of_provisioned_units(cost: LookCost, seconds: float):
    assert next_look_after(TEN, cost).total_seconds() == pytest.approx(seconds)


def test_an_expensive_look_makes_the_next_one_later():
    scene = counted()
    scene.used_by_look, scene.provisioned = ProcessUsage(read_units=60), 10
    console = scene.console()
    assert console.watch.report().again == timedelta(seconds=60)
    scene.later(59)
    console.watch.report()
    assert scene.reads == 1


# --- when AWS fails -----------------------------------------------------------------------------------------------


def test_the_last_good_picture_stays_while_aws_fails_and_the_sentence_is_told():
    scene = a_scene(4)
    console = scene.console()
    good = console.watch.report()
    scene.later(20)
    began = scene.clock.now()
    scene.fails = Throttled("table orders-app: throttled after 3 attempts")
    failed = console.watch.report()
    assert failed.picture is good.picture
    assert failed.trouble is not None
    assert (failed.trouble.since, failed.trouble.sentence) == (
        began,
        "table orders-app: throttled after 3 attempts",
    )
    scene.later(20)
    again = console.watch.report()
    assert again.trouble is not None
    assert again.trouble.since == began, "the trouble began with the first failure"
    scene.fails = None
    scene.later(20)
    recovered = console.watch.report()
    assert recovered.trouble is None
    assert recovered.number == good.number + 1


def test_a_first_look_that_fails_shows_the_sentence_and_no_picture():
    scene = a_scene(4)
    scene.fails = Throttled("no credentials")
    document = scene.console().look("", 0)
    assert document["trouble"]["sentence"] == "no credentials"
    assert "at" not in document
    assert "moving" not in document


# --- what happened ------------------------------------------------------------------------------------------------


def test_events_tell_handovers_ends_new_leases_workers_and_leaders():
    scene = a_scene(4)
    before = scene.tables
    scene.change("shardId-000000000003", owner="east-2", checkpoint_owner="east-1")
    scene.change(KEY, checkpoint=SHARD_END)
    scene.change("shardId-000000000008", owner=None)
    scene.change("shardId-000000000009", owner="east-3")
    scene.tables = replace(
        scene.tables,
        leases=(*scene.tables.leases, Lease("shardId-000000000010", parents=frozenset({KEY}))),
        workers=scene.tables.workers[:1],
        lock=scene.tables.lock and replace(scene.tables.lock, owner="east-2"),
    )
    events = events_between(before, scene.tables)
    assert [(event.kind, event.key and int(event.key[-2:])) for event in events] == [
        ("handover", 3),
        ("handover", 9),
        ("ended", 4),
        ("released", 8),
        ("new", 10),
        ("worker", None),
        ("leader", None),
    ]
    assert events[0].sentence == "shardId-000000000003: east-1 begins to hand it over to east-2"
    assert events[1].sentence == "shardId-000000000009: moved from east-2 to east-3"


def test_renewals_and_checkpoints_are_no_events():
    scene = a_scene(4)
    before = scene.tables
    scene.later(30)
    assert events_between(before, scene.tables) == ()


def test_many_events_of_one_kind_become_one():
    scene = a_scene(60, 6)
    before = scene.tables
    scene.tables = replace(
        scene.tables, leases=tuple(replace(lease, owner="east-9") for lease in scene.tables.leases)
    )
    events = events_between(before, scene.tables)
    assert len(events) == 1
    assert events[0].sentence.startswith("60 events like this one")


def test_the_console_keeps_what_happened_between_looks():
    scene = a_scene(4)
    console = scene.console()
    console.watch.report()
    scene.change(KEY, owner="east-1", checkpoint_owner="east-2")
    scene.later(10)
    console.watch.report()
    scene.change(KEY, owner="east-1", checkpoint_owner=None)
    scene.later(10)
    assert [event.sentence for event in console.watch.report().events] == [
        f"{KEY}: east-2 begins to hand it over to east-1",
        f"{KEY}: east-2 has handed it over to east-1",
    ]
