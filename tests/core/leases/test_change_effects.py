"""What each write makes of a lease row, and by which values a row shows that a write was applied."""

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime

import pytest

from headrace.pipeline.core.leases import change
from headrace.pipeline.core.leases.change import Applied, Change, Outcome, Refused
from headrace.pipeline.core.leases.change_kind import ChangeKind
from headrace.pipeline.core.leases.failure import Failure
from headrace.pipeline.core.leases.lease import Lease
from headrace.pipeline.core.leases.own_write import is_own_write
from headrace.pipeline.core.shards.checkpoint import SHARD_END, Checkpoint
from headrace.pipeline.errors import Throttled
from tests.memory.leases import MemoryLeaseStore

READ_ROW = Lease("shardId-0", 5, Checkpoint("100"), owner="me", run_claim="run/1")
IN_HANDOVER = Lease(
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
NO_HANDOVER = replace(IN_HANDOVER, owner="me", checkpoint_owner=None)
FAILURE = Failure(NOON, "Kinesis throttles")
ENDED = replace(IN_HANDOVER, checkpoint=SHARD_END)


@pytest.mark.parametrize(
    ("row", "make", "after", "why"),
    [
        (
            NO_HANDOVER,
            lambda: change.claim(NO_HANDOVER, "me", "run/9"),
            replace(NO_HANDOVER, counter=6, run_claim="run/9"),
            "me reads this shard in run claim run/9",
        ),
        (
            NO_HANDOVER,
            lambda: change.claim(NO_HANDOVER, "me", "run/9", over=True),
            replace(NO_HANDOVER, counter=6, run_claim="run/9", wanted_by=None),
            "me reads this shard in run claim run/9",
        ),
        (
            IN_HANDOVER,
            lambda: change.beat(IN_HANDOVER, "me"),
            replace(IN_HANDOVER, counter=6),
            "worker me lives",
        ),
        (
            IN_HANDOVER,
            lambda: change.beat(IN_HANDOVER, "me", throughput_kbps=2.5),
            replace(IN_HANDOVER, counter=6, throughput_kbps=2.5),
            "worker me lives",
        ),
        (
            IN_HANDOVER,
            lambda: change.repair(IN_HANDOVER, "run/1", CHECKPOINT),
            replace(IN_HANDOVER, counter=6, checkpoint=CHECKPOINT, landed=CHECKPOINT),
            "the table's position is 200, the row's checkpoint 100",
        ),
        (
            replace(IN_HANDOVER, owner_switches=3, pending=CHECKPOINT, pending_state=b"s"),
            lambda: change.checkpoint(
                IN_HANDOVER, "me", "run/1", upto=CHECKPOINT, throughput_kbps=1.23456789
            ),
            replace(
                IN_HANDOVER, counter=6, checkpoint=CHECKPOINT, landed=CHECKPOINT, throughput_kbps=1.234568
            ),
            "landed up to 200",
        ),
        (
            replace(IN_HANDOVER, throughput_kbps=7.0),
            lambda: change.checkpoint(IN_HANDOVER, "me", "run/1", upto=CHECKPOINT),
            replace(IN_HANDOVER, counter=6, checkpoint=CHECKPOINT, landed=CHECKPOINT, throughput_kbps=7.0),
            "landed up to 200",
        ),
        (
            IN_HANDOVER,
            lambda: change.prepare_checkpoint(IN_HANDOVER, "me", "run/1", upto=CHECKPOINT, state=b"s"),
            replace(IN_HANDOVER, counter=6, pending=CHECKPOINT, pending_state=b"s"),
            "the processor is about to checkpoint at 200",
        ),
        (
            IN_HANDOVER,
            lambda: change.release(IN_HANDOVER, "run/1"),
            replace(IN_HANDOVER, run_claim=None),
            "the wave is over",
        ),
        (
            IN_HANDOVER,
            lambda: change.release(IN_HANDOVER, "run/1", failure=FAILURE),
            replace(IN_HANDOVER, run_claim=None, failure=FAILURE),
            "the wave is over",
        ),
        (
            replace(IN_HANDOVER, failure=FAILURE),
            lambda: change.release(replace(IN_HANDOVER, failure=FAILURE), "run/1"),
            replace(IN_HANDOVER, run_claim=None, failure=FAILURE),
            "the wave is over",
        ),
        (
            replace(IN_HANDOVER, failure=FAILURE),
            lambda: change.release(
                replace(IN_HANDOVER, failure=FAILURE),
                "run/1",
                is_well=True,
                looked_at=NOON,
                behind_ms=0,
                throughput_kbps=0.0,
            ),
            replace(IN_HANDOVER, run_claim=None, looked_at=NOON, behind_ms=0, throughput_kbps=0.0),
            "the wave is over",
        ),
        (
            IN_HANDOVER,
            lambda: change.release(IN_HANDOVER, "run/1", landed=CHECKPOINT),
            replace(IN_HANDOVER, run_claim=None, landed=CHECKPOINT),
            "the wave is over",
        ),
        (
            IN_HANDOVER,
            lambda: change.note_failure(IN_HANDOVER, "me", "access denied", when=NOON),
            replace(IN_HANDOVER, failure=Failure(NOON, "access denied")),
            "me can't read this shard",
        ),
        (
            IN_HANDOVER,
            lambda: change.want(IN_HANDOVER, "run/9"),
            replace(IN_HANDOVER, wanted_by="run/9"),
            "run claim run/9 waits for this shard",
        ),
        (
            IN_HANDOVER,
            lambda: change.unwant(IN_HANDOVER, "run/2"),
            replace(IN_HANDOVER, wanted_by=None),
            "run claim run/2 no longer waits for this shard",
        ),
        (
            IN_HANDOVER,
            lambda: change.assign(IN_HANDOVER, "w3", "me is dead"),
            replace(
                IN_HANDOVER, counter=6, owner="w3", checkpoint_owner=None, run_claim=None, owner_switches=1
            ),
            "me is dead",
        ),
        (
            IN_HANDOVER,
            lambda: change.move(IN_HANDOVER, "w3", "w3 has less", when=NOON.replace(microsecond=1_999)),
            replace(
                IN_HANDOVER,
                counter=6,
                owner="w3",
                checkpoint_owner=None,
                run_claim=None,
                owner_switches=1,
                assigned_at=NOON.replace(microsecond=1_000),
            ),
            "w3 has less",
        ),
        (
            NO_HANDOVER,
            lambda: change.initiate_handover(NO_HANDOVER, "w3", "w3 has less"),
            replace(NO_HANDOVER, owner="w3", checkpoint_owner="me"),
            "w3 has less",
        ),
        (
            NO_HANDOVER,
            lambda: change.initiate_handover(NO_HANDOVER, "w3", "w3 has less", when=NOON),
            replace(NO_HANDOVER, owner="w3", checkpoint_owner="me", assigned_at=NOON),
            "w3 has less",
        ),
        (
            IN_HANDOVER,
            lambda: change.redirect_handover(IN_HANDOVER, "w3", "next is dead"),
            replace(IN_HANDOVER, owner="w3"),
            "next is dead",
        ),
        (
            IN_HANDOVER,
            lambda: change.call_off_handover(IN_HANDOVER, "next is dead"),
            replace(IN_HANDOVER, owner="me", checkpoint_owner=None),
            "next is dead",
        ),
        (
            IN_HANDOVER,
            lambda: change.complete_handover(IN_HANDOVER, "worker me hands the shard over to worker next"),
            replace(IN_HANDOVER, counter=6, checkpoint_owner=None, run_claim=None),
            "worker me hands the shard over to worker next",
        ),
        (
            NO_HANDOVER,
            lambda: change.give_up(NO_HANDOVER, "me"),
            replace(NO_HANDOVER, counter=6, owner=None, run_claim=None),
            "me stops",
        ),
        (
            IN_HANDOVER,
            lambda: change.note_children(IN_HANDOVER, frozenset({"b", "a"})),
            replace(IN_HANDOVER, children=frozenset({"a", "b"})),
            "the shard has ended; its children are a, b",
        ),
        (
            NO_HANDOVER,
            lambda: change.hold(NO_HANDOVER, "run/9", "headrace reposition"),
            replace(NO_HANDOVER, counter=6, run_claim="run/9", wanted_by=None),
            "headrace reposition",
        ),
        (
            replace(
                IN_HANDOVER,
                pending=CHECKPOINT,
                pending_state=b"s",
                looked_at=NOON,
                behind_ms=5,
                landed=Checkpoint("100"),
            ),
            lambda: change.reposition(
                IN_HANDOVER, "run/1", place=Checkpoint("7"), landed=Checkpoint("7"), why="asked"
            ),
            replace(IN_HANDOVER, counter=6, checkpoint=Checkpoint("7"), landed=Checkpoint("7")),
            "asked",
        ),
        (
            replace(IN_HANDOVER, landed=Checkpoint("100")),
            lambda: change.reposition(IN_HANDOVER, "run/1", place=Checkpoint("7"), landed=None, why="asked"),
            replace(IN_HANDOVER, counter=6, checkpoint=Checkpoint("7")),
            "asked",
        ),
        (IN_HANDOVER, lambda: change.retire(IN_HANDOVER, "another life"), None, "another life"),
        (
            IN_HANDOVER,
            lambda: change.replace_retired(IN_HANDOVER, Lease(IN_HANDOVER.key), "another life"),
            Lease(IN_HANDOVER.key),
            "another life",
        ),
        (ENDED, lambda: change.delete_ended(ENDED, "all was read"), None, "all was read"),
        (
            IN_HANDOVER,
            lambda: change.delete_garbage(IN_HANDOVER, "Kinesis forgot it"),
            None,
            "Kinesis forgot it",
        ),
    ],
    ids=lambda value: value().kind.value if callable(value) else "",
)
def test_each_write_leaves_the_expected_row_and_gives_the_expected_reason(
    row: Lease, make: Callable[[], Change], after: Lease | None, why: str
):
    store = MemoryLeaseStore([row])
    made = make()
    assert isinstance(store.apply(made), Applied)
    assert store.get(row.key) == after
    assert made.why == why


@pytest.mark.parametrize(
    ("make", "kind"),
    [
        (lambda: change.create(READ_ROW, "w"), ChangeKind.CREATE),
        (lambda: change.claim(IN_HANDOVER, "me", "run/9"), ChangeKind.CLAIM),
        (lambda: change.beat(IN_HANDOVER, "me"), ChangeKind.BEAT),
        (lambda: change.repair(IN_HANDOVER, "run/1", CHECKPOINT), ChangeKind.REPAIR),
        (lambda: change.checkpoint(IN_HANDOVER, "me", "run/1", upto=CHECKPOINT), ChangeKind.CHECKPOINT),
        (lambda: change.prepare_checkpoint(IN_HANDOVER, "me", "run/1", upto=CHECKPOINT), ChangeKind.PREPARE),
        (lambda: change.release(IN_HANDOVER, "run/1"), ChangeKind.RELEASE),
        (
            lambda: change.checkpoint_and_release(
                change.checkpoint(IN_HANDOVER, "me", "run/1", upto=CHECKPOINT),
                change.release(IN_HANDOVER, "run/1"),
            ),
            ChangeKind.CHECKPOINT_AND_RELEASE,
        ),
        (lambda: change.want(IN_HANDOVER, "run/9"), ChangeKind.WANT),
        (lambda: change.unwant(IN_HANDOVER, "run/2"), ChangeKind.UNWANT),
        (lambda: change.assign(IN_HANDOVER, "w3", "w"), ChangeKind.ASSIGN),
        (lambda: change.move(IN_HANDOVER, "w3", "w", when=NOON), ChangeKind.MOVE),
        (lambda: change.initiate_handover(IN_HANDOVER, "w3", "w"), ChangeKind.INITIATE),
        (lambda: change.redirect_handover(IN_HANDOVER, "w3", "w"), ChangeKind.REDIRECT),
        (lambda: change.call_off_handover(IN_HANDOVER, "w"), ChangeKind.CALL_OFF),
        (lambda: change.complete_handover(IN_HANDOVER, "w"), ChangeKind.COMPLETE),
        (lambda: change.give_up(IN_HANDOVER, "me"), ChangeKind.GIVE_UP),
        (lambda: change.note_children(IN_HANDOVER, frozenset("c")), ChangeKind.NOTE_CHILDREN),
        (lambda: change.note_failure(IN_HANDOVER, "me", "w", when=NOON), ChangeKind.NOTE_FAILURE),
        (lambda: change.hold(IN_HANDOVER, "run/9", "w"), ChangeKind.HOLD),
        (
            lambda: change.reposition(IN_HANDOVER, "run/1", place=CHECKPOINT, landed=None, why="w"),
            ChangeKind.REPOSITION,
        ),
        (lambda: change.retire(IN_HANDOVER, "w"), ChangeKind.RETIRE),
        (lambda: change.replace_retired(IN_HANDOVER, READ_ROW, "w"), ChangeKind.REPLACE),
        (lambda: change.delete_ended(IN_HANDOVER, "w"), ChangeKind.DELETE),
        (lambda: change.delete_garbage(IN_HANDOVER, "w"), ChangeKind.DELETE),
    ],
    ids=lambda value: value.value if isinstance(value, ChangeKind) else "",
)
def test_each_write_has_the_kind_of_its_line(make: Callable[[], Change], kind: ChangeKind):
    assert make().kind is kind


def test_a_claim_or_release_removes_wanted_by_and_failure_only_where_the_row_has_them():
    quiet = replace(NO_HANDOVER, wanted_by=None)
    assert change.claim(quiet, "me", "run/9", over=True).remove == frozenset()
    assert change.hold(quiet, "run/9", "why").remove == frozenset()
    assert change.release(quiet, "run/1", is_well=True).remove == {"run_claim"}


def test_an_assignment_without_a_change_of_holder_counts_no_switch():
    for row, to in ((replace(NO_HANDOVER, owner=None), "w3"), (NO_HANDOVER, "me"), (IN_HANDOVER, "me")):
        assert change.assign(row, to, "why").add == {"counter": 1}
    assert change.assign(NO_HANDOVER, "w3", "why").add == {"counter": 1, "owner_switches": 1}


def test_a_create_writes_the_whole_row():
    made = change.create(READ_ROW, "the shard is new")
    assert (made.key, made.why, made.create) == (READ_ROW.key, "the shard is new", READ_ROW)


def test_the_error_for_a_missing_or_unneeded_whole_row_names_the_kind_of_change():
    with pytest.raises(ValueError, match=r"^a change of kind create with no whole row$"):
        Change("k", "typing error", kind=ChangeKind.CREATE)
    with pytest.raises(ValueError, match=r"^a change of kind assign with a whole row$"):
        Change("k", "typing error", kind=ChangeKind.ASSIGN, create=READ_ROW)


def test_each_unknown_field_of_a_change_is_named_in_the_error():
    with pytest.raises(ValueError, match=r"^a lease row has no \['a', 'b', 'c', 'd'\]$"):
        Change(
            "k",
            "typing error",
            kind=ChangeKind.ASSIGN,
            requires={"a": 1, "owner": None},
            put={"b": 1},
            add={"c": 1},
            remove=frozenset({"d"}),
        )


def test_an_error_at_some_rows_is_returned_and_an_error_at_all_rows_is_raised():
    first, second = Throttled("first"), Throttled("second")
    some: list[Outcome] = [Applied(READ_ROW), first, Refused(None)]
    assert change.require_some(some) is some
    assert change.require_some([]) == []
    with pytest.raises(Throttled, match="first"):
        change.require_some([first, second])


def test_only_rows_that_were_written_count_as_applied():
    other = replace(READ_ROW, key="shardId-1")
    assert change.rows_written([Applied(READ_ROW), Refused(other), Throttled("no"), Applied(other)]) == (
        READ_ROW,
        other,
    )


def test_a_row_shows_that_an_assignment_was_applied_by_the_counter_that_it_left():
    given = change.assign(IN_HANDOVER, "w3", "why")
    done = replace(IN_HANDOVER, owner="w3", checkpoint_owner=None, run_claim=None, counter=6)
    assert is_own_write(given, done)
    assert not is_own_write(given, replace(done, counter=7))
    assert not is_own_write(given, replace(done, counter=5))
    assert not is_own_write(given, replace(done, owner="w4"))
    called_off = change.call_off_handover(IN_HANDOVER, "why")
    kept = replace(IN_HANDOVER, owner="me", checkpoint_owner=None)
    assert is_own_write(called_off, kept)
    assert not is_own_write(called_off, replace(kept, counter=6))


def test_a_row_shows_that_a_want_or_a_stamp_was_applied_by_its_value_alone():
    wish = change.want(IN_HANDOVER, "run/9")
    assert is_own_write(wish, replace(IN_HANDOVER, wanted_by="run/9"))
    assert not is_own_write(wish, replace(IN_HANDOVER, wanted_by="run/8"))
    stamped = change.initiate_handover(NO_HANDOVER, "w3", "why", when=NOON)
    asked = replace(NO_HANDOVER, owner="w3", checkpoint_owner="me", assigned_at=NOON)
    assert is_own_write(stamped, asked)
    unstamped = change.initiate_handover(NO_HANDOVER, "w3", "why")
    assert not is_own_write(unstamped, asked), "another leader may have started the same handover"
    assert not is_own_write(
        change.redirect_handover(IN_HANDOVER, "w3", "why"), replace(IN_HANDOVER, owner="w3")
    )


def test_no_row_shows_that_a_write_without_values_was_applied():
    assert not is_own_write(
        change.give_up(NO_HANDOVER, "me"), replace(NO_HANDOVER, owner=None, run_claim=None, counter=6)
    )
    assert not is_own_write(change.release(IN_HANDOVER, "run/1"), replace(IN_HANDOVER, run_claim=None))


def test_a_reposition_to_no_landed_record_writes_no_landed_checkpoint():
    made = change.reposition(IN_HANDOVER, "run/1", place=CHECKPOINT, landed=None, why="asked")
    assert made.put == {"checkpoint": CHECKPOINT}
    assert made.remove == {"pending", "pending_state", "looked_at", "behind_ms", "landed"}
    made = change.reposition(IN_HANDOVER, "run/1", place=CHECKPOINT, landed=CHECKPOINT, why="asked")
    assert made.put == {"checkpoint": CHECKPOINT, "landed": CHECKPOINT}
    assert made.remove == {"pending", "pending_state", "looked_at", "behind_ms"}


def test_a_time_in_whole_milliseconds_is_written_unchanged():
    last = NOON.replace(microsecond=999_000)
    assert change.release(IN_HANDOVER, "run/1", looked_at=last).put == {"looked_at": last}
    assert change.initiate_handover(NO_HANDOVER, "w3", "why", when=last).put["assigned_at"] == last


def test_a_beat_without_a_rate_leaves_the_rate_alone():
    assert change.beat(IN_HANDOVER, "me").put == {}
    assert change.beat(IN_HANDOVER, "me", throughput_kbps=0.0).put == {"throughput_kbps": 0.0}


def test_a_checkpoint_may_say_when_the_shard_was_looked_at_and_how_far_the_run_is_behind() -> None:
    made = change.checkpoint(IN_HANDOVER, "me", "run/1", upto=CHECKPOINT, looked_at=NOON, behind_ms=7)
    assert (made.put["looked_at"], made.put["behind_ms"]) == (NOON, 7)


def test_one_write_that_checkpoints_and_releases_asks_and_does_what_both_writes_do() -> None:
    failing = replace(IN_HANDOVER, failure=FAILURE)
    last = change.checkpoint(failing, "me", "run/1", upto=CHECKPOINT, throughput_kbps=1.5)
    free = change.release(failing, "run/1", looked_at=NOON, behind_ms=7, is_well=True)
    both = change.checkpoint_and_release(last, free)
    assert (both.key, both.kind, both.holder) == ("shardId-0", ChangeKind.CHECKPOINT_AND_RELEASE, "me")
    assert both.why == f"{last.why}, and {free.why}"
    assert both.requires == {"run_claim": "run/1", "checkpoint": Checkpoint("100")}
    assert both.put == {**last.put, **free.put}
    assert both.put.keys() > last.put.keys()
    assert both.put.keys() > free.put.keys()
    assert both.add == {"counter": 1}
    assert both.remove == {"pending", "pending_state", "run_claim", "failure"}
