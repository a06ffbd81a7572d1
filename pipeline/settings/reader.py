"""Read settings: one walk over the dataclasses of `headrace.pipeline.settings.model`, with the file's nodes
and the variables.

A setting that is added to the dataclasses needs no line here. A value that can't be read becomes a mistake in
`Problems`, and the walk goes on with the default value, so that it finds the other mistakes, too.
"""

from collections.abc import Mapping
from dataclasses import MISSING, Field, dataclass, field, fields, is_dataclass, replace
from typing import Any

import yaml

from headrace.pipeline.errors import BadSetting
from headrace.pipeline.settings.model import Settings
from headrace.pipeline.settings.names import complain_of_key, entry_index, nearest, variable_for
from headrace.pipeline.settings.nodes import (
    compose,
    is_null,
    line_of,
    line_within,
    node_kind,
    plain_node,
    secrets_in,
)
from headrace.pipeline.settings.problems import NO_SECRETS, Problems, ValueSource
from headrace.pipeline.settings.quoting import clipped
from headrace.pipeline.settings.secrets import holds_secret, names_secret
from headrace.pipeline.settings.values import (
    allowed,
    element,
    hints_of,
    is_mapping,
    read_value,
    settings_of,
)

_UNSET: Any = object()
_PAIRS = "`name: value` pairs"


