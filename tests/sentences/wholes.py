"""Puts a sentence together that the code keeps in pieces: the values of constants, of variables and of small functions stand where they are
inserted. Of two possible pieces both are shown, `{one | other}`, and a piece that may be missing is in brackets, `[, because of <error>]`. What
isn't text of the code is shown by its name: `<port>`.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path

from headrace.pipeline import errors
from tests.syntax import tree_of

ROOT = Path(__file__).parents[2]
_DEEPEST = 5
"""Functions that are followed within each other."""
_LONGEST = 700
"""Characters of a piece. A longer one is shown by its name, and stands on a line of its own."""
_MOST = 6
"""Values that a piece may have. One with more is shown by its name."""
ERRORS = {
    name for name, kind in vars(errors).items() if isinstance(kind, type) and issubclass(kind, Exception)
}
_AMOUNTS = {
    "time_in_words": "time",
    "in_words": "time",
    "size_in_words": "size",
    "records_in": "number of records",
}
"""Functions that put an amount into words."""
_WORDS = 5
"""The fewest words of a sentence."""
_SAME = {
    "str",
    "repr",
    "int",
    "min",
    "max",
    "sorted",
    "abs",
    "round",
    "sum",
    "tuple",
    "set",
    "list",
    "dumps",
    "next",
    "iter",
}
"""Functions whose value is called by the name of their argument."""
_SAME_METHODS = {
    "isoformat",
    "total_seconds",
    "strip",
    "rstrip",
    "lower",
    "decode",
    "get",
    "pop",
    "items",
    "values",
    "most_common",
}
"""Methods whose value is called by the name of the object."""

Functions = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda


@dataclass(frozen=True)
class Whole:
    """A sentence, and the nodes of the tree that it was put together from."""

    text: str
    pieces: frozenset[ast.AST] = frozenset()
    is_code: bool = True
    """Whether the text stands in the code, and isn't the name of a value alone."""
    values: tuple[str, ...] = ()
    """The texts that it may be, where these are several. An empty one: it may be missing."""


@dataclass(frozen=True)
class Scope:
    """Where names are looked up: a function's arguments and variables, then those of its module."""

    module: Module
    function: Functions | None = None
    arguments: Mapping[str, Whole] = field(default_factory=dict)
    depth: int = 0


class Module:
    """The texts that a module's names stand for."""

    def __init__(self, tree: ast.Module, rooms: Mapping[str, Path]) -> None:
        self._rooms = rooms
        self._imported: dict[str, tuple[str, str]] = {}
        self.constants: dict[str, list[ast.expr]] = {}
        self.functions: dict[str, list[Functions]] = {}
        self.inside: dict[ast.AST, Functions] = {}
        for node in ast.walk(tree):
            match node:
                case ast.ImportFrom(module=str(module), names=names):
                    self._imported |= {name.asname or name.name: (module, name.name) for name in names}
                case ast.FunctionDef() | ast.AsyncFunctionDef():
                    self.functions.setdefault(node.name, []).append(node)
        for statement in tree.body:
            for name, value in _assigned(statement):
                self.constants.setdefault(name, []).append(value)

    def of_import(self, name: str) -> tuple[Module, str] | None:
        """The module that a name is imported from, and its name there. None: it isn't a module of the product."""
        if name not in self._imported:
            return None
        module, name = self._imported[name]
        path = self._rooms.get(module)
        return (module_of(path, self._rooms), name) if path else None


_MODULES: dict[Path, Module] = {}


def module_of(path: Path, rooms: Mapping[str, Path]) -> Module:
    if path not in _MODULES:
        _MODULES[path] = Module(tree_of(path), rooms)
    return _MODULES[path]


def whole(node: ast.AST, scope: Scope) -> Whole | None:
    """The text of an expression. None: it isn't a text, or the code doesn't tell which."""
    match node:
        case ast.Constant(value=str(value)):
            return Whole(value, frozenset({node}))
        case ast.JoinedStr(values=values):
            return _joined([_inserted(value, scope) for value in values], node)
        case ast.BinOp(op=ast.Add(), left=left, right=right):
            return _added(left, right, node, scope)
        case ast.IfExp() | ast.BoolOp(op=ast.Or()):
            return _chosen(node, scope)
        case ast.NamedExpr(value=value):
            return whole(value, scope)
        case ast.Name(id=name):
            return _named(name, scope)
        case ast.Attribute(value=ast.Name(id="self" | "cls"), attr=name):
            return _returned(name, [], [], scope)
        case ast.Call():
            return _of_call(node, scope)
    return None


