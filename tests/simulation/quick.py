"""What makes a process that runs many seeds quicker, and changes no history.

A good part of a seed's time goes into making small frozen dataclasses: a frozen one takes twice as long to make, and
`replace` asks for its fields anew each time. That nobody changes them is for mypy and the other tests to see: pytest
runs the same seeds with all of them frozen.
"""

from __future__ import annotations

import dataclasses
import gc
from collections.abc import Callable
from operator import attrgetter
from typing import Any


def thaw() -> None:
    """Before anything of the product is imported."""
    real = dataclasses.dataclass

    def dataclass(cls: type | None = None, /, *, frozen: bool = False, **how: Any) -> Any:
        if frozen and how.get("eq", True):
            how["unsafe_hash"] = True
        make: Callable[[type], Any] = real(**how)
        return make if cls is None else make(cls)

    dataclasses.dataclass = dataclass
    dataclasses.replace = _replace


_FIELDS: dict[type, tuple[tuple[str, ...], Callable[[Any], tuple[Any, ...]]]] = {}
"""Of each class: the fields that are given to it, and how they are read."""


def _replace(one: Any, /, **changes: Any) -> Any:
    made = one.__class__
    known = _FIELDS.get(made)
    if known is None:
        known = _FIELDS[made] = _fields_of(made)
    names, read = known
    return made(**dict(zip(names, read(one), strict=True)) | changes)


def _fields_of(made: type) -> tuple[tuple[str, ...], Callable[[Any], tuple[Any, ...]]]:
    names = tuple(field.name for field in dataclasses.fields(made) if field.init)
    if len(names) == 1:
        return names, lambda one: (getattr(one, names[0]),)
    return names, attrgetter(*names)


def settle_down() -> None:
    """What is imported by now stays: it isn't looked through again and again for garbage."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 100)
