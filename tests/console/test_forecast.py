"""What is said of lags, and of records that leave the stream before they are read."""

from dataclasses import replace
from datetime import timedelta

import pytest

from headrace.pipeline.console.forecast import risk_of
from headrace.pipeline.console.lag import shown_lag
from headrace.pipeline.console.stillness import Growth, RowStillness
from headrace.pipeline.console.values import Behind, LagKind, LossRisk, Severity, ShardLag
from headrace.pipeline.core.leases.lag import LivingWorker
from headrace.pipeline.core.shards.checkpoint import SHARD_END, TRIM_HORIZON, Checkpoint
from tests.console.scenes import NOW, a_scene

H = timedelta(hours=1)
DAY = timedelta(days=1)


def measured(hours: float) -> ShardLag:
    return ShardLag(LagKind.MEASURED, hours * H)


# --- lags ---------------------------------------------------------------------------------------------------------


def a_lease(**fields):
    scene = a_scene(4)
    return replace(scene.lease("shardId-000000000004"), **fields)


def test_the_oldest_unread_record_that_kinesis_has_counts_before_everything_else():
    arrived = NOW - timedelta(seconds=80)
    lag = shown_lag(a_lease(behind_ms=9), Behind(arrived, NOW - timedelta(minutes=20)), NOW)
    assert (lag.kind, lag.behind, lag.since) == (LagKind.MEASURED, timedelta(seconds=80), arrived)


def test_an_answer_that_nothing_newer_is_there_is_a_bound_once_it_is_old():
    fresh = shown_lag(a_lease(), Behind(None, NOW - timedelta(seconds=30)), NOW)
    assert (fresh.kind, fresh.behind) == (LagKind.MEASURED, timedelta(0))
    asked_at = NOW - timedelta(minutes=20)
    old = shown_lag(a_lease(), Behind(None, asked_at), NOW)
    assert (old.kind, old.behind, old.since) == (LagKind.AT_MOST, timedelta(minutes=20), asked_at)


def test_a_row_of_headrace_tells_what_the_last_wave_left():
    lag = shown_lag(a_lease(behind_ms=1500, looked_at=NOW - timedelta(minutes=1)), None, NOW)
    assert (lag.kind, lag.behind) == (LagKind.AT_MOST, timedelta(minutes=1)), (
        "as `headrace status` and the metrics have it"
    )


def test_a_shard_that_a_worker_of_kcl_took_at_its_tip_is_behind_by_the_time_since_the_last_wave_at_most():
    looked_at = NOW - timedelta(minutes=1)
    at_tip = a_lease(behind_ms=0, looked_at=looked_at)
    lag = shown_lag(at_tip, None, NOW, reader=LivingWorker(is_ours=False))
    assert (lag.kind, lag.behind, lag.since) == (LagKind.AT_MOST, timedelta(minutes=1), looked_at)
    assert "a worker of KCL reads it" in lag.sentence
    assert shown_lag(at_tip, None, NOW).behind == timedelta(0)


def test_a_checkpoint_alone_is_a_bound_and_never_called_a_lag():
    lag = shown_lag(a_lease(), None, NOW)
    assert (lag.kind, lag.behind) == (LagKind.AT_MOST, timedelta(seconds=36))
    assert "isn't known" in lag.sentence


@pytest.mark.parametrize("word", ["TRIM_HORIZON", "LATEST", "AT_TIMESTAMP", "12345"])
def test_a_checkpoint_without_a_time_gives_no_lag(word: str):
    lag = shown_lag(a_lease(checkpoint=Checkpoint(word)), None, NOW)
    assert (lag.kind, lag.behind) == (LagKind.UNKNOWN, None)
    assert lag.sentence


def test_a_shard_that_was_read_to_its_end_has_no_lag():
    assert shown_lag(a_lease(checkpoint=SHARD_END), None, NOW).behind == timedelta(0)


# --- forecasts ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("lag", "growth", "is_read", "level", "loses_in"),
    [
        (measured(0), None, True, Severity.GOOD, None),
        (measured(2), 0.5, True, Severity.GOOD, 44 * H),
        (measured(14), 0.5, True, Severity.WARN, 20 * H),
        (measured(21), 1.0, True, Severity.BAD, 3 * H),
        (measured(21), 0.5, True, Severity.WARN, 6 * H),
        (measured(21), -1.0, True, Severity.GOOD, None),
        (measured(23), -1.0, True, Severity.BAD, None),
        (measured(21), -1.0, False, Severity.BAD, 3 * H),
        (measured(21), None, True, Severity.BAD, 3 * H),
        (measured(25), 0.0, True, Severity.BAD, timedelta(0)),
        (ShardLag(LagKind.AT_MOST, 3 * H), None, True, Severity.GOOD, None),
        (ShardLag(LagKind.AT_MOST, 20 * H), None, True, Severity.WARN, None),
        (ShardLag(LagKind.AT_MOST, 30 * H), None, True, Severity.WARN, None),
    ],
    ids=str,
)
def test_the_loss_is_foreseen_by_retention_lag_and_growth(lag, growth, is_read, level, loses_in):
    risk = risk_of(lag, DAY, growth, is_read=is_read)
    assert (risk.level, risk.loses_in) == (level, loses_in)
    assert bool(risk.sentence) or level is Severity.GOOD


def test_nothing_is_foreseen_where_lag_or_retention_is_unknown():
    assert risk_of(ShardLag(), DAY, 1.0, is_read=True) == LossRisk()
    assert risk_of(measured(30), None, 1.0, is_read=True) == LossRisk()


def test_a_growth_is_told_only_after_a_minute_and_is_at_most_the_clock():
    growth = Growth()
    growth.look({"a": 10.0, "b": 10.0}, 0.0)
    growth.look({"a": 40.0, "b": 10.0}, 30.0)
    assert growth.of("a") is None
    growth.look({"a": 40.0, "b": 900.0}, 60.0)
    assert (growth.of("a"), growth.of("b")) == (0.5, 1.0)
    growth.look({"b": 900.0}, 120.0)
    assert growth.of("a") is None, "a shard that is gone is forgotten"


def test_stillness_counts_from_the_first_look_at_a_state():
    stillness = RowStillness()
    stillness.look({"lock": "v1"}, 5.0)
    stillness.look({"lock": "v1"}, 65.0)
    assert stillness.of("lock", 65.0) == timedelta(seconds=60)
    stillness.look({"lock": "v2"}, 70.0)
    assert stillness.of("lock", 80.0) == timedelta(seconds=10)
    assert stillness.of("other", 80.0) is None


def test_a_position_before_the_first_checkpoint_is_at_no_risk_that_is_known():
    assert (
        risk_of(shown_lag(a_lease(checkpoint=TRIM_HORIZON), None, NOW), DAY, None, is_read=True) == LossRisk()
    )
