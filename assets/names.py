"""The names of an application's assets and partitions in Dagster."""

import re

import dagster as dg

from headrace.pipeline.settings.blocks.parse import ParseSettings
from headrace.pipeline.settings.blocks.processors import ProcessorSettings
from headrace.pipeline.settings.model import Settings
from headrace.pipeline.settings.stream_names import is_dynamodb, name_in


def slug(text: str) -> str:
    """The text as a name that Dagster allows: letters, digits and underscores."""
    # Dagster refuses other characters in names of ops, jobs and sensors.
    return re.sub(r"[^A-Za-z0-9_]", "_", text)


def _key(settings: Settings, *names: str) -> dg.AssetKey:
    return _key_of(settings, settings.application, *names)


def _key_of(settings: Settings, application: str, *names: str) -> dg.AssetKey:
    return dg.AssetKey([*settings.dagster.key_prefix, slug(application), *names])


def records_key(settings: Settings) -> dg.AssetKey:
    """The asset of landed records, whose partitions are the application's shards. For the settings of a
    processor's own application, it is the processor's asset.
    """
    for processor in settings.processors:
        if processor.beside:
            return _key_of(settings, processor.beside, "processor", processor.name)
    return _key(settings, "records")


def lineage_key(settings: Settings) -> dg.AssetKey:
    return _key(settings, "lineage")


def parsed_key(settings: Settings, target: ParseSettings) -> dg.AssetKey:
    """The key of a typed table's asset. It ends with the table's name, because Dagster's graph shows only the
    last part of a key.
    """
    return _key(settings, *map(slug, target.table.split(".")))


def quarantine_key(settings: Settings, target: ParseSettings) -> dg.AssetKey:
    return _key(settings, *map(slug, target.quarantine.split(".")))


def processor_key(settings: Settings, processor: ProcessorSettings) -> dg.AssetKey:
    return _key(settings, "processor", processor.name)


def again_key(settings: Settings, target: ParseSettings) -> dg.AssetKey:
    """The asset by whose partitions records are parsed again into a typed table."""
    *namespace, table = map(slug, target.table.split("."))
    return _key(settings, *namespace, f"{table}_again")


def copies_key(settings: Settings) -> dg.AssetKey:
    """The asset by whose partitions records are copied from the lake table."""
    return _key(settings, "copies")


def stream_key(name: str) -> dg.AssetKey:
    """The asset of a stream, by the stream's name or ARN. Applications that read the same stream share this asset."""
    # An ARN of DynamoDB ends with a label that has colons, which Dagster refuses in keys.
    return dg.AssetKey([service_of(name), name_in(name)])


def service_of(stream: str) -> str:
    """The AWS service that a stream belongs to, by the stream's name or ARN: Kinesis or DynamoDB."""
    return "dynamodb" if is_dynamodb(stream) else "kinesis"


def leases_key(settings: Settings) -> dg.AssetKey:
    return _key(settings, "leases")


def workers_key(settings: Settings) -> dg.AssetKey:
    return _key(settings, "workers")


def leader_key(settings: Settings) -> dg.AssetKey:
    return _key(settings, "leader")


def upkeep_key(settings: Settings) -> dg.AssetKey:
    return _key(settings, "upkeep")


def proof_key(settings: Settings) -> dg.AssetKey:
    return _key(settings, "proof")


def hours_key(settings: Settings) -> dg.AssetKey:
    return _key(settings, "complete_hours")


def resource_key(settings: Settings, name: str) -> str:
    """The key of one of the application's resources. It contains the application's name, because a code location
    may have several applications, and a resource of its own called `spark`.
    """
    return f"{slug(settings.application)}_{name}"


def partitions_name(settings: Settings) -> str:
    """The name of the application's dynamic partitions. `headrace.pipeline.core.shards.partition` makes their keys
    of lease keys."""
    return f"{settings.application}_shards"


def replay_pool(settings: Settings) -> str:
    """The concurrency pool of windows and backfills."""
    return settings.dagster.pools.get("replay") or f"{slug(settings.application)}_replay"
