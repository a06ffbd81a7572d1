"""The item of the leader's lock."""

from datetime import timedelta
from typing import Any

import pytest

from headrace.pipeline.aws.leases.lock_item import read_lock, write_lock
from headrace.pipeline.core.leases.election import LockRow
from headrace.pipeline.errors import WrongShape

KCL_ROW: dict[str, Any] = {
    "key": {"S": "Leader"},
    "ownerName": {"S": "w0"},
    "leaseDuration": {"S": "120000"},
    "recordVersionNumber": {"S": "r0"},
}


def test_the_row_has_exactly_the_form_that_the_lock_client_of_aws_writes():
    assert write_lock(LockRow("w0", "r0", timedelta(seconds=120))) == KCL_ROW


def test_in_layout_s_the_row_has_an_entity_type():
    item = write_lock(LockRow("w0", "r0", timedelta(seconds=120)), key="leaseKey", entity_type=True)
    assert item == {
        "leaseKey": {"S": "Leader"},
        **{k: v for k, v in KCL_ROW.items() if k != "key"},
        "entityType": {"S": "LEADER"},
    }


def test_a_row_that_kcl_wrote_is_understood():
    assert read_lock({**KCL_ROW, "entityType": {"S": "LEADER"}}) == LockRow(
        "w0", "r0", timedelta(seconds=120)
    )


@pytest.mark.parametrize(("text", "released"), [("1", True), ("0", False)])
def test_is_released_counts_only_with_the_value_1(text: str, *, released: bool):
    assert read_lock({**KCL_ROW, "isReleased": {"S": text}}).released is released


@pytest.mark.parametrize(
    "odd",
    [
        {"leaseDuration": {"N": "120000"}},
        {"leaseDuration": {"S": "two minutes"}},
        {"leaseDuration": {"S": "9" * 30}},
        {"ownerName": {"S": ""}},
        {"recordVersionNumber": {"N": "1"}},
    ],
)
def test_a_row_of_another_shape_is_refused(odd: dict[str, Any]):
    with pytest.raises(WrongShape):
        read_lock({**KCL_ROW, **odd})
