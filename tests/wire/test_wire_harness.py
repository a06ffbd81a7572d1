"""The harness itself, tried on cases of this project, one for each operation and result."""

import copy
import json
from typing import TYPE_CHECKING, Any

import pytest

from tests.wire.__main__ import main
from tests.wire.ops import KEYS_OF, NOT_BUILT, OPERATIONS
from tests.wire.room import Room
from tests.wire.run import canonical, run_all

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

KEY = "shardId-000000000042"
ROW: dict[str, Any] = {
    "leaseKey": {"S": KEY},
    "leaseCounter": {"N": "11"},
    "ownerSwitchesSinceCheckpoint": {"N": "1"},
    "checkpoint": {"S": "77"},
    "checkpointSubSequenceNumber": {"N": "2"},
    "leaseOwner": {"S": "ann"},
}
IN_HANDOVER = {"leaseOwner": {"S": "ben"}, "checkpointOwner": {"S": "ann"}}
LOCK: dict[str, Any] = {
    "leaseKey": {"S": "Leader"},
    "ownerName": {"S": "ann"},
    "leaseDuration": {"S": "120000"},
    "recordVersionNumber": {"S": "v1"},
    "entityType": {"S": "LEADER"},
}
METRICS: dict[str, Any] = {
    "leaseKey": {"S": "ann"},
    "lut": {"N": "1800000000"},
    "slu": {"N": "1800000000"},
    "sup": {"N": "1"},
    "sts": {"M": {"C": {"L": [{"N": "50"}, {"N": "-1"}]}}},
    "opr": {"M": {"C": {"L": [{"N": "80"}]}}},
    "entityType": {"S": "WORKER_METRIC_STATS"},
}
VERSION: dict[str, Any] = {
    "leaseKey": {"S": "Migration3.0"},
    "cv": {"S": "CLIENT_VERSION_UPGRADE_FROM_2X"},
    "mb": {"S": "ann"},
    "mts": {"N": "1800000000000"},
    "entityType": {"S": "CLIENT_VERSION_MIGRATION"},
}
SEEN_BY_COUNTER: dict[str, Any] = {"lease_key": KEY, "seen_counter": 11}
SEEN_BY_OWNER: dict[str, Any] = {"lease_key": KEY, "seen_owner": "ann", "seen_checkpoint_owner": None}


def row_with(row: dict[str, Any], **odd: Any) -> dict[str, Any]:
    """The row with other attributes. An attribute given as None is left out."""
    return {name: value for name, value in {**row, **odd}.items() if value is not None}


def a_case(
    op: str, args: dict[str, Any], before: Any, after: Any, *, succeeds: bool = True
) -> dict[str, Any]:
    return {
        "name": f"{op}: {args}",
        "op": op,
        "args": args,
        "before": before,
        "succeeds": succeeds,
        "after": after,
        "note": "",
    }


def refused(op: str, args: dict[str, Any], row: Any) -> dict[str, Any]:
    return a_case(op, args, row, row, succeeds=False)


