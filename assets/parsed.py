"""The typed tables: for each target of `parse` an asset, whose rows Spark makes of the landed records.

A run parses wave after wave until the typed table has caught up. Records that can't be parsed go to the
target's quarantine table. Runs of the job `<application>_parse` do so by themselves while records come; a
person may materialize the asset at any time, also beside such a run.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import dagster as dg

from headrace.assets.failure import RunFailed
from headrace.assets.names import parsed_key, quarantine_key, records_key, resource_key, slug
from headrace.assets.shown import (
    Layer,
    code_version,
    column_schema_of,
    freshness,
    shown_metadata,
    table_name,
    totals,
)
from headrace.pipeline.app.ports import Ports
from headrace.pipeline.app.wiring import Wiring
from headrace.pipeline.core.ledger.accounting import all_dropped
from headrace.pipeline.errors import HeadraceError
from headrace.pipeline.settings.blocks.parse import ParseSettings
from headrace.pipeline.settings.choices import ParseFormat
from headrace.pipeline.settings.model import Settings
from headrace.pipeline.typed.done_wave import Wave


def build_parsed(wiring: Wiring, target: ParseSettings) -> dg.AssetsDefinition:
    settings = wiring.settings

    @dg.asset(
        key=parsed_key(settings, target),
        deps=[records_key(settings)],
        description=_description(settings, target),
        kinds={"pyspark", "iceberg"},
        code_version=f"{code_version()}/{target.version}",
        metadata=table_name(target.table),
        freshness_policy=freshness(settings),
        # Where nothing was new there is no materialization, so that nothing that depends on the table is started.
        output_required=False,
        **shown_metadata(settings, Layer.TYPED),
        # The resource `spark` ends the Spark session together with the run.
        required_resource_keys={resource_key(settings, "spark")},
        pool=settings.dagster.pools.get("parse"),
    )
    def parsed(context: dg.AssetExecutionContext) -> Iterator[Any]:
        waves: list[Wave] = []
        try:
            parsing = wiring.targets.parsing(target, context.run.run_id)
            note_waves(context, parsing.waves(at_most=settings.times.linger), waves)
        except HeadraceError as error:
            raise RunFailed(str(error), parsed_metadata(target, waves)) from error
        if not did_something(waves):
            context.log.info("nothing new to parse: %s has all that the lake table has", target.table)
            if not is_expected(context):
                return
        if any(wave.aside for wave in waves):
            context.log_event(
                dg.AssetMaterialization(
                    quarantine_key(settings, target), metadata=set_aside_metadata(wiring.ports, target, waves)
                )
            )
        metadata = {**parsed_metadata(target, waves), **totals_of_target(wiring.ports, settings, target)}
        yield dg.MaterializeResult(metadata=metadata)

    return parsed


def _description(settings: Settings, target: ParseSettings) -> str:
    how = f"`{target.callable}`" if target.format is ParseFormat.CALLABLE else f"format `{target.format}`"
    of_stream = f" of the stream `{target.stream}`" if target.stream else ""
    only = f" Only records for which `{target.filter}` is true." if target.filter else ""
    key = ", ".join(f"`{name}`" for name in target.latest_key) or "the partition key"
    one = f" One row for each key ({key}): that of its latest record." if target.is_latest else ""
    return (
        f"Iceberg table `{target.table}`: the payloads of `{settings.landing.table}`{of_stream} as columns, by {how}.{only}{one} "
        f"What can't be parsed is in `{target.quarantine}`. The job `{slug(settings.application)}_parse` keeps it up to "
        "date while records come."
    )


def did_something(waves: Sequence[Wave]) -> bool:
    return any(wave.snapshot is not None or wave.settled for wave in waves)


def is_expected(context: dg.AssetExecutionContext) -> bool:
    """Whether Dagster needs the materialization although nothing was new: it skips the assets after this one that a
    person has selected for the same run, and an asset without any looks as if it had no table."""
    selected_more = (context.run.asset_selection or frozenset()) - {context.asset_key}
    return bool(selected_more) or context.instance.get_latest_materialization_event(context.asset_key) is None


def totals_of_target(ports: Ports, settings: Settings, target: ParseSettings) -> dict[str, Any]:
    """The totals of a typed table, with its columns."""
    return {**totals(ports, target.table), **column_schema_of(ports, settings, target.table)}


def note_waves(
    context: dg.AssetExecutionContext | dg.OpExecutionContext, waves: Iterable[Wave], done: list[Wave]
) -> None:
    """Tell of each wave in the run's log. `done`: gets the waves, also those before one that fails."""
    for wave in waves:
        context.log.info(str(wave))
        for note in wave.notes:
            context.log.warning(note)
        done.append(wave)


def parsed_metadata(target: ParseSettings, waves: Sequence[Wave]) -> dict[str, dg.MetadataValue]:
    """What these waves did, as metadata of one materialization."""
    number = dg.MetadataValue.int
    dropped = all_dropped(wave.dropped for wave in waves)
    return {
        "rows": number(sum(wave.landed for wave in waves)),
        "quarantined": number(sum(wave.aside for wave in waves)),
        **{f"dropped by {why}": number(rows) for why, rows in dropped.items()},
        "waves": number(len(waves)),
        "behind": dg.MetadataValue.bool(not waves or not waves[-1].is_last),
        "table": dg.MetadataValue.text(target.table),
        "quarantine table": dg.MetadataValue.text(target.quarantine),
        "version": dg.MetadataValue.text(target.version),
    }


def set_aside_metadata(ports: Ports, target: ParseSettings, waves: Sequence[Wave]) -> dict[str, Any]:
    """What these waves brought into the quarantine table."""
    return {
        "rows": dg.MetadataValue.int(sum(wave.aside for wave in waves)),
        **totals(ports, target.quarantine),
    }
