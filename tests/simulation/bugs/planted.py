"""Planting bugs: each bug is a patch on the source of some modules, applied when they are imported.

A patch fails if its old text isn't in the module any more. Then the rule has moved, and the patch must follow it.
"""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, is_dataclass, replace
from importlib.abc import MetaPathFinder, SourceLoader
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import MappingProxyType, ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tests.simulation.plan import Plan

ROOT = Path(__file__).parents[3]


class TextIsGone(Exception):
    """The module doesn't hold the text that the patch replaces exactly once: the rule has moved, or its text has
    changed."""


@dataclass(frozen=True, slots=True)
class Patch:
    """A replacement of one text in the source of one module."""

    module: str
    old: str
    new: str


@dataclass(frozen=True, slots=True)
class Plant:
    """A bug: its patches, and how many seeds may pass until it is found."""

    name: str
    why: str
    patches: tuple[Patch, ...]
    seeds: int = 60
    """The bug must be found within this many seeds."""
    among: Mapping[str, Any] = field(default_factory=dict)
    """Fields set in the plan of each seed, for a bug that shows only in plans that few seeds draw."""

    def fitted(self, plan: Plan) -> Plan:
        """The plan with the fields in which the bug shows."""
        return replace(
            plan, **{name: _field_value(getattr(plan, name), at) for name, at in self.among.items()}
        )


def a_bug(
    name: str,
    why: str,
    *patches: tuple[str, str, str],
    seeds: int = 60,
    among: Mapping[str, Any] = MappingProxyType({}),
) -> Plant:
    return Plant(name, why, tuple(Patch(_full(m), old, new) for m, old, new in patches), seeds, among)


def _full(module: str) -> str:
    """The name by which a module is imported. The ports in memory, which are a part of the tests, are named in full."""
    return module if module.startswith("tests.") else f"headrace.pipeline.{module}"


def _field_value(drawn: Any, wanted: Any) -> Any:
    """The value for a field of the plan: a dictionary is merged into the drawn one (also into the fault rates), and a word
    becomes the enum member that the plan holds."""
    if drawn is None or wanted is None:
        return wanted
    if isinstance(drawn, dict):
        return drawn | wanted
    if is_dataclass(drawn) and not isinstance(drawn, type):
        return replace(drawn, **wanted)
    return type(drawn)(wanted)


def patched(patch: Patch, source: str) -> str:
    if source.count(patch.old) != 1:
        raise TextIsGone(
            f"{patch.module} holds the text that this bug replaces {source.count(patch.old)} times, not once:\n{patch.old}"
        )
    return source.replace(patch.old, patch.new)


def path_of(module: str) -> Path:
    return ROOT / (module.replace(".", "/") + ".py")


def plant(bug: Plant) -> None:
    """Plant the bug: modules that are imported from now on contain it."""
    sources: dict[str, str] = {}
    for patch in bug.patches:
        if patch.module in sys.modules:
            raise AssertionError(f"{patch.module} is imported already")
        source = sources.get(patch.module) or path_of(patch.module).read_text(encoding="utf-8")
        sources[patch.module] = patched(patch, source)
    sys.meta_path.insert(0, only(sources))


def only(sources: dict[str, str]) -> MetaPathFinder:
    """Finds the modules with these names before Python does, with these sources."""
    return _Finder(sources)


class _Finder(MetaPathFinder):
    """Finds the modules that have a patch before Python does."""

    def __init__(self, sources: dict[str, str]) -> None:
        self._sources = sources

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname not in self._sources:
            return None
        return importlib.util.spec_from_loader(fullname, _Loader(self._sources[fullname], path_of(fullname)))


class _Loader(SourceLoader):
    """Loads a module from its patched source."""

    def __init__(self, source: str, path: Path) -> None:
        self._source = source
        self._path = path

    def get_filename(self, fullname: str) -> str:
        return f"{self._path} (with a planted bug)"

    def get_data(self, path: str) -> bytes:
        return self._source.encode()
