"""Is a shard being read, is it due, and who gets the unowned ones."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from pipeline.core.backoff import after_run, held_off
from pipeline.core.due import Patience, RunState, RunVerdict, is_being_read, plan_due, run_lives
from pipeline.core.lease import Lease
from pipeline.core.sighting import Sighting

PATIENCE = Patience(timedelta(seconds=20), timedelta(seconds=60))
LONG = timedelta(hours=1)
BEATS = Sighting("5", timedelta(seconds=10))
SILENT = Sighting("5", timedelta(seconds=21))
NOW = datetime(2026, 1, 1, tzinfo=UTC)


def test_dagster_decides_before_a_run_has_started_and_after_it_ended() -> None:
    assert run_lives(RunVerdict(RunState.WAITING), [], PATIENCE)
    assert not run_lives(RunVerdict(RunState.OVER), [BEATS], PATIENCE)


def test_a_started_run_lives_by_its_beat_after_a_grace() -> None:
    assert run_lives(RunVerdict(RunState.STARTED, timedelta(seconds=59)), [], PATIENCE)
    assert run_lives(RunVerdict(RunState.STARTED, LONG), [BEATS], PATIENCE)
    assert not run_lives(RunVerdict(RunState.STARTED, LONG), [SILENT], PATIENCE)
    assert not run_lives(RunVerdict(RunState.STARTED, LONG), [], PATIENCE)


def test_a_run_that_starts_in_the_future_has_no_grace_its_hosts_clock_was_set_back() -> None:
    assert not run_lives(RunVerdict(RunState.STARTED, timedelta(hours=-1)), [SILENT], PATIENCE)


def test_a_run_that_dagster_does_not_know_is_judged_by_its_beat_alone() -> None:
    assert run_lives(RunVerdict(RunState.UNKNOWN), [BEATS], PATIENCE)
    assert not run_lives(RunVerdict(RunState.UNKNOWN), [SILENT], PATIENCE)


def test_a_row_without_a_claim_is_not_being_read() -> None:
    assert not is_being_read(Lease("a"), RunVerdict(RunState.WAITING), BEATS, PATIENCE)
    assert is_being_read(Lease("a", run_claim="r/1"), RunVerdict(RunState.UNKNOWN), BEATS, PATIENCE)


def test_a_quiet_row_is_due_once_its_last_look_is_far_from_now_on_either_side() -> None:
    """A host whose clock was set back would find nothing due until it has caught up, and what was trimmed would go untold."""
    row = Lease("s", owner="w1", looked_at=NOW, behind_ms=0)

    def reasons(now: datetime) -> list[str]:
        plan = plan_due([row], me="w1", parents={}, living_claims=frozenset(), now=now, look_again_after=LONG)
        return [due.why for due in plan.due]

    assert reasons(NOW + LONG) == reasons(NOW - LONG) == []
    second = timedelta(seconds=1)
    assert reasons(NOW + LONG + second) == ["not looked at for a quarter of the retention"]
    assert reasons(NOW - LONG - second) == ["not looked at for a quarter of the retention"]


def test_failures_wait_longer_and_longer_up_to_ten_minutes() -> None:
    backoff, now, waits = after_run({}, ["s"], NOW), NOW, []
    for _ in range(8):
        backoff = after_run(backoff, ["s"], now)
        waits.append((backoff["s"].until - now).total_seconds())
        now = backoff["s"].until
    assert waits == [15, 30, 60, 120, 240, 480, 600, 600]


def test_the_first_failure_holds_nothing_off_and_a_success_forgets_all() -> None:
    first = after_run({}, ["s"], NOW)
    assert held_off(first, NOW) == frozenset()
    second = after_run(first, ["s"], NOW)
    assert held_off(second, NOW) == {"s"}
    later = NOW + timedelta(minutes=1)
    assert after_run(second, [], later) == {}
    assert held_off(after_run(second, ["other"], NOW, left_alone=["s"]), NOW) == {"s"}


def test_a_wait_that_lies_further_off_than_the_longest_holds_nothing_off() -> None:
    backoff = after_run(after_run({}, ["s"], NOW), ["s"], NOW)
    assert held_off(backoff, NOW - timedelta(hours=1)) == frozenset()


def test_trouble_that_a_whole_run_had_and_that_passes_holds_its_shards_off_for_a_minute_at_most() -> None:
    backoff, now = after_run({}, ["s"], NOW, passing=True), NOW
    for _ in range(8):
        backoff = after_run(backoff, ["s"], now, passing=True)
        assert backoff["s"].until - now <= timedelta(minutes=1)
        now = backoff["s"].until
    assert after_run(backoff, ["s"], now)["s"].until - now == timedelta(minutes=10)
