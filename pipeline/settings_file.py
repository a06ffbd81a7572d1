"""Reads `headrace.yaml` and the environment into `Settings`, and remembers where each value came from.

Precedence, value by value: environment variable, then the file, then the default. The reader walks the
dataclasses of `pipeline.settings`: a new knob there is read, overridden, shown and documented without a line
here. What knobs mean to each other is judged afterwards, in `pipeline.settings_rules`.
"""

import re
from collections.abc import Mapping
from dataclasses import MISSING, dataclass, fields, is_dataclass, replace
from pathlib import Path
from typing import Any, get_type_hints

import yaml

from pipeline.errors import BadSetting
from pipeline.settings import Settings
from pipeline.settings_names import PREFIX, complain_of_key, complain_of_variable, entry_index, variable_for
from pipeline.settings_rules import broken_rules
from pipeline.settings_values import (
    allowed,
    bare,
    element,
    holds_secret,
    is_mapping,
    leaves,
    names_secret,
    read_value,
)

DEFAULT_FILE = "headrace.yaml"
MINIMAL = "{application: my-app, streams: [{name: my-stream}]}"
"""The smallest file, on one line so that it fits into an error's."""
_NO_SECRETS = (
    "looks like a secret, and secrets are never settings: leave it out and use a role, AWS's own configuration "
    "or the client's own environment variables"
)
_UNSET: Any = object()
_PLAIN, _NULL = "tag:yaml.org,2002:str", "tag:yaml.org,2002:null"


@dataclass(frozen=True, slots=True)
class Source:
    """Where a value came from: the default, a line of a file, or an environment variable."""

    name: str = "default"
    line: int | None = None

    def __str__(self) -> str:
        return f"{self.name}:{self.line}" if self.line else self.name


@dataclass(frozen=True, slots=True)
class Loaded:
    settings: Settings
    origins: Mapping[str, Source]
    """Dotted key (streams.0.name) -> source, for every value in `settings`."""
    name: str
    """The file's name."""


def read_settings(path: Path | str | None, environ: Mapping[str, str]) -> Loaded:
    """Read the file named by `path` (of `--config`), else by HEADRACE_CONFIG, else ./headrace.yaml."""
    file = Path(path or environ.get("HEADRACE_CONFIG") or DEFAULT_FILE)
    try:
        text = file.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise BadSetting(
            f"there is no settings file {file}: name one with --config or HEADRACE_CONFIG, or create it; "
            f"the smallest is: {MINIMAL}"
        ) from None
    except UnicodeDecodeError as error:
        line = error.object[: error.start].count(b"\n") + 1
        raise BadSetting(f"{file}:{line}: the settings file isn't UTF-8 text: save it as UTF-8") from None
    except OSError as error:
        raise BadSetting(f"the settings file {file} can't be read: {error.strerror}") from None
    loaded = parse_settings(text, environ, name=str(file))
    return replace(loaded, settings=_anchored(loaded.settings, file.resolve().parent))


def _anchored(settings: Settings, folder: Path) -> Settings:
    """Relative folders lie beside the settings file: a daemon and a shell that stand elsewhere mean the same table."""
    landing = settings.landing
    state = landing.state
    if state is not None and "://" not in state:
        state = str(folder / state)
    return replace(settings, landing=replace(landing, home=str(folder / landing.home), state=state))


def parse_settings(text: str, environ: Mapping[str, str], *, name: str) -> Loaded:
    """The same from the file's text; `name` is what sources and errors call it."""
    root = _compose(text, name)
    if root is None or _is_null(root):
        raise BadSetting(f"{name}:1: the file is empty; the smallest is: {MINIMAL}")
    variables = {key: value for key, value in environ.items() if key.startswith(PREFIX)}
    for variable in sorted(variables):
        if names_secret(variable.lower().replace("__", ".")):
            raise BadSetting(f"{variable} {_NO_SECRETS}")
        if complaint := complain_of_variable(variable):
            raise BadSetting(complaint)
    reader = _Reader(name, variables, {"": Source(name)})
    settings = reader.section(Settings, root, "")
    if broken := next(broken_rules(settings), None):
        key, why = broken
        raise BadSetting(f"{reader.where(key)}: {key} {why}")
    origins = {key: reader.origins.get(key, Source()) for key, *_ in leaves(settings)}
    return Loaded(settings, origins, name)


