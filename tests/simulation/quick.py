"""Make a process that runs many seeds faster, without changing any history.

Much of a seed's time goes into making small frozen dataclasses: a frozen one takes twice as long to make, and
`replace` looks its fields up anew each time. So here they aren't frozen. mypy checks that no code changes them, and
pytest runs the same seeds with frozen ones.
"""

from __future__ import annotations

import dataclasses
import gc
from collections.abc import Callable
from typing import Any


def unfreeze_dataclasses() -> None:
    """Make dataclasses that aren't frozen. It must be called before the product's modules are imported. A second call, as in the
    child of a process that has called it, changes nothing."""
    if dataclasses.replace is _replace:
        return
    real = dataclasses.dataclass

    def dataclass(cls: type | None = None, /, *, frozen: bool = False, **how: Any) -> Any:
        def make(cls: type) -> Any:
            hashes = "__hash__" not in cls.__dict__ and frozen and how.get("eq", True)
            return real(cls, unsafe_hash=hashes, **how)

        return make if cls is None else make(cls)

    dataclasses.dataclass = dataclass
    dataclasses.replace = _replace


_REPLACE: dict[tuple[Any, ...], Callable[[Any, dict[str, Any]], Any]] = {}
"""The function that replaces fields, by class and the names of these fields."""


def _replace(one: Any, /, **changes: Any) -> Any:
    key = (one.__class__, *changes)
    how = _REPLACE.get(key)
    if how is None:
        how = _REPLACE[key] = _how_to_replace(one.__class__, frozenset(changes))
    return how(one, changes)


def _how_to_replace(made: type, changed: frozenset[str]) -> Callable[[Any, dict[str, Any]], Any]:
    """Compile a function that replaces these fields, as `dataclass` compiles an `__init__`."""
    names = [field.name for field in dataclasses.fields(made) if field.init]
    if unknown := changed.difference(names):
        raise TypeError(f"{made.__name__} has no {', '.join(sorted(unknown))}")
    given = (f"{name}=changes['{name}']" if name in changed else f"{name}=one.{name}" for name in names)
    how: Callable[[Any, dict[str, Any]], Any] = eval(
        f"lambda one, changes: made({', '.join(given)})", {"made": made}
    )
    return how


def exclude_imports_from_gc() -> None:
    """Exclude everything that is imported by now from garbage collection."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 100)