def _added(left: ast.expr, right: ast.expr, node: ast.AST, scope: Scope) -> Whole | None:
    first, second = whole(left, scope), whole(right, scope)
    if not any(text.is_code for text in (first, second) if text):
        return None
    return _joined([first or Whole(placeholder(left)), second or Whole(placeholder(right))], node)


def _chosen(node: ast.IfExp | ast.BoolOp, scope: Scope) -> Whole | None:
    """One of several texts. A choice between a text and None is that text."""
    values = [node.body, node.orelse] if isinstance(node, ast.IfExp) else node.values
    given = [value for value in values if not (isinstance(value, ast.Constant) and value.value is None)]
    texts = [(value, whole(value, scope)) for value in given]
    if not any(text.is_code for _, text in texts if text):
        return None
    return _either([text or Whole(placeholder(value)) for value, text in texts], node)


def _of_call(node: ast.Call, scope: Scope) -> Whole | None:
    match node:
        case ast.Call(func=ast.Name(id="counted"), args=[_, noun, *more], keywords=keywords):
            return _counted(noun, [*more, *(word.value for word in keywords)], node, scope)
        case ast.Call(func=ast.Name(id=name)) if name in _AMOUNTS:
            return Whole(f"<{_AMOUNTS[name]}>", is_code=False)
        case ast.Call(func=ast.Name(id=name), args=[sentence]) if name in ERRORS:
            text = whole(sentence, scope)
            if text is None or not scope.depth:
                return None
            return replace(text, text=f"{name}: {text.text}", values=(), pieces=text.pieces | {node})
        case ast.Call(func=ast.Name(id=name), args=args, keywords=keywords):
            return _called(node, _returned(name, args, keywords, scope))
        case ast.Call(func=ast.Attribute(value=ast.Name(id="self" | "cls"), attr=name), args=args):
            return _called(node, _returned(name, args, node.keywords, scope))
    return None


def _called(call: ast.Call, text: Whole | None) -> Whole | None:
    return replace(text, pieces=text.pieces | {call}) if text else None


def _joined(parts: list[Whole], node: ast.AST) -> Whole:
    pieces = frozenset({node}).union(*(part.pieces for part in parts))
    return Whole("".join(part.text for part in parts), pieces)


def _either(texts: list[Whole], node: ast.AST | None) -> Whole | None:
    pieces = frozenset({node} if node else ()).union(*(text.pieces for text in texts))
    values = tuple(dict.fromkeys(value for text in texts for value in text.values or (text.text,)))
    if len(values) > _MOST:
        return None
    if len(values) == 1:
        return Whole(values[0], pieces)
    given = [value for value in values if value]
    shown = " | ".join(given)
    return Whole(f"[{shown}]" if len(given) < len(values) else f"{{{shown}}}", pieces, values=values)


def _counted(noun: ast.expr, more: list[ast.expr], node: ast.AST, scope: Scope) -> Whole | None:
    """A number and its noun, in the plural."""
    name, plural = whole(noun, scope), whole(more[0], scope) if more else None
    if name is None:
        return None
    pieces = frozenset({node}) | name.pieces | (plural.pieces if plural else frozenset())
    return Whole(f"<number> {plural.text if plural else name.text + 's'}", pieces)


def _inserted(node: ast.AST, scope: Scope) -> Whole:
    """A part of an f-string."""
    if not isinstance(node, ast.FormattedValue):
        return whole(node, scope) or Whole("<...>")
    text = whole(node.value, scope)
    if text is not None and node.format_spec is not None and isinstance(node.value, ast.Constant):
        return replace(text, text=f" {text.text} ")  # the heading of a column, which is filled up with blanks
    if text is None or len(text.text) > _LONGEST:
        return Whole(placeholder(node.value))
    return text


