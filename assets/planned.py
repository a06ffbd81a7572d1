"""The event by which Dagster expects a materialization from a run. A run that fails without it shows the
asset, or the partition, as failed.

Dagster writes these events for the assets that a run is launched with. Runs that find out by themselves what
they make write their own. It is the one private interface of Dagster that assets use;
`tests/dagster/test_planned_events.py` notices a change of it.
"""

import dagster as dg
from dagster._core.events import AssetMaterializationPlannedData, DagsterEvent


def plan(context: dg.OpExecutionContext, asset: dg.AssetKey, partition: str | None = None) -> None:
    planned = DagsterEvent.build_asset_materialization_planned_event(
        context.job_name,
        context.get_step_execution_context().step.key,
        AssetMaterializationPlannedData(asset, partition=partition),
    )
    # Not `context.log_event`, which takes no event of this kind.
    context.instance.report_dagster_event(planned, context.run_id)
