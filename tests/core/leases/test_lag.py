"""How far behind a shard is by its lease row: one answer for status, the console, checks, health and metrics."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from headrace.pipeline.core.leases.failure import Failure
from headrace.pipeline.core.leases.lag import LivingWorker, lag_of, longest, open_lags, readers_among
from headrace.pipeline.core.leases.lease import Lease
from headrace.pipeline.core.leases.worker import Worker
from headrace.pipeline.core.shards.checkpoint import SHARD_END, Checkpoint

NOW = datetime(2026, 1, 31, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)
AT_TIP = Lease("shardId-000000000001", looked_at=NOW - HOUR, behind_ms=0)


def test_a_shard_that_was_left_behind_lags_since_its_last_look() -> None:
    assert lag_of(replace(AT_TIP, behind_ms=5), NOW) == HOUR


def test_a_shard_that_fails_lags_since_its_last_look_also_where_that_look_was_at_the_tip() -> None:
    assert lag_of(replace(AT_TIP, failure=Failure(NOW, "access denied")), NOW) == HOUR


def test_a_shard_at_its_tip_lags_only_without_a_living_worker() -> None:
    assert lag_of(AT_TIP, NOW) == timedelta(0)
    assert lag_of(AT_TIP, NOW, reader=None) == HOUR


@pytest.mark.parametrize(
    ("ticked_for", "looked_at", "lag"),
    [
        (timedelta(seconds=59), NOW - HOUR, None),
        (timedelta(seconds=59), NOW - timedelta(seconds=58), timedelta(0)),
        (timedelta(seconds=60), NOW - HOUR, timedelta(0)),
    ],
)
def test_after_an_outage_the_lag_isnt_known_until_the_worker_has_looked_or_has_ticked_for_a_minute(
    ticked_for: timedelta, looked_at: datetime, lag: timedelta | None
) -> None:
    # The worker's host is an hour ahead: only its own times are compared with each other.
    worker = Worker("w1", instance="here", ticked_at=NOW + HOUR, ticking_since=NOW + HOUR - ticked_for)
    here = replace(worker, ticked_at=NOW, ticking_since=NOW - ticked_for)
    row = replace(AT_TIP, owner="w1", looked_at=looked_at)
    assert open_lags([row], NOW, readers=readers_among(["w1"], [here])) == {row.key: lag}
    assert readers_among(["w1"], [worker]).keys() == {"w1"}
    assert (readers_among(["w1"], [worker])["w1"].back_since is None) == (
        readers_among(["w1"], [here])["w1"].back_since is None
    )


def test_a_record_that_is_seen_to_wait_counts_also_where_the_worker_is_back_only_just_now() -> None:
    seen = NOW - timedelta(seconds=9)
    assert lag_of(AT_TIP, NOW, reader=LivingWorker(back_since=NOW), waiting_since=seen) == timedelta(
        seconds=9
    )


def test_the_lag_isnt_known_while_the_next_worker_may_not_have_looked_yet() -> None:
    given = replace(AT_TIP, assigned_at=NOW - timedelta(seconds=59))
    assert lag_of(given, NOW) is None
    assert lag_of(replace(given, looked_at=NOW - timedelta(seconds=58)), NOW) == timedelta(0)
    assert lag_of(replace(given, assigned_at=NOW - timedelta(minutes=1)), NOW) == timedelta(0)


@pytest.mark.parametrize("rows", [[Worker("kcl", NOW, stats={"C": (5.0,)})], []])
def test_nobody_knows_the_lag_of_a_shard_that_a_worker_of_kcl_has_taken_at_its_tip(
    rows: list[Worker],
) -> None:
    # It may have read records that it hasn't checkpointed, and its rows don't say when it looked.
    row = replace(AT_TIP, owner="kcl", landed=Checkpoint("49"), checkpoint=Checkpoint("49"))
    assert open_lags([row], NOW, readers=readers_among(["kcl"], rows)) == {row.key: None}
    seen = {row.key: NOW - timedelta(seconds=9)}
    lags = open_lags([row], NOW, readers=readers_among(["kcl"], rows), waiting_since=seen)
    assert lags == {row.key: timedelta(seconds=9)}


def test_a_worker_whose_row_has_no_time_of_its_ticks_counts_as_one_that_has_looked() -> None:
    row = replace(AT_TIP, owner="w1")
    worker = Worker("w1", instance="here")
    assert open_lags([row], NOW, readers=readers_among(["w1"], [worker])) == {row.key: timedelta(0)}


def test_a_record_that_came_after_the_last_look_counts_since_it_was_seen() -> None:
    assert lag_of(AT_TIP, NOW, waiting_since=NOW - timedelta(seconds=9)) == timedelta(seconds=9)


@pytest.mark.parametrize(("assigned", "lag"), [(NOW - HOUR, HOUR), (None, None)])
def test_a_shard_that_was_never_read_lags_since_a_worker_had_its_lease(
    assigned: datetime | None, lag: timedelta | None
) -> None:
    assert lag_of(Lease("shardId-000000000001", assigned_at=assigned), NOW) == lag


def test_a_shard_that_was_read_to_its_end_has_no_lag() -> None:
    assert lag_of(replace(AT_TIP, checkpoint=SHARD_END, behind_ms=5), NOW, reader=None) == timedelta(0)


def test_where_a_worker_of_kcl_has_read_on_the_last_look_tells_no_lag() -> None:
    landed = replace(AT_TIP, landed=Checkpoint("49"), checkpoint=Checkpoint("49"))
    assert lag_of(landed, NOW) == timedelta(0)
    assert lag_of(replace(landed, checkpoint=Checkpoint("50")), NOW) is None


def test_nothing_is_behind_only_where_the_lag_of_each_shard_is_known() -> None:
    zero = timedelta(0)
    assert (longest([]).is_nothing, longest([zero]).is_nothing) == (True, True)
    assert (longest([zero, None]).is_nothing, longest([None]).is_nothing) == (False, False)
    assert [longest(lags).seconds for lags in ([], [zero], [zero, None], [None], [HOUR, None])] == [
        0.0,
        0.0,
        None,
        None,
        3600.0,
    ]
