"""A section of the settings in a form that Dagster's configuration can hold and show."""

from dataclasses import fields
from enum import StrEnum
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from _typeshed import DataclassInstance


def told(section: "DataclassInstance") -> dict[str, Any]:
    """Plain values by name. What isn't set is left out: Dagster's maps hold no null."""
    values = {f.name: getattr(section, f.name) for f in fields(section)}
    return {
        name: value.value if isinstance(value, StrEnum) else value
        for name, value in values.items()
        if value is not None
    }
