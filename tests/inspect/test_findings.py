"""Which findings are reported in a sentence, and which of them need a person."""

from dataclasses import replace
from datetime import timedelta

import pytest

from headrace.pipeline.core.leases.failure import Failure
from headrace.pipeline.core.leases.lease import Lease
from headrace.pipeline.core.leases.worker import Worker
from headrace.pipeline.core.shards.checkpoint import SHARD_END, Checkpoint
from headrace.pipeline.inspect.as_json import document_of
from headrace.pipeline.inspect.as_text import observation_text
from headrace.pipeline.inspect.findings import conclusion, findings_of
from headrace.pipeline.inspect.layout import LayoutFacts, OtherRows
from headrace.pipeline.inspect.lease_rows import COLUMNS, lease_rows_of
from headrace.pipeline.inspect.observation import OddRow, TablesRead
from headrace.pipeline.inspect.telling import in_words
from tests.inspect.looks import AT, LEFT, LOCK, RIGHT, W1, W2, a_look, found, later, seen

FLEET = a_look(LEFT, RIGHT)
MINUTE = timedelta(seconds=60)
UNOWNED = replace(RIGHT, owner=None)


def test_for_a_healthy_fleet_only_the_last_sentence_is_printed():
    observed = seen(FLEET, later(FLEET))
    assert findings_of(observed) == ()
    assert (
        conclusion(observed, ()) == "app: in 30 s 2 workers moved, and nothing was seen that needs a person"
    )
    assert "--for 30s" in conclusion(seen(FLEET), ())
    assert conclusion(seen(a_look()), ()) == "app: the table holds no lease"


def test_findings_that_need_a_person_come_first_and_are_counted_at_the_end():
    first = a_look(
        LEFT, replace(UNOWNED, hash_range=None), odd=(OddRow("app", "x", "leaseCounter is missing"),)
    )
    findings = findings_of(seen(first))
    urgent = [finding.needs_person for finding in findings]
    assert urgent == sorted(urgent, reverse=True)
    assert conclusion(seen(first), findings) == "app: one thing needs a person: rows-broken"


@pytest.mark.parametrize(("watched", "sure"), [(MINUTE, True), (timedelta(seconds=59), False)])
def test_a_leader_whose_lock_beats_while_leases_stay_unowned_is_reported_as_assigning_nothing(
    watched: timedelta, *, sure: bool
):
    first = a_look(LEFT, UNOWNED)
    idle = found(seen(first, later(first), watched=watched))["leader-idle"]
    assert idle.needs_person is sure
    assert idle.names == ("right",)
    assert ("stop w1" in idle.sentence) is sure
    assert ("watch for longer" in idle.sentence) is not sure


def test_leases_of_dead_workers_count_as_waiting_for_the_leader_too():
    last = later(FLEET, leases=(replace(LEFT, counter=11), RIGHT), workers=(W1, W2))
    findings = found(seen(FLEET, last, watched=MINUTE))
    assert findings["leader-idle"].names == ("right",)
    assert findings["workers-still"].names == ("w2",)
    assert findings["workers-still"].needs_person


@pytest.mark.parametrize(("seconds", "sure"), [(19, False), (20, True)])
def test_a_silent_worker_needs_a_person_only_after_twenty_seconds_of_watching(seconds: int, *, sure: bool):
    last = later(FLEET, leases=(replace(LEFT, counter=11), RIGHT), workers=(W1, W2))
    findings = found(seen(FLEET, last, watched=timedelta(seconds=seconds)))
    assert findings["workers-still"].needs_person is sure
    assert ("dead, and 1 open lease unread" in findings["workers-still"].sentence) is sure


def test_a_leader_that_has_assigned_or_whose_lock_doesnt_beat_isnt_reported_as_assigning_nothing():
    first = a_look(LEFT, UNOWNED, replace(UNOWNED, key="third"))
    gave = later(
        first, leases=(LEFT, replace(UNOWNED, owner="w1", counter=21), replace(UNOWNED, key="third"))
    )
    assert "leader-idle" not in found(seen(first, gave, watched=MINUTE))
    assert "leader-idle" not in found(seen(first, later(first, lock=LOCK), watched=MINUTE))
    assert "leader-idle" not in found(seen(first))


def test_a_lock_that_stands_still_longer_than_its_duration_is_reported_as_a_dead_leaders():
    findings = found(seen(FLEET, later(FLEET, lock=LOCK), watched=timedelta(seconds=121)))
    assert findings["leader-dead"].needs_person
    assert "120 s" in findings["leader-dead"].sentence