COUNTED_UP = {"leaseCounter": {"N": "12"}}
SWITCHED = {"ownerSwitchesSinceCheckpoint": {"N": "2"}}
PENDING = {
    "pendingCheckpoint": {"S": "80"},
    "pendingCheckpointSubSequenceNumber": {"N": "3"},
    "pendingCheckpointState": {"B": {"B64": "aGk="}},
}
NOT_PENDING = dict.fromkeys(PENDING)
CREATED = {
    "leaseKey": {"S": KEY},
    "leaseCounter": {"N": "0"},
    "ownerSwitchesSinceCheckpoint": {"N": "0"},
    "checkpoint": {"S": "LATEST"},
    "checkpointSubSequenceNumber": {"N": "0"},
    "parentShardId": {"SS": ["shardId-p", "shardId-q"]},
    "startingHashKey": {"S": "3"},
    "endingHashKey": {"S": "9"},
    "entityType": {"S": "LEASE"},
}
CREATE = {
    "lease_key": KEY,
    "checkpoint": "LATEST",
    "parents": ["shardId-q", "shardId-p"],
    "hash_range": ["3", "9"],
}
TAKE = {"lease_key": KEY, "me": "cid", "seen_counter": 11}
RENEW = {**SEEN_BY_COUNTER, "knows_checkpoint_owner": False, "throughput_kbps": "8.85E-4"}
HISTORY = {
    "h": {"L": [{"M": {"cv": VERSION["cv"], "mb": {"S": "ann"}, "mts": {"N": "1800000000000"}}}]},
}
NEXT = {
    "me": "ben",
    "seen": "CLIENT_VERSION_UPGRADE_FROM_2X",
    "new": "CLIENT_VERSION_3X_WITH_ROLLBACK",
    "now_ms": 1800000060007,
}
CASES = [
    a_case("create_lease", CREATE, None, CREATED),
    refused("create_lease", CREATE, ROW),
    a_case(
        "take",
        {**TAKE, "seen_owner": "ann"},
        ROW,
        row_with(ROW, **COUNTED_UP, **SWITCHED, leaseOwner={"S": "cid"}),
    ),
    a_case(
        "take",
        {**TAKE, "seen_owner": "ben", "seen_checkpoint_owner": "ann"},
        row_with(ROW, **IN_HANDOVER),
        row_with(ROW, **COUNTED_UP, **SWITCHED, leaseOwner={"S": "cid"}),
    ),
    a_case("take", {**TAKE, "me": "ann", "seen_owner": "ann"}, ROW, row_with(ROW, **COUNTED_UP)),
    refused("take", {**TAKE, "seen_owner": "ann"}, row_with(ROW, **COUNTED_UP)),
    a_case("renew", RENEW, ROW, row_with(ROW, **COUNTED_UP, throughputKBps={"N": "0.000885"})),
    refused("renew", RENEW, row_with(ROW, **IN_HANDOVER)),
    refused("renew", RENEW, row_with(ROW, **COUNTED_UP)),
    a_case(
        "renew",
        {**RENEW, "knows_checkpoint_owner": True, "throughput_kbps": None},
        row_with(ROW, **IN_HANDOVER),
        row_with(ROW, **IN_HANDOVER, **COUNTED_UP),
    ),
    a_case(
        "checkpoint",
        {**SEEN_BY_COUNTER, "checkpoint": "90", "sub": 0, "hash_range": ["3", "9"]},
        row_with(ROW, **PENDING),
        row_with(
            ROW,
            **COUNTED_UP,
            checkpoint={"S": "90"},
            checkpointSubSequenceNumber={"N": "0"},
            ownerSwitchesSinceCheckpoint={"N": "0"},
            startingHashKey={"S": "3"},
            endingHashKey={"S": "9"},
        ),
    ),
    refused("checkpoint", {**SEEN_BY_COUNTER, "checkpoint": "90", "sub": 0}, row_with(ROW, **COUNTED_UP)),
    a_case(
        "prepare_checkpoint",
        {**SEEN_BY_COUNTER, "pending": "80", "pending_sub": 3, "pending_state": {"B64": "aGk="}},
        ROW,
        row_with(ROW, **COUNTED_UP, **PENDING),
    ),
    a_case(
        "prepare_checkpoint",
        {**SEEN_BY_COUNTER, "pending": "80", "pending_sub": 3},
        row_with(ROW, **PENDING),
        row_with(ROW, **COUNTED_UP, **{**PENDING, "pendingCheckpointState": None}),
    ),
    a_case(
        "prepare_checkpoint",
        {
            **SEEN_BY_COUNTER,
            "pending": "80",
            "pending_sub": 3,
            "pending_state": {"B64": "aGk="},
            "hash_range": ["3", "9"],
        },
        ROW,
        row_with(ROW, **COUNTED_UP, **PENDING, startingHashKey={"S": "3"}, endingHashKey={"S": "9"}),
    ),
    a_case(
        "checkpoint",
        {**SEEN_BY_COUNTER, "checkpoint": "77", "sub": 2, "stream": "123456789012:orders:7", "shard": "s"},
        row_with(ROW, ownerSwitchesSinceCheckpoint={"N": "0"}),
        row_with(
            ROW,
            **COUNTED_UP,
            ownerSwitchesSinceCheckpoint={"N": "0"},
            streamName={"S": "123456789012:orders:7"},
            shardId={"S": "s"},
        ),
    ),
    a_case(
        "assign",
        {**SEEN_BY_OWNER, "new_owner": "ben"},
        ROW,
        row_with(ROW, **COUNTED_UP, **SWITCHED, leaseOwner={"S": "ben"}),
    ),
    refused("assign", {**SEEN_BY_OWNER, "new_owner": "ben"}, row_with(ROW, **IN_HANDOVER)),
    refused("assign", {**SEEN_BY_OWNER, "new_owner": "ben"}, None),
    a_case(
        "assign",
        {"lease_key": KEY, "seen_owner": None, "seen_checkpoint_owner": "ann", "new_owner": "ann"},
        row_with(ROW, leaseOwner=None, checkpointOwner={"S": "ann"}),
        row_with(ROW, **COUNTED_UP, **SWITCHED),
    ),
    a_case(
        "initiate_handover",
        {"lease_key": KEY, "seen_owner": "ann", "new_owner": "ben"},
        ROW,
        row_with(ROW, **IN_HANDOVER),
    ),
    a_case("evict", SEEN_BY_OWNER, ROW, row_with(ROW, **COUNTED_UP, leaseOwner=None)),
    a_case(
        "evict",
        {"lease_key": KEY, "seen_owner": "ben", "seen_checkpoint_owner": "ann"},
        row_with(ROW, **IN_HANDOVER),
        row_with(ROW, **COUNTED_UP, leaseOwner={"S": "ben"}),
    ),
    a_case(
        "set_child_shards",
        {"lease_key": KEY, "children": ["shardId-x"]},
        ROW,
        row_with(ROW, childShardIds={"SS": ["shardId-x"]}),
    ),
    refused("set_child_shards", {"lease_key": KEY, "children": ["shardId-x"]}, None),
    a_case(
        "set_hash_range",
        {"lease_key": KEY, "hash_range": ["3", "9"]},
        ROW,
        row_with(ROW, startingHashKey={"S": "3"}, endingHashKey={"S": "9"}),
    ),
    a_case("delete_lease", {"lease_key": KEY}, ROW, None),
    a_case("lock_acquire", {"me": "ann", "new_version": "v1", "seen": None}, None, LOCK),
    a_case(
        "lock_acquire",
        {"me": "ben", "new_version": "v2", "seen": "old"},
        row_with(LOCK, isReleased={"S": "1"}),
        row_with(LOCK, ownerName={"S": "ben"}, recordVersionNumber={"S": "v2"}),
    ),
    refused("lock_acquire", {"me": "ben", "new_version": "v2", "seen": None}, LOCK),
    refused("lock_acquire", {"me": "ben", "new_version": "v2", "seen": "v0"}, LOCK),
    a_case(
        "lock_acquire",
        {"me": "ben", "new_version": "v2", "seen": "v1"},
        row_with(LOCK, leaseKey=None, key=LOCK["leaseKey"], entityType=None),
        row_with(
            LOCK,
            leaseKey=None,
            key=LOCK["leaseKey"],
            entityType=None,
            ownerName={"S": "ben"},
            recordVersionNumber={"S": "v2"},
        ),
    ),
    a_case(
        "lock_heartbeat",
        {"me": "ann", "seen": "v1", "new_version": "v2"},
        LOCK,
        row_with(LOCK, recordVersionNumber={"S": "v2"}),
    ),
    refused("lock_heartbeat", {"me": "ben", "seen": "v1", "new_version": "v2"}, LOCK),
    a_case("lock_release", {"me": "ann", "seen": "v1"}, LOCK, None),
    refused("lock_release", {"me": "ann", "seen": "v0"}, LOCK),
    refused("lock_release", {"me": "ann", "seen": "v1"}, None),
    a_case(
        "write_worker_metrics",
        {"worker": "ann", "now_s": 1800000000, "stats": {"C": [50.0, -1]}, "ranges": {"C": [80]}},
        None,
        METRICS,
    ),
    a_case("delete_worker_metrics", {"worker": "ann", "seen_last_update": 1800000000}, METRICS, None),
    refused("delete_worker_metrics", {"worker": "ann", "seen_last_update": 1700000000}, METRICS),
    a_case(
        "set_client_version",
        NEXT,
        VERSION,
        row_with(VERSION, **HISTORY, cv={"S": NEXT["new"]}, mb={"S": "ben"}, mts={"N": "1800000060007"}),
    ),
    refused("set_client_version", NEXT, row_with(VERSION, cv={"S": "CLIENT_VERSION_2X"})),
    a_case(
        "set_client_version",
        {**NEXT, "seen": None},
        None,
        row_with(
            VERSION,
            cv={"S": NEXT["new"]},
            mb={"S": "ben"},
            mts={"N": "1800000060007"},
            h={
                "L": [
                    {
                        "M": {
                            "cv": {"S": "CLIENT_VERSION_INIT"},
                            "mb": {"S": "ben"},
                            "mts": {"N": "1800000060007"},
                        }
                    }
                ]
            },
        ),
    ),
    {
        "name": "ann's",
        "op": "leases_of_by_index",
        "args": {"me": "ann"},
        "rows": [
            ROW,
            row_with(ROW, leaseKey={"S": "b"}, **IN_HANDOVER),
            row_with(ROW, leaseKey={"S": "c"}, leaseOwner={"S": "ann"}, checkpointOwner={"S": "ben"}),
            row_with(ROW, leaseKey={"S": "d"}, leaseOwner=None),
        ],
        "accepted": [KEY],
    },
]


