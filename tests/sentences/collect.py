"""Collects the sentences that people read: of ticks, runs, commands and errors, as they stand in the product's code.

A sentence is a text of five words or more that isn't a docstring, a help text or the description of a setting (these have pages of their
own), nor written for a machine. Texts that one call is given are on one line, ` / ` between them: a heading and its sentence, or what is
wrong and what to do. An error has its class before it. How pieces become whole sentences: see `wholes`.
"""

import ast
import re
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path

from tests.sentences.wholes import (
    ERRORS,
    ROOT,
    Module,
    Scope,
    Whole,
    inserting,
    module_of,
    placeholder,
    whole,
)
from tests.syntax import tree_of

ROOMS = ("assets", "kclpy", "pipeline", "resources", "sensors")
APART = ("pipeline/local/", "pipeline/settings/model.py", "pipeline/settings/changes.py")
"""The stand-in speaks for AWS, and the texts of settings are in docs/reference/settings.md."""
_OTHER_PAGES = {"help", "description", "epilog", "metavar", "doc", "kcl", "meaning"}
"""Arguments whose texts `--help` or the settings' page shows."""
_WORDS = 5
_FOR_MACHINES = re.compile(
    r"""
    attribute_(not_)?exists\( | (SET|AND|OR)\ .*=\ : | ^SET\   # conditions and updates of DynamoDB
    | \(\?[P:]? | \\\.                                        # regular expressions
    | \ HTTP/1\.1 | ^POST\  | -src\ '                         # HTTP
    | \ (STRING|BIGINT),?  | \ (bigint|tinyint)\b | ^SELECT\  | \ =\ '<             # SQL
    | <(svg|text|path|rect)\                                  # pictures
    | ^import\ \w+[;,] | \bimport\ \w+,                      # programs
    | ^[\w.]+(\ \|\ [\w.]+)+$ | ^\|\                            # one of some words, and a table's head
    | ([A-Z][a-z]+[A-Z]\w+\ ){3} | ^AWS4-                                                   # signatures
    """,
    re.VERBOSE,
)


def sentences() -> dict[str, list[str]]:
    """The sentences of each module, in the order of the code."""
    in_rooms = {path: str(path.relative_to(ROOT)) for room in ROOMS for path in (ROOT / room).rglob("*.py")}
    paths = in_rooms | {path: str(path.relative_to(ROOT)) for path in (ROOT / "headrace").glob("*.py")}
    rooms = {_import_name(path): path for path in paths}
    by_module = {
        paths[path]: list(_of_module(tree_of(path), module_of(path, rooms)))
        for path in sorted(paths)
        if not paths[path].startswith(APART)
    }
    return {name: texts for name, known in _without_pieces(by_module).items() if (texts := known)}


