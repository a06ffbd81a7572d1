"""The settings as JSON Schema, for completion in editors, and for `dg check yaml`, which checks a component's
attributes.

The schema has names, forms and descriptions. It doesn't check values: the reader of settings does, and says what
is allowed.
"""

from dataclasses import MISSING, Field, is_dataclass
from enum import StrEnum
from typing import Any

from headrace.pipeline.settings.component_file import SETTINGS_FILE
from headrace.pipeline.settings.model import Settings
from headrace.pipeline.settings.values import element, hints_of, is_mapping, settings_of

_SINGLE: dict[str, Any] = {"not": {"type": ["array", "object"]}}
"""A single value. It has no type: YAML takes a time such as 2026-01-31T00:00:00Z for no text."""


def attributes_schema() -> dict[str, Any]:
    """The schema of the attributes of a component: all settings of an application, or the name of a file with them."""
    schema = _section(Settings)
    # The schema of a component is an object: its description is the class's.
    schema["type"] = "object"
    schema["properties"] = {
        SETTINGS_FILE: {
            "type": "string",
            "description": "The settings file of the application, relative to this file; instead of the settings here.",
        },
        **schema["properties"],
    }
    return {
        **{name: value for name, value in schema.items() if name != "required"},
        "if": {"required": [SETTINGS_FILE]},
        "then": {"maxProperties": 1},
        "else": {"required": schema["required"]},
    }


def _section(kind: type[Any]) -> dict[str, Any]:
    hints = hints_of(kind)
    specs = settings_of(kind)
    required = [spec.name for spec in specs if spec.default is MISSING and spec.default_factory is MISSING]
    return {
        "type": ["object", "null"],
        "properties": {spec.name: _value(hints[spec.name], spec) for spec in specs},
        "additionalProperties": False,
        **({"required": required} if required else {}),
    }


def _value(hint: Any, spec: Field[Any]) -> dict[str, Any]:
    inner = element(hint)
    if inner is not None:
        schema = {
            "type": ["array", "null"],
            "items": _section(inner) if is_dataclass(inner) else _leaf(inner),  # type: ignore[arg-type]  # a class
        }
    elif is_dataclass(hint):
        schema = _section(hint)  # type: ignore[arg-type]  # a class, never an instance
    elif is_mapping(hint):
        schema = {"type": ["object", "null"], "additionalProperties": _SINGLE}
    else:
        schema = _leaf(hint)
    return {"description": spec.metadata["doc"], **schema}


def _leaf(hint: Any) -> dict[str, Any]:
    if isinstance(hint, type) and issubclass(hint, StrEnum):
        return {**_SINGLE, "examples": [str(choice) for choice in hint]}
    return _SINGLE