@pytest.fixture(scope="module")
def room(dynamodb: "DynamoDBClient") -> Room:
    return Room(dynamodb)


@pytest.mark.parametrize("case", CASES, ids=lambda c: c["name"])
def test_every_operation_does_what_kcl_does(room: Room, case: Any):
    report = run_all([case], room)
    assert report.lines == []
    assert (report.passed, report.failed) == (1, 0)


@pytest.mark.parametrize("case", CASES, ids=lambda c: c["name"])
def test_a_case_that_expects_something_else_fails(room: Room, case: Any):
    """The case expects another row, another outcome, or another value."""
    wrong = []
    if "accepted" in case:
        wrong = [{**case, "accepted": ["b"]}]
    else:
        wrong.append({**case, "succeeds": not case["succeeds"]})
        if case["after"] is None:
            wrong.append({**case, "after": ROW})
        else:
            wrong.append({**case, "after": None})
            wrong.append({**case, "after": {**case["after"], "more": {"S": "x"}}})
            for name in case["after"].keys() - {"leaseKey", "key"}:
                wrong.append({**case, "after": row_with(case["after"], **{name: None})})
    report = run_all(copy.deepcopy(wrong), room)
    assert (report.passed, report.failed) == (0, len(wrong))
    assert all(line.startswith(case["name"]) for line in report.lines)


