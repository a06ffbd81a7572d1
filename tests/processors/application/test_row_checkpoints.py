"""A processor's checkpoints on the lease row: durable before it hears of them, and refused once the claim is lost."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from headrace.pipeline.core.leases.change import Applied, Change, Refused
from headrace.pipeline.core.leases.lease import Lease
from headrace.pipeline.core.shards.checkpoint import SHARD_END, TRIM_HORIZON, Checkpoint
from headrace.pipeline.errors import HeadraceError, TablesMissing, Throttled, Unreachable
from headrace.pipeline.processors.application.row_checkpoints import ClaimedRow, RowCheckpoints
from tests.memory.leases import MemoryLeaseStore

KEY = "shardId-000000000000"
LEASE = Lease(KEY, 5, Checkpoint("100"), owner="me", run_claim="run/1")
DELIVERED = Checkpoint("200", 3)
SINCE = datetime(2026, 1, 1, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)


class FailingRows(MemoryLeaseStore):
    """A store whose writes fail."""

    error: HeadraceError | None = None

    def apply(self, change: Change) -> Applied | Refused:
        if self.error is not None:
            raise self.error
        return super().apply(change)


def claimed(lease: Lease = LEASE) -> tuple[FailingRows, RowCheckpoints]:
    """A process that has got the records up to `DELIVERED`, and the store of its row."""
    rows = FailingRows([lease])
    checkpoints = RowCheckpoints.of(ClaimedRow(rows, lease, "me"))
    checkpoints.deliver((int(DELIVERED.sequence), DELIVERED.sub))
    return rows, checkpoints


def answer(checkpoints: RowCheckpoints, **message: Any) -> Mapping[str, Any]:
    return checkpoints.answer(message, action="processRecords")


def stored(rows: MemoryLeaseStore) -> Lease:
    row = rows.get(KEY)
    assert row is not None
    return row


def taken_over(rows: MemoryLeaseStore, **change: Any) -> None:
    rows._rows[KEY] = replace(stored(rows), **change)


def test_a_checkpoint_is_on_the_row_when_the_processor_hears_of_it() -> None:
    rows, checkpoints = claimed()
    assert answer(checkpoints, sequenceNumber="150") == {
        "action": "checkpoint",
        "sequenceNumber": "150",
        "subSequenceNumber": None,
        "error": None,
    }
    assert stored(rows).checkpoint == Checkpoint("150")
    assert answer(checkpoints)["error"] is None
    assert stored(rows).checkpoint == DELIVERED, (
        "the second write goes by the row that the first one has left"
    )
    assert checkpoints.progress.last == DELIVERED


def test_a_process_begins_at_the_rows_checkpoint_and_may_not_checkpoint_before_it() -> None:
    rows, checkpoints = claimed()
    assert answer(checkpoints, sequenceNumber="99")["error"] == "IllegalArgumentException"
    assert stored(rows) == LEASE
    first = RowCheckpoints.of(ClaimedRow(rows, replace(LEASE, checkpoint=TRIM_HORIZON), "me"))
    assert (first.progress.last, first.progress.largest) == (TRIM_HORIZON, None)
    later = RowCheckpoints.of(ClaimedRow(rows, LEASE, "me"))
    assert later.progress.largest == Checkpoint("100")


@pytest.mark.parametrize(
    "change", [{"owner": "other", "run_claim": None}, {"run_claim": "run/2"}, {"owner": "other"}]
)
def test_a_checkpoint_after_another_process_has_the_row_is_refused_and_so_is_each_later_one(
    change: dict[str, Any],
) -> None:
    rows, checkpoints = claimed()
    taken_over(rows, **change)
    assert answer(checkpoints, sequenceNumber="150")["error"] == "ShutdownException"
    assert checkpoints.row.is_lost
    assert checkpoints.progress.last == Checkpoint("100")
    taken_over(rows, owner="me", run_claim="run/1")
    assert answer(checkpoints, sequenceNumber="150")["error"] == "ShutdownException"
    assert answer(checkpoints, prepare=True)["error"] == "ShutdownException"
    assert stored(rows).checkpoint == Checkpoint("100")


def test_nothing_is_prepared_on_the_row_of_another_worker_that_has_left_the_claim_in_it() -> None:
    rows, checkpoints = claimed()
    taken_over(rows, owner="other")
    assert answer(checkpoints, prepare=True)["error"] == "ShutdownException"
    assert stored(rows).pending is None


class RefusingRows(MemoryLeaseStore):
    """A store that refuses each write, and shows the row with these changes, one after the other."""

    def __init__(self, *changes: dict[str, Any]) -> None:
        super().__init__([LEASE])
        self.changes = list(changes)

    def apply(self, change: Change) -> Applied | Refused:
        return Refused(replace(LEASE, **self.changes.pop(0)))


def test_a_checkpoint_that_is_refused_again_and_again_is_a_trouble_and_the_row_stays_claimed() -> None:
    moved = {"counter": 9}
    row = ClaimedRow(RefusingRows(moved, moved, moved), LEASE, "me")
    assert row.checkpoint(Checkpoint("150")) == "KinesisClientLibDependencyException"
    assert (row.is_lost, row.lease.counter) == (False, 9)


def test_a_checkpoint_whose_last_try_finds_the_row_taken_is_refused() -> None:
    moved = {"counter": 9}
    row = ClaimedRow(RefusingRows(moved, moved, {"run_claim": "run/2"}), LEASE, "me")
    assert row.checkpoint(Checkpoint("150")) == "ShutdownException"
    assert row.is_lost


def test_a_row_says_with_its_checkpoint_up_to_when_nothing_is_unread() -> None:
    """It counts as behind until the run's release says more."""
    rows, checkpoints = claimed()
    checkpoints.row.unread_since = SINCE
    answer(checkpoints, sequenceNumber="150")
    assert (stored(rows).looked_at, stored(rows).behind_ms) == (SINCE, 1)