# --- shards that fail ----------------------------------------------------------------------------------------

HEADRACE_WORKER = replace(W1, instance="dagster-1", beat=3)
DENIED = Failure(AT - timedelta(minutes=3), "AWS doesn't let this worker read it")


def test_a_failing_shard_needs_a_person_and_is_reported_with_beginning_and_reason():
    look = a_look(replace(LEFT, failure=DENIED), RIGHT, workers=(HEADRACE_WORKER, W2))
    failing = found(seen(look))["shards-failing"]
    assert (failing.needs_person, failing.names) == (True, ("left",))
    assert failing.sentence == (
        "1 shard can't be read or landed: left since 2026-01-31 11:57:00 UTC, by its worker's clock: "
        "AWS doesn't let this worker read it"
    )
    assert "failing shards" not in "\n".join(observation_text(seen(look)))


def test_failing_shards_are_listed_by_the_beginning_of_their_failure():
    longer = Failure(AT - timedelta(hours=2), "throttled")
    look = a_look(
        replace(LEFT, failure=DENIED),
        replace(RIGHT, owner=None, failure=longer),
        workers=(HEADRACE_WORKER, W2),
    )
    failing = found(seen(look))["shards-failing"]
    assert failing.names == ("right", "left")
    assert (
        "2 shards can't be read or landed; the shard that has failed for longest: right since"
        in failing.sentence
    )
    lines = list(observation_text(seen(look)))
    assert "  right without a worker, since 2026-01-31 10:00:00 UTC: throttled" in lines
    assert "  left of worker w1, since 2026-01-31 11:57:00 UTC: AWS doesn't let this worker read it" in lines


def test_many_failing_shards_are_shortened_in_the_text_and_complete_in_the_json():
    rows = [replace(LEFT, key=f"shard-{n:02d}", owner=None, failure=DENIED) for n in range(25)]
    observed = seen(a_look(*rows))
    assert "  ... 5 more" in list(observation_text(observed))
    assert len(document_of(observed)["failing"]) == 25


def test_ended_shards_and_those_that_kcl_reads_arent_reported_as_failing():
    ended = replace(LEFT, checkpoint=SHARD_END, failure=DENIED)
    assert "shards-failing" not in found(seen(a_look(ended, RIGHT, workers=(HEADRACE_WORKER, W2))))
    of_kcl = replace(RIGHT, failure=DENIED)
    observed = seen(a_look(LEFT, of_kcl, workers=(HEADRACE_WORKER, W2)))
    assert "shards-failing" not in found(observed)
    assert {row[-2:] for row in lease_rows_of(observed)} == {(None, None)}


# --- the leader ----------------------------------------------------------------------------------------------


def test_a_missing_leader_is_reported_if_there_should_be_one():
    first = a_look(LEFT, RIGHT, lock=None)
    assert not found(seen(first))["nobody-leads"].needs_person
    waits = a_look(LEFT, UNOWNED, lock=None)
    assert not found(seen(waits, later(waits)))["nobody-leads"].needs_person, (
        "the looks were too close to each other"
    )
    alone = found(seen(waits, later(waits), watched=MINUTE))["nobody-leads"]
    assert alone.needs_person
    assert alone.names == ("right",)
    assert "1 open lease waited (right)" in alone.sentence
    old = TablesRead(read_at=AT, tables=LayoutFacts(lease_table="app", state_table="s"), leases=(LEFT, RIGHT))
    assert findings_of(seen(old)) == ()


def test_workers_in_kcl_mode_2_x_need_no_leader_while_all_leases_are_owned():
    """With kcl.mode 2.x in three tables there is never a lock."""
    first = a_look(LEFT, RIGHT, lock=None)
    well = found(seen(first, later(first), watched=MINUTE))
    assert well.keys() == {"nobody-leads"}
    assert not well["nobody-leads"].needs_person
    assert "KCL 2.x workers need no leader" in well["nobody-leads"].sentence
    one_died = later(first, leases=(replace(LEFT, counter=11), RIGHT), workers=(W1, W2))
    dead = found(seen(first, one_died, watched=MINUTE))["nobody-leads"]
    assert dead.needs_person
    assert dead.names == ("right",)


def test_a_missing_leader_of_headraces_own_workers_is_told_without_kcl():
    ours = found(seen(a_look(LEFT, RIGHT, lock=None, workers=(HEADRACE_WORKER,))))["nobody-leads"]
    assert ours.sentence.startswith(
        "no worker holds the leader's lock, so that no lease is assigned meanwhile"
    )
    assert "KCL 2.x workers" not in ours.sentence
    mixed = found(seen(a_look(LEFT, RIGHT, lock=None, workers=(HEADRACE_WORKER, W2))))["nobody-leads"]
    assert "KCL 2.x workers need no leader" in mixed.sentence


