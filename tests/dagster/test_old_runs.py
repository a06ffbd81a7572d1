"""Old runs are deleted from Dagster's storage, and nothing that Dagster shows changes by that."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

import dagster as dg
import pytest

from headrace.resources.old_runs import ApplicationRuns, OldRuns
from headrace.resources.runs import worker_tag
from tests.dagster.fixtures import MakeInstance
from tests.dagster.partition_status import is_failed, partition_statuses

SHARDS = dg.DynamicPartitionsDefinition(name="shards")
WEEK = timedelta(days=7)


@dg.asset(partitions_def=SHARDS, output_required=False)
def records(context: dg.AssetExecutionContext) -> Iterator[None]:
    if context.partition_key == "bad":
        raise dg.Failure("refused")
    context.log_event(dg.AssetMaterialization("records", partition=context.partition_key))
    yield from ()


@dg.asset
def typed() -> dg.MaterializeResult[None]:
    return dg.MaterializeResult(metadata={"rows": 1})


@dg.asset
def elsewhere() -> None: ...


DEFS = dg.Definitions(
    [records, typed, elsewhere],
    jobs=[
        dg.define_asset_job("app_consume", [records]),
        dg.define_asset_job("app_parse", [typed]),
        dg.define_asset_job("other", [elsewhere]),
    ],
)
OWN = ApplicationRuns(
    application="app",
    jobs=("app_consume", "app_parse"),
    workers=("w1",),
    shards=records.key,
    assets=(typed.key,),
)


@dataclass
class Ahead:
    """The host's clock, and how far the test has moved it."""

    by: timedelta = timedelta(0)

    def now(self) -> datetime:
        return datetime.now(UTC) + self.by

    def monotonic(self) -> float:
        return self.by.total_seconds()

    def pause(self, seconds: float) -> None:
        raise AssertionError("nothing waits here")


@dataclass
class Place:
    instance: dg.DagsterInstance
    clock: Ahead = field(default_factory=Ahead)

    def __post_init__(self) -> None:
        self.old = OldRuns(own=OWN, keep_for=WEEK, clock=self.clock)
        self.instance.add_dynamic_partitions("shards", ["a", "b", "bad"])

    def run(self, job: str, partition: str | None = None, **tags: str) -> str:
        done = DEFS.resolve_job_def(job).execute_in_process(
            instance=self.instance, partition_key=partition, raise_on_error=False, tags=tags
        )
        return done.run_id

    def consume(self, *partitions: str) -> list[str]:
        return [self.run("app_consume", each, **worker_tag("app", "w1")) for each in partitions]

    def later(self, by: timedelta) -> int:
        """How many runs are deleted by then."""
        self.clock.by += by
        deleted = 0
        while some := self.old.delete_some(self.instance):
            deleted += some
            self.old.delete_leavings(self.instance)
        return deleted

    def left(self) -> set[str]:
        return set(self.instance.get_run_ids())

    def statuses(self) -> dict[str, list[str]]:
        """As a Dagster shows them that has forgotten what it knew."""
        self.instance.wipe_asset_cached_status([records.key])
        return partition_statuses(self.instance, SHARDS, records.key)


@pytest.fixture
def place(make_instance: MakeInstance) -> Place:
    return Place(make_instance())


def test_runs_are_deleted_a_week_after_they_began(place: Place):
    place.consume("a", "b")
    new = place.consume("a", "b")
    assert place.later(WEEK - timedelta(hours=1)) == 0
    assert place.later(timedelta(hours=2)) == 2
    assert place.left() == set(new)


def test_the_files_of_a_run_are_deleted_with_it(tmp_path: Path):
    """Dagster itself leaves them: 0.13 MB for the events, and what the run has put out."""

    def files(run_id: str) -> list[Path]:
        return [file for file in tmp_path.rglob("*") if run_id in str(file)]

    (tmp_path / "dagster.yaml").write_text("telemetry: {enabled: false}\n")
    with dg.DagsterInstance.from_config(str(tmp_path)) as instance:
        place = Place(instance)
        old, new = (place.run("app_parse") for _ in range(2))
        assert len(files(old)) > 2
        assert place.later(2 * WEEK) == 1
        assert files(old) == []
        assert len(files(new)) > 2
        assert place.left() == {new}


def test_dagster_shows_each_partition_as_before_however_old_its_newest_run_is(place: Place):
    place.consume("a", "bad", "b", "bad", "a")
    before = place.statuses()
    assert before == {"FAILED": ["bad"], "MATERIALIZED": ["a", "b"]}
    made = place.instance.get_latest_storage_id_by_partition(
        records.key, dg.DagsterEventType.ASSET_MATERIALIZATION
    )
    assert place.later(100 * WEEK) == 2
    assert place.statuses() == before
    assert made == place.instance.get_latest_storage_id_by_partition(
        records.key, dg.DagsterEventType.ASSET_MATERIALIZATION
    )


def test_the_newest_materialization_of_an_asset_without_partitions_stays(place: Place):
    runs = [place.run("app_parse") for _ in range(3)]
    assert place.later(2 * WEEK) == 2
    assert place.left() == {runs[-1]}
    newest = place.instance.get_latest_materialization_event(typed.key)
    assert newest is not None
    assert newest.run_id == runs[-1]
    assert not is_failed(place.instance, typed.key)


def test_the_newest_run_of_a_worker_stays_because_its_sensor_goes_by_it(place: Place):
    (run_id,) = place.consume("a")
    place.instance.report_runless_asset_event(dg.AssetMaterialization(records.key, partition="a"))
    asset_run = DEFS.resolve_implicit_global_asset_job_def().execute_in_process(
        instance=place.instance, asset_selection=[records.key], partition_key="a"
    )
    assert place.later(2 * WEEK) == 0
    assert place.left() == {run_id, asset_run.run_id}


def test_runs_of_other_jobs_and_of_other_assets_stay(place: Place):
    others = [place.run("other") for _ in range(2)]
    implicit = DEFS.resolve_implicit_global_asset_job_def()
    mixed = implicit.execute_in_process(instance=place.instance, asset_selection=[typed.key, elsewhere.key])
    own = implicit.execute_in_process(instance=place.instance, asset_selection=[typed.key])
    newest = place.run("app_parse")
    assert place.later(2 * WEEK) == 1
    assert place.left() == {*others, mixed.run_id, newest}
    assert own.run_id not in place.left()


def test_a_run_that_isnt_over_stays(place: Place):
    job = DEFS.resolve_job_def("app_parse")
    for status in (dg.DagsterRunStatus.STARTED, dg.DagsterRunStatus.CANCELING):
        place.instance.create_run_for_job(job, status=status)
    place.run("app_parse")
    assert place.later(2 * WEEK) == 0


def test_a_few_runs_are_deleted_at_a_time_and_the_next_look_is_ten_minutes_later(
    place: Place, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("headrace.resources.old_runs._MOST", 2)
    job = DEFS.resolve_job_def("app_parse")

    def a_run() -> None:
        place.instance.create_run_for_job(job, status=dg.DagsterRunStatus.SUCCESS)

    for _ in range(4):
        a_run()
    place.clock.by += 2 * WEEK
    assert [place.old.delete_some(place.instance) for _ in range(3)] == [2, 1, 0]
    a_run()
    place.clock.by += timedelta(minutes=9)
    assert place.old.delete_some(place.instance) == 0
    place.clock.by += timedelta(minutes=2)
    assert place.old.delete_some(place.instance) == 1
