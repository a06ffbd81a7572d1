"""The rule that all resources share: their fields have the values of the settings file, and Dagster only shows them.

A value of Dagster's launchpad would read another region's stream, or another table, than the sensors, the other
runs and the commands do. So a run with such a value ends before it reads anything, and says where the value is
set instead.
"""

from collections.abc import Mapping
from typing import Any, Final

import dagster as dg

from headrace.pipeline.errors import BadSetting

_SETTINGS: Final[Mapping[str, str]] = {
    "region_name": "aws.region",
    "profile_name": "aws.profile",
    "endpoint_url": "aws.endpoint",
    "application": "application",
    "lease_table": "coordination.lease_table",
    "worker_table": "coordination.worker_table",
    "state_table": "coordination.state_table",
    "streams": "streams",
    "table": "landing.table",
    "catalog": "landing.catalog",
    "workers": "workers",
    "spark_config": "workers.N.spark",
}
"""The setting of each field that a resource shows."""


def refuse_changes(resource: dg.ConfigurableResource[Any], stated: Mapping[str, Any]) -> None:
    """Raise BadSetting where a field of the resource differs from the settings file. `stated`: the fields by the
    settings file."""
    for name, field in type(resource).model_fields.items():
        # Dagster resolves this one itself: the settings file has no value for it.
        if name == "wiring":
            continue
        value = getattr(resource, name)
        expected = stated.get(name, field.default)
        if value != expected:
            raise BadSetting(
                f"{type(resource).__name__} was given {name}={value!r} in Dagster, and {_source(name, expected)}. "
                "The run has read nothing. Remove the value from the launchpad; "
                "a change of the settings file takes effect when Dagster loads the code location anew"
            )


def _source(field: str, expected: Any) -> str:
    setting = _SETTINGS.get(field)
    if setting is None:
        return "Headrace makes its own clients, which this value doesn't reach"
    return f"the settings file says {expected!r} (`{setting}`), which the sensors and the other runs use"
