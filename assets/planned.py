"""The event by which Dagster expects a materialization from a run. A run that fails without it shows the
asset, or the partition, as failed.

Dagster writes these events for the assets that a run is launched with. Runs that find out by themselves what
they make write their own. A check's evaluation belongs to such a run, too: Dagster shows a check as evaluated
only if that was after the asset's latest materialization, or by the same run.

These events are the one private interface of Dagster that assets and sensors use;
`tests/dagster/test_planned_events.py` notices a change of it.
"""

import dagster as dg
from dagster._core.events import AssetMaterializationPlannedData, DagsterEvent, DagsterEventType


def plan(context: dg.OpExecutionContext, asset: dg.AssetKey, partition: str | None = None) -> None:
    planned = DagsterEvent.build_asset_materialization_planned_event(
        context.job_name,
        context.get_step_execution_context().step.key,
        AssetMaterializationPlannedData(asset, partition=partition),
    )
    # Not `context.log_event`, which takes no event of this kind.
    context.instance.report_dagster_event(planned, context.run_id)


def tell_check(instance: dg.DagsterInstance, evaluation: dg.AssetCheckEvaluation, run_id: str | None) -> None:
    """Write the evaluation of a check as one that belongs to this run, whether the run is over or not; None: to
    no run.
    """
    run = instance.get_run_by_id(run_id) if run_id else None
    if run is None:
        instance.report_runless_asset_event(evaluation)
        return
    kind = DagsterEventType.ASSET_CHECK_EVALUATION.value
    event = DagsterEvent(kind, run.job_name, event_specific_data=evaluation)
    instance.report_dagster_event(event, run.run_id)
