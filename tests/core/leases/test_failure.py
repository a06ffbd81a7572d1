"""What a lease row says of a failing shard: when the failure began, and the latest reason, short and without
secrets."""

from datetime import UTC, datetime, timedelta

import pytest

from headrace.pipeline.core.leases.failure import Failure, failed_again

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
LATER = NOON + timedelta(minutes=3)


def test_the_first_failure_begins_now_in_whole_milliseconds():
    at = NOON + timedelta(microseconds=1_999)
    assert failed_again(None, "denied", at) == Failure(NOON + timedelta(milliseconds=1), "denied")


@pytest.mark.parametrize("at", [LATER, NOON - timedelta(days=1)], ids=["later", "by a clock that is behind"])
def test_a_failure_that_goes_on_keeps_its_beginning_and_gets_the_latest_reason(at: datetime):
    assert failed_again(Failure(NOON, "denied"), "throttled", at) == Failure(NOON, "throttled")


def test_the_reason_is_one_short_line():
    assert failed_again(None, "one\n  two\tthree", NOON).why == "one two three"
    long = failed_again(None, "word " * 1_000, NOON).why
    assert len(long) == 500
    assert long.endswith("...")


@pytest.mark.parametrize(
    "why",
    [
        "the catalog postgresql://me:hunter2@db:5432/x doesn't answer",
        "AKIAABCDEFGHIJKLMNOP isn't known",
        f"{'so long ' * 80} password=hunter2",
    ],
)
def test_a_reason_that_may_contain_a_secret_is_not_kept(why: str):
    kept = failed_again(None, why, NOON).why
    assert "may hold a secret" in kept
    assert "hunter2" not in kept
    assert "AKIA" not in kept
