"""The item of a worker's row."""

from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.pipeline.aws.leases.worker_item import read_worker_row
from headrace.pipeline.core.leases.worker import Worker
from headrace.pipeline.ports.leases import SkippedRow

KCL_ATTRIBUTES: dict[str, Any] = {
    "wid": {"S": "w1"},
    "lut": {"N": "1700000000"},
    "sts": {"M": {"C": {"L": [{"N": "12.5"}, {"N": "-1"}]}}},
    "opr": {"M": {"C": {"L": [{"N": "100"}]}}},
    "entityType": {"S": "WORKER_METRIC_STATS"},
    "sup": {"N": "1"},
    "slu": {"N": "1700000000"},
}
HEADRACE_ATTRIBUTES: dict[str, Any] = {
    "beat": {"N": "12"},
    "runBeats": {"M": {"run/1": {"N": "3"}}},
    "instance": {"S": "dagster-a"},
    "stopping": {"BOOL": True},
    "assignPass": {"N": "4"},
    "measuredBy": {"S": "cpu of 2 hosts"},
    "measuredAt": {"N": "1700000030"},
}


def test_a_row_that_kcl_wrote_is_a_worker_without_beats():
    assert read_worker_row(KCL_ATTRIBUTES) == Worker(
        "w1",
        last_update=datetime.fromtimestamp(1_700_000_000, UTC),
        stats={"C": (12.5, -1.0)},
        ranges={"C": (100,)},
        measured_by=None,
    )


def test_headraces_attributes_are_beside_kcls_in_one_row():
    row = read_worker_row({**KCL_ATTRIBUTES, **HEADRACE_ATTRIBUTES})
    assert isinstance(row, Worker)
    assert (row.beat, dict(row.run_beats), row.instance, row.stopping, row.assign_pass) == (
        12,
        {"run/1": 3},
        "dagster-a",
        True,
        4,
    )
    assert (row.measured_by, row.measured_at) == (
        "cpu of 2 hosts",
        datetime.fromtimestamp(1_700_000_030, UTC),
    )


def test_a_row_with_only_a_key_is_a_worker():
    assert read_worker_row({"wid": {"S": "w1"}}) == Worker("w1")


def test_in_layout_s_the_key_attribute_is_leasekey():
    row = {"leaseKey": {"S": "w1"}, "entityType": {"S": "WORKER_METRIC_STATS"}}
    assert read_worker_row(row, key="leaseKey") == Worker("w1")


def test_in_layout_s_a_row_without_an_entity_type_is_a_lease():
    found = read_worker_row({"leaseKey": {"S": "shardId-000000000000"}}, key="leaseKey")
    assert isinstance(found, SkippedRow)
    assert "a lease" in found.why


@pytest.mark.parametrize(
    ("odd", "reason"),
    [
        ({"entityType": {"S": "LEASE"}}, "a row of type LEASE"),
        ({"lut": {"S": "yesterday"}}, "lut is of type S"),
        ({"lut": {"N": "1E+40"}}, "lut"),
        ({"beat": {"N": "1.5"}}, "beat is 1.5"),
        ({"runBeats": {"L": []}}, "runBeats is of type L"),
        ({"runBeats": {"M": {"run/1": {"S": "3"}}}}, "run/1 is of type S"),
        ({"sts": {"M": {"C": {"L": [{"S": "12"}]}}}}, "C is of type S"),
        ({"opr": {"M": {"C": {"L": [{"N": "1.5"}]}}}}, "C is 1.5"),
        ({"stopping": {"S": "yes"}}, "stopping is of type S"),
        ({"measuredBy": {"N": "2"}}, "measuredBy is of type N"),
        ({"measuredAt": {"S": "now"}}, "measuredAt is of type S"),
    ],
)
def test_the_error_for_a_row_that_isnt_understood_names_it_and_the_reason(odd: dict[str, Any], reason: str):
    found = read_worker_row({**KCL_ATTRIBUTES, **odd})
    assert isinstance(found, SkippedRow)
    assert found.key == "w1"
    assert reason in found.why


@given(
    st.dictionaries(
        st.sampled_from([*KCL_ATTRIBUTES, *HEADRACE_ATTRIBUTES]),
        st.sampled_from(
            [{"S": ""}, {"S": "x"}, {"N": "NaN"}, {"N": "1E+99"}, {"M": {"a": {}}}, {"L": [{}]}, {"BOOL": 1}]
        ),
    )
)
def test_no_row_raises_an_unexpected_error(odd: dict[str, Any]):
    assert isinstance(read_worker_row({**KCL_ATTRIBUTES, **odd}), (Worker, SkippedRow))
