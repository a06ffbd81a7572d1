"""The config of a run that reads: what a person may ask for, and what the worker's sensor hands to the run.

A person names partitions, and needs no config: Dagster's launchpad asks for nothing. All that the sensor fills in
is one field, so that the launchpad doesn't show a list of fields that only the sensor can fill.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import dagster as dg

from headrace.pipeline.duties.fleet.sensor_turn import RunAsk

_FROM_SENSOR = "sensor"
_RETRY_AFTER = "retry_after"
_LISTS = ("dead_claims", "left_alone", "due", "recovering")


def _keys(description: str) -> dg.Field:
    return dg.Field([str], default_value=[], description=description)


CONFIG_SCHEMA = {
    "worker": dg.Field(
        str,
        is_required=False,
        description="Id of the worker that reads. Needed by a run without partitions and without shards.",
    ),
    "shards": dg.Field(
        [str],
        is_required=False,
        description="Shards to read, by their partitions or lease keys. Default: "
        "all shards whose leases the worker owns.",
    ),
    _FROM_SENSOR: dg.Field(
        {
            "dead_claims": _keys(
                "Claims of runs that the sensor found dead: this run may read their shards."
            ),
            "left_alone": _keys("Shards that failed lately and that this run doesn't read."),
            "due": _keys("Shards that have records to read: announced to Dagster before they are read."),
            "recovering": _keys("Shards that failed in the previous run."),
            _RETRY_AFTER: dg.Field(
                float,
                is_required=False,
                description="Seconds after which the run makes room for one that tries failing shards again.",
            ),
        },
        is_required=False,
        description="What the worker's sensor knew when it asked for the run. A person leaves it out.",
    ),
}


@dataclass(frozen=True, slots=True)
class SensorHints:
    """What the worker's sensor hands to a run. All lists but `dead_claims` are of lease keys."""

    dead_claims: tuple[str, ...] = ()
    left_alone: tuple[str, ...] = ()
    due: tuple[str, ...] = ()
    recovering: tuple[str, ...] = ()
    retry_after: float | None = None


@dataclass(frozen=True, slots=True)
class RecordsConfig:
    worker: str | None = None
    shards: tuple[str, ...] = ()
    hints: SensorHints = SensorHints()


def config_of(ask: RunAsk) -> dict[str, Any]:
    """The config of the run that a worker's tick asks for."""
    lists = {name: list(getattr(ask, name)) for name in _LISTS}
    # Dagster's config has no value for what isn't there.
    retry_after = {} if ask.retry_after is None else {_RETRY_AFTER: ask.retry_after}
    return {"worker": ask.worker, _FROM_SENSOR: lists | retry_after}


def read_config(config: Mapping[str, Any]) -> RecordsConfig:
    values = dict(config.get(_FROM_SENSOR, {}))
    retry_after = values.pop(_RETRY_AFTER, None)
    hints = SensorHints(**{name: tuple(keys) for name, keys in values.items()}, retry_after=retry_after)
    return RecordsConfig(config.get("worker"), tuple(config.get("shards", ())), hints)
