"""The names of a setting in the file, in the environment and in KCL; and the name that a mistyped one
probably means."""

import re
from collections.abc import Iterable, Iterator
from difflib import get_close_matches

from headrace.pipeline.settings.model import Settings
from headrace.pipeline.settings.quoting import clipped
from headrace.pipeline.settings.values import is_mapping, knobs

PREFIX = "HEADRACE__"
# The number of a list entry. Python refuses to convert a text of thousands of digits, so a longer number is
# no entry.
_ENTRY = re.compile(r"__([0-9]{1,6})(?:__|$)")


def variable_for(key: str) -> str:
    """The environment variable of a setting: `streams.0.name` -> `HEADRACE__STREAMS__0__NAME`."""
    return PREFIX + key.upper().replace(".", "__")


def entry_index(variable: str) -> int:
    """The number of the list entry that a variable names; 0 for a variable that names none."""
    match = _ENTRY.search(variable)
    return int(match[1]) if match else 0


def complain_of_variable(variable: str) -> str | None:
    """What is wrong with the name of an environment variable that should be a setting's; None where nothing is."""
    hints = {variable_for(key): hint for key, _, hint in knobs(Settings, index=str(entry_index(variable)))}
    if variable in hints:
        return None
    for name, hint in hints.items():
        if is_mapping(hint) and variable.startswith(f"{name}__"):
            return (
                f"{variable}: give the whole mapping as {name}='{{name: "
                "value}', which replaces the mapping in the file"
            )
    # A section's own name: its settings are nearer than a word that looks alike.
    inside = [name for name in hints if name.startswith(f"{variable}__")]
    near = inside or get_close_matches(variable, hints, n=1)
    hint = f"did you mean {near[0]}?" if near else "`headrace config --doc` lists all settings"
    return f"{variable} stands for no setting: {hint}"


def complain_of_key(name: str, section: str, *, keys: Iterable[str]) -> str:
    """What is wrong with a key of the file that its section doesn't have."""
    head = f"unknown key {clipped(name)} in {section or 'the top level'}"
    if near := nearest(name, keys):
        return f"{head}: did you mean {near!r}?"
    if elsewhere := next(_elsewhere(name), None):
        return f"{head}: did you mean {elsewhere}?"
    return f"{head}; known: {', '.join(keys)}"


def nearest(name: str, keys: Iterable[str]) -> str | None:
    """The known key that is spelt most like a wrong one; None where none is similar."""
    return next(iter(get_close_matches(name, keys, n=1)), None)


def _elsewhere(name: str) -> Iterator[str]:
    """Keys in any section that have this name, in Headrace or in KCL."""
    for key, spec, _ in knobs(Settings, index="N"):
        # Somebody who comes from KCL may write a setting's name as KCL spells it.
        kcl = [word.lower() for word in re.findall(r"[a-z]+[A-Z]\w+", spec.metadata.get("kcl", ""))]
        if name == spec.name or name.lower() in kcl:
            yield key
