"""A file `defs.yaml` of a Dagster project, whose component `headrace.KinesisConsumer` has an application's settings.

    type: headrace.KinesisConsumer
    attributes: {application: orders, streams: [...]}      the settings, or
    attributes: {settings_file: orders.yaml}               the name of a file that has them

The settings are read from the nodes of this file, so that a mistake in them names the file's own line.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import yaml

from headrace.pipeline.errors import BadSetting
from headrace.pipeline.settings.nodes import compose_all, is_null, line_of

COMPONENT = "headrace.KinesisConsumer"
SETTINGS_FILE = "settings_file"
_ONE_OF_TWO = (
    f"write the settings of one application there, or `{SETTINGS_FILE}` with the name of a file that has them"
)


@dataclass(frozen=True, slots=True)
class Component:
    """A component that Dagster loads."""

    document: int
    """Which of the file's documents it is, counted from 0."""
    fill_in: Callable[[str], object]
    """Fills in a template (`{{ env.STREAM }}`). Raises BadSetting where the template can't be filled in."""


def settings_part(text: str, name: str, component: Component | None) -> yaml.Node | str | None:
    """The node with the settings, or the name of the file that has them. In a file without a component, the
    settings are the whole document, which is None where the file is empty. `component` is None where Dagster
    doesn't load the file, as for a command with `--config`.
    """
    documents = compose_all(text, name)
    if component is not None:
        return _attributes(documents[component.document], name, component)
    components = [node for node in documents if _child(node, "type") is not None]
    if not components:
        return _only(documents, name)
    # A command with `--config` isn't told which component is meant, and the first one may be
    # another application's: it would work on the wrong tables.
    if len(components) > 1:
        raise BadSetting(
            f"{name}:{line_of(components[1])}: this file has {len(components)} components, and only Dagster knows which "
            f"of them is meant: give each a settings file of its own (`{SETTINGS_FILE}`), and name that file"
        )
    kind = _child(components[0], "type")
    if not isinstance(kind, yaml.ScalarNode) or kind.value != COMPONENT:
        raise BadSetting(
            f"{name}:{line_of(components[0])}: this file is of a component of another type; a settings file, or the "
            f"file of a component {COMPONENT}, is needed"
        )
    return _attributes(components[0], name, None)


def _only(documents: list[yaml.Node], name: str) -> yaml.Node | None:
    if len(documents) > 1:
        raise BadSetting(
            f"{name}:{line_of(documents[1])}: this file has {len(documents)} YAML documents; a settings file has one"
        )
    return documents[0] if documents else None


def _attributes(document: yaml.Node, name: str, component: Component | None) -> yaml.Node | str:
    attributes = _child(document, "attributes")
    if attributes is None or is_null(attributes) or not attributes.value:
        raise BadSetting(
            f"{name}:{line_of(attributes or document)}: the component has no `attributes`: {_ONE_OF_TWO}"
        )
    for scalar in _templates(attributes):
        _fill_in(scalar, name, component)
    named = _child(attributes, SETTINGS_FILE)
    if named is None:
        return attributes
    others = [key.value for key, _ in attributes.value if key.value != SETTINGS_FILE]
    # Settings in two places would need a rule which of them counts.
    if others or not isinstance(named, yaml.ScalarNode) or is_null(named):
        raise BadSetting(
            f"{name}:{line_of(named)}: `attributes` has `{SETTINGS_FILE}` beside other settings, or without the name of "
            f"a file: {_ONE_OF_TWO}"
        )
    return str(named.value)


def _child(node: yaml.Node, key: str) -> yaml.Node | None:
    if not isinstance(node, yaml.MappingNode):
        return None
    return next(
        (child for name, child in node.value if isinstance(name, yaml.ScalarNode) and name.value == key), None
    )


def _templates(top: yaml.Node) -> Iterator[yaml.ScalarNode]:
    """The values at or below this node that are templates. Each node is visited once: YAML aliases can make a loop."""
    waiting, visited = [top], set[int]()
    while waiting:
        node = waiting.pop()
        if id(node) in visited:
            continue
        visited.add(id(node))
        match node:
            case yaml.ScalarNode() if "{{" in node.value:
                yield node
            case yaml.SequenceNode():
                waiting.extend(node.value)
            case yaml.MappingNode():
                waiting.extend(child for _, child in node.value)


def _fill_in(scalar: yaml.ScalarNode, name: str, component: Component | None) -> None:
    place = f"{name}:{line_of(scalar)}"
    if component is None:
        raise BadSetting(
            f"{place}: this value is a template, which only Dagster fills in: put the settings into a file of their own, "
            f"name it in `attributes` as `{SETTINGS_FILE}`, and name it here"
        )
    try:
        value = component.fill_in(scalar.value)
    except BadSetting as error:
        raise BadSetting(f"{place}: {error}") from None
    if value is None:
        raise BadSetting(
            f"{place}: this template has no value: set the environment variable that it names, or give it a default, "
            "as in env('STREAM', 'orders')"
        )
    scalar.value = str(value).lower() if isinstance(value, bool) else str(value)
