"""The helper by which the settings' classes declare a setting."""

from __future__ import annotations

from dataclasses import field
from typing import Any


def knob(default: Any = None, *, doc: str, kcl: str = "", unit: str = "", factory: Any = None) -> Any:
    """A field of a settings class, with what the settings' page shows about it: `doc`, KCL's name, and the unit."""
    metadata = {"doc": doc, "kcl": kcl, "unit": unit}
    if factory is not None:
        return field(default_factory=factory, metadata=metadata)
    return field(default=default, metadata=metadata)