@pytest.mark.parametrize(
    ("looked_at", "told"), [(SINCE - HOUR, SINCE), (SINCE, SINCE), (SINCE + HOUR, SINCE + HOUR)]
)
def test_a_row_tells_the_later_one_of_its_last_look_and_of_the_oldest_unread_record(
    looked_at: datetime, told: datetime
) -> None:
    rows, checkpoints = claimed(replace(LEASE, looked_at=looked_at))
    checkpoints.row.unread_since = SINCE
    answer(checkpoints, sequenceNumber="150")
    assert stored(rows).looked_at == told


def test_a_checkpoint_at_the_rows_own_takes_what_was_prepared_out_of_the_row() -> None:
    rows, checkpoints = claimed(replace(LEASE, pending=DELIVERED))
    assert checkpoints.row.checkpoint(LEASE.checkpoint) is None
    assert stored(rows).pending is None
    assert checkpoints.row.checkpoint(Checkpoint("99")) is None
    assert stored(rows).checkpoint == LEASE.checkpoint


def test_a_preparation_at_the_last_checkpoint_writes_nothing() -> None:
    rows, checkpoints = claimed()
    assert answer(checkpoints, prepare=True, sequenceNumber="100")["error"] is None
    assert stored(rows) == LEASE


def test_nothing_is_checkpointed_before_the_processor_is_initialized() -> None:
    rows, checkpoints = claimed()
    refused = checkpoints.answer({"sequenceNumber": "150"}, action="initialize")
    assert refused["error"] == "InvalidStateException"
    assert stored(rows) == LEASE