def test_a_leader_without_a_row_among_workers_with_rows_is_reported():
    first = a_look(LEFT, RIGHT, workers=(W2,))
    assert not found(seen(first))["leader-without-row"].needs_person
    first = a_look(LEFT, UNOWNED, workers=(W2,))
    assert found(seen(first))["leader-without-row"].needs_person
    assert "leader-without-row" not in found(seen(a_look(LEFT, UNOWNED, workers=())))


def test_an_unowned_lease_needs_a_person_after_a_minute():
    first = a_look(LEFT, UNOWNED)
    assert not found(seen(first))["unowned"].needs_person
    assert not found(seen(first, later(first)))["unowned"].needs_person
    assert found(seen(first, later(first), watched=MINUTE))["unowned"].needs_person


def test_a_handover_needs_a_person_once_it_is_overdue():
    first = a_look(LEFT, replace(RIGHT, owner="w1", checkpoint_owner="w2"))
    assert found(seen(first))["handovers-pending"].sentence.endswith("when they began isn't known")
    assert not found(seen(first, later(first)))["handovers-pending"].needs_person
    overdue = found(seen(first, later(first), watched=timedelta(seconds=90)))["handovers-pending"]
    assert overdue.needs_person
    assert "right goes from w2 to w1" in overdue.sentence
    assert "1 of them for at least 90 s" in overdue.sentence
    new = found(seen(FLEET, first, watched=timedelta(seconds=90)))["handovers-pending"]
    assert not new.needs_person
    assert new.sentence.endswith("each of the handovers is new")


def test_holes_early_children_and_unknown_ranges_are_reported():
    early = Lease("child", 0, Checkpoint("7"), parents=frozenset({"left"}))
    findings = found(seen(a_look(LEFT, early)))
    assert findings["child-before-parent"].names == ("child",)
    assert findings["child-before-parent"].needs_person
    assert findings["hash-keys-unknown"].sentence.startswith("1 open lease without")
    assert "hash-keys-uncovered" not in findings
    hole = found(seen(a_look(LEFT)))["hash-keys-uncovered"]
    assert hole.needs_person
    assert RIGHT.hash_range is not None
    assert str(RIGHT.hash_range.start) in hole.sentence


def test_rows_with_old_time_stamps_are_only_a_hint_because_they_depend_on_hosts_clocks():
    old, older = Worker("w3", AT - timedelta(seconds=61)), Worker("w4", AT - timedelta(days=2))
    quiet = found(seen(a_look(LEFT, RIGHT, workers=(W1, W2, old, older))))["workers-quiet"]
    assert not quiet.needs_person
    assert quiet.names == ("w3", "w4")
    assert "hosts' clocks" in quiet.sentence
    assert "1 of them for a day or more" in quiet.sentence
    fresh = Worker("w3", AT - timedelta(seconds=60))
    assert "workers-quiet" not in found(seen(a_look(LEFT, RIGHT, workers=(W1, W2, fresh))))


def test_a_stopping_worker_isnt_reported_for_the_old_time_stamp_of_its_row():
    stopping = replace(W2, last_update=AT - timedelta(hours=1), stopping=True)
    first = a_look(LEFT, replace(RIGHT, owner="w1"), workers=(W1, stopping))
    assert found(seen(first)).keys() == {"workers-stopping"}
    beats = replace(stopping, beat=stopping.beat + 1)
    assert found(seen(first, later(first, workers=(W1, beats)))).keys() == {"workers-stopping"}


def test_a_living_worker_whose_row_is_old_is_reported_because_kcls_leader_assigns_it_nothing():
    behind = (replace(W1, last_update=AT - timedelta(minutes=10)), W2)
    first = a_look(LEFT, RIGHT, workers=behind)
    findings = found(seen(first, later(first, workers=behind)))
    assert findings["workers-passed-over"].names == ("w1",)
    assert findings["workers-passed-over"].needs_person
    assert "workers-quiet" not in findings


def test_odd_rows_need_a_person_and_rows_of_unknown_kinds_dont():
    odd = (OddRow("app", "x", "checkpoint is missing"), OddRow("app", "y", "a row of type NEW", broken=False))
    findings = found(seen(a_look(LEFT, RIGHT, odd=odd)))
    assert findings["rows-broken"].needs_person
    assert "x in app: checkpoint is missing" in findings["rows-broken"].sentence
    assert not findings["rows-unknown"].needs_person
    assert findings["rows-unknown"].names == ("y",)


