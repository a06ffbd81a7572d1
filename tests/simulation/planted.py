"""Bugs that the simulator must find: each is a patch on a module's source, applied while it is imported.

A patch whose old text isn't there any more fails: the gate must be told where the rule lives now.
"""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib.abc import MetaPathFinder, SourceLoader
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import MappingProxyType, ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tests.simulation.plan import Plan

ROOT = Path(__file__).parents[2]


class TextIsGone(Exception):
    """The rule that this patch takes away stands elsewhere by now."""


@dataclass(frozen=True, slots=True)
class Patch:
    module: str
    old: str
    new: str


@dataclass(frozen=True, slots=True)
class Plant:
    name: str
    why: str
    patches: tuple[Patch, ...]
    seeds: int = 60
    """Within this many it must be found."""
    among: Mapping[str, Any] = field(default_factory=dict)
    """Fields that each seed's plan is given, where few seeds draw what the bug shows in."""

    def fitted(self, plan: Plan) -> Plan:
        return replace(plan, **{name: _given(getattr(plan, name), at) for name, at in self.among.items()})


def a_bug(
    name: str,
    why: str,
    *patches: tuple[str, str, str],
    seeds: int = 60,
    among: Mapping[str, Any] = MappingProxyType({}),
) -> Plant:
    return Plant(name, why, tuple(Patch(f"pipeline.{m}", old, new) for m, old, new in patches), seeds, among)


def _given(drawn: Any, wanted: Any) -> Any:
    """Troubles come on top of what was drawn; words become what the plan has them as: plans are read after the planting."""
    return drawn | wanted if isinstance(drawn, dict) else type(drawn)(wanted)


def patched(patch: Patch, source: str) -> str:
    if source.count(patch.old) != 1:
        raise TextIsGone(
            f"{patch.module} holds {source.count(patch.old)} times what this bug replaces:\n{patch.old}"
        )
    return source.replace(patch.old, patch.new)


def path_of(module: str) -> Path:
    return ROOT / (module.replace(".", "/") + ".py")


def plant(bug: Plant) -> None:
    """From here on its modules are imported with the bug in them."""
    sources: dict[str, str] = {}
    for patch in bug.patches:
        if patch.module in sys.modules:
            raise AssertionError(f"{patch.module} is imported already")
        source = sources.get(patch.module) or path_of(patch.module).read_text(encoding="utf-8")
        sources[patch.module] = patched(patch, source)
    sys.meta_path.insert(0, _Finder(sources))


class _Finder(MetaPathFinder):
    def __init__(self, sources: dict[str, str]) -> None:
        self._sources = sources

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname not in self._sources:
            return None
        return importlib.util.spec_from_loader(fullname, _Loader(self._sources[fullname], path_of(fullname)))


class _Loader(SourceLoader):
    def __init__(self, source: str, path: Path) -> None:
        self._source = source
        self._path = path

    def get_filename(self, fullname: str) -> str:
        return f"{self._path} (with a planted bug)"

    def get_data(self, path: str) -> bytes:
        return self._source.encode()