@dataclass(slots=True)
class _Reader:
    """One walk over the dataclasses, beside the YAML nodes and the variables."""

    name: str
    variables: Mapping[str, str]
    origins: dict[str, Source]
    """Of sections and lists too, so that a rule about a whole list can name a line."""

    def section(self, kind: type[Any], node: yaml.Node | None, key: str, *, base: Any = None) -> Any:
        """An instance of a dataclass; what neither file nor environment says is `base`'s, else the default."""
        specs = {spec.name: spec for spec in fields(kind)}
        entries = self.entries(node, key)
        for name, (at, _) in entries.items():
            if name not in specs:
                raise BadSetting(f"{at}: {complain_of_key(name, key, known=specs)}")
        hints, values = get_type_hints(kind), {}
        for name, spec in specs.items():
            at, child = entries.get(name, (Source(), None))
            path = f"{key}.{name}" if key else name
            value = self.value(bare(hints[name]), child, path, at=at, unit=spec.metadata.get("unit", ""))
            if value is not _UNSET:
                values[name] = value
            elif base is None and spec.default is MISSING and spec.default_factory is MISSING:
                raise BadSetting(f"{self.where(path)}: {path} is missing: {spec.metadata['doc']}")
        return kind(**values) if base is None else replace(base, **values)

    def value(self, hint: Any, node: yaml.Node | None, key: str, *, at: Source, unit: str) -> Any:
        if node is not None:
            self.origins[key] = at
        if inner := element(hint):
            return self.items(inner, node, key)
        if is_dataclass(hint):
            return self.section(hint, node, key)  # type: ignore[arg-type]  # is_dataclass doesn't tell class from instance
        variable = variable_for(key)
        if variable in self.variables:
            at, node = Source(variable), _variable_node(hint, self.variables[variable], variable)
            self.origins[key] = at
        if node is None or _is_null(node):
            return _UNSET
        if is_mapping(hint):
            return self.mapping(node, key, at=at)
        return self.leaf(hint, node, key, at=at, unit=unit)

    def leaf(self, hint: Any, node: yaml.Node, key: str, *, at: Source, unit: str) -> Any:
        rule = allowed(hint, unit=unit)
        text = _text(node, f"{at}: {key}", rule=rule)
        try:
            return read_value(hint, text, unit=unit)
        except (ValueError, OverflowError):
            raise BadSetting(f"{at}: {key} is {_clip(text)}; allowed: {rule}") from None

    def mapping(self, node: yaml.Node, key: str, *, at: Source) -> dict[str, str]:
        found = {}
        for name, (source, child) in self.entries(node, key, variable=None if at.line else at).items():
            self.origins[f"{key}.{name}"] = source
            found[name] = _text(child, f"{source}: {key}.{name}", rule="text, a number, true or false")
        return found

    def items(self, kind: type[Any], node: yaml.Node | None, key: str) -> Any:
        """A list: the file's entries, else the default's, each overlaid by its variables, which may also append."""
        given = node is not None and not _is_null(node)
        if node is not None and given and not isinstance(node, yaml.SequenceNode):
            raise BadSetting(
                f"{self.where(key)}: {key} is {_kind(node)}; allowed: a list (- one entry a line)"
            )
        nodes = dict(enumerate(node.value)) if isinstance(node, yaml.SequenceNode) else {}
        bases = {} if given else dict(enumerate(_default_entries(key)))
        count = max(len(nodes), len(bases))
        variables = [v for v in self.variables if v.startswith(f"{variable_for(key)}__")]
        for variable in sorted(variables, key=entry_index):
            if entry_index(variable) > count:
                raise BadSetting(
                    f"{variable} is entry {entry_index(variable)} of {key}, but the next free one is {count}: "
                    "entries are counted from 0, without gaps"
                )
            count = max(count, entry_index(variable) + 1)
        if not given and not variables:
            return _UNSET
        for n, child in nodes.items():
            self.origins[f"{key}.{n}"] = Source(self.name, child.start_mark.line + 1)
        if is_dataclass(kind):
            return tuple(
                self.section(kind, nodes.get(n), f"{key}.{n}", base=bases.get(n)) for n in range(count)
            )
        return tuple(self.plain(kind, nodes.get(n), f"{key}.{n}") for n in range(count))

    def plain(self, kind: type[Any], node: yaml.Node | None, key: str) -> Any:
        """An entry of a list of texts."""
        found = self.value(kind, node, key, at=self.origins.get(key, Source()), unit="")
        if found is _UNSET:
            raise BadSetting(f"{self.where(key)}: {key} is empty; allowed: {allowed(kind)}")
        return found

    def entries(
        self, node: yaml.Node | None, key: str, *, variable: Source | None = None
    ) -> dict[str, tuple[Source, yaml.Node]]:
        """A mapping's keys, each with its line, or with the variable that the whole mapping stands in."""
        if node is None or _is_null(node):
            return {}
        what = key or "the file"
        if not isinstance(node, yaml.MappingNode):
            raise BadSetting(f"{self.where(key)}: {what} is {_kind(node)}; allowed: `name: value` pairs")
        found: dict[str, tuple[Source, yaml.Node]] = {}
        for name, child in node.value:
            source = variable or Source(self.name, name.start_mark.line + 1)
            if not isinstance(name, yaml.ScalarNode):
                raise BadSetting(f"{source}: a name in {what} is {_kind(name)}; allowed: text")
            path = f"{key}.{name.value}" if key else name.value
            if names_secret(name.value):
                raise BadSetting(f"{source}: {path} {_NO_SECRETS}")
            if name.value in found:
                raise BadSetting(
                    f"{source}: {path} is there twice, first in {found[name.value][0]}: keep one"
                )
            found[name.value] = (source, child)
        return found

    def where(self, key: str) -> Source:
        """The place of a key, or of the nearest section around it that was given."""
        while key not in self.origins:
            key = key.rpartition(".")[0]
        return self.origins[key]


