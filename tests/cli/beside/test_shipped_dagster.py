"""The shipped dagster.yaml and workspace.yaml load in the pinned Dagster, and have the intended effects."""

import logging
import shutil
import time
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, cast

import pytest
from dagster import DagsterInstance
from dagster._core.definitions.run_request import InstigatorType
from dagster._core.run_coordinator.queued_run_coordinator import QueuedRunCoordinator
from dagster._core.scheduler.instigation import TickData, TickStatus
from dagster._core.workspace.load import location_origins_from_yaml_paths
from dagster._daemon.sensor import SensorLaunchContext
from dagster_shared.error import SerializableErrorInfo

if TYPE_CHECKING:
    from dagster._core.remote_representation.external import RemoteSensor

ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="module")
def instance(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DagsterInstance]:
    home = tmp_path_factory.mktemp("dagster-home")
    shutil.copy(ROOT / "dagster.yaml", home)
    with DagsterInstance.from_config(str(home)) as made:
        yield made


def test_one_run_per_worker_is_dequeued_at_once(instance: DagsterInstance):
    assert isinstance(instance.run_coordinator, QueuedRunCoordinator)
    assert instance.run_coordinator.dequeue_interval_seconds == 1
    config = instance.run_coordinator.get_run_queue_config()
    assert config.tag_concurrency_limits == [
        {"key": "headrace/worker", "value": {"applyLimitPerUniqueValue": True}, "limit": 1}
    ]


def test_sensors_tick_at_the_same_time(instance: DagsterInstance):
    sensors = instance.get_settings("sensors")
    assert sensors["use_threads"] is True
    assert sensors["num_workers"] >= 4


def test_runs_are_monitored_and_have_a_time_limit(instance: DagsterInstance):
    assert instance.run_monitoring_enabled
    assert instance.run_monitoring_poll_interval_seconds < instance.run_monitoring_start_timeout_seconds
    assert 3600 <= instance.run_monitoring_max_runtime_seconds <= 24 * 3600


def test_ticks_are_kept_for_a_limited_number_of_days(instance: DagsterInstance):
    days = instance.get_tick_retention_settings(InstigatorType.SENSOR)
    assert set(days) == set(TickStatus)
    assert all(0 < kept <= 30 for kept in days.values())


def test_dagsters_telemetry_is_off(instance: DagsterInstance):
    assert not instance.telemetry_enabled
    assert not instance.nux_enabled


def test_the_workspace_is_one_location_called_headrace():
    (origin,) = location_origins_from_yaml_paths([str(ROOT / "workspace.yaml")])
    assert origin.location_name == "headrace"
    assert origin.loadable_target_origin.module_name == "headrace.pipeline.definitions"


KEPT_DAYS = {TickStatus.SKIPPED: 1, TickStatus.STARTED: 7, TickStatus.SUCCESS: 7, TickStatus.FAILURE: 7}


def test_each_tick_of_a_sensor_purges_its_old_ticks(instance: DagsterInstance):
    """Dagster purges at the end of each tick. Nothing else limits the size of DAGSTER_HOME at rest."""
    now = time.time()
    day = timedelta(days=1).total_seconds()
    for status, days in KEPT_DAYS.items():
        for age in (days - 0.1, days + 0.1):
            instance.create_tick(_a_tick(status, now - age * day))
    sensor = SimpleNamespace(get_remote_origin_id=lambda: "origin", selector_id="selector", sensor_type=None)
    tick = instance.create_tick(_a_tick(TickStatus.STARTED, now))

    with SensorLaunchContext(
        cast("RemoteSensor", sensor),
        tick,
        instance,
        logging.getLogger("test"),
        instance.get_tick_retention_settings(InstigatorType.SENSOR),
    ):
        pass

    left = instance.get_ticks("origin", "selector")
    days_old = {(each.status, round((now - each.timestamp) / day, 1)) for each in left}
    kept = {(status, days - 0.1) for status, days in KEPT_DAYS.items()}
    assert days_old == {(TickStatus.STARTED, 0.0), *kept}


def _a_tick(status: TickStatus, at: float) -> TickData:
    return TickData(
        instigator_origin_id="origin",
        instigator_name="leader",
        instigator_type=InstigatorType.SENSOR,
        status=status,
        timestamp=at,
        run_ids=["1" * 32] if status is TickStatus.SUCCESS else [],
        error=SerializableErrorInfo("boom", [], None) if status is TickStatus.FAILURE else None,
        selector_id="selector",
    )


def test_what_headrace_logs_during_a_run_is_in_the_runs_log(instance: DagsterInstance):
    """An example is the progress of a slow start of Spark."""
    assert instance.managed_python_loggers == ["headrace"]
