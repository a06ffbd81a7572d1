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
    filled = [field for field in dataclasses.fields(made) if field.init]
    if unknown := changed.difference(field.name for field in filled):
        raise TypeError(f"{made.__name__} has no {', '.join(sorted(unknown))}")
    # By place, because Python looks up names at each call. Fields that have only a name come last.
    values = [
        (f"{field.name}=" if field.kw_only else "")
        + (f"changes['{field.name}']" if field.name in changed else f"one.{field.name}")
        for field in sorted(filled, key=lambda field: bool(field.kw_only))
    ]
    how: Callable[[Any, dict[str, Any]], Any] = eval(
        f"lambda one, changes: made({', '.join(values)})", {"made": made}
    )
    return how


def exclude_imports_from_gc() -> None:
    """Exclude everything that is imported by now from garbage collection, and collect seldom: a seed makes few objects that refer to each
    other in a circle, but for its world, which is garbage once the seed is over."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(500_000, 20, 100)