def _default_entries(key: str) -> tuple[Any, ...]:
    """A list's default entries. Lists stand at the top of the settings only."""
    spec = next(spec for spec in fields(Settings) if spec.name == key)
    return () if spec.default_factory is MISSING else tuple(spec.default_factory())


def _variable_node(hint: Any, text: str, variable: str) -> yaml.Node | None:
    """A variable's text as a node: for a mapping it is YAML (or JSON) itself, else plain text."""
    if not text.strip():
        return None
    return _compose(text, variable) if is_mapping(hint) else yaml.ScalarNode(_PLAIN, text.strip())


def _text(node: yaml.Node, what: str, *, rule: str) -> str:
    if not isinstance(node, yaml.ScalarNode) or _is_null(node):
        raise BadSetting(f"{what} is {_kind(node)}; allowed: {rule}")
    if holds_secret(node.value):
        raise BadSetting(f"{what} {_NO_SECRETS}")
    return str(node.value)


def _compose(text: str, name: str) -> yaml.Node | None:
    try:
        return yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        where = f"{name}:{mark.line + 1}" if mark else name
        # A parser's words may quote the text, and the text may be a secret: quotes longer than a sign go.
        problem = re.sub(r"'[^'<\\][^']+'", "'...'", error.problem or error.context or "a mistake")
        hint = " (indent with spaces, not with tabs)" if r"'\t'" in problem else ""
        raise BadSetting(f"{where}: this isn't YAML: {problem}{hint}") from None
    except yaml.reader.ReaderError as error:
        line = text[: error.position].count("\n") + 1
        raise BadSetting(f"{name}:{line}: this isn't YAML: a character that text doesn't have") from None
    except RecursionError:
        raise BadSetting(f"{name}: this is nested far deeper than any setting is") from None


def _is_null(node: yaml.Node) -> bool:
    return node.tag == _NULL


def _kind(node: yaml.Node) -> str:
    if _is_null(node):
        return "empty"
    match node:
        case yaml.MappingNode():
            return "a mapping"
        case yaml.SequenceNode():
            return "a list"
        case _:
            return "a single value"


def _clip(text: str) -> str:
    return repr(text if len(text) <= 60 else text[:60] + "...")
