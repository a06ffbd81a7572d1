"""Whether a run is alive, which shards are due, and how long failed shards wait."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Any

from headrace.pipeline.core.leases.backoff import (
    ALL_SHARDS,
    Backoff,
    after_run,
    held_off,
    of_clock,
    until_next_try,
)
from headrace.pipeline.core.leases.due import (
    Due,
    DuePlan,
    LivenessTimes,
    RunState,
    RunVerdict,
    is_time,
    one_plan,
    plan_due,
    run_lives,
)
from headrace.pipeline.core.leases.failure import Failure
from headrace.pipeline.core.leases.lease import Lease
from headrace.pipeline.core.leases.sighting import Sighting
from headrace.pipeline.core.shards.checkpoint import SHARD_END, TRIM_HORIZON, Checkpoint

PATIENCE = LivenessTimes(timedelta(seconds=20), timedelta(seconds=60))
LONG = timedelta(hours=1)
BEATS = Sighting("5", timedelta(seconds=10))
SILENT = Sighting("5", timedelta(seconds=21))
NOW = datetime(2026, 1, 1, tzinfo=UTC)


def test_dagster_decides_whether_a_run_is_alive_before_its_start_and_after_its_end() -> None:
    assert run_lives(RunVerdict(RunState.WAITING), [], PATIENCE)
    assert not run_lives(RunVerdict(RunState.OVER), [BEATS], PATIENCE)


def test_a_started_run_is_alive_during_a_grace_and_then_by_its_beat() -> None:
    assert run_lives(RunVerdict(RunState.STARTED, timedelta(seconds=59)), [], PATIENCE)
    assert run_lives(RunVerdict(RunState.STARTED, LONG), [BEATS], PATIENCE)
    assert not run_lives(RunVerdict(RunState.STARTED, LONG), [SILENT], PATIENCE)
    assert not run_lives(RunVerdict(RunState.STARTED, LONG), [], PATIENCE)


def test_a_run_with_a_start_in_the_future_has_no_grace() -> None:
    assert not run_lives(RunVerdict(RunState.STARTED, timedelta(hours=-1)), [SILENT], PATIENCE)


def test_a_run_that_dagster_does_not_know_is_judged_by_its_beat_alone() -> None:
    assert run_lives(RunVerdict(RunState.UNKNOWN), [BEATS], PATIENCE)
    assert not run_lives(RunVerdict(RunState.UNKNOWN), [SILENT], PATIENCE)


def test_a_quiet_row_is_due_if_its_last_look_is_a_quarter_of_the_retention_ago_or_as_far_in_the_future() -> (
    None
):
    """If the host's clock was set back, the shard would otherwise not be due for a long time, and trimmed records
    would not be reported."""
    row = Lease("s", owner="w1", looked_at=NOW, behind_ms=0)

    def reasons(now: datetime) -> list[str]:
        plan = plan_due([row], me="w1", parents={}, living_claims=frozenset(), now=now, look_again_after=LONG)
        return [due.why for due in plan.due]

    assert reasons(NOW + LONG) == reasons(NOW - LONG) == []
    second = timedelta(seconds=1)
    assert reasons(NOW + LONG + second) == ["nobody has looked into the shard for a quarter of the retention"]
    assert reasons(NOW - LONG - second) == ["nobody has looked into the shard for a quarter of the retention"]


def test_the_wait_after_failures_doubles_up_to_ten_minutes() -> None:
    backoff, now, waits = after_run({}, ["s"], NOW), NOW, []
    for _ in range(8):
        backoff = after_run(backoff, ["s"], now)
        waits.append((backoff["s"].until - now).total_seconds())
        now = backoff["s"].until
    assert waits == [15, 30, 60, 120, 240, 480, 600, 600]


def test_the_first_failure_causes_no_wait_and_a_success_removes_all_waits() -> None:
    first = after_run({}, ["s"], NOW)
    assert held_off(first, NOW) == frozenset()
    second = after_run(first, ["s"], NOW)
    assert held_off(second, NOW) == {"s"}
    later = NOW + timedelta(minutes=1)
    assert after_run(second, [], later) == {}
    assert held_off(after_run(second, ["other"], NOW, left_alone=["s"]), NOW) == {"s"}


def test_a_wait_that_ends_further_away_than_the_longest_wait_is_ignored() -> None:
    backoff = after_run(after_run({}, ["s"], NOW), ["s"], NOW)
    assert held_off(backoff, NOW - timedelta(hours=1)) == frozenset()


def test_no_wait_lasts_longer_because_the_clock_was_set_back() -> None:
    waits = {"a": Backoff(4, NOW + timedelta(minutes=1)), "b": Backoff(2, NOW - timedelta(minutes=9))}
    for look in (None, NOW - timedelta(seconds=5), NOW):
        assert of_clock(waits, NOW, last_look=look) == waits
    set_back = of_clock(waits, NOW, last_look=NOW + timedelta(milliseconds=1))
    assert set_back == {"a": Backoff(4, NOW), "b": waits["b"]}
    assert held_off(set_back, NOW) == frozenset()


def test_the_next_try_is_that_of_the_shard_whose_wait_ends_first_or_would_end_first_after_one_more_failure() -> (
    None
):
    assert until_next_try({}, NOW) is None
    assert until_next_try({ALL_SHARDS: Backoff(3, NOW)}, NOW) is None
    held, tried = Backoff(4, NOW + timedelta(seconds=50)), Backoff(1, NOW)
    assert until_next_try({"held": held}, NOW) == timedelta(seconds=50)
    assert until_next_try({"held": held, "tried": tried}, NOW) == timedelta(seconds=15)
    assert until_next_try({"held": held, "tried": Backoff(4, NOW)}, NOW) == timedelta(seconds=50)
    # A wait that a clock that was set back made too long is over, as `held_off` takes it.
    assert until_next_try({"far": Backoff(2, NOW + timedelta(hours=1))}, NOW) == timedelta(seconds=30)


def test_after_a_passing_error_of_a_whole_run_its_shards_wait_for_a_minute_at_most() -> None:
    backoff, now = after_run({}, ["s"], NOW, transient=True), NOW
    for _ in range(8):
        backoff = after_run(backoff, ["s"], now, transient=True)
        assert backoff["s"].until - now <= timedelta(minutes=1)
        now = backoff["s"].until
    assert after_run(backoff, ["s"], now)["s"].until - now == timedelta(minutes=10)


def test_a_run_is_alive_until_exactly_the_end_of_its_grace_and_of_its_lease_duration() -> None:
    second = timedelta(seconds=1)
    started = RunState.STARTED
    grace, lease = PATIENCE.launch_grace, PATIENCE.lease_duration
    assert run_lives(RunVerdict(started, timedelta(0)), [], PATIENCE)
    assert run_lives(RunVerdict(started, grace - second), [], PATIENCE)
    assert not run_lives(RunVerdict(started, grace), [], PATIENCE)
    assert run_lives(RunVerdict(started, LONG), [None, SILENT, Sighting("5", lease)], PATIENCE)
    assert not run_lives(RunVerdict(started, LONG), [None, SILENT], PATIENCE)


def test_a_periodic_duty_is_due_after_its_period_and_after_the_clock_was_set_back() -> None:
    second = timedelta(seconds=1)
    assert is_time(None, NOW, every=LONG)
    assert not is_time(NOW, NOW, every=LONG)
    assert not is_time(NOW, NOW + LONG - second, every=LONG)
    assert is_time(NOW, NOW + LONG, every=LONG)
    assert is_time(NOW, NOW - second, every=LONG)


def a_row(key: str, **more: Any) -> Lease:
    return Lease(key, **{"owner": "w1", **more})


def due_of(*rows: Lease, parents: Iterable[Lease] = (), living: Iterable[str] = ()) -> DuePlan:
    return plan_due(
        rows,
        me="w1",
        parents={row.shard_id: row for row in parents},
        living_claims=frozenset(living),
        now=NOW,
        look_again_after=LONG,
    )


def test_each_row_is_due_idle_read_waiting_or_ended_and_is_counted_once() -> None:
    quiet = {"looked_at": NOW, "behind_ms": 0}
    plan = due_of(
        a_row("j-idle", **quiet),
        a_row("i-due"),
        a_row("h-elsewhere", owner="w2", **quiet),
        a_row("g-handed-over", checkpoint_owner="w1", owner="w2", **quiet),
        a_row("f-handed-to-me", checkpoint_owner="w2", **quiet),
        a_row("e-read", run_claim="run/1", **quiet),
        a_row("d-read", run_claim="run/1", **quiet),
        a_row("c-ended", checkpoint=SHARD_END),
        a_row("b-ended", checkpoint=SHARD_END, run_claim="run/1"),
        a_row("a-idle", **quiet),
        a_row("a-due"),
        living=["run/1"],
    )
    assert plan == DuePlan(
        (Due("a-due", "never read"), Due("i-due", "never read")),
        (a_row("a-idle", **quiet), a_row("j-idle", **quiet)),
        being_read=2,
        waiting=3,
        ended=2,
    )
    assert due_of() == DuePlan((), ())


def test_a_due_row_has_the_first_reason_that_applies() -> None:
    failed = Failure(NOW, "access denied")
    told = {
        row.key: due_of(row).due[0].why
        for row in (
            a_row("left", run_claim="run-7/1", failure=failed),
            a_row("new", failure=failed),
            a_row("failed", looked_at=NOW, failure=failed, behind_ms=5),
            a_row("behind", looked_at=NOW - 2 * LONG, behind_ms=5),
        )
    }
    assert told == {
        "left": "run run-7 has ended and left its claim in the row",
        "new": "never read",
        "failed": "the shard failed when it was last read",
        "behind": "5 ms behind",
    }


def test_a_shard_whose_checkpoint_another_program_wrote_is_due_until_a_wave_has_read_on_from_there() -> None:
    """The checkpoint may be inside an aggregate, and a probe asks only for records after that."""
    quiet = {"looked_at": NOW, "behind_ms": 0, "checkpoint": Checkpoint("20", 3)}
    (due,) = due_of(a_row("a", **quiet, landed=Checkpoint("20", 1))).due
    assert due.why == "another program wrote its checkpoint, which may be inside an aggregate"
    assert due_of(a_row("a", **quiet)).due, "KCL has read the shard from its start"
    assert not due_of(a_row("a", **quiet, landed=Checkpoint("20", 3))).due
    assert not due_of(a_row("a", **quiet | {"checkpoint": TRIM_HORIZON})).due


def test_the_child_of_a_merge_waits_until_both_of_its_parents_have_ended() -> None:
    child = a_row("m", parents=frozenset({"p", "q"}))
    for p, q in ((False, False), (True, False), (False, True), (True, True)):
        parents = [
            a_row(name, checkpoint=SHARD_END if ended else TRIM_HORIZON)
            for name, ended in (("p", p), ("q", q))
        ]
        assert bool(due_of(child, parents=parents).due) is (p and q)
        assert due_of(child, parents=parents).waiting == int(not (p and q))


def test_no_child_waits_for_a_parent_without_a_row() -> None:
    child = a_row("m", parents=frozenset({"p", "q"}))
    assert due_of(child).due
    assert due_of(child, parents=[a_row("p", checkpoint=SHARD_END)]).due
    assert not due_of(child, parents=[a_row("p")]).due


def test_a_shard_that_was_read_before_waits_for_no_parent() -> None:
    for before in ({"looked_at": NOW, "behind_ms": 1}, {"landed": TRIM_HORIZON}):
        assert due_of(a_row("m", parents=frozenset({"p"}), **before), parents=[a_row("p")]).due


def test_the_plans_of_several_streams_are_joined_in_the_order_of_the_rows() -> None:
    one = DuePlan((Due("d", "never read"), Due("a", "5 ms behind")), (a_row("f"), a_row("e")), 1, 2, 3)
    other = DuePlan((Due("b", "never read"),), (a_row("c"),), 10, 20, 30)
    assert one_plan(iter((one, other))) == DuePlan(
        (Due("a", "5 ms behind"), Due("b", "never read"), Due("d", "never read")),
        (a_row("c"), a_row("e"), a_row("f")),
        being_read=11,
        waiting=22,
        ended=33,
    )
