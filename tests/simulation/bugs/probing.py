"""Probes in the place of planted bugs: a run without any bug tells in which seeds which bugs would matter.

Where a bug changes an expression, the product evaluates the expression as it is and as the bug would have it, and goes on with the
first. A difference is noted: only seeds that note one can find the bug. Where a bug changes whole statements, it is noted that they
are come to.
"""

from __future__ import annotations

import ast
import builtins
import sys
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from itertools import zip_longest
from types import GeneratorType
from typing import Any, Final

from tests.simulation.bugs.planted import Patch, Plant, only, patched, path_of

_PROBE: Final = "__probe__"


@dataclass(slots=True)
class Probes:
    """What a run has noted since it was last cleared, by the name of the bug."""

    differed: Counter[str] = field(default_factory=Counter)

    def compare(self, bug: str, value: Any, other: Callable[[], Any] | None = None) -> Any:
        """The value, after noting whether the bug would have made another one."""
        if other is None or isinstance(value, GeneratorType) or self._is_other(value, other):
            self.differed[bug] += 1
        return value

    @staticmethod
    def _is_other(value: Any, other: Callable[[], Any]) -> bool:
        try:
            as_it_would_be = other()
            if isinstance(value, bool) or isinstance(as_it_would_be, bool):
                return bool(as_it_would_be) is not bool(value)
            return bool(as_it_would_be != value)
        except Exception:  # noqa: BLE001 - the bug would raise here, which is a difference
            return True


def probe(bugs: Iterable[Plant]) -> Probes:
    """Put the probes of these bugs into modules that are imported from now on."""
    probes = Probes()
    setattr(builtins, _PROBE, probes.compare)
    by_module: dict[str, list[tuple[str, Patch]]] = {}
    for bug in bugs:
        for patch in bug.patches:
            by_module.setdefault(patch.module, []).append((bug.name, patch))
    sources: dict[str, str] = {}
    for module, patches in by_module.items():
        source = path_of(module).read_text(encoding="utf-8")
        sources[module] = with_probes(source, patches)
    sys.meta_path.insert(0, only(sources))
    return probes


def with_probes(source: str, patches: Iterable[tuple[str, Patch]]) -> str:
    tree = ast.parse(source)
    for bug, patch in patches:
        # The place is found in trees without probes, and then looked up in the tree that gets them.
        way = _way_to_difference(ast.parse(source), ast.parse(patched(patch, source)))
        _put_probe(tree, bug, way)
    return ast.unparse(ast.fix_missing_locations(tree))


@dataclass(frozen=True, slots=True)
class _Place:
    line: int
    column: int
    kind: type[ast.AST]
    other: ast.expr | None
    """The expression as the bug would have it; None where whole statements change."""

    def is_at(self, item: ast.expr | ast.stmt) -> bool:
        # A probe that was put there before is of no line.
        of = getattr(item, "lineno", None), getattr(item, "col_offset", None)
        return isinstance(item, self.kind) and of == (self.line, self.column)


def _way_to_difference(old: ast.AST, new: ast.AST) -> _Place:
    """The smallest expression in which the trees differ, or else the statement."""
    place: _Place | None = None
    todo: tuple[ast.AST, ast.AST] | None = (old, new)
    while todo is not None:
        one, other = todo
        if isinstance(one, ast.expr) and isinstance(other, ast.expr) and _has_value(one):
            place = _Place(one.lineno, one.col_offset, type(one), other)
        elif isinstance(one, ast.stmt):
            place = _Place(one.lineno, one.col_offset, type(one), None)
        todo = _the_one_difference(one, other)
    if place is None:
        raise AssertionError("the trees are equal, or differ in no statement")
    return place


def _has_value(expression: ast.expr) -> bool:
    return not isinstance(expression, (ast.GeneratorExp, ast.Starred)) and isinstance(
        getattr(expression, "ctx", ast.Load()), ast.Load
    )


def _the_one_difference(one: ast.AST, other: ast.AST) -> tuple[ast.AST, ast.AST] | None:
    """The children that differ, where only one pair of them does."""
    if type(one) is not type(other):
        return None
    pairs: list[tuple[Any, Any]] = []
    for name in one._fields:
        mine, theirs = getattr(one, name, None), getattr(other, name, None)
        if isinstance(one, ast.Call) and name == "func" and _dumped(mine) != _dumped(theirs):
            return None  # what is called is no value to compare
        if isinstance(mine, list) and isinstance(theirs, list):
            # Of bodies of different lengths the first statement that differs.
            pairs += (
                zip_longest(mine, theirs) if len(mine) == len(theirs) else [_first_difference(mine, theirs)]
            )
        else:
            pairs.append((mine, theirs))
    differing = [(a, b) for a, b in pairs if _dumped(a) != _dumped(b)]
    if len(differing) != 1:
        return None
    a, b = differing[0]
    return (a, b) if isinstance(a, ast.AST) and isinstance(b, ast.AST) else None


def _first_difference(mine: list[Any], theirs: list[Any]) -> tuple[Any, Any]:
    if mine and isinstance(mine[0], ast.stmt):
        number = next(n for n, (a, b) in enumerate(zip_longest(mine, theirs)) if _dumped(a) != _dumped(b))
        return (mine[number] if number < len(mine) else mine[-1]), ast.Pass()
    return mine, theirs


def _dumped(value: Any) -> Any:
    if isinstance(value, list):
        return [_dumped(item) for item in value]
    return ast.dump(value) if isinstance(value, ast.AST) else value


def _put_probe(tree: ast.Module, bug: str, place: _Place) -> None:
    for parent in ast.walk(tree):
        for name, value in ast.iter_fields(parent):
            items = value if isinstance(value, list) else [value]
            for number, item in enumerate(items):
                if isinstance(item, ast.expr | ast.stmt) and place.is_at(item):
                    _put_at(item, items, number, bug, place.other)
                    if not isinstance(value, list):
                        setattr(parent, name, items[0])
                    return
    raise AssertionError(f"no place for the probe of {bug}")


def _put_at(
    item: ast.expr | ast.stmt, items: list[Any], number: int, bug: str, other: ast.expr | None
) -> None:
    note = ast.Expr(_call(bug, ast.Constant(None), None))
    if isinstance(item, ast.expr):
        items[number] = _call(bug, item, other)
    elif isinstance(item, ast.FunctionDef):
        item.body.insert(0, note)
    else:
        items.insert(number, note)


def _call(bug: str, value: ast.expr, other: ast.expr | None) -> ast.Call:
    nothing = ast.arguments(posonlyargs=[], args=[], kwonlyargs=[], kw_defaults=[], defaults=[])
    more = [] if other is None else [ast.Lambda(args=nothing, body=other)]
    return ast.Call(func=ast.Name(_PROBE, ast.Load()), args=[ast.Constant(bug), value, *more], keywords=[])