def test_a_stray_state_table_is_reported_with_its_repair():
    first = a_look(LEFT, RIGHT)
    trapped = replace(
        first,
        tables=LayoutFacts(
            lease_table="app", state_table="stray", beside_leases=OtherRows(workers=2), state=OtherRows()
        ),
    )
    trap = found(seen(trapped))["layout-trap"]
    assert trap.needs_person
    assert "table stray" in trap.sentence
    assert "COMPLETE" in trap.sentence


def test_a_stable_imbalance_of_clusters_needs_a_person_and_uneven_workers_dont():
    def fleet(*owners: str) -> TablesRead:
        return a_look(*(Lease(f"s{n}", owner=owner) for n, owner in enumerate(owners)), workers=())

    stable = found(seen(fleet("a-1", "a-1", "a-2", "a-2", "b-1", "b-2")))
    assert stable["clusters-uneven"].needs_person
    assert "workers-uneven" not in stable
    settling = found(seen(fleet("a-1", "a-1", "a-1", "a-2", "a-2", "a-2", "b-1", "b-2")))
    assert not settling["clusters-uneven"].needs_person
    assert not settling["workers-uneven"].needs_person


def test_a_dead_owner_of_ended_leases_only_doesnt_count_for_the_balance():
    owners = ("a-1", "a-1", "a-2", "a-2", "b-1", "b-1")
    rows = [Lease(f"s{n}", owner=owner) for n, owner in enumerate(owners)]
    ended = Lease("old", 3, SHARD_END, owner="b-2")
    alive = tuple(Worker(name, AT) for name in ("a-1", "a-2", "b-1"))
    gone = Worker("b-2", AT - timedelta(minutes=5))
    assert "workers-uneven" not in found(seen(a_look(*rows, ended, workers=alive)))
    assert "workers-uneven" not in found(seen(a_look(*rows, ended, workers=(*alive, gone))))
    lives = a_look(*rows, ended, workers=(*alive, replace(gone, last_update=AT)))
    assert "workers-uneven" in found(seen(lives)), "a living worker without leases counts"


def test_stopping_workers_are_named():
    findings = found(seen(a_look(LEFT, RIGHT, workers=(W1, replace(W2, stopping=True)))))
    assert findings["workers-stopping"].names == ("w2",)


def test_long_lists_are_shortened_in_the_sentence_and_complete_in_the_json():
    rows = [Lease(f"s{n}") for n in range(12)]
    unowned = found(seen(a_look(*rows)))["unowned"]
    assert "and 7 more" in unowned.sentence
    assert len(unowned.names) == 12


@pytest.mark.parametrize(
    ("seconds", "said"),
    [(0, "0 s"), (299, "299 s"), (300, "5 min"), (7_199, "120 min"), (7_200, "2 h"), (172_800, "2 days")],
)
def test_a_duration_is_shown_in_a_readable_unit(seconds: int, said: str):
    assert in_words(timedelta(seconds=seconds)) == said


def test_a_lease_is_shown_as_a_row_with_kcls_attribute_names():
    handing = replace(
        RIGHT, owner="east-1", checkpoint_owner="w2", parents=frozenset({"q", "p"}), throughput_kbps=1.5
    )
    first = a_look(replace(LEFT, checkpoint=SHARD_END), handing, Lease("alone"))
    rows = [dict(zip(COLUMNS, row, strict=True)) for row in lease_rows_of(seen(first))]
    assert [row["leaseKey"] for row in rows] == ["alone", "left", "right"]
    assert [row["state"] for row in rows] == ["unowned", "ended", "handover"]
    assert rows[0]["clusterName"] is None
    assert rows[2]["clusterName"] == "east"
    assert rows[2]["parentShardId"] == "p, q"
    assert rows[2]["throughputKBps"] == 1.5
    assert {row["moved"] for row in rows} == {None}
    last = later(first, leases=(*first.leases[:1], replace(handing, counter=21), first.leases[2]))
    again = [dict(zip(COLUMNS, row, strict=True)) for row in lease_rows_of(seen(first, last))]
    assert [row["moved"] for row in again] == [False, False, True]


def test_a_table_whose_stream_was_switched_off_needs_a_person_and_no_word_is_of_hash_keys():
    over = Lease("shardId-0", checkpoint=SHARD_END)
    findings = found(seen(a_look(over)))
    assert "hash-keys-uncovered" not in findings
    assert findings["no-open-lease"].needs_person
    assert "docs/use/dynamodb-streams.md" in findings["no-open-lease"].sentence
