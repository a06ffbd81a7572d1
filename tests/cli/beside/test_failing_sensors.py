"""A sensor that fails each five seconds is told of once, then at distances that grow, and once when it works again."""

from datetime import UTC, datetime, timedelta

from headrace.pipeline.cli.beside.failing_sensors import FailingSensors

NOON = datetime(2026, 1, 31, 12, tzinfo=UTC)
TICK = timedelta(seconds=5)
REASON = "table shop: no AWS credentials were found. Nothing was written; give this process a role"
WHOLE = f"headrace: the sensor shop_leader failed: {REASON}\n"


def failing_for(sensors: FailingSensors, duration: timedelta, *names: str, reason: str = REASON) -> list[str]:
    lines: list[str] = []
    for tick in range(duration // TICK):
        for name in names:
            lines += sensors.ticks(name)
            lines += sensors.failed(name, reason, (), NOON + tick * TICK)
    return lines


def test_the_whole_reason_is_told_once_and_reminders_come_at_distances_that_grow():
    lines = failing_for(FailingSensors(), timedelta(hours=5), "shop_leader")
    whole, *reminders = lines
    assert whole == WHOLE
    # After 1, 3, 7, 15, 31 and 63 minutes, and then each hour.
    ticks = [60 * minutes // 5 + 1 for minutes in (1, 3, 7, 15, 31, 63, 123, 183, 243)]
    assert reminders == [
        f"headrace: still failing since 2026-01-31 12:00:00 +0000, by {count:,} ticks of shop_leader: "
        "table shop: no AWS credentials were found\n"
        for count in ticks
    ]


def test_a_second_sensor_with_the_same_reason_is_told_of_in_a_short_line():
    lines = failing_for(FailingSensors(), timedelta(minutes=2), "shop_leader", "shop_worker_w1")
    assert lines[:2] == [
        WHOLE,
        "headrace: the sensor shop_worker_w1 failed for the same reason as shop_leader\n",
    ]
    (reminder,) = lines[2:]
    assert "by 25 ticks of shop_leader, shop_worker_w1" in reminder


def test_another_reason_is_told_whole_and_a_new_id_of_a_request_is_no_other_reason():
    sensors = FailingSensors()
    failing_for(sensors, TICK, "shop_leader", reason="refused (request 17)")
    assert failing_for(sensors, TICK, "shop_leader", reason="refused (request 18)") == []
    assert failing_for(sensors, TICK, "shop_leader") == [WHOLE]


def test_once_a_tick_has_not_failed_the_sensor_works_again_and_the_next_failure_is_told_whole():
    sensors = FailingSensors()
    failing_for(sensors, timedelta(minutes=1), "shop_leader")
    assert list(sensors.ticks("shop_leader")) == [], "this tick may fail"
    assert list(sensors.ticks("shop_leader")) == [
        "headrace: the sensor shop_leader works again, after failures since 2026-01-31 12:00:00 +0000\n"
    ]
    assert list(sensors.ticks("shop_leader")) == []
    assert failing_for(sensors, TICK, "shop_leader") == [WHOLE]


def test_a_sensor_whose_failure_is_told_by_its_stack_does_not_work_again():
    sensors = FailingSensors()
    failing_for(sensors, TICK, "shop_leader")
    for tick in range(1, 5):
        assert list(sensors.ticks("shop_leader")) == []
        sensors.stays_failed("shop_leader", NOON + tick * TICK)


def test_reasons_that_are_new_each_time_take_no_memory_without_end():
    sensors = FailingSensors()
    for number in range(1000):
        failing_for(sensors, TICK, "shop_leader", reason="x" * number)
    assert failing_for(sensors, TICK, "shop_leader", reason="x" * 999) == []
    assert failing_for(sensors, TICK, "shop_leader", reason="x") != [], "it was forgotten, and is told again"
