"""Writes on a lease row, as values."""

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.pipeline.core.leases import change, change_kind
from headrace.pipeline.core.leases.change import Change
from headrace.pipeline.core.leases.change_kind import ChangeKind
from headrace.pipeline.core.leases.lease import Lease, run_of_claim
from headrace.pipeline.core.leases.own_write import is_own_write
from headrace.pipeline.core.shards.checkpoint import SHARD_END, Checkpoint
from tests.core.strategies import CHECKPOINTS, LEASES

READ_ROW = Lease("shardId-0", 5, Checkpoint("100"), owner="me", run_claim="run/1")
CLAIM = change.claim(replace(READ_ROW, run_claim=None), "me", "run/1")
CHECKPOINT_WRITE = change.checkpoint(READ_ROW, "me", "run/1", upto=Checkpoint("200"))


def test_a_change_that_names_an_unknown_field_is_an_error():
    for said in ({"put": {"ownr": "me"}}, {"requires": {"ownr": None}}, {"add": {"ownr": 1}}):
        with pytest.raises(ValueError, match="ownr"):
            Change("k", "typing error", kind=ChangeKind.ASSIGN, **said)


def test_each_kind_of_change_has_one_line_in_the_table_of_the_docstring():
    table = (change_kind.__doc__ or "").split("-+-", 1)[1].splitlines()[1:]
    named = [name.strip() for line in table for name in line.split("|", 1)[0].split(",")]
    assert named == list(ChangeKind)


def test_only_a_create_carries_a_whole_row():
    with pytest.raises(ValueError, match="no whole row"):
        Change("k", "typing error", kind=ChangeKind.CREATE)
    with pytest.raises(ValueError, match="a whole row"):
        Change("k", "typing error", kind=ChangeKind.ASSIGN, create=READ_ROW)


def test_a_lease_of_a_living_worker_is_moved_and_any_other_is_assigned():
    assert change.assign(HELD, "w3", "why").kind is ChangeKind.ASSIGN
    moved = change.move(HELD, "w3", "why", when=datetime(2026, 1, 1, tzinfo=UTC))
    assert moved.kind is ChangeKind.MOVE
    assert moved.requires == change.assign(HELD, "w3", "why").requires
    assert moved.put["assigned_at"] == datetime(2026, 1, 1, tzinfo=UTC)


def test_only_retire_and_the_delete_changes_delete_a_row():
    ended = replace(READ_ROW, checkpoint=SHARD_END)
    deleting = (
        change.retire(READ_ROW, "w"),
        change.delete_ended(ended, "w"),
        change.delete_garbage(READ_ROW, "w"),
    )
    assert all(each.deletes for each in deleting)
    replaced = change.replace_retired(READ_ROW, READ_ROW, "w")
    assert not any(each.deletes for each in (CLAIM, CHECKPOINT_WRITE, change.create(READ_ROW, "w"), replaced))


def test_a_row_with_this_claim_shows_that_the_claim_was_applied():
    assert is_own_write(CLAIM, replace(READ_ROW, counter=6))
    assert is_own_write(CLAIM, replace(READ_ROW, counter=9, checkpoint=SHARD_END))


def test_a_row_with_another_claim_or_none_doesnt_show_that_the_claim_was_applied():
    assert not is_own_write(CLAIM, replace(READ_ROW, run_claim="run/2"))
    assert not is_own_write(CLAIM, replace(READ_ROW, run_claim=None))
    assert not is_own_write(CLAIM, None)


def test_a_row_shows_that_a_checkpoint_was_applied_only_by_the_claim_and_all_its_values():
    done = replace(READ_ROW, checkpoint=Checkpoint("200"), landed=Checkpoint("200"))
    assert is_own_write(CHECKPOINT_WRITE, done)
    assert not is_own_write(CHECKPOINT_WRITE, replace(done, run_claim="run/2"))
    assert not is_own_write(CHECKPOINT_WRITE, replace(done, landed=None))
    assert not is_own_write(CHECKPOINT_WRITE, replace(done, checkpoint=Checkpoint("200", 1)))
    assert not is_own_write(CHECKPOINT_WRITE, replace(done, pending=Checkpoint("300")))
    assert not is_own_write(CHECKPOINT_WRITE, READ_ROW)


@given(LEASES, CHECKPOINTS, st.floats(0, 10**6))
def test_a_checkpoints_throughput_is_rounded_to_what_a_row_can_hold(read: Lease, at: Checkpoint, kbps: float):
    wanted = change.checkpoint(read, "me", "run/1", upto=at, throughput_kbps=kbps)
    kept = wanted.put["throughput_kbps"]
    assert float(f"{kept:.6f}") == kept
    assert abs(kept - kbps) <= 1e-6


def test_a_release_writes_looked_at_in_whole_milliseconds():
    wanted = change.release(
        READ_ROW, "run/1", looked_at=datetime(2026, 1, 1, microsecond=123_999, tzinfo=UTC)
    )
    assert wanted.put["looked_at"] == datetime(2026, 1, 1, microsecond=123_000, tzinfo=UTC)


@given(LEASES)
def test_an_assignment_demands_owner_holder_counter_and_epoch_as_observed(read: Lease):
    wanted = change.assign(read, "you", "dead")
    assert wanted.requires == {
        "owner": read.owner,
        "checkpoint_owner": read.checkpoint_owner,
        "counter": read.counter,
        "stream_epoch": read.stream_epoch,
    }
    switched = read.holder not in {None, "you"}
    assert wanted.add == ({"counter": 1, "owner_switches": 1} if switched else {"counter": 1})