@pytest.mark.parametrize(
    ("error", "name"),
    [
        (Throttled("too many"), "ThrottlingException"),
        (TablesMissing("no table"), "InvalidStateException"),
        (Unreachable("no answer"), "KinesisClientLibDependencyException"),
    ],
)
def test_a_trouble_of_dynamodb_has_kcls_name_and_a_later_try_is_taken(
    error: HeadraceError, name: str
) -> None:
    rows, checkpoints = claimed()
    rows.error = error
    assert answer(checkpoints, sequenceNumber="150")["error"] == name
    assert (checkpoints.progress.last, checkpoints.row.is_lost) == (Checkpoint("100"), False)
    # A try before the one that was refused may have been made; without a table nothing was.
    assert checkpoints.row.may_have_moved is not isinstance(error, TablesMissing)
    rows.error = None
    assert answer(checkpoints, sequenceNumber="150")["error"] is None
    assert stored(rows).checkpoint == Checkpoint("150")
    assert not checkpoints.row.may_have_moved


def test_the_end_of_a_shard_is_taken_and_left_to_the_run() -> None:
    rows, checkpoints = claimed()
    checkpoints.end()
    assert answer(checkpoints)["error"] is None
    assert checkpoints.has_ended
    assert checkpoints.progress.last == SHARD_END
    assert stored(rows) == LEASE


def test_the_end_of_a_shard_isnt_taken_once_the_row_is_lost() -> None:
    _, checkpoints = claimed()
    checkpoints.end()
    checkpoints.row.is_lost = True
    assert answer(checkpoints)["error"] == "ShutdownException"
    assert not checkpoints.has_ended


def test_a_prepared_checkpoint_waits_on_the_row_and_the_answer_names_it() -> None:
    rows, checkpoints = claimed()
    prepared = answer(checkpoints, prepare=True)
    assert (prepared["sequenceNumber"], prepared["subSequenceNumber"], prepared["error"]) == ("200", 3, None)
    assert (stored(rows).pending, stored(rows).pending_state) == (DELIVERED, None)
    assert stored(rows).checkpoint == Checkpoint("100")


def test_a_state_is_kept_with_the_first_user_record_of_the_last_record() -> None:
    rows, checkpoints = claimed()
    state = base64.b64encode(b"half").decode()
    prepared = answer(checkpoints, prepare=True, applicationState=state)
    assert (prepared["sequenceNumber"], prepared["subSequenceNumber"], prepared["error"]) == ("200", 0, None)
    assert (stored(rows).pending, stored(rows).pending_state) == (Checkpoint("200"), b"half")
    prepared = answer(checkpoints, prepare=True, applicationState=state, sequenceNumber="150")
    assert (prepared["sequenceNumber"], prepared["error"]) == ("150", None)
    assert stored(rows).pending == Checkpoint("150")


@pytest.mark.parametrize(
    "message",
    [
        {"applicationState": "no base64!"},
        {"applicationState": 7},
        {"sequenceNumber": "no number"},
        {"sequenceNumber": "201"},
        {"sequenceNumber": "99"},
    ],
)
def test_a_preparation_that_means_nothing_is_refused_and_writes_nothing(message: dict[str, Any]) -> None:
    rows, checkpoints = claimed()
    assert answer(checkpoints, prepare=True, **message)["error"] == "IllegalArgumentException"
    assert stored(rows) == LEASE


@pytest.mark.parametrize(
    ("change", "goes_on", "is_lost"),
    [
        ({}, True, False),
        ({"wanted_by": "run/1"}, True, False),
        ({"wanted_by": "run/2"}, False, False),
        ({"checkpoint_owner": "me", "owner": "other"}, False, False),
        ({"owner": "other"}, False, True),
        ({"run_claim": "run/2"}, False, True),
    ],
)
def test_a_shard_is_read_on_while_the_claim_stands_and_nobody_waits_for_it(
    change: dict[str, Any], *, goes_on: bool, is_lost: bool
) -> None:
    rows, checkpoints = claimed()
    taken_over(rows, **change)
    assert checkpoints.row.look() is goes_on
    assert checkpoints.row.is_lost is is_lost


def test_a_row_that_is_gone_is_lost() -> None:
    rows, checkpoints = claimed()
    rows.wipe(KEY)
    assert not checkpoints.row.look()
    assert checkpoints.row.is_lost