def test_all_operations_of_the_cases_format_are_known():
    said = (
        "create_lease take renew assign initiate_handover evict checkpoint set_child_shards lock_acquire lock_heartbeat "
        "lock_release delete_worker_metrics set_client_version leases_of_by_index"
    )
    assert set(said.split()) <= OPERATIONS.keys() | KEYS_OF.keys()


def test_the_name_of_a_case_doesnt_matter(room: Room):
    report = run_all([{**case, "name": ""} for case in CASES], room)
    assert (report.passed, report.failed) == (len(CASES), 0)


def test_an_operation_that_isnt_implemented_has_a_line_with_the_reason(room: Room):
    (op, why), *_ = NOT_BUILT.items()
    report = run_all([{"op": op}, {"op": op}, CASES[0]], room)
    assert (report.passed, report.failed) == (1, 0)
    assert report.lines == [f"not built: {op} (2 cases): {why}"]


def test_an_unknown_operation_and_a_broken_case_fail_without_stopping_the_others(room: Room):
    report = run_all([a_case("fly", {}, None, None), a_case("take", {}, None, None), CASES[0]], room)
    assert (report.passed, report.failed) == (1, 2)
    assert "unknown op 'fly'" in report.lines[0]
    assert "raised KeyError" in report.lines[1]


