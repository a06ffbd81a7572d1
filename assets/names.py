"""The names of an application's assets and partitions in Dagster."""

import re

import dagster as dg

from headrace.pipeline.settings.model import Settings
from headrace.pipeline.settings.parse_block import ParseSettings


def slug(text: str) -> str:
    """The text as a name that Dagster allows: letters, digits and underscores."""
    # Dagster refuses other characters in names of ops, jobs and sensors.
    return re.sub(r"[^A-Za-z0-9_]", "_", text)


def records_key(settings: Settings) -> dg.AssetKey:
    return dg.AssetKey([slug(settings.application), "records"])


def lineage_key(settings: Settings) -> dg.AssetKey:
    return dg.AssetKey([slug(settings.application), "lineage"])


def parsed_key(settings: Settings, target: ParseSettings) -> dg.AssetKey:
    return dg.AssetKey([slug(settings.application), "parsed", target.name])


def resource_key(settings: Settings, name: str) -> str:
    """The key of one of the application's resources: a code location may have several applications, and a
    resource called `spark`."""
    return f"{slug(settings.application)}_{name}"


def partitions_name(settings: Settings) -> str:
    """The name of the application's dynamic partitions. `headrace.pipeline.core.shards.partition` makes their keys
    of lease keys."""
    return f"{settings.application}_shards"
