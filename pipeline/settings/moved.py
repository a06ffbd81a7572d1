"""Earlier names of settings. A file that uses them still works, and a sentence names the current setting."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields

import yaml

from headrace.pipeline.settings.model import Settings
from headrace.pipeline.settings.names import variable_for
from headrace.pipeline.settings.nodes import is_null, line_of, secrets_in
from headrace.pipeline.settings.problems import NO_SECRETS, Problems, ValueSource
from headrace.pipeline.settings.secrets import holds_secret

MOVED: Mapping[str, str] = {
    "coordination.mode": "kcl.mode",
    "coordination.kcl_failover": "kcl.failover",
    "coordination.heartbeat": "kcl.heartbeat",
    "coordination.allow_foreign_checkpoints": "kcl.allow_foreign_checkpoints",
    "coordination.layout": "kcl.layout",
    "coordination.steal_at_most": "kcl.steal_at_most",
    "coordination.very_old_first": "kcl.very_old_first",
    "assignment.balance_every": "kcl.balance_every",
    "assignment.max_throughput_kbps": "kcl.max_throughput_kbps",
    "assignment.dampening": "kcl.dampening",
    "assignment.overshoot": "kcl.overshoot",
    "assignment.ema_alpha": "kcl.ema_alpha",
    "metrics.max_utilisation": "kcl.max_utilisation",
    "metrics.network_mbps": "kcl.network_mbps",
    "metrics.cpu": "assignment.cpu",
    "times.completed_cleanup": "times.cleanup",
}
"""Earlier key -> current key. The value is written in the same way under both."""

GONE: Mapping[str, str] = {
    "aws.wire": "GetRecords is always asked for JSON",
    "coordination.scan_segments": "the size of the lease table decides into how many parts a scan is split",
    "discovery.every": "Headrace looks for streams once a minute",
    "times.garbage_cleanup": "the rows of shards that no longer exist are deleted in every sixth round of times.cleanup",
    "times.hung_after": "a run counts as hung when a wave takes longer than twice wave.seconds, and longer than two minutes",
    "times.leader_deadline": "a leader's tick always works for 40 s at most",
    "times.leader_lock": "the leader's lock is valid for four times times.leader_tick",
}
"""Earlier key without a current one -> the rule that replaced the setting.

To ignore such a setting changes how soon something happens; it changes neither what is read nor what is deleted.
"""

_LEFT_SECTIONS = {key.partition(".")[0] for key in (*MOVED, *GONE)} - {spec.name for spec in fields(Settings)}
"""Earlier sections that have no settings any more."""
_Pair = tuple[yaml.Node, yaml.Node]


@dataclass(frozen=True, slots=True)
class Renamed:
    """The settings file and the environment variables, rewritten to current names."""

    root: yaml.Node
    variables: Mapping[str, str]
    sources: Mapping[str, ValueSource]
    """Current variable -> the variable with an earlier name from which its value came."""
    notes: tuple[str, ...]
    """One sentence for each earlier name."""


def with_current_names(root: yaml.Node, variables: Mapping[str, str], problems: Problems) -> Renamed:
    """Rewrite earlier names to current ones. Each value keeps the line or variable that it came from, for later messages."""
    places = {key: ValueSource(problems.file, line_of(name)) for key, (name, _) in reversed([*_pairs(root)])}
    current = places | {
        key: ValueSource(variable_for(key))
        for key in MOVED.values()
        if variables.get(variable_for(key), "").strip()
    }
    texts, sources, notes = dict(variables), dict[str, ValueSource](), list[str]()
    for key, (_, value) in _pairs(root):
        if key in GONE:
            notes.append(f"{places[key]}: {key} has no effect any more: {GONE[key]}. Remove {key}")
            for secret in secrets_in(value):
                problems.unread(ValueSource(problems.file, line_of(secret)), key, f"{key} {NO_SECRETS}")
        elif key in MOVED and not _is_given_twice(key, places[key], current, problems):
            notes.append(
                f"{places[key]}: {key} is now called {MOVED[key]}: rename it. Until then its value counts"
            )
    for key in (*MOVED, *GONE):
        variable = variable_for(key)
        text = texts.pop(variable, None)
        if text is None:
            continue
        if key in GONE:
            notes.append(f"{variable} has no effect any more: {GONE[key]}. Remove {variable}")
            if holds_secret(text):
                problems.variable(variable, f"{variable} {NO_SECRETS}")
        elif not text.strip() or not _is_given_twice(key, ValueSource(variable), current, problems):
            renamed = variable_for(MOVED[key])
            texts.setdefault(renamed, text)
            sources[renamed] = ValueSource(variable)
            notes.append(f"{variable} is now called {renamed}: rename it. Until then its value counts")
    return Renamed(_rewritten(root), texts, sources, tuple(notes))


def _is_given_twice(
    old: str, at: ValueSource, current: Mapping[str, ValueSource], problems: Problems
) -> bool:
    """Report a setting that is given under its earlier and its current name: which of the two values is meant isn't known."""
    new = MOVED[old]
    twin = current.get(new)
    if twin is not None:
        why = f"{old} and {new} ({twin}) are both given, and are two names of one setting: remove {old}"
        problems.unread(at, new, why)
    return twin is not None


