"""Collects the sentences that people read: of ticks, runs, commands and errors, as they stand in the product's code.

A sentence is a text of five words or more that isn't a docstring, a help text or the description of a setting (these have pages of their
own). What the code puts in is shown by its name: `<port>`. An error has its class before it.
"""

import ast
from collections.abc import Iterator
from pathlib import Path

from headrace.pipeline import errors
from tests.syntax import tree_of

ROOT = Path(__file__).parents[2]
ROOMS = ("assets", "kclpy", "pipeline", "resources", "sensors")
APART = ("pipeline/local/", "pipeline/settings/model.py", "pipeline/settings/changes.py")
"""The stand-in speaks for AWS, and the texts of settings are in docs/reference/settings.md."""
_ERRORS = {
    name for name, kind in vars(errors).items() if isinstance(kind, type) and issubclass(kind, Exception)
}
_OTHER_PAGES = {"help", "description", "epilog", "metavar", "doc", "kcl", "meaning"}
"""Arguments whose texts `--help` or the settings' page shows."""
_WORDS = 5


def sentences() -> dict[str, list[str]]:
    """The sentences of each module, in the order of the code."""
    collected = {}
    in_rooms = (path for room in ROOMS for path in (ROOT / room).rglob("*.py"))
    for path in sorted([*in_rooms, *(ROOT / "headrace").glob("*.py")]):
        name = str(path.relative_to(ROOT))
        texts = [] if name.startswith(APART) else list(_of_module(path))
        if texts:
            collected[name] = texts
    return collected


def as_text(collected: dict[str, list[str]]) -> str:
    return "\n".join(
        "\n".join([name, *(f"    {sentence}" for sentence in texts), ""]) for name, texts in collected.items()
    )


def _of_module(path: Path) -> Iterator[str]:
    yield from sentences_in(tree_of(path), None)


def sentences_in(node: ast.AST, kind: str | None) -> Iterator[str]:
    """The sentences below the node. `kind`: the class of the error that the node is an argument of."""
    if _is_text(node):
        text = " ".join(_rendered(node).split())
        if len(text.split()) >= _WORDS:
            yield f"{kind}: {text}" if kind else text
        return
    if isinstance(node, ast.Call) and _name(node.func) in _ERRORS:
        kind = _name(node.func)
    for child in ast.iter_child_nodes(node):
        is_docstring = isinstance(child, ast.Expr) and isinstance(child.value, ast.Constant)
        is_elsewhere = isinstance(child, ast.keyword) and child.arg in _OTHER_PAGES
        if not is_docstring and not is_elsewhere:
            yield from sentences_in(child, kind)


def _is_text(node: ast.AST) -> bool:
    return isinstance(node, ast.JoinedStr) or (isinstance(node, ast.Constant) and isinstance(node.value, str))


def _rendered(node: ast.AST) -> str:
    match node:
        case ast.Constant(value=str(value)):
            return value
        case ast.JoinedStr(values=values):
            return "".join(_rendered(value) for value in values)
        case ast.FormattedValue(value=value):
            return _placeholder(value)
    return "<...>"


def _placeholder(value: ast.AST) -> str:
    match value:
        case ast.Call(func=ast.Name(id="counted"), args=[_, ast.Constant(value=str(noun)), *_]):
            return f"<number> {noun}s"
        case ast.Call(func=function):
            return f"<{_name(function)}>"
        case ast.Name() | ast.Attribute():
            return f"<{_name(value)}>"
        case ast.Subscript(value=whole):
            return _placeholder(whole)
    return "<...>"


def _name(node: ast.AST) -> str:
    match node:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name
    return "..."
