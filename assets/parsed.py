"""The typed tables: for each target of `parse` an asset, whose rows Spark makes of the landed records.

A run parses wave after wave until the typed table has caught up. Records that can't be parsed go to the
target's quarantine table. Runs of the job `<application>_parse` do so by themselves while records come; a
person may materialize the asset at any time, also beside such a run.
"""

from collections.abc import Iterable, Sequence

import dagster as dg

from headrace.assets.failure import RunFailed
from headrace.assets.names import parsed_key, records_key, resource_key
from headrace.pipeline.app.wiring import Wiring
from headrace.pipeline.core.ledger.accounting import all_dropped
from headrace.pipeline.errors import HeadraceError
from headrace.pipeline.settings.parse_block import ParseSettings
from headrace.pipeline.typed.done_wave import Wave


def build_parsed(wiring: Wiring, target: ParseSettings) -> dg.AssetsDefinition:
    settings = wiring.settings

    @dg.asset(
        key=parsed_key(settings, target),
        deps=[records_key(settings)],
        description=__doc__,
        kinds={"pyspark", "iceberg"},
        # The resource `spark` ends the Spark session together with the run.
        required_resource_keys={resource_key(settings, "spark")},
    )
    def parsed(context: dg.AssetExecutionContext) -> dg.MaterializeResult[None]:
        waves: list[Wave] = []
        try:
            parsing = wiring.targets.parsing(target, context.run.run_id)
            note_waves(context, parsing.waves(at_most=settings.times.linger), waves)
        except HeadraceError as error:
            raise RunFailed(str(error), parsed_metadata(target, waves)) from error
        return dg.MaterializeResult(metadata=parsed_metadata(target, waves))

    return parsed


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
