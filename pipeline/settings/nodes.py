"""YAML parsed into nodes instead of values, because nodes know their lines."""

import re
from collections.abc import Iterator
from contextlib import contextmanager

import yaml

from headrace.pipeline.errors import BadSetting
from headrace.pipeline.settings.secrets import holds_secret, names_secret

_PLAIN, _NULL = "tag:yaml.org,2002:str", "tag:yaml.org,2002:null"


def compose(text: str, name: str) -> yaml.Node | None:
    """Parse a YAML text that has one document."""
    with _told_mistakes(text, name):
        return yaml.compose(text, Loader=yaml.SafeLoader)


def compose_all(text: str, name: str) -> list[yaml.Node]:
    """Parse a YAML text that may have several documents."""
    with _told_mistakes(text, name):
        return list(yaml.compose_all(text, Loader=yaml.SafeLoader))


@contextmanager
def _told_mistakes(text: str, name: str) -> Iterator[None]:
    """Turn the parser's errors into BadSetting, whose message never quotes the text, which may hold a secret."""
    try:
        yield
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        place = f"{name}:{mark.line + 1}" if mark else name
        # The parser's message may quote the text, which may be a secret: quotes longer than one character are
        # taken out.
        problem = re.sub(r"'[^'<\\][^']+'", "'...'", error.problem or error.context or "a mistake")
        # The parser speaks of a character that can't start a token, which helps nobody.
        hint = " (indent with spaces, not with tabs)" if r"'\t'" in problem else ""
        # `from None`, because the parser's own error quotes the text.
        raise BadSetting(f"{place}: this isn't YAML: {problem}{hint}") from None
    except yaml.reader.ReaderError as error:
        line = text[: error.position].count("\n") + 1
        raise BadSetting(
            f"{name}:{line}: this isn't YAML: the line has a character that YAML doesn't allow"
        ) from None
    except RecursionError:
        raise BadSetting(f"{name}: the YAML is nested far deeper than any setting") from None


def plain_node(text: str) -> yaml.ScalarNode:
    return yaml.ScalarNode(_PLAIN, text)


def is_null(node: yaml.Node) -> bool:
    return node.tag == _NULL


def line_of(node: yaml.Node) -> int:
    return int(node.start_mark.line) + 1


def line_within(node: yaml.Node, offset: int) -> int:
    """The line of the character at `offset` in a scalar's value. YAML folds lines and leaves out indents, so only
    characters that aren't space are counted.
    """
    mark = node.start_mark
    if not isinstance(node, yaml.ScalarNode) or mark is None or mark.buffer is None:
        return line_of(node)
    raw = mark.buffer[mark.pointer : node.end_mark.pointer]
    # The sign of a block, such as >-, stands on a line of its own; quotes aren't part of the value.
    start = raw.find("\n") + 1 if node.style in ("|", ">") else 1 if node.style else 0
    remaining = sum(not letter.isspace() for letter in node.value[:offset])
    for place in range(start, len(raw)):
        if raw[place].isspace():
            continue
        if not remaining:
            return line_of(node) + raw.count("\n", 0, place)
        remaining -= 1
    return line_of(node) + raw.rstrip().count("\n")


def node_kind(node: yaml.Node) -> str:
    if is_null(node):
        return "empty"
    match node:
        case yaml.MappingNode():
            return "a mapping"
        case yaml.SequenceNode():
            return "a list"
        case _:
            return "a single value"


def secrets_in(node: yaml.Node) -> Iterator[yaml.Node]:
    """Nodes at or below this one that look like secrets. Each node is visited once: YAML aliases can make a loop."""
    waiting, visited = [node], set[int]()
    while waiting:
        reached = waiting.pop()
        if id(reached) in visited:
            continue
        visited.add(id(reached))
        match reached:
            case yaml.ScalarNode():
                if holds_secret(reached.value):
                    yield reached
            case yaml.SequenceNode():
                waiting.extend(reached.value)
            case yaml.MappingNode():
                for name, value in reached.value:
                    if isinstance(name, yaml.ScalarNode) and names_secret(name.value):
                        yield name
                    waiting.extend((name, value))