@dataclass(slots=True)
class Reader:
    variables: Mapping[str, str]
    problems: Problems
    origins: dict[str, ValueSource] = field(default_factory=dict)
    """Key -> place of its value. Sections and lists have places, too, so that a rule about a whole list can
    name a line."""

    _nodes: dict[str, yaml.Node] = field(default_factory=dict)
    """Key -> the node of its text, where a line of the file has it."""

    def read(self, root: yaml.Node) -> Settings:
        self.origins[""] = ValueSource(self.problems.file)
        settings: Settings = self._section(Settings, root, "")
        return settings

    def place_of(self, key: str) -> ValueSource:
        """The place in the file of a key, or of the nearest section around it that has a place."""
        while key not in self.origins:
            key = key.rpartition(".")[0]
        return self.origins[key]

    def line_of(self, key: str, offset: int) -> ValueSource:
        """The place of a mistake at a character of the text of a key."""
        place = self.place_of(key)
        node = self._nodes.get(key)
        return place if node is None else ValueSource(place.name, line_within(node, offset))

    def _section(self, kind: type[Any], node: yaml.Node | None, key: str, *, base: Any = None) -> Any:
        """Make an instance of a dataclass. Values that neither file nor environment give come from `base`,
        else are defaults."""
        specs = {spec.name: spec for spec in settings_of(kind)}
        entries = self._entries(node, key)
        for name, entry in entries.items():
            if name not in specs:
                self._unknown(name, *entry, key=key, specs=specs)
        hints, values = hints_of(kind), {}
        for name, spec in specs.items():
            source, child = entries.get(name, (ValueSource(), None))
            path = f"{key}.{name}" if key else name
            value = self._value(hints[name], child, path, source=source, unit=spec.metadata.get("unit", ""))
            if value is not _UNSET:
                values[name] = value
            elif base is None and _is_required(spec):
                # One mistake, one sentence: a misspelled key may have been meant for this one.
                if not self.problems.touches(path):
                    self.problems.unread(
                        self.place_of(path), path, f"{path} is missing: {spec.metadata['doc']}"
                    )
                # Only for the walk to go on: with a mistake in `problems` these settings are never used.
                values[name] = f"missing-{path}"
        # An entry of a default list keeps what nobody has given.
        return kind(**values) if base is None else replace(base, **values)

    def _unknown(
        self, name: str, source: ValueSource, node: yaml.Node, *, key: str, specs: Mapping[str, Field[Any]]
    ) -> None:
        path = f"{key}.{name}" if key else name
        meant = nearest(name, specs)
        self.problems.unread(
            source,
            f"{key}.{meant}" if key and meant else meant or path,
            complain_of_key(name, key, keys=specs),
        )
        self._report_secrets(node, path, source=source)

    def _report_secrets(self, node: yaml.Node, key: str, *, source: ValueSource) -> None:
        """Report secrets also in a part of the file that isn't read because of another mistake."""
        for secret in secrets_in(node):
            place = ValueSource(source.name, line_of(secret)) if source.line else source
            self.problems.unread(place, key, f"{key} {NO_SECRETS}")

    def _wrong_kind(self, node: yaml.Node, key: str, *, source: ValueSource, rule: str) -> None:
        self.problems.unread(source, key, f"{key or 'the file'} is {node_kind(node)}; allowed: {rule}")
        self._report_secrets(node, key or "the file", source=source)

    def _value(self, hint: Any, node: yaml.Node | None, key: str, *, source: ValueSource, unit: str) -> Any:
        if node is not None:
            self.origins[key] = source
        if inner := element(hint):
            return self._items(inner, node, key)
        if is_dataclass(hint):
            return self._section(hint, node, key)  # type: ignore[arg-type]  # is_dataclass doesn't tell class from instance
        variable = variable_for(key)
        # A variable wins over the file.
        if variable in self.variables:
            source = ValueSource(variable)
            self.origins[key] = source
            try:
                node = _variable_node(hint, self.variables[variable], source.name)
            except BadSetting as error:
                self.problems.unread(source, key, str(error).removeprefix(f"{source}: "))
                return _UNSET
        if node is None or is_null(node):
            return _UNSET
        if is_mapping(hint):
            return self._mapping(node, key, mapping_source=source)
        return self._leaf(hint, node, key, source=source, unit=unit)

    def _leaf(self, hint: Any, node: yaml.Node, key: str, *, source: ValueSource, unit: str) -> Any:
        rule = allowed(hint, unit=unit)
        text = self._text(node, key, source=source, rule=rule)
        if text is _UNSET:
            return _UNSET
        if source.line:
            self._nodes[key] = node
        try:
            return read_value(hint, text, unit=unit)
        except (ValueError, OverflowError):
            self.problems.unread(source, key, f"{key} is {clipped(text)}; allowed: {rule}")
            return _UNSET

    def _mapping(self, node: yaml.Node, key: str, *, mapping_source: ValueSource) -> dict[str, str]:
        values = {}
        for name, (source, child) in self._entries(
            node, key, variable=None if mapping_source.line else mapping_source
        ).items():
            self.origins[f"{key}.{name}"] = source
            text = self._text(child, f"{key}.{name}", source=source, rule="text, a number, true or false")
            if text is not _UNSET:
                values[name] = text
        return values

    def _text(self, node: yaml.Node, key: str, *, source: ValueSource, rule: str) -> Any:
        if not isinstance(node, yaml.ScalarNode) or is_null(node):
            self._wrong_kind(node, key, source=source, rule=rule)
            return _UNSET
        if holds_secret(node.value):
            self.problems.unread(source, key, f"{key} {NO_SECRETS}")
            return _UNSET
        return str(node.value)

    def _items(self, kind: type[Any], node: yaml.Node | None, key: str) -> Any:
        """Read a list: the entries of the file, else of the default. Variables change single entries, or
        append some."""
        given = node is not None and not is_null(node)
        if node is not None and given and not isinstance(node, yaml.SequenceNode):
            self._wrong_kind(node, key, source=self.place_of(key), rule="a list (- one entry a line)")
            return _UNSET
        nodes = dict(enumerate(node.value)) if isinstance(node, yaml.SequenceNode) else {}
        bases = {} if given else dict(enumerate(_default_entries(key)))
        count = self._appended(key, max(len(nodes), len(bases)))
        if not given and count == len(bases) and not self._variables_of(key):
            return _UNSET
        for n, child in nodes.items():
            self.origins[f"{key}.{n}"] = ValueSource(self.problems.file, line_of(child))
        if is_dataclass(kind):
            return tuple(
                self._section(kind, nodes.get(n), f"{key}.{n}", base=bases.get(n)) for n in range(count)
            )
        entries = (self._plain(kind, nodes.get(n), f"{key}.{n}") for n in range(count))
        return tuple(entry for entry in entries if entry is not _UNSET)

    def _variables_of(self, key: str) -> list[str]:
        return sorted(
            # By number: as text, entry 10 would come before entry 2.
            (name for name in self.variables if name.startswith(f"{variable_for(key)}__")),
            key=entry_index,
        )

    def _appended(self, key: str, count: int) -> int:
        """The number of entries, with those that variables append."""
        for variable in self._variables_of(key):
            index = entry_index(variable)
            if index > count:
                self.problems.variable(
                    variable,
                    f"{variable} is entry {index} of {key}, but the next free entry is {count}: "
                    "entries are counted from 0, without gaps",
                )
            else:
                count = max(count, index + 1)
        return count

    def _plain(self, kind: type[Any], node: yaml.Node | None, key: str) -> Any:
        """An entry of a list of texts."""
        source = self.origins.get(key, ValueSource())
        value = self._value(kind, node, key, source=source, unit="")
        if value is _UNSET and not self.problems.touches(key):
            self.problems.unread(self.place_of(key), key, f"{key} is empty; allowed: {allowed(kind)}")
        return value

    def _entries(
        self, node: yaml.Node | None, key: str, *, variable: ValueSource | None = None
    ) -> dict[str, tuple[ValueSource, yaml.Node]]:
        """A mapping's keys, each with its line, or with the variable that holds the whole mapping."""
        if node is None or is_null(node):
            return {}
        if not isinstance(node, yaml.MappingNode):
            self._wrong_kind(node, key, source=self.place_of(key), rule=_PAIRS)
            return {}
        entries: dict[str, tuple[ValueSource, yaml.Node]] = {}
        what = key or "the file"
        for name, child in node.value:
            source = variable or ValueSource(self.problems.file, line_of(name))
            if not isinstance(name, yaml.ScalarNode):
                self.problems.unread(
                    source, f"{key}.?", f"a name in {what} is {node_kind(name)}; allowed: text"
                )
                self._report_secrets(child, what, source=source)
            elif holds_secret(name.value):
                self.problems.unread(source, f"{key}.?", f"a name in {what} {NO_SECRETS}")
            elif names_secret(name.value):
                path = f"{key}.{name.value}" if key else name.value
                self.problems.unread(source, path, f"{path} {NO_SECRETS}")
            elif name.value in entries:
                path = f"{key}.{name.value}" if key else name.value
                first = entries[name.value][0]
                self.problems.unread(
                    source, path, f"{path} is given twice, first in {first}: keep one of them"
                )
                self._report_secrets(child, path, source=source)
            else:
                entries[name.value] = (source, child)
        return entries


def _is_required(spec: Field[Any]) -> bool:
    return spec.default is MISSING and spec.default_factory is MISSING


def _default_entries(key: str) -> tuple[Any, ...]:
    """A list's default entries. A list is a setting of the top level, or of a block; no entry of a list has one."""
    kind: Any = Settings
    *blocks, name = key.split(".")
    for block in blocks:
        kind = hints_of(kind)[block]
    spec = next(spec for spec in fields(kind) if spec.name == name)
    return () if spec.default_factory is MISSING else tuple(spec.default_factory())


def _variable_node(hint: Any, text: str, variable: str) -> yaml.Node | None:
    """A variable's text as a node: for a mapping it is YAML (or JSON) itself, else plain text."""
    if not text.strip():
        return None
    return compose(text, variable) if is_mapping(hint) else plain_node(text.strip())