def _named(name: str, scope: Scope) -> Whole | None:
    """The text that a variable or a constant holds."""
    if name in scope.arguments:
        return scope.arguments[name]
    if scope.depth >= _DEEPEST:
        return None
    deeper = Scope(scope.module, scope.function, scope.arguments, scope.depth + 1)
    values: list[ast.expr] = []
    added: list[ast.expr] = []
    if scope.function is not None:
        variables = _variables(scope.function)
        if name in variables and not variables[name]:
            return None
        values = variables.get(name, [])
        added = _added_to(scope.function).get(name, [])
    if not values:
        values = scope.module.constants.get(name, [])
        deeper = Scope(scope.module, None, {}, scope.depth + 1)
    if not values:
        imported = scope.module.of_import(name)
        return _named(imported[1], Scope(imported[0], None, {}, scope.depth + 1)) if imported else None
    text = _all(values, deeper)
    for part in added if text is not None else ():
        more = whole(part, deeper)
        if text is None or more is None:
            return None
        text = _joined([text, more if more.values else _either([more, Whole("")], None) or more], part)
    return text


def _returned(name: str, args: list[ast.expr], keywords: list[ast.keyword], scope: Scope) -> Whole | None:
    """The text that a function of the product returns: two words of its own at least, else the function's name tells as much."""
    if scope.depth >= _DEEPEST:
        return None
    home, function = _functions_of(name, scope)
    if home is None or len(function) != 1:
        return None
    [single] = function
    values = _values(single)
    if not values:
        return None
    names = [known for known in _parameters(single) if known not in ("self", "cls")]
    given = dict(zip(names, args, strict=False)) | {word.arg: word.value for word in keywords if word.arg}
    arguments = {known: text for known, value in given.items() if (text := whole(value, scope)) is not None}
    text = _all(values, Scope(home, single, arguments, scope.depth + 1))
    if (
        text is None
        or len(text.text) > _LONGEST
        or len(re.findall(r"\b[a-z]{2,}\b", re.sub(r"<[^>]*>", "", text.text))) < 2
    ):
        return None
    return text


def inserting(call: ast.Call, scope: Scope) -> frozenset[ast.AST]:
    """The arguments of a call that its function inserts into sentences of its own. The sentences show them by the parameter's
    name, so that an argument, such as `the storage of the table`, is no sentence.
    """
    match call.func:
        case ast.Name(id=name) | ast.Attribute(value=ast.Name(id="self" | "cls"), attr=name):
            home, functions = _functions_of(name, scope)
        case _:
            return frozenset()
    if home is None or len(functions) != 1:
        return frozenset()
    names = [known for known in _parameters(functions[0]) if known not in ("self", "cls")]
    given = [
        *zip(names, call.args, strict=False),
        *((word.arg, word.value) for word in call.keywords if word.arg),
    ]
    shown = _inserted_names(functions[0])
    return frozenset(value for name, value in given if name in shown)


@cache
def _inserted_names(function: Functions) -> frozenset[str]:
    """The names that a function inserts into texts of five words or more."""
    texts = [node.values for node in ast.walk(function) if isinstance(node, ast.JoinedStr)]
    return frozenset(
        part.value.id
        for values in texts
        if sum(len(str(part.value).split()) for part in values if isinstance(part, ast.Constant)) >= _WORDS
        for part in values
        if isinstance(part, ast.FormattedValue) and isinstance(part.value, ast.Name)
    )


def _functions_of(name: str, scope: Scope) -> tuple[Module | None, list[Functions]]:
    """The functions of this name, and the module that they are in."""
    if name in scope.module.functions:
        return scope.module, scope.module.functions[name]
    imported = scope.module.of_import(name)
    return (imported[0], imported[0].functions.get(imported[1], [])) if imported else (None, [])


def _all(values: Sequence[ast.expr], scope: Scope) -> Whole | None:
    """Each of the values, where all of them are texts."""
    texts = [whole(value, scope) for value in values]
    if any(text is None for text in texts):
        return None
    return _either([text for text in texts if text is not None], None)


@cache
def _added_to(function: Functions) -> dict[str, list[ast.expr]]:
    """What a function adds to the texts of its variables, which may be added or not."""
    added: dict[str, list[ast.expr]] = {}
    for node in ast.walk(function):
        match node:
            case ast.AugAssign(target=ast.Name(id=name), op=ast.Add(), value=value):
                added.setdefault(name, []).append(value)
    return added


