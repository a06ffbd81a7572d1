"""The one private API of Dagster that Headrace uses. If an upgrade of Dagster changes it, these tests fail."""

import inspect

import dagster as dg
from dagster._core.events import AssetMaterializationPlannedData, DagsterEvent

from headrace.assets.planned import tell_check
from tests.dagster.fixtures import MakeInstance
from tests.dagster.partition_status import partition_statuses

SHARDS = dg.DynamicPartitionsDefinition(name="shards")
KEYS = ["a", "b", "c"]


@dg.asset(partitions_def=SHARDS)
def records() -> None: ...


def _planned(instance: dg.DagsterInstance, run: dg.DagsterRun, partition: str) -> None:
    data = AssetMaterializationPlannedData(records.key, partition=partition)
    event = DagsterEvent.build_asset_materialization_planned_event(run.job_name, "records", data)
    instance.report_dagster_event(event, run.run_id)


def _a_run(instance: dg.DagsterInstance) -> dg.DagsterRun:
    instance.add_dynamic_partitions("shards", KEYS)
    job = dg.Definitions([records], jobs=[dg.define_asset_job("job", [records])]).resolve_job_def("job")
    run = instance.create_run_for_job(job)
    instance.report_dagster_event(DagsterEvent("PIPELINE_START", "job"), run.run_id)
    return run


def test_the_private_methods_have_the_expected_signatures():
    build = inspect.signature(DagsterEvent.build_asset_materialization_planned_event)
    assert list(build.parameters) == ["job_name", "step_key", "asset_materialization_planned_data"]
    data = inspect.signature(AssetMaterializationPlannedData)
    assert list(data.parameters)[:2] == ["asset_key", "partition"]
    report = inspect.signature(dg.DagsterInstance.report_dagster_event)
    assert list(report.parameters)[:3] == ["self", "dagster_event", "run_id"]


def test_a_checks_evaluation_of_a_run_in_progress_is_kept_once_for_the_run(make_instance: MakeInstance):
    instance = make_instance()
    run, check = _a_run(instance), dg.AssetCheckKey(records.key, "lag")
    for passed in (True, False):
        evaluation = dg.AssetCheckEvaluation(asset_key=records.key, check_name="lag", passed=passed)
        tell_check(instance, evaluation, run.run_id)
    (record,) = instance.event_log_storage.get_asset_check_execution_history(check, limit=5)
    assert (record.run_id, record.status.value) == (run.run_id, "FAILED")
    tell_check(instance, dg.AssetCheckEvaluation(asset_key=records.key, check_name="lag", passed=True), None)
    newest, _ = instance.event_log_storage.get_asset_check_execution_history(check, limit=5)
    assert (newest.run_id, newest.status.value) == ("", "SUCCEEDED")


def test_an_announced_partition_is_in_progress_during_the_run_and_failed_after_a_failed_run(
    make_instance: MakeInstance,
):
    instance = make_instance()
    run = _a_run(instance)
    _planned(instance, run, "a")
    assert partition_statuses(instance, SHARDS, records.key) == {"IN PROGRESS": ["a"]}

    instance.report_run_failed(run)

    assert partition_statuses(instance, SHARDS, records.key) == {"FAILED": ["a"]}


def test_a_failed_run_fails_only_announced_partitions_that_it_did_not_materialize(
    make_instance: MakeInstance,
):
    instance = make_instance()
    run = _a_run(instance)
    for partition in ("a", "b"):
        _planned(instance, run, partition)
    instance.report_runless_asset_event(dg.AssetMaterialization(records.key, partition="b"))

    instance.report_run_failed(run)

    assert partition_statuses(instance, SHARDS, records.key) == {"FAILED": ["a"], "MATERIALIZED": ["b"]}


def test_a_partition_that_is_announced_after_it_was_materialized_counts_as_failed_with_its_run(
    make_instance: MakeInstance,
):
    instance = make_instance()
    run = _a_run(instance)
    instance.report_runless_asset_event(dg.AssetMaterialization(records.key, partition="a"))
    _planned(instance, run, "a")

    instance.report_run_failed(run)

    assert partition_statuses(instance, SHARDS, records.key) == {"FAILED": ["a"]}
