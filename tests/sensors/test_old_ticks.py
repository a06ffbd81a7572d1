"""Ticks at rest are deleted after some hours; ticks that tell something stay."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import dagster as dg
from dagster._core.definitions.run_request import InstigatorType
from dagster._core.remote_origin import (
    InProcessCodeLocationOrigin,
    RemoteInstigatorOrigin,
    RemoteRepositoryOrigin,
)
from dagster._core.scheduler.instigation import (
    InstigatorState,
    InstigatorStatus,
    SensorInstigatorData,
    TickData,
    TickStatus,
)
from dagster._core.types.loadable_target_origin import LoadableTargetOrigin

from headrace.pipeline.clock import SystemClock
from headrace.resources.old_ticks import KEPT
from tests.dagster.fixtures import MakeWorld


class Ahead(SystemClock):
    """The host's clock, of which the monotonic part is moved alone."""

    by = timedelta(0)

    def monotonic(self) -> float:
        return super().monotonic() + self.by.total_seconds()


def a_sensor(instance: dg.DagsterInstance, name: str) -> InstigatorState:
    """What Dagster's daemon keeps of a sensor."""
    location = InProcessCodeLocationOrigin(LoadableTargetOrigin(module_name="definitions"))
    origin = RemoteInstigatorOrigin(RemoteRepositoryOrigin(location, "__repository__"), name)
    state = InstigatorState(
        origin, InstigatorType.SENSOR, InstigatorStatus.DECLARED_IN_CODE, SensorInstigatorData(min_interval=5)
    )
    instance.add_instigator_state(state)
    return state


def a_tick(instance: dg.DagsterInstance, state: InstigatorState, status: TickStatus, began: datetime) -> None:
    instance.create_tick(
        TickData(
            instigator_origin_id=state.instigator_origin_id,
            instigator_name=state.instigator_name,
            instigator_type=InstigatorType.SENSOR,
            status=status,
            timestamp=began.timestamp(),
            run_ids=[],
            selector_id=state.selector_id,
        )
    )


def ticks_of(instance: dg.DagsterInstance, state: InstigatorState) -> set[tuple[TickStatus, float]]:
    ticks = instance.get_ticks(state.instigator_origin_id, state.selector_id)
    return {(tick.status, tick.timestamp) for tick in ticks}


def test_only_skipped_ticks_of_the_applications_sensors_are_deleted_after_some_hours(
    make_world: MakeWorld, tmp_path: Path
):
    world = make_world()
    clock = world.ports.clock = Ahead()
    world.settle()
    instance = dg.DagsterInstance.local_temp(str(tmp_path))
    names = [f"{world.settings.application}_{sensor}" for sensor in ("leader", "worker_w1", "watch")]
    own = [a_sensor(instance, name) for name in names]
    other = a_sensor(instance, "somebody_elses")
    limit = datetime.now(UTC) - KEPT
    old, new = limit - timedelta(minutes=1), limit + timedelta(minutes=5)
    for state in (*own, other):
        for status in (TickStatus.SKIPPED, TickStatus.STARTED, TickStatus.SUCCESS):
            a_tick(instance, state, status, old)
        a_tick(instance, state, TickStatus.SKIPPED, new)
    every = ticks_of(instance, other)
    clock.by += timedelta(minutes=11)
    world.tick("leader", instance=instance)
    for state in own:
        assert ticks_of(instance, state) == every - {(TickStatus.SKIPPED, old.timestamp())}
    assert ticks_of(instance, other) == every