@cache
def _values(function: Functions) -> tuple[ast.expr, ...]:
    """What a function may return. Nothing, where it makes its values one after the other."""
    nodes = list(_own_nodes(function))
    if any(isinstance(node, ast.Yield | ast.YieldFrom) for node in nodes):
        return ()
    return tuple(node.value for node in nodes if isinstance(node, ast.Return) and node.value is not None)


def _own_nodes(function: ast.AST) -> Iterator[ast.AST]:
    """The nodes of a function without those of functions within it."""
    for child in ast.iter_child_nodes(function):
        yield child
        if not isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            yield from _own_nodes(child)


def _parameters(function: Functions) -> list[str]:
    every = function.args
    return [arg.arg for arg in (*every.posonlyargs, *every.args, *every.kwonlyargs)]


@cache
def _variables(function: Functions) -> dict[str, list[ast.expr]]:
    """The values that a function gives to each of its variables. None of them, where they aren't its own or not known as a whole."""
    nodes = list(ast.walk(function))
    values: dict[str, list[ast.expr]] = {}
    for node in nodes:
        for name, value in _assigned(node):
            values.setdefault(name, []).append(value)
    unknown = {*_parameters(function), *(name for node in nodes for name in _rebound(node))}
    return {name: values.get(name, []) if name not in unknown else [] for name in {*values, *unknown}}


def _assigned(node: ast.AST) -> Iterator[tuple[str, ast.expr]]:
    match node:
        case ast.Assign(targets=[ast.Name(id=name)], value=value):
            yield name, value
        case ast.Assign(targets=[ast.Tuple(elts=targets)], value=ast.Tuple(elts=values)):
            pairs = zip(targets, values, strict=True)
            yield from ((target.id, value) for target, value in pairs if isinstance(target, ast.Name))
        case ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value):
            yield name, value
        case ast.NamedExpr(target=ast.Name(id=name), value=value):
            yield name, value


def _rebound(node: ast.AST) -> set[str]:
    """The names that a loop or an unpacking binds: their values aren't one text."""
    match node:
        case ast.For(target=target) | ast.comprehension(target=target):
            bound: list[ast.AST] = [target]
        case ast.Assign(targets=targets, value=value) if not isinstance(value, ast.Tuple):
            bound = [target for target in targets if not isinstance(target, ast.Name)]
        case ast.withitem(optional_vars=ast.expr() as target):
            bound = [target]
        case _:
            return set()
    return {part.id for target in bound for part in ast.walk(target) if isinstance(part, ast.Name)}


def placeholder(value: ast.AST) -> str:
    """The name that stands for a value."""
    return f"<{_shown(value)}>"


def _shown(value: ast.AST) -> str:
    match value:
        case ast.Call():
            return _shown_call(value)
        case ast.Attribute(attr="__name__", value=ast.Call(func=ast.Name(id="type"), args=[of])):
            return f"class of {_shown(of)}"
        case ast.Attribute(attr="__name__", value=of):
            return _shown(of)
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name.lstrip("_")
        case (
            ast.Subscript(value=of)
            | ast.Starred(value=of)
            | ast.Await(value=of)
            | ast.FormattedValue(value=of)
        ):
            return _shown(of)
        case ast.GeneratorExp(elt=of) | ast.ListComp(elt=of) | ast.SetComp(elt=of):
            return _shown(of)
        case ast.BoolOp(values=[of, *_]) | ast.IfExp(body=of) | ast.BinOp(left=of):
            return _shown(of)
        case ast.JoinedStr(values=values):
            return "".join(map(_shown, values))
        case ast.Constant(value=known):
            return str(known)
    return "..."


def _shown_call(call: ast.Call) -> str:
    match call:
        case ast.Call(func=ast.Name(id="len"), args=[of]):
            return f"number of {_shown(of)}"
        case ast.Call(func=ast.Attribute(attr="join"), args=[of]):
            return f"{_shown(of)}, ..."
        case ast.Call(func=ast.Name(id=name), args=[of, *_]) if name in _SAME:
            return _shown(of)
        case ast.Call(func=ast.Attribute(attr=name, value=of)) if name in _SAME_METHODS:
            return _shown(of)
        case ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name)):
            return name.lstrip("_")
    return "..."
