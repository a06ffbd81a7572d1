"""The ticks that Dagster's daemon deletes and keeps with the shipped dagster.yaml: without that, DAGSTER_HOME grows for ever."""

import time
from datetime import timedelta

import pytest
from dagster._core.definitions.run_request import InstigatorType
from dagster._core.scheduler.instigation import InstigatorState, TickData, TickStatus
from dagster_shared.error import SerializableErrorInfo

from tests.e2e.app import App
from tests.e2e.conftest import MakeApp
from tests.eventually import eventually


def _sensors(app: App) -> list[InstigatorState]:
    return [*app.instance.all_instigator_state(instigator_type=InstigatorType.SENSOR)]


def _note_tick(app: App, sensor: InstigatorState, status: TickStatus, *, age: timedelta) -> None:
    app.instance.create_tick(
        TickData(
            instigator_origin_id=sensor.instigator_origin_id,
            instigator_name=sensor.instigator_name,
            instigator_type=InstigatorType.SENSOR,
            status=status,
            timestamp=time.time() - age.total_seconds(),
            selector_id=sensor.selector_id,
            run_ids=[],
            # Dagster accepts no failed tick without an error.
            error=SerializableErrorInfo("it failed", [], None) if status is TickStatus.FAILURE else None,
        )
    )


def _await_ticks(app: App, sensor: InstigatorState, wanted: set[tuple[TickStatus, int]]) -> None:
    eventually(lambda: _old_ticks(app, sensor) == wanted, "only the ticks that are to be kept are left")


def _old_ticks(app: App, sensor: InstigatorState) -> set[tuple[TickStatus, int]]:
    """The status and the age in days of each tick that is more than half a day old."""
    now = time.time()
    ticks = app.instance.get_ticks(
        sensor.instigator_origin_id, sensor.selector_id, before=now - timedelta(hours=12).total_seconds()
    )
    return {(tick.status, round((now - tick.timestamp) / 86_400)) for tick in ticks}


@pytest.mark.slow
def test_the_daemon_deletes_skipped_ticks_after_a_day_and_all_others_after_a_week(make_app: MakeApp):
    app = make_app(times={"worker_tick": "5s", "leader_tick": "5s", "lease_duration": "15s"})
    daemon = app.start_daemon()
    sensors = eventually(
        lambda: found if len(found := _sensors(app)) == 2 else None, "both sensors have ticked"
    )
    kept = {(status, 6) for status in (TickStatus.FAILURE, TickStatus.STARTED, TickStatus.SUCCESS)}
    for sensor in sensors:
        _note_tick(app, sensor, TickStatus.SKIPPED, age=timedelta(days=2))
        for status, _ in kept:
            _note_tick(app, sensor, status, age=timedelta(days=6))
            _note_tick(app, sensor, status, age=timedelta(days=8))
        assert len(_old_ticks(app, sensor)) == 7

    for sensor in sensors:
        _await_ticks(app, sensor, kept)

    daemon.terminate()
    daemon.wait(60)
