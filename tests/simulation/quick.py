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
        def make(cls: type) -> Any:
            hashes = "__hash__" not in cls.__dict__ and frozen and how.get("eq", True)
            return real(cls, unsafe_hash=hashes, **how)

        return make if cls is None else make(cls)

    dataclasses.dataclass = dataclass
    dataclasses.replace = _replace


_How = tuple[Callable[[Any], tuple[Any, ...]], dict[str, int], Callable[[list[Any]], Any]]
_REPLACE: dict[type, _How] = {}
"""Of each class: how its fields are read, the place of each among them, and how one is made of them."""


def _replace(one: Any, /, **changes: Any) -> Any:
    how = _REPLACE.get(one.__class__)
    if how is None:
        how = _REPLACE[one.__class__] = _how_to_replace(one.__class__)
    read, places, make = how
    fields = [*read(one)]
    for name, value in changes.items():
        fields[places[name]] = value
    return make(fields)


def _how_to_replace(made: type) -> _How:
    """Written out once, as `dataclass` writes out what makes one."""
    names = [field.name for field in dataclasses.fields(made) if field.init]
    read = attrgetter(*names) if len(names) > 1 else lambda one: (getattr(one, names[0]),)
    places = {name: place for place, name in enumerate(names)}
    given = ", ".join(f"{name}=fields[{place}]" for name, place in places.items())
    return read, places, eval(f"lambda fields: made({given})", {"made": made})


def settle_down() -> None:
    """What is imported by now stays: it isn't looked through again and again for garbage."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 100)