@given(LEASES)
def test_no_write_of_a_run_demands_a_counter(read: Lease):
    for wanted in (
        change.claim(read, "me", "run/1"),
        change.beat(read, "me"),
        change.repair(read, "run/1", SHARD_END),
        change.checkpoint(read, "me", "run/1", upto=SHARD_END),
        change.release(read, "run/1"),
        change.want(read, "run/1"),
        change.give_up(read, "me"),
    ):
        assert "counter" not in wanted.requires
        assert wanted.why


@given(LEASES)
def test_a_claim_demands_the_claim_and_the_wanted_by_as_read_and_no_handover(read: Lease):
    wanted = change.claim(read, "me", "run/9")
    assert wanted.requires == {
        "owner": "me",
        "checkpoint_owner": None,
        "run_claim": read.run_claim,
        "wanted_by": read.wanted_by,
        "stream_epoch": read.stream_epoch,
    }


@given(st.text("abc-", min_size=1), st.text("abc/-"))
def test_the_run_id_in_a_claim_is_the_text_before_the_first_slash(run: str, attempt: str):
    assert run_of_claim(f"{run}/{attempt}") == run


HELD = Lease(
    "shardId-0",
    5,
    Checkpoint("100"),
    owner="next",
    checkpoint_owner="me",
    run_claim="run/1",
    wanted_by="run/2",
    stream_epoch=7,
)
CHECKPOINT = Checkpoint("200")
NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
TAKING = {"owner", "checkpoint_owner", "run_claim", "wanted_by", "stream_epoch"}


@pytest.mark.parametrize(
    ("make", "holder", "demands"),
    [
        (lambda: change.claim(HELD, "me", "run/9"), None, TAKING),
        (lambda: change.hold(HELD, "run/9", "why"), None, TAKING),
        (lambda: change.beat(HELD, "me"), "me", {"run_claim"}),
        (lambda: change.repair(HELD, "run/1", CHECKPOINT), "me", {"run_claim", "checkpoint"}),
        (lambda: change.checkpoint(HELD, "me", "run/1", upto=CHECKPOINT), "me", {"run_claim", "checkpoint"}),
        (
            lambda: change.prepare_checkpoint(HELD, "me", "run/1", upto=CHECKPOINT),
            "me",
            {"run_claim", "checkpoint"},
        ),
        (lambda: change.release(HELD, "run/1"), None, {"run_claim"}),
        (
            lambda: change.note_failure(HELD, "me", "why", when=NOON),
            "me",
            {"run_claim", "stream_epoch", "failure"},
        ),
        (lambda: change.want(HELD, "run/9"), None, {"wanted_by"}),
        (lambda: change.unwant(HELD, "run/2"), None, {"wanted_by"}),
        (
            lambda: change.assign(HELD, "w3", "why"),
            None,
            {"owner", "checkpoint_owner", "counter", "stream_epoch"},
        ),
        (
            lambda: change.initiate_handover(HELD, "w3", "why"),
            None,
            {"owner", "checkpoint_owner", "stream_epoch"},
        ),
        (lambda: change.redirect_handover(HELD, "w3", "why"), None, {"owner", "checkpoint_owner"}),
        (lambda: change.call_off_handover(HELD, "why"), None, {"owner", "checkpoint_owner", "counter"}),
        (lambda: change.complete_handover(HELD, "why"), None, {"owner", "checkpoint_owner", "run_claim"}),
        (lambda: change.give_up(HELD, "me"), "me", {"run_claim"}),
        (lambda: change.note_children(HELD, frozenset("c")), "me", {"run_claim", "stream_epoch"}),
        (
            lambda: change.reposition(HELD, "run/1", place=CHECKPOINT, landed=None, why="why"),
            None,
            {"run_claim", "checkpoint"},
        ),
        (lambda: change.retire(HELD, "why"), None, {"stream_epoch"}),
        (lambda: change.replace_retired(HELD, Lease(HELD.key), "why"), None, {"stream_epoch"}),
        (lambda: change.delete_ended(HELD, "why"), None, {"checkpoint", "counter"}),
        (
            lambda: change.delete_garbage(HELD, "why"),
            None,
            {"stream_epoch", "checkpoint", "owner", "checkpoint_owner", "run_claim"},
        ),
    ],
    ids=lambda value: value().why if callable(value) else "",
)
def test_each_write_demands_what_its_line_in_the_table_says(
    make: Callable[[], Change], holder: str | None, demands: set[str]
):
    made = make()
    assert made.holder == holder
    assert made.requires.keys() == demands
    new = {
        "owner": "me",
        "checkpoint_owner": None,
    }  # the owner that a claim demands is this worker, and there must be no handover
    for name, value in made.requires.items():
        assert value in {getattr(HELD, name), new.get(name)}


@pytest.mark.parametrize(
    ("make", "left"),
    [
        (lambda: change.assign(HELD, "w3", "why"), {"wanted_by"}),
        (lambda: change.complete_handover(HELD, "why"), {"owner", "wanted_by"}),
        (lambda: change.call_off_handover(HELD, "why"), {"run_claim", "wanted_by"}),
        (lambda: change.give_up(HELD, "me"), {"wanted_by"}),
        (lambda: change.release(HELD, "run/1"), {"owner", "checkpoint_owner", "wanted_by"}),
        (lambda: change.unwant(HELD, "run/2"), {"owner", "checkpoint_owner", "run_claim"}),
    ],
    ids=["assign", "complete", "call off", "give up", "release", "unwant"],
)
def test_a_write_that_takes_a_row_from_its_holder_ends_its_handover_and_its_claim(
    make: Callable[[], Change], left: set[str]
):
    made = make()
    assert {"owner", "checkpoint_owner", "run_claim", "wanted_by"} - made.remove - made.put.keys() == left
