"""The record processors: for each entry of `processors` an asset, whose rows the user's own code makes of the landed records.

A run works wave after wave until the processor has caught up. The sensor `<application>_process` asks for a run while
records come; a person may materialize the asset at any time, also beside such a run.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import dagster as dg

from headrace.assets.failure import RunFailed
from headrace.assets.names import processor_key, records_key, resource_key, slug
from headrace.assets.parsed import did_something, is_expected, note_waves
from headrace.assets.shown import Layer, code_version, freshness, shown_metadata, table_name, totals
from headrace.pipeline.app.wiring import Wiring
from headrace.pipeline.errors import HeadraceError
from headrace.pipeline.settings.blocks.processors import ProcessorSettings
from headrace.pipeline.settings.model import Settings
from headrace.pipeline.typed.done_wave import Wave


def process_job(settings: Settings) -> str:
    return f"{slug(settings.application)}_process"


def build_processor(wiring: Wiring, processor: ProcessorSettings) -> dg.AssetsDefinition:
    settings = wiring.settings

    @dg.asset(
        key=processor_key(settings, processor),
        deps=[records_key(settings)],
        description=_description(settings, processor),
        kinds={"python", "iceberg"},
        code_version=f"{code_version()}/{processor.version}",
        metadata=table_name(processor.table),
        freshness_policy=freshness(settings),
        # Where nothing was new there is no materialization, so that nothing that depends on the table is started.
        output_required=False,
        **shown_metadata(settings, Layer.TYPED),
        pool=settings.dagster.pools.get("parse"),
        # The resource `spark` ends the Spark session together with the run.
        required_resource_keys={resource_key(settings, "spark")},
    )
    def processed(context: dg.AssetExecutionContext) -> Iterator[Any]:
        waves: list[Wave] = []
        try:
            processing = wiring.processors.processing(processor, context.run.run_id)
            note_waves(context, processing.waves(at_most=settings.times.linger), waves)
        except HeadraceError as error:
            raise RunFailed(str(error), processor_metadata(processor, waves)) from error
        if not did_something(waves):
            context.log.info("nothing new to process: %s has all that the lake table has", processor.table)
            if not is_expected(context):
                return
        metadata = {**processor_metadata(processor, waves), **totals(wiring.ports, processor.table)}
        yield dg.MaterializeResult(metadata=metadata)

    return processed


def _description(settings: Settings, processor: ProcessorSettings) -> str:
    of_stream = f" of the stream `{processor.stream}`" if processor.stream else ""
    return (
        f"Iceberg table `{processor.table}`: what `{processor.callable or processor.command}` makes of the records in "
        f"`{settings.landing.table}`{of_stream}, shard by shard and in their order. Rows, state and position are one "
        f"commit. The job `{process_job(settings)}` keeps it up to date while records come."
    )


def processor_metadata(processor: ProcessorSettings, waves: Sequence[Wave]) -> dict[str, dg.MetadataValue]:
    """What these waves did, as metadata of one materialization."""
    number = dg.MetadataValue.int
    return {
        "records": number(sum(wave.rows for wave in waves)),
        "rows": number(sum(wave.made for wave in waves)),
        "quarantined": number(sum(wave.aside for wave in waves)),
        "waves": number(len(waves)),
        "behind": dg.MetadataValue.bool(not waves or not waves[-1].is_last),
        "table": dg.MetadataValue.text(processor.table),
        "version": dg.MetadataValue.text(processor.version),
    }