def _import_name(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    name = parts[:-1] if parts[-1] == "__init__" else parts
    return ".".join(name if name[0] == "headrace" else ("headrace", *name))


def as_text(collected: dict[str, list[str]]) -> str:
    return "\n".join(
        "\n".join([name, *(f"    {sentence}" for sentence in texts), ""]) for name, texts in collected.items()
    )


def sentences_in(code: str) -> list[str]:
    """The sentences of a module that imports nothing."""
    tree = ast.parse(code)
    [texts] = _without_pieces({"": list(_of_module(tree, Module(tree, {})))}).values()
    return texts


def _without_pieces(by_module: Mapping[str, list[tuple[ast.AST, Whole]]]) -> dict[str, list[str]]:
    """Leaves out what another sentence holds as its piece."""
    every = [found for known in by_module.values() for found in known]
    held = {piece for node, sentence in every if not isinstance(node, ast.Tuple) for piece in sentence.pieces}
    # The texts of a tuple become variables, whose values another sentence may hold.
    kept = [found for found in every if not isinstance(found[0], ast.Tuple) or not found[1].pieces <= held]
    pieces = {piece for node, sentence in kept for piece in sentence.pieces - {node}}
    nodes = {id(found) for found in kept}
    return {
        name: list(
            dict.fromkeys(
                text
                for found in known
                if id(found) in nodes and found[0] not in pieces
                if _is_sentence(text := " ".join(found[1].text.split()))
            )
        )
        for name, known in by_module.items()
    }


def _is_sentence(text: str) -> bool:
    words_of_code = re.findall(r"[^\W\d_]{2,}", re.sub(r"<[^<>]*>", "", text))
    return len(text.split()) >= _WORDS and len(words_of_code) >= _WORDS - 2 and not _FOR_MACHINES.search(text)


def _of_module(tree: ast.Module, module: Module) -> Iterator[tuple[ast.AST, Whole]]:
    yield from _below(tree, Scope(module), None)


def _below(node: ast.AST, scope: Scope, kind: str | None) -> Iterator[tuple[ast.AST, Whole]]:
    """The sentences below the node. `kind`: the class of the error that the node is an argument of."""
    for child in ast.iter_child_nodes(node):
        is_docstring = isinstance(child, ast.Expr) and isinstance(child.value, ast.Constant)
        is_elsewhere = isinstance(child, ast.keyword) and child.arg in _OTHER_PAGES
        if not is_docstring and not is_elsewhere:
            yield from _at(child, scope, kind)


def _at(node: ast.AST, scope: Scope, kind: str | None) -> Iterator[tuple[ast.AST, Whole]]:
    """The sentences of the node and below it."""
    match node:
        case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.Lambda():
            yield from _below(node, Scope(scope.module, node), kind)
        case ast.Call(func=ast.Attribute(value=ast.Name(id="re"))):
            return
        case ast.Call():
            yield from _of_call(node, scope, kind)
        case ast.Tuple(elts=values):
            yield from _together(node, values, _texts(values, scope), scope, kind)
        case ast.Dict(keys=keys, values=values):
            for key, value in zip(keys, values, strict=True):
                entry = [value] if key is None else [key, *_parts(value)]
                yield from _together(value, entry, _texts(entry, scope), scope, kind)
        case ast.Constant() | ast.JoinedStr() | ast.BinOp() | ast.IfExp() | ast.BoolOp():
            sentence = whole(node, scope)
            yield from _below(node, scope, kind) if sentence is None else _sentence(node, [sentence], kind)
        case _:
            yield from _below(node, scope, kind)


def _parts(value: ast.expr) -> list[ast.expr]:
    """The parts of an object that an entry of a table holds, such as its text and what to do."""
    match value:
        case ast.Call(func=function) if _name(function)[:1].isupper():
            return [*value.args, *(word.value for word in value.keywords)]
        case ast.Tuple(elts=parts):
            return parts
    return [value]


def _of_call(call: ast.Call, scope: Scope, kind: str | None) -> Iterator[tuple[ast.AST, Whole]]:
    """The sentences of a call: what its function makes of the texts that it is given, or these texts."""
    if _name(call.func) in ERRORS:
        kind = _name(call.func)
    values = [*call.args, *(word.value for word in call.keywords if word.arg not in _OTHER_PAGES)]
    built = whole(call, scope) if any(map(_is_text, values)) else None
    if built is None:
        inserted = inserting(call, scope)
        values = [value for value in values if value not in inserted]
    owners = () if kind or not _name(call.func)[:1].isupper() else _owners(values)
    texts = [built] if built is not None else _texts(values, scope, owners)
    yield from _together(call, [call.func, *values], texts, scope, kind)


def _together(
    node: ast.AST, values: list[ast.expr], texts: list[Whole], scope: Scope, kind: str | None
) -> Iterator[tuple[ast.AST, Whole]]:
    """The texts as one sentence, and the sentences of the other values."""
    if texts:
        yield from _sentence(node, texts, kind)
    pieces = {piece for text in texts for piece in text.pieces}
    for value in values:
        if value not in pieces:
            yield from _at(value, scope, kind)


def _texts(values: list[ast.expr], scope: Scope, named: Collection[ast.expr] = ()) -> list[Whole]:
    """The texts among the values, and the names of the values `named`. None, where no sentence is written there."""
    texts = [(value, whole(value, scope)) for value in values]
    if not any(text and len(text.text.split()) >= _WORDS for _, text in texts):
        return []
    shown = [text or Whole(placeholder(value)) for value, text in texts if text or value in named]
    return [text for text in shown if text.text.strip() and text.text != "utf-8"]


def _owners(values: list[ast.expr]) -> list[ast.expr]:
    """The values of an object before its sentence, such as the name of the shard that the sentence is about."""
    return [
        value
        for value in values[:1]
        if isinstance(value, ast.Name)
        or (isinstance(value, ast.Attribute) and not _name(value.value)[:1].isupper())
    ]


def _is_text(node: ast.AST) -> bool:
    return isinstance(node, ast.JoinedStr) or (isinstance(node, ast.Constant) and isinstance(node.value, str))


def _sentence(node: ast.AST, texts: list[Whole], kind: str | None) -> Iterator[tuple[ast.AST, Whole]]:
    text = " / ".join(text.text for text in texts) if len(texts) > 1 else _alone(texts[0])
    pieces = frozenset[ast.AST]().union(*(text.pieces for text in texts))
    yield node, Whole(f"{kind}: {text}" if kind else text, pieces)


def _alone(sentence: Whole) -> str:
    """A sentence that stands for itself needs no brackets that say it may be missing, and none of its other values that the
    code doesn't tell."""
    known = [value for value in sentence.values if re.sub(r"<[^<>]*>", "", value).strip(". ")]
    return " | ".join(known) if sentence.values else sentence.text


def _name(node: ast.AST) -> str:
    match node:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name
    return "..."
