"""The assets that Dagster shows but never materializes by itself: the streams, the coordination tables, the
quarantine tables, and the assets on which upkeep and proof jobs report. Sensors and jobs write events on them.
"""

from datetime import UTC

import dagster as dg

from headrace.assets.names import (
    hours_key,
    leader_key,
    leases_key,
    lineage_key,
    parsed_key,
    proof_key,
    quarantine_key,
    records_key,
    service_of,
    slug,
    stream_key,
    upkeep_key,
    workers_key,
)
from headrace.assets.shown import Layer, shown_metadata, table_name
from headrace.pipeline.settings.blocks.discovery import DiscoverySettings
from headrace.pipeline.settings.blocks.parse import ParseSettings
from headrace.pipeline.settings.model import Settings
from headrace.pipeline.settings.stream_names import name_in, table_and_label


def outside(settings: Settings) -> list[dg.AssetSpec]:
    return [
        *streams_outside(settings),
        *_coordination(settings),
        *_quarantine(settings),
        *_reports(settings),
        *_hours(settings),
    ]


def streams_outside(settings: Settings) -> list[dg.AssetSpec]:
    # Nothing here may depend on the application: Dagster refuses two applications whose stream looks different.
    named = [
        dg.AssetSpec(
            stream_key(stream.name),
            description=f"{_what_it_is(name_in(stream.name))} Its observations tell lag, rate and shards, for each "
            "application that reads it.",
            kinds={service_of(stream.name)},
            group_name=service_of(stream.name),
        )
        for stream in settings.streams
    ]
    # Which streams it finds isn't known when Dagster loads the definitions: one asset stands for all.
    how = settings.discovery
    if not how.is_asked_for:
        return named
    matching = dg.AssetSpec(
        found_key(settings),
        description=_found_by(how),
        kinds={"kinesis"},
        group_name="kinesis",
    )
    return [*named, matching]


def _what_it_is(stream: str) -> str:
    of_table = table_and_label(stream)
    if of_table is None:
        return f"The Kinesis stream `{stream}`."
    table, label = of_table
    return f"The changes of the DynamoDB table `{table}`, by its stream that was switched on at {label}."


def _found_by(how: DiscoverySettings) -> str:
    conditions = [f"names begin with {how.prefix}"] if how.prefix else []
    conditions += [f"tag {name} is {value}" for name, value in sorted(how.tags.items())]
    found = [f"All Kinesis streams whose {' and whose '.join(conditions)}."] if conditions else []
    listed = [f"The Kinesis streams that `{how.tracker}` lists."] if how.tracker else []
    return " ".join((*found, *listed))


def found_key(settings: Settings) -> dg.AssetKey:
    """The asset of all streams that an application finds by its discovery."""
    return dg.AssetKey(["kinesis", f"found_by_{slug(settings.application)}"])


def _coordination(settings: Settings) -> list[dg.AssetSpec]:
    streams = [spec.key for spec in streams_outside(settings)]
    tables: tuple[tuple[dg.AssetKey, str, str, list[dg.AssetKey]], ...] = (
        (workers_key(settings), settings.worker_table, "the workers' beats", []),
        (
            leader_key(settings),
            settings.state_table,
            "the lock of the leader, who assigns shards to workers",
            [],
        ),
        (
            leases_key(settings),
            settings.lease_table,
            "a row for each shard: which worker reads it, and how far",
            [workers_key(settings), leader_key(settings), *streams],
        ),
    )
    return [
        dg.AssetSpec(
            key,
            deps=deps,
            description=f"DynamoDB table `{name}`: {what}.",
            kinds={"dynamodb"},
            metadata=table_name(name),
            **shown_metadata(settings, Layer.COORDINATION),
        )
        for key, name, what, deps in tables
    ]


def _quarantine(settings: Settings) -> list[dg.AssetSpec]:
    return [
        dg.AssetSpec(
            quarantine_key(settings, target),
            deps=[records_key(settings)],
            description=f"Iceberg table `{target.quarantine}`: records that `{target.table}` couldn't take, each with "
            f"its payload and the reason. {_what_comes_of(settings, target)}",
            kinds={"iceberg"},
            metadata=table_name(target.quarantine),
            **shown_metadata(settings, Layer.TYPED),
        )
        for target in settings.parse
    ]


def _what_comes_of(settings: Settings, target: ParseSettings) -> str:
    if target.is_latest:
        return "They stay here, because parsed again they could bring deleted rows back."
    return f"The job `{slug(settings.application)}_redrive_{target.name}` parses them again."


def _reports(settings: Settings) -> list[dg.AssetSpec]:
    tables = [records_key(settings)]
    for target in settings.parse:
        tables += [parsed_key(settings, target), quarantine_key(settings, target)]
    application, layer = slug(settings.application), shown_metadata(settings, Layer.UPKEEP)
    return [
        dg.AssetSpec(
            upkeep_key(settings),
            deps=tables,
            description="What the last upkeep did: files compacted and deleted, rows dropped by retention. The job "
            f"`{application}_upkeep` reports here.",
            kinds={"iceberg"},
            **layer,
        ),
        dg.AssetSpec(
            proof_key(settings),
            deps=[*tables, lineage_key(settings)],
            description="The last proof that each record is in its tables once. The job "
            f"`{application}_prove` reports here: a materialization where the proof holds, an observation where it "
            "doesn't.",
            kinds={"pyspark"},
            **layer,
        ),
    ]


def _hours(settings: Settings) -> list[dg.AssetSpec]:
    partitions = hours_of(settings)
    if partitions is None:
        return []
    return [
        dg.AssetSpec(
            hours_key(settings),
            deps=[records_key(settings)],
            partitions_def=partitions,
            description=f"The hours (UTC) of which `{settings.landing.table}` has all records, by arrival. A partition "
            "is materialized once, when its hour is complete, and again if records came into it later. An asset with "
            "daily or hourly partitions that depends on this one can wait for it.",
            **shown_metadata(settings, Layer.LANDING),
        )
    ]


def hours_of(settings: Settings) -> dg.HourlyPartitionsDefinition | None:
    since = settings.dagster.complete_from
    if since is None:
        return None
    return dg.HourlyPartitionsDefinition(
        start_date=since.astimezone(UTC).replace(minute=0, second=0, microsecond=0)
    )
