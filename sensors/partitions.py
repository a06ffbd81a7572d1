"""Dagster's partitions follow the lease rows: each sensor adds the keys that its own Dagster lacks."""

from collections.abc import Iterable

import dagster as dg

from assets.names import partitions_name
from pipeline.settings import Settings


def missing_partitions(
    context: dg.SensorEvaluationContext, settings: Settings, keys: Iterable[str]
) -> list[dg.AddDynamicPartitionsRequest]:
    """The leader's sensor adds all keys; another deployment's workers add those of their own leases."""
    known = set(context.instance.get_dynamic_partitions(partitions_name(settings)))
    missing = [key for key in keys if key not in known]
    partitions = dg.DynamicPartitionsDefinition(name=partitions_name(settings))
    return [partitions.build_add_request(missing)] if missing else []
