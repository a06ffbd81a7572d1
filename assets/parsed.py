"""The typed tables: for each target of `parse` an asset, whose rows Spark makes of the landed records.

A run parses wave after wave until the typed table has caught up. Records that can't be parsed go to the
target's quarantine table. Runs of the job `<application>_parse` do so by themselves while records come; a
person may materialize the asset at any time, also beside such a run.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

import dagster as dg

from headrace.assets.made_table import made_table, waves_of_run
from headrace.assets.names import parsed_key, quarantine_key, slug
from headrace.assets.shown import column_schema_of, totals
from headrace.pipeline.app.ports import Ports
from headrace.pipeline.app.wiring import Wiring
from headrace.pipeline.core.ledger.accounting import all_dropped
from headrace.pipeline.settings.blocks.parse import ParseSettings
from headrace.pipeline.settings.choices import ParseFormat
from headrace.pipeline.settings.model import Settings
from headrace.pipeline.typed.done_wave import Wave


def build_parsed(wiring: Wiring, target: ParseSettings) -> dg.AssetsDefinition:
    settings = wiring.settings

    @made_table(
        settings,
        parsed_key(settings, target),
        description=_description(settings, target),
        kinds={"pyspark", "iceberg"},
        table=target.table,
        version=target.version,
    )
    def parsed(context: dg.AssetExecutionContext) -> Iterator[Any]:
        waves = waves_of_run(
            context,
            lambda: wiring.targets.parsing(target, context.run.run_id).waves(at_most=settings.times.linger),
            lambda done: parsed_metadata(target, done),
            nothing_new=f"nothing new to parse: {target.table} has all that can be parsed of the lake table now",
        )
        if waves is None:
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


_REASONS = dg.TableSchema([dg.TableColumn("reason", "string"), dg.TableColumn("rows", "int")])


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


def totals_of_target(ports: Ports, settings: Settings, target: ParseSettings) -> dict[str, Any]:
    """The totals (rows, files, bytes) of a typed table, and its columns, as metadata."""
    return {**totals(ports, target.table), **column_schema_of(ports, settings, target.table)}


def parsed_metadata(target: ParseSettings, waves: Sequence[Wave]) -> dict[str, dg.MetadataValue]:
    """The results of these waves, as metadata of one materialization."""
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
    """What these waves put into the quarantine table, as metadata."""
    return {**aside_metadata(target, waves), **totals(ports, target.quarantine)}


def aside_metadata(target: ParseSettings, waves: Sequence[Wave]) -> dict[str, dg.MetadataValue]:
    """How many rows these waves have set aside, and why."""
    reasons: Counter[str] = Counter()
    for wave in waves:
        for reason, rows in wave.reasons:
            reasons[reason] += rows
    records = [dg.TableRecord({"reason": reason, "rows": rows}) for reason, rows in reasons.most_common()]
    return {
        "rows": dg.MetadataValue.int(sum(wave.aside for wave in waves)),
        "reasons": dg.MetadataValue.table(records, schema=_REASONS)
        if records
        # Reasons that may quote a record stay in the quarantine table, which has readers of its own.
        else dg.MetadataValue.text(f"the reasons are in the column `reason` of {target.quarantine}"),
    }
