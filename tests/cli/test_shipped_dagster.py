"""The shipped instance and workspace files load in the Dagster that we pin, and say what we mean."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from dagster import DagsterInstance
from dagster._core.definitions.run_request import InstigatorType
from dagster._core.run_coordinator.queued_run_coordinator import QueuedRunCoordinator
from dagster._core.scheduler.instigation import TickStatus
from dagster._core.workspace.load import location_origins_from_yaml_paths

ROOT = Path(__file__).parents[2]


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


def test_sensors_tick_beside_each_other(instance: DagsterInstance):
    sensors = instance.get_settings("sensors")
    assert sensors["use_threads"] is True
    assert sensors["num_workers"] >= 4


def test_runs_are_watched_and_have_an_end(instance: DagsterInstance):
    assert instance.run_monitoring_enabled
    assert instance.run_monitoring_poll_interval_seconds < instance.run_monitoring_start_timeout_seconds
    assert 3600 <= instance.run_monitoring_max_runtime_seconds <= 24 * 3600


def test_ticks_do_not_pile_up(instance: DagsterInstance):
    days = instance.get_tick_retention_settings(InstigatorType.SENSOR)
    assert set(days) == set(TickStatus)
    assert all(0 < kept <= 30 for kept in days.values())


def test_nothing_is_sent_home(instance: DagsterInstance):
    assert not instance.telemetry_enabled
    assert not instance.nux_enabled


def test_the_workspace_is_one_location_called_headrace():
    (origin,) = location_origins_from_yaml_paths([str(ROOT / "workspace.yaml")])
    assert origin.location_name == "headrace"
    assert origin.loadable_target_origin.module_name == "pipeline.definitions"