@pytest.mark.parametrize("odd", [None, 7, "a case", {}, {"op": "take"}, {"op": ["take"], "args": {}}])
def test_a_malformed_case_is_one_failure(room: Room, odd: Any):
    report = run_all([odd, CASES[0]], room)
    assert (report.passed, report.failed, len(report.lines)) == (1, 1, 1)


@pytest.mark.parametrize("text", ["{}", "7", "no json"])
def test_the_error_for_a_file_without_cases_says_so(text: str, tmp_path, capsys):
    path = tmp_path / "cases.json"
    path.write_text(text, encoding="utf-8")
    assert main([str(path)]) == 2
    assert "isn't a file of cases" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("args", "around"),
    [
        ({"worker": "ann"}, {"before": [ROW], "after": [KEY]}),
        ({"me": "ann", "rows": [ROW], "keys": [KEY]}, {}),
        (
            {"owner": "ann"},
            {
                "rows": [ROW, row_with(ROW, leaseKey={"S": "b"}, checkpointOwner={"S": "ann"})],
                "accepted": [KEY],
            },
        ),
        ({"me": "ben"}, {"rows": [ROW], "accepted": []}),
    ],
)
def test_a_case_that_reads_is_recognized_by_its_rows_and_keys(room: Room, args: Any, around: Any):
    report = run_all([{"op": "leases_of_by_index", "args": args, "note": "", **around}], room)
    assert report.lines == []


def test_a_case_fails_if_dynamodb_wrote_the_row_and_the_product_says_it_didnt(
    room: Room, monkeypatch: pytest.MonkeyPatch
):
    held = OPERATIONS["lock_release"]
    monkeypatch.setitem(OPERATIONS, "lock_release", lambda *args: not held(*args))
    report = run_all([a_case("lock_release", {"me": "ann", "seen": "v1"}, LOCK, None)], room)
    assert "the product says that it didn't" in report.lines[0]


@pytest.mark.parametrize(
    ("one", "other", "alike"),
    [
        ({"N": "1.50"}, {"N": "15E-1"}, True),
        ({"N": "1"}, {"S": "1"}, False),
        ({"SS": ["a", "b"]}, {"SS": ["b", "a"]}, True),
        ({"L": [{"N": "1"}, {"N": "2"}]}, {"L": [{"N": "2"}, {"N": "1"}]}, False),
        ({"M": {"a": {"N": "1"}}}, {"M": {"a": {"N": "1.0"}}}, True),
    ],
)
def test_values_are_equal_if_dynamodb_takes_them_as_equal(one: Any, other: Any, *, alike: bool):
    assert (canonical(one) == canonical(other)) is alike


def test_a_file_is_run_and_its_results_counted(tmp_path, capsys):
    path = tmp_path / "cases.json"
    wrong = {**CASES[0], "name": "\ud800", "after": None, "note": "somebody's slip"}
    path.write_text(json.dumps([*CASES[:2], wrong]), encoding="utf-8")
    assert main([str(path)]) == 1
    first, last = capsys.readouterr().out.splitlines()
    assert first.startswith("\\ud800 [create_lease]: ")
    assert first.endswith("(note: somebody's slip)")
    assert last == "2 passed, 1 failed"


@pytest.mark.parametrize("arguments", [[], ["a", "b"]])
def test_without_a_file_the_usage_is_printed(arguments, capsys):
    assert main(arguments) == 2
    assert "make wire WIRE=path" in capsys.readouterr().err
