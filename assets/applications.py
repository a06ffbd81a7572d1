"""The record processors that are KCL applications of their own: for each an asset, whose partitions are the shards, a job,
and the same sensors as the records have: a leader's, and one for each worker."""

from collections.abc import Iterator
from typing import Any

import dagster as dg

from headrace.assets.names import partitions_name, records_key, resource_key, slug
from headrace.assets.outside import streams_outside
from headrace.assets.records import RunOfShards
from headrace.assets.records_config import CONFIG_SCHEMA, read_config
from headrace.assets.shown import Layer, code_version, shown_metadata, source_kind
from headrace.pipeline.app.application_wiring import ApplicationWiring
from headrace.pipeline.duties.waves.report import OnStep
from headrace.pipeline.settings.blocks.processors import ProcessorSettings


def build_application(
    wiring: ApplicationWiring, processor: ProcessorSettings, on_step: OnStep | None = None
) -> dg.AssetsDefinition:
    settings = wiring.settings

    @dg.asset(
        key=records_key(settings),
        partitions_def=dg.DynamicPartitionsDefinition(name=partitions_name(settings)),
        deps=[stream.key for stream in streams_outside(settings)],
        description=_description(processor),
        kinds={source_kind(settings), "pyspark", "python"},
        code_version=f"{code_version()}/{processor.version}",
        **shown_metadata(settings, Layer.TYPED),
        # Shards are materialized by events, and not by the return of the function.
        output_required=False,
        # The resource ends the Spark session together with the run.
        required_resource_keys={resource_key(settings, "spark")},
        backfill_policy=dg.BackfillPolicy.single_run(),
        config_schema=CONFIG_SCHEMA,
        pool=settings.dagster.pools.get("records"),
    )
    def processed(context: dg.AssetExecutionContext) -> Iterator[Any]:
        config = read_config(context.op_execution_context.op_config)
        RunOfShards(context, config, wiring, on_step).run()
        # The run's own events say what happened.
        yield from ()

    return processed


def application_job(wiring: ApplicationWiring, asset: dg.AssetsDefinition) -> Any:
    return dg.define_asset_job(
        f"{slug(wiring.settings.application)}_process",
        selection=dg.AssetSelection.assets(asset).without_checks(),
        description="Let the processor work on what is new of the shards that are its partitions. The workers' sensors ask for "
        "its runs.",
        executor_def=dg.in_process_executor,
    )


def _description(processor: ProcessorSettings) -> str:
    return (
        f"`{processor.callable or processor.command}` works on the records of each shard in their order, at least once, as "
        f"the KCL application `{processor.application}`. Its lease rows have the checkpoints. One partition is one shard."
    )