def _pairs(root: yaml.Node) -> Iterator[tuple[str, _Pair]]:
    """The entries of the file's sections, each under `section.name`."""
    for section, node in root.value if isinstance(root, yaml.MappingNode) else ():
        for pair in node.value if isinstance(node, yaml.MappingNode) else ():
            if key := _key(section, pair):
                yield key, pair


def _key(section: yaml.Node, pair: _Pair) -> str | None:
    is_named = isinstance(section, yaml.ScalarNode) and isinstance(pair[0], yaml.ScalarNode)
    return f"{section.value}.{pair[0].value}" if is_named else None


def _rewritten(root: yaml.Node) -> yaml.Node:
    """The file's tree without settings that are gone, and with each moved setting in its current section."""
    if not isinstance(root, yaml.MappingNode):
        return root
    keys = {key for key, _ in _pairs(root)}
    sections = [(name, _like(node, _kept(name, node))) for name, node in root.value]
    sections = [(name, node) for name, node in sections if not (_is_left(name) and _is_empty(node))]
    for key, (name, value) in _pairs(root):
        if key not in MOVED or MOVED[key] in keys:
            continue
        head, _, tail = MOVED[key].partition(".")
        n = next((n for n, (each, _) in enumerate(sections) if each.value == head), len(sections))
        if n == len(sections) or is_null(sections[n][1]):
            sections[n:] = [(_named(name, head), _mapping_at(name)), *sections[n + 1 :]]
        section = sections[n][1]
        if isinstance(section, yaml.MappingNode):  # else the reader reports that it is no section
            section.value.append((_named(name, tail), value))
    return _like(root, sections)


def _kept(name: yaml.Node, section: yaml.Node) -> list[_Pair]:
    pairs = section.value if isinstance(section, yaml.MappingNode) else []
    return [pair for pair in pairs if _key(name, pair) not in MOVED and _key(name, pair) not in GONE]


def _is_left(name: yaml.Node) -> bool:
    return isinstance(name, yaml.ScalarNode) and name.value in _LEFT_SECTIONS


def _is_empty(node: yaml.Node) -> bool:
    return is_null(node) or (isinstance(node, yaml.MappingNode) and not node.value)


def _like(node: yaml.Node, value: list[_Pair]) -> yaml.Node:
    if not isinstance(node, yaml.MappingNode):
        return node
    return yaml.MappingNode(node.tag, value, node.start_mark, node.end_mark)


def _named(node: yaml.Node, name: str) -> yaml.ScalarNode:
    return yaml.ScalarNode(node.tag, name, node.start_mark, node.end_mark)


def _mapping_at(node: yaml.Node) -> yaml.MappingNode:
    return yaml.MappingNode("tag:yaml.org,2002:map", [], node.start_mark, node.end_mark)
