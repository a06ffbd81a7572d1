"""The wire form of the leader's lock."""

from datetime import timedelta
from typing import Any

import pytest

from pipeline.aws.lock_item import read_lock, write_lock
from pipeline.core.election import LockRow
from pipeline.errors import WrongShape

KCL: dict[str, Any] = {
    "key": {"S": "Leader"},
    "ownerName": {"S": "w0"},
    "leaseDuration": {"S": "120000"},
    "recordVersionNumber": {"S": "r0"},
}


def test_the_row_is_the_lock_clients_to_the_letter():
    assert write_lock(LockRow("w0", "r0", timedelta(seconds=120))) == KCL


def test_in_one_table_the_row_says_what_it_is():
    item = write_lock(LockRow("w0", "r0", timedelta(seconds=120)), key="leaseKey", entity_type=True)
    assert item == {
        "leaseKey": {"S": "Leader"},
        **{k: v for k, v in KCL.items() if k != "key"},
        "entityType": {"S": "LEADER"},
    }


def test_a_row_that_kcl_wrote_reads_as_it_was_meant():
    assert read_lock({**KCL, "entityType": {"S": "LEADER"}}) == LockRow("w0", "r0", timedelta(seconds=120))


@pytest.mark.parametrize(("text", "released"), [("1", True), ("0", False)])
def test_only_a_one_is_a_release(text: str, *, released: bool):
    assert read_lock({**KCL, "isReleased": {"S": text}}).released is released


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
def test_a_row_of_another_shape_is_said_to_be_so(odd: dict[str, Any]):
    with pytest.raises(WrongShape):
        read_lock({**KCL, **odd})
