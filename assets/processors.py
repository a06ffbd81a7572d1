"""The record processors: for each entry of `processors` an asset, whose rows the user's own code makes of the landed records.

A run works wave after wave until the processor has caught up. The sensor `<application>_process` asks for a run while
records come; a person may materialize the asset at any time, also beside such a run.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import dagster as dg

from headrace.assets.made_table import made_table, waves_of_run
from headrace.assets.names import processor_key, slug
from headrace.assets.shown import totals
from headrace.pipeline.app.wiring import Wiring
from headrace.pipeline.settings.blocks.processors import ProcessorSettings
from headrace.pipeline.settings.model import Settings
from headrace.pipeline.typed.done_wave import Wave


def process_job(settings: Settings) -> str:
    return f"{slug(settings.application)}_process"


def build_processor(wiring: Wiring, processor: ProcessorSettings) -> dg.AssetsDefinition:
    settings = wiring.settings

    @made_table(
        settings,
        processor_key(settings, processor),
        description=_description(settings, processor),
        kinds={"python", "iceberg"},
        table=processor.table,
        version=processor.version,
    )
    def processed(context: dg.AssetExecutionContext) -> Iterator[Any]:
        waves = waves_of_run(
            context,
            lambda: wiring.processors.processing(processor, context.run.run_id).waves(
                at_most=settings.times.linger
            ),
            lambda done: processor_metadata(processor, done),
            nothing_new=f"nothing new to process: {processor.table} has all that the lake table has",
        )
        if waves is None:
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
    """The results of these waves, as metadata of one materialization."""
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
