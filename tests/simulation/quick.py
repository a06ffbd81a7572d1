"""Make a process that runs many seeds faster, without changing any history.

Much of a seed's time goes into making and comparing small frozen dataclasses: a frozen one takes twice as long to
make, `replace` looks its fields up anew each time, and a comparison makes two tuples of all fields. So here they aren't
frozen, and are compared field by field. mypy checks that no code changes them, and pytest runs the same seeds with
frozen ones.
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
            has_eq = how.get("eq", True)
            hashes = "__hash__" not in cls.__dict__ and frozen and has_eq
            has_own_eq = "__eq__" in cls.__dict__
            made: Any = real(cls, unsafe_hash=hashes, **how)
            if has_eq and not has_own_eq:
                made.__eq__ = _how_to_compare(made)
            return made

        return make if cls is None else make(cls)

    dataclasses.dataclass = dataclass
    dataclasses.replace = _replace


def _how_to_compare(made: type) -> Callable[[Any, Any], Any]:
    """Compile a function that compares two of these as `dataclass` does, but stops at the first field that differs."""
    names = [field.name for field in dataclasses.fields(made) if field.compare]
    pairs = " and ".join(f"(one.{name} is other.{name} or one.{name} == other.{name})" for name in names)
    how: Callable[[Any, Any], Any] = eval(
        "lambda one, other: one is other or "
        f"({pairs or True}) if one.__class__ is other.__class__ else NotImplemented",
        {"NotImplemented": NotImplemented},
    )
    return how


_REPLACE: dict[tuple[Any, ...], Callable[[Any, dict[str, Any]], Any]] = {}
"""The function that replaces fields, by class and the names of these fields."""


def _replace(one: Any, /, **changes: Any) -> Any:
    key = (one.__class__, *changes)
    how = _REPLACE.get(key)
    if how is None:
        how = _REPLACE[key] = _how_to_replace(one.__class__, frozenset(changes))
    return how(one, changes)


def _how_to_replace(made: type, changed: frozenset[str]) -> Callable[[Any, dict[str, Any]], Any]:
    """Compile a function that makes a copy with other values of these fields, as `dataclass` compiles an `__init__`."""
    if unknown := changed.difference(field.name for field in dataclasses.fields(made) if field.init):
        raise TypeError(f"{made.__name__} has no {', '.join(sorted(unknown))}")
    # The fields are set one by one, because a call of `__init__` takes as long again.
    lines = ["def how(one, changes):", "    new = make(made)"]
    names: dict[str, Any] = {"made": made, "make": made.__new__}
    for field in dataclasses.fields(made):
        if field.init:
            value = f"changes['{field.name}']" if field.name in changed else f"one.{field.name}"
        elif field.default_factory is not dataclasses.MISSING:
            names[f"make_{field.name}"], value = field.default_factory, f"make_{field.name}()"
        elif field.default is not dataclasses.MISSING:
            names[f"default_{field.name}"], value = field.default, f"default_{field.name}"
        else:
            continue  # `__post_init__` makes it
        lines.append(f"    new.{field.name} = {value}")
    if hasattr(made, "__post_init__"):
        lines.append("    new.__post_init__()")
    exec("\n".join([*lines, "    return new"]), names)
    how: Callable[[Any, dict[str, Any]], Any] = names["how"]
    return how


def exclude_imports_from_gc() -> None:
    """Exclude everything that is imported by now from garbage collection, and leave the rest to `collect_after_seed`."""
    gc.collect()
    gc.freeze()
    gc.disable()


def collect_after_seed() -> None:
    """Collect a seed's world, which is garbage once the seed is over. That takes a third of the time if nothing else is looked at, and if
    the processor's caches still hold the world: so at once, and without what earlier seeds have left for good, such as imports."""
    gc.collect()
    gc.freeze()
