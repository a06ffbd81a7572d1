"""What every lease store promises: each write of core.change is applied where its condition holds, and refused
where it doesn't."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import timedelta
from threading import Barrier
from typing import TYPE_CHECKING, Any

import pytest

from headrace.pipeline.aws.leases.leases import DynamoLeaseStore
from headrace.pipeline.core.leases import change
from headrace.pipeline.core.leases.change import Applied, Refused
from headrace.pipeline.core.leases.failure import Failure
from headrace.pipeline.core.leases.lease import Lease
from headrace.pipeline.core.shards.checkpoint import LATEST, SHARD_END, Checkpoint
from headrace.pipeline.core.shards.shard import HashRange
from headrace.pipeline.errors import WrongShape
from headrace.pipeline.ports.leases import LeaseStore
from tests.contract.lease_cases import CASES, CHECKPOINT, CLAIMED, FURTHER_CHECKPOINT, IDLE, KEY, NOON, Row
from tests.memory.leases import MemoryLeaseStore
from tests.stand_in import a_table

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient


@pytest.fixture(params=["memory", "dynamodb"])
def store(request: pytest.FixtureRequest) -> Iterator[LeaseStore]:
    if request.param == "memory":
        yield MemoryLeaseStore()
        return
    client: DynamoDBClient = request.getfixturevalue("dynamodb")
    table = a_table(client, "leaseKey")
    yield DynamoLeaseStore(client, table)
    client.delete_table(TableName=table)


def hold(store: LeaseStore, *rows: Lease) -> None:
    """Put these rows into the store."""
    for row in rows:
        assert store.apply(change.create(row, "given")) == Applied(row)


def variants(name: str) -> list[Any]:
    cases = ((case, odd) for case in CASES for odd in getattr(CASES[case], name))
    return [pytest.param(case, odd, id=f"{case} - {odd}") for case, odd in cases]


@pytest.mark.parametrize("name", CASES)
def test_a_change_leaves_exactly_the_expected_row(store: LeaseStore, name: str):
    case = CASES[name]
    hold(store, case.read)
    expected = None if case.becomes is None else replace(case.read, **case.becomes)
    assert store.apply(case.change) == Applied(expected or case.read)
    assert store.get(KEY) == expected


@pytest.mark.parametrize(("name", "odd"), variants("refused_by"))
def test_a_change_is_refused_if_the_row_changed_meanwhile_and_the_answer_holds_that_row(
    store: LeaseStore, name: str, odd: Row
):
    moved = replace(CASES[name].read, **odd)
    hold(store, moved)
    assert store.apply(CASES[name].change) == Refused(moved)
    assert store.get(KEY) == moved


@pytest.mark.parametrize(("name", "odd"), variants("allowed_by"))
def test_a_change_leaves_all_other_fields_alone(store: LeaseStore, name: str, odd: Row):
    case = CASES[name]
    moved = replace(case.read, **odd)
    hold(store, moved)
    answer = store.apply(case.change)
    assert isinstance(answer, Applied)
    if case.becomes is None:
        assert store.get(KEY) is None
        return
    expected = replace(
        moved, **{k: v for k, v in case.becomes.items() if k not in {"counter", "owner_switches"}}
    )
    found = store.get(KEY)
    assert found == answer.lease
    assert replace(found, counter=0, owner_switches=0) == replace(expected, counter=0, owner_switches=0)
    assert found.counter - moved.counter == case.change.add.get("counter", 0)


@pytest.mark.parametrize("name", CASES)
def test_a_change_that_isnt_a_create_makes_no_row(store: LeaseStore, name: str):
    assert store.apply(CASES[name].change) == Refused(None)
    assert store.scan().leases == ()


def test_create_leaves_an_existing_row_alone_and_answers_with_it(store: LeaseStore):
    hold(store, CLAIMED)
    assert store.apply(change.create(Lease(KEY), "found in the listing")) == Refused(CLAIMED)
    assert store.get(KEY) == CLAIMED


OLDER = replace(
    CLAIMED,
    children=frozenset({"shardId-000000000008"}),
    failure=Failure(NOON, "AWS doesn't let this worker read it"),
    behind_ms=7,
)
LATER = Lease(KEY, checkpoint=LATEST, stream_epoch=1_700_000_009, looked_at=NOON)


@pytest.mark.parametrize("odd", [{}, {"counter": 77}, {"owner": "other"}, {"run_claim": "run/9"}], ids=str)
def test_a_row_of_a_later_life_replaces_the_whole_row_whatever_its_worker_has_written_since(
    store: LeaseStore, odd: Row
):
    hold(store, replace(OLDER, **odd))
    assert store.apply(change.replace_retired(OLDER, LATER, "a later life")) == Applied(LATER)
    assert store.get(KEY) == LATER


@pytest.mark.parametrize(
    "row", [None, LATER, replace(OLDER, stream_epoch=None)], ids=["none", "later", "no life"]
)
def test_a_row_of_a_later_life_replaces_nothing_but_a_row_of_the_life_that_was_seen(
    store: LeaseStore, row: Lease | None
):
    hold(store, *([] if row is None else [row]))
    assert store.apply(change.replace_retired(OLDER, replace(LATER, counter=5), "late")) == Refused(row)
    assert store.get(KEY) == row


def test_create_keeps_every_field_of_a_lease(store: LeaseStore):
    full = Lease(
        "123456789012:orders:1700000000:shardId-000000000007",
        9,
        SHARD_END,
        owner="next",
        checkpoint_owner="me",
        owner_switches=4,
        pending=Checkpoint("8", 7),
        pending_state=b"\x00\xff",
        parents=frozenset({"shardId-000000000001", "shardId-000000000002"}),
        children=frozenset({"shardId-000000000008"}),
        hash_range=HashRange(0, 2**128 - 1),
        throughput_kbps=0.000885,
        stream="123456789012:orders:1700000000",
        shard="shardId-000000000007",
        stream_epoch=1_700_000_000,
        run_claim="run/1",
        wanted_by="run/2",
        landed=Checkpoint("7", 6),
        looked_at=NOON,
        behind_ms=1234,
        assigned_at=NOON,
        failure=Failure(NOON, "AWS doesn't let this worker read it"),
    )
    assert not [name for name in Lease.__dataclass_fields__ if not getattr(full, name)]
    hold(store, full)
    assert store.get(full.key) == full


@pytest.mark.parametrize(
    "name",
    [
        "claim",
        "repair",
        "checkpoint",
        "checkpoint of an end",
        "want",
        "want in place of a run that is over",
        "take over",
        "assign of an orphan",
        "assign, stamped",
        "initiate handover",
        "KCL's take",
    ],
)
def test_a_write_that_arrives_twice_counts_as_applied(store: LeaseStore, name: str):
    """boto3 sends a request again if its answer was lost."""
    case = CASES[name]
    hold(store, case.read)
    first = store.apply(case.change)
    assert store.apply(case.change) == first
    assert store.get(KEY) == replace(case.read, **case.becomes or {})


def test_a_row_with_the_same_values_and_another_claim_doesnt_count_as_this_write(store: LeaseStore):
    hold(
        store,
        replace(
            CLAIMED,
            checkpoint=FURTHER_CHECKPOINT,
            landed=FURTHER_CHECKPOINT,
            owner_switches=0,
            run_claim="run/2",
        ),
    )
    assert isinstance(
        store.apply(change.checkpoint(CLAIMED, "me", "run/1", upto=FURTHER_CHECKPOINT)), Refused
    )


@pytest.mark.parametrize("name", ["KCL's assign", "KCL's renewal", "KCL's checkpoint", "redirect handover"])
def test_a_write_without_a_recognizable_value_never_counts_as_applied_after_a_refusal(
    store: LeaseStore, name: str
):
    case = CASES[name]
    hold(store, case.read)
    first = store.apply(case.change)
    assert isinstance(first, Applied)
    assert store.apply(case.change) == Refused(first.lease)


@pytest.mark.parametrize(
    "odd",
    [{"counter": 7}, {"owner": "other"}, {"checkpoint_owner": "other"}, {"run_claim": "run/2"}],
    ids=str,
)
def test_an_assignment_that_arrives_twice_is_refused_if_another_write_came_between(
    store: LeaseStore, odd: Row
):
    given = replace(CLAIMED, counter=6, owner="you", run_claim=None, owner_switches=3)
    hold(store, replace(given, **odd))
    answer = store.apply(change.assign(CLAIMED, "you", "its worker died"))
    assert answer == Refused(replace(given, **odd))


@pytest.mark.parametrize(
    "odd",
    [{"assigned_at": NOON + timedelta(seconds=1)}, {"owner": "third"}, {"checkpoint_owner": None}],
    ids=str,
)
def test_a_handover_started_by_another_leader_doesnt_count_as_this_write(store: LeaseStore, odd: Row):
    begun = replace(CLAIMED, owner="you", checkpoint_owner="me", assigned_at=NOON)
    hold(store, replace(begun, **odd))
    answer = store.apply(change.initiate_handover(CLAIMED, "you", "more to read", when=NOON))
    assert answer == Refused(replace(begun, **odd))


@pytest.mark.parametrize("at", [FURTHER_CHECKPOINT, SHARD_END], ids=["further", "end"])
def test_a_checkpoint_removes_a_prepared_checkpoint(store: LeaseStore, at: Checkpoint):
    hold(store, CLAIMED)
    prepared = store.apply(
        change.prepare_checkpoint(CLAIMED, "me", "run/1", upto=FURTHER_CHECKPOINT, state=b"x")
    )
    assert isinstance(prepared, Applied)
    assert prepared.lease.checkpoint == CHECKPOINT
    landed = store.apply(change.checkpoint(prepared.lease, "me", "run/1", upto=at))
    assert isinstance(landed, Applied)
    assert (landed.lease.checkpoint, landed.lease.pending, landed.lease.pending_state) == (at, None, None)


@pytest.mark.parametrize(
    "last", [FURTHER_CHECKPOINT, Checkpoint("100", 0)], ids=["the last number", "an earlier one"]
)
def test_a_row_gets_shard_end_even_if_the_last_record_was_checkpointed_before(
    store: LeaseStore, last: Checkpoint
):
    row = replace(CLAIMED, checkpoint=last)
    hold(store, row)
    ended = store.apply(change.checkpoint(row, "me", "run/1", upto=SHARD_END))
    assert isinstance(ended, Applied)
    assert ended.lease.has_ended


def test_get_many_finds_all_existing_rows_however_many_are_asked_for(store: LeaseStore):
    rows = {Lease(f"shardId-{i:012d}") for i in range(130)}
    hold(store, *rows)
    keys = [row.key for row in rows]
    assert set(store.get_many([*keys, "nowhere"]).leases) == rows
    assert store.get_many([]).leases == ()


def test_throughput_is_kept_to_six_places_and_its_write_is_recognized(store: LeaseStore):
    hold(store, CLAIMED)
    wanted = change.checkpoint(CLAIMED, "me", "run/1", upto=FURTHER_CHECKPOINT, throughput_kbps=1.23456789)
    first = store.apply(wanted)
    assert isinstance(first, Applied)
    assert first.lease.throughput_kbps == 1.234568
    assert store.apply(wanted) == first


def test_get_of_a_missing_row_is_none(store: LeaseStore):
    hold(store, IDLE)
    assert store.get("shardId-000000000008") is None


def test_get_many_leaves_missing_rows_out(store: LeaseStore):
    keys = [f"shardId-{n:012d}" for n in range(120)]
    for key in keys[:110]:
        store.apply(change.create(Lease(key, owner="me"), "for the test"))
    found = store.get_many([*keys[5:], keys[0]])
    assert sorted(row.key for row in found.leases) == [keys[0], *keys[5:110]]
    assert store.get_many([]).leases == ()


def test_scan_lists_every_row(store: LeaseStore):
    rows = {Lease(f"shardId-{i:012d}", owner="me" if i % 2 else None) for i in range(30)}
    hold(store, *rows)
    listing = store.scan()
    assert set(listing.leases) == rows
    assert len(listing.leases) == 30
    assert listing.skipped == ()


def test_held_by_lists_the_rows_that_a_worker_owns_and_no_others(store: LeaseStore):
    mine, coming = Lease("a", owner="me"), Lease("b", owner="me", checkpoint_owner="other")
    hold(store, mine, coming, Lease("c", owner="other"), Lease("d"))
    assert set(store.held_by("me").leases) == {mine, coming}
    assert store.held_by("nobody").leases == ()


def test_of_twelve_claims_at_once_one_succeeds(store: LeaseStore):
    start = Barrier(12)

    def race(name: str) -> Applied | Refused:
        read = store.get(KEY)
        assert read is not None
        start.wait()
        return store.apply(change.claim(read, "me", name))

    hold(store, IDLE)
    claims = [f"run-{i}/1" for i in range(12)]
    with ThreadPoolExecutor(12) as pool:
        answers = dict(zip(claims, pool.map(race, claims), strict=True))
    winners = [claim for claim, answer in answers.items() if isinstance(answer, Applied)]
    assert len(winners) == 1
    assert store.get(KEY) == replace(IDLE, counter=6, run_claim=winners[0])
    assert all(a.row and a.row.run_claim == winners[0] for a in answers.values() if isinstance(a, Refused))


def test_many_changes_are_answered_in_their_order_and_a_refusal_stops_no_other(store: LeaseStore):
    rows = [replace(IDLE, key=f"{KEY}-{n}", owner="w1") for n in range(40)]
    hold(store, *rows[::2])
    answers = store.apply_all([change.give_up(row, "w1") for row in rows])
    assert [type(each) for each in answers] == [Applied, Refused] * 20
    assert [each.lease.key for each in answers[::2] if isinstance(each, Applied)] == [
        r.key for r in rows[::2]
    ]
    assert all(store.get(row.key).owner is None for row in rows[::2])  # type: ignore[union-attr]


def test_the_answer_to_a_change_on_a_row_that_is_not_understood_is_the_error(store: LeaseStore):
    hold(store, IDLE)
    spoil(store, "odd")
    good, bad = store.apply_all(
        [change.create(replace(IDLE, key="new"), "a test"), change.create(odd(), "again")]
    )
    assert isinstance(good, Applied)
    assert isinstance(bad, WrongShape)


def test_an_empty_list_of_changes_has_no_answers(store: LeaseStore):
    assert store.apply_all([]) == ()


def odd() -> Lease:
    return replace(IDLE, key="odd")


def spoil(store: LeaseStore, key: str) -> None:
    """Put a row with this key that isn't understood."""
    if isinstance(store, MemoryLeaseStore):
        store.hold_odd_row(key, "leaseCounter is a text")
        return
    assert isinstance(store, DynamoLeaseStore)
    item: Any = {"leaseKey": {"S": key}, "leaseCounter": {"S": "five"}}
    store._rows.client.put_item(TableName=store._rows.table, Item=item)
