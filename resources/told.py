"""A section of the settings in a form that Dagster's configuration can hold and show."""

from dataclasses import fields
from datetime import timedelta
from enum import StrEnum
from typing import TYPE_CHECKING, Any, TypeVar, get_type_hints

from pipeline.settings_values import bare, read_value, show

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

_Section = TypeVar("_Section", bound="DataclassInstance")


def told(section: "DataclassInstance") -> dict[str, Any]:
    """Plain values by name. What isn't set is left out: Dagster's maps hold no null."""
    values = {f.name: getattr(section, f.name) for f in fields(section)}
    return {name: _plain(value) for name, value in values.items() if value is not None}


def heard(kind: type[_Section], values: dict[str, Any]) -> _Section:
    """The section again."""
    hints = get_type_hints(kind)
    return kind(**{n: read_value(bare(hints[n]), v) if isinstance(v, str) else v for n, v in values.items()})


def _plain(value: Any) -> Any:
    if isinstance(value, timedelta):
        return show(value)
    return value.value if isinstance(value, StrEnum) else value
