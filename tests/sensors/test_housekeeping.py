"""What the leader's sensor does for its own Dagster may fail in any way: the leader's own turn goes on, and so does its memory."""

import sqlite3
from datetime import timedelta
from typing import Any

import dagster as dg
import pytest
from botocore.exceptions import ClientError

from headrace.assets.names import partitions_name
from headrace.pipeline.clock import SystemClock
from headrace.pipeline.settings.model import TimeSettings
from tests.dagster.fixtures import MakeWorld
from tests.dagster.world import DagsterWorld

WEEK = timedelta(days=7)
FORBIDDEN = ClientError({"Error": {"Code": "AccessDenied", "Message": "s3:DeleteObject"}}, "DeleteObjects")


class Ahead(SystemClock):
    by = timedelta(0)

    def now(self) -> Any:
        return super().now() + self.by

    def monotonic(self) -> float:
        return super().monotonic() + self.by.total_seconds()


@pytest.fixture
def world(make_world: MakeWorld) -> DagsterWorld:
    """Two workers, and runs that are old."""
    made = make_world(workers=("w1", "w2"), shards=2, times=TimeSettings())
    made.ports.clock = Ahead()
    made.settle()
    for _ in range(8):
        made.instance.create_run_for_job(made.job, status=dg.DagsterRunStatus.SUCCESS)
    _pass(made, 2 * WEEK)
    return made


def _pass(world: DagsterWorld, by: timedelta) -> None:
    clock: Any = world.ports.clock
    clock.by += by


def _owners_after_the_death_of_w2(world: DagsterWorld) -> set[str | None]:
    for _ in range(12):
        world.tick("leader")
        world.tick("worker_w1")
        world.later(timedelta(seconds=5))
    return {row.owner for row in world.world.leases.scan().leases}


def _fails(error: Exception) -> Any:
    def fail(*_: object, **__: object) -> None:
        raise error

    return fail


def test_a_leader_whose_dagster_may_not_delete_logs_still_notices_a_dead_worker(
    world: DagsterWorld, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(world.instance.compute_log_manager, "delete_logs", _fails(FORBIDDEN))
    assert _owners_after_the_death_of_w2(world) == {"w1"}
    assert len(world.instance.get_run_ids()) == 1, "the runs themselves are deleted"


@pytest.mark.parametrize("method", ["get_materialized_partitions", "delete_run", "get_asset_records"])
@pytest.mark.parametrize(
    "error", [sqlite3.OperationalError("database is locked"), ZeroDivisionError("a bug")]
)
def test_no_error_of_housekeeping_keeps_the_leader_from_its_result(
    world: DagsterWorld,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    method: str,
    error: Exception,
):
    world.instance.add_dynamic_partitions(partitions_name(world.settings), ["foo"])
    monkeypatch.setattr(world.instance, method, _fails(error))
    assert "nothing to do" in str(world.tick("leader").skip_reason)
    said = capsys.readouterr().err
    assert f"{type(error).__name__}: {error}" in said
    assert "The leader's own work isn't touched" in said
    assert "Traceback" not in said


def test_logs_that_cant_be_deleted_are_told_and_not_tried_at_each_tick(
    world: DagsterWorld, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    logs = world.instance.compute_log_manager
    attempts: list[str] = []
    bad: set[str] = set()

    def delete_logs(prefix: list[str]) -> None:
        attempts.extend(prefix)
        bad.add(attempts[0])
        if prefix[0] in bad:
            raise FORBIDDEN

    monkeypatch.setattr(logs, "delete_logs", delete_logs)
    said = [str(world.tick("leader").skip_reason) for _ in range(4)]
    assert ["5 old runs deleted" in said[0], "2 old runs deleted" in said[1]] == [True, True]
    assert "deleted" not in said[2] + said[3]
    assert len(attempts) == 1, "ten minutes of rest after the first refusal"
    assert capsys.readouterr().err.count("ClientError") == 1

    for _ in range(3):
        _pass(world, timedelta(minutes=11))
        world.tick("leader")
        world.tick("leader")
    assert len(set(attempts)) == 7, "the logs of the other runs are deleted"
    assert attempts.count(attempts[0]) <= 4, "once in ten minutes"
