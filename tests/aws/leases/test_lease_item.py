"""The item of a lease row: KCL's attribute names and types. No row, whatever it holds, breaks a listing."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.pipeline.aws.leases.lease_item import ATTRIBUTES, read_lease, write_change, write_lease
from headrace.pipeline.core.leases import change
from headrace.pipeline.core.leases.change import Change
from headrace.pipeline.core.leases.change_kind import ChangeKind
from headrace.pipeline.core.leases.failure import Failure
from headrace.pipeline.core.leases.lease import FIELDS, Lease
from headrace.pipeline.core.shards.checkpoint import SHARD_END, Checkpoint
from headrace.pipeline.core.shards.shard import HashRange
from headrace.pipeline.core.sharing.assign_plan import AssignmentInput, GapRules, plan_assign
from headrace.pipeline.ports.leases import SkippedRow
from tests.aws.kcl_reader import read_as_kcl
from tests.core.strategies import LEASES

ROW: dict[str, Any] = {
    "leaseKey": {"S": "shardId-000000000007"},
    "leaseCounter": {"N": "5"},
    "checkpoint": {"S": "TRIM_HORIZON"},
}

ANY_VALUES = st.one_of(
    st.fixed_dictionaries({"S": st.text(max_size=5) | st.sampled_from(["SHARD_END", "7", "-1", "LEASE"])}),
    st.fixed_dictionaries(
        {"N": st.sampled_from(["0", "-3", "1.5", "1E+2", "9" * 38, "1E+125", "NaN", "x", ""])}
    ),
    st.fixed_dictionaries({"B": st.binary(max_size=3)}),
    st.fixed_dictionaries({"SS": st.lists(st.text(max_size=3), max_size=2)}),
    st.just({"NULL": True}),
    st.just({"BOOL": False}),
    st.just({"M": {}}),
    st.just({"L": [{"S": "x"}]}),
    st.just({}),
)


def test_every_field_of_a_lease_has_attributes_of_its_own():
    names = [name for field in ATTRIBUTES.values() for name in field]
    assert set(ATTRIBUTES) == FIELDS
    assert len(names) == len(set(names))


@given(LEASES)
def test_a_lease_comes_back_from_its_row_as_it_was(lease: Lease):
    assert read_lease(write_lease(lease)) == lease


@given(lease=LEASES, entity_type=st.booleans())
def test_kcl_can_read_every_row_that_headrace_writes(lease: Lease, *, entity_type: bool):
    item = write_lease(lease, entity_type=entity_type)
    assert item["leaseKey"] == {"S": lease.key}
    read_as_kcl(item, entity_type=entity_type)


def test_a_new_lease_is_written_as_kcls_create_does():
    lease = Lease(
        "shardId-0",
        parents=frozenset({"shardId-b", "shardId-a"}),
        hash_range=HashRange(0, 9),
        stream_epoch=17,
    )
    assert write_lease(lease) == {
        "leaseKey": {"S": "shardId-0"},
        "leaseCounter": {"N": "0"},
        "ownerSwitchesSinceCheckpoint": {"N": "0"},
        "checkpoint": {"S": "TRIM_HORIZON"},
        "checkpointSubSequenceNumber": {"N": "0"},
        "parentShardId": {"SS": ["shardId-a", "shardId-b"]},
        "startingHashKey": {"S": "0"},
        "endingHashKey": {"S": "9"},
        "entityType": {"S": "LEASE"},
        "streamEpoch": {"N": "17"},
    }


def test_a_range_of_one_hash_key_is_left_out_because_kcl_refuses_it():
    item = write_lease(Lease("shardId-0", hash_range=HashRange(5, 5)))
    assert not item.keys() & {"startingHashKey", "endingHashKey"}


@pytest.mark.parametrize(
    ("kbps", "text"),
    [(0.000885, "0.000885"), (0.0, "0"), (1e-7, "0"), (5e-7, "0.000001"), (1e6, "1000000"), (2, "2")],
)
def test_throughput_is_rounded_half_up_to_six_places_without_exponent(kbps: float, text: str):
    assert write_lease(Lease("k", throughput_kbps=kbps))["throughputKBps"] == {"N": text}


@pytest.mark.parametrize(
    "said",
    [
        *(
            {"N": text}
            for text in ("Infinity", "-Infinity", "NaN", "sNaN", "-0.5", "1E+10", "1E+125", "1E+400", "many")
        ),
        {"S": "Infinity"},
        {"NULL": True},
    ],
    ids=str,
)
def test_an_invalid_throughput_counts_as_unmeasured_and_is_overwritten(said: dict[str, Any]):
    read = read_lease({**ROW, "throughputKBps": said})
    assert read == read_lease(ROW)
    assert isinstance(read, Lease)
    assert isinstance(
        plan_assign(
            AssignmentInput(leases=(read,), living=frozenset({"w1"}), now=datetime.now(UTC)),
            GapRules(dwell=timedelta(hours=1)),
        )[0],
        Change,
    )
    _, request = write_change(change.checkpoint(read, "me", "run/1", upto=SHARD_END, throughput_kbps=1.5))
    assert request["ExpressionAttributeValues"][":new_throughputKBps"] == {"N": "1.5"}
    assert "throughputKBps" not in request["ConditionExpression"]


def test_the_largest_valid_throughput_can_be_written_and_used_for_balancing():
    read = read_lease({**ROW, "throughputKBps": {"N": "1E+9"}})
    assert isinstance(read, Lease)
    assert read.throughput_kbps == 1e9
    assert write_lease(read)["throughputKBps"] == {"N": "1000000000"}


def test_a_row_with_the_mandatory_attributes_is_a_lease():
    assert read_lease(ROW) == Lease("shardId-000000000007", 5)


def test_a_row_without_entity_type_is_a_lease_of_an_older_kcl():
    assert isinstance(read_lease({**ROW, "entityType": {"S": "LEASE"}}), Lease)
    assert read_lease(ROW) == read_lease({**ROW, "entityType": {"S": "LEASE"}})


def test_unknown_attributes_are_ignored():
    assert read_lease({**ROW, "fromTheFuture": {"M": {"x": {"N": "1"}}}}) == read_lease(ROW)


@pytest.mark.parametrize(("text", "value"), [("1E+2", 100), ("5e0", 5), ("7.0", 7), ("0007", 7)])
def test_whole_numbers_may_come_with_exponents_and_zeros(text: str, value: int):
    lease = read_lease({**ROW, "leaseCounter": {"N": text}})
    assert isinstance(lease, Lease)
    assert lease.counter == value


def test_throughput_may_come_with_an_exponent():
    lease = read_lease({**ROW, "throughputKBps": {"N": "8.85E-4"}})
    assert isinstance(lease, Lease)
    assert lease.throughput_kbps == 0.000885


ODD_ROWS: dict[str, tuple[dict[str, Any], str]] = {
    "another kind of row": ({"entityType": {"S": "LEADER"}}, "LEADER"),
    "no counter": ({"leaseCounter": None}, "leaseCounter is missing"),
    "no checkpoint": ({"checkpoint": None}, "checkpoint is missing"),
    "counter as text": ({"leaseCounter": {"S": "5"}}, "leaseCounter is of type S, not N"),
    "half a counter": ({"leaseCounter": {"N": "5.5"}}, "leaseCounter is 5.5"),
    "checkpoint as number": ({"checkpoint": {"N": "5"}}, "checkpoint is of type N"),
    "unknown word": ({"checkpoint": {"S": "THE_MIDDLE"}}, "THE_MIDDLE"),
    "sign in a checkpoint": ({"checkpoint": {"S": "-5"}}, "-5"),
    "checkpoint too long to be compared": ({"checkpoint": {"S": "9" * 5000}}, "checkpoint"),
    "landed beyond words": ({"landedCheckpoint": {"S": "x"}}, "landedCheckpoint"),
    "empty owner": ({"leaseOwner": {"S": ""}}, "leaseOwner is an empty text"),
    "owner as a set": ({"leaseOwner": {"SS": ["me"]}}, "leaseOwner is of type SS"),
    "parents as a list": ({"parentShardId": {"L": [{"S": "a"}]}}, "parentShardId is of type L"),
    "hash range backwards": ({"startingHashKey": {"S": "9"}, "endingHashKey": {"S": "0"}}, "9..0"),
    "hash range of words": ({"startingHashKey": {"S": "a"}, "endingHashKey": {"S": "b"}}, "'a'"),
    "looked at beyond time": ({"lookedAt": {"N": "1E+30"}}, "lookedAt"),
    "state as text": ({"pendingCheckpointState": {"S": "x"}}, "pendingCheckpointState is of type S"),
    "null": ({"runClaim": {"NULL": True}}, "runClaim is of type NULL"),
}


@pytest.mark.parametrize("name", ODD_ROWS)
def test_the_error_for_a_row_that_isnt_understood_names_it_and_the_reason(name: str):
    odd, reason = ODD_ROWS[name]
    item = {key: value for key, value in {**ROW, **odd}.items() if value is not None}
    found = read_lease(item)
    assert isinstance(found, SkippedRow)
    assert found.key == "shardId-000000000007"
    assert reason in found.why
    assert len(found.why) < 400


@given(
    st.dictionaries(
        st.sampled_from([n for names in ATTRIBUTES.values() for n in names] + ["entityType"]), ANY_VALUES
    )
)
def test_no_row_raises_an_unexpected_error(odd: dict[str, Any]):
    for item in (odd, {**ROW, **odd}):
        found = read_lease(item)
        assert isinstance(found, (Lease, SkippedRow))
        if isinstance(found, Lease):
            assert found.checkpoint <= SHARD_END


LEASE = Lease("shardId-0", 5, Checkpoint("100", 0), owner="me", run_claim="run/1")
CHANGES = [
    change.claim(replace(LEASE, wanted_by="w/1"), "me", "run/2", over=True),
    change.beat(LEASE, "me"),
    change.repair(LEASE, "run/1", SHARD_END),
    change.checkpoint(LEASE, "me", "run/1", upto=Checkpoint("200", 7), throughput_kbps=1.5),
    change.release(LEASE, "run/1", looked_at=datetime(2026, 1, 1, tzinfo=UTC), behind_ms=3),
    change.release(
        replace(LEASE, failure=Failure(datetime(2026, 1, 1, tzinfo=UTC), "denied")), "run/1", is_well=True
    ),
    change.note_failure(LEASE, "me", "denied", when=datetime(2026, 1, 1, tzinfo=UTC)),
    change.want(LEASE, "run/3"),
    change.assign(LEASE, "you", "dead"),
    change.give_up(LEASE, "me"),
    change.note_children(LEASE, frozenset({"shardId-1"})),
    change.retire(LEASE, "older life"),
]


@pytest.mark.parametrize("wanted", CHANGES, ids=lambda c: c.why)
def test_every_write_but_create_demands_that_the_row_exists_and_names_its_attributes(wanted: Change):
    operation, request = write_change(wanted)
    assert operation in {"update_item", "delete_item"}
    assert request["ConditionExpression"].startswith("attribute_exists(leaseKey)")
    assert "Item" not in request
    names = set(request.get("ExpressionAttributeNames", {}).values())
    assert names <= {name for names in ATTRIBUTES.values() for name in names}


def test_a_row_is_replaced_as_a_whole_on_condition_of_the_life_of_the_row_before():
    before, after = replace(LEASE, stream_epoch=7), Lease(LEASE.key, stream_epoch=8)
    assert write_change(change.replace_retired(before, after, "a later life")) == (
        "put_item",
        {
            "Item": write_lease(after),
            "ConditionExpression": "attribute_exists(leaseKey) AND #streamEpoch = :was_streamEpoch",
            "ExpressionAttributeNames": {"#streamEpoch": "streamEpoch"},
            "ExpressionAttributeValues": {":was_streamEpoch": {"N": "7"}},
        },
    )
    _, older = write_change(change.replace_retired(before, after, "a later life"), entity_type=False)
    assert "entityType" not in older["Item"]


def test_a_condition_on_zero_holds_if_kcl_left_the_number_out():
    _, request = write_change(change.repair(LEASE, "run/1", SHARD_END))
    assert "attribute_not_exists(#checkpointSubSequenceNumber)" in request["ConditionExpression"]
    _, request = write_change(
        change.repair(replace(LEASE, checkpoint=Checkpoint("100", 1)), "run/1", SHARD_END)
    )
    assert "attribute_not_exists(#checkpointSubSequenceNumber)" not in request["ConditionExpression"]


def test_a_field_that_is_written_as_none_or_as_an_empty_set_is_removed():
    _, request = write_change(
        Change(
            "k", "test", put={"owner": None, "children": frozenset(), "wanted_by": "w"}, kind=ChangeKind.TAKE
        )
    )
    assert request["UpdateExpression"] == "SET #wantedBy = :new_wantedBy REMOVE #childShardIds, #leaseOwner"


def test_in_a_table_of_older_workers_a_new_row_has_no_entity_type():
    _, request = write_change(change.create(Lease("k"), "test"), entity_type=False)
    assert "entityType" not in request["Item"]
