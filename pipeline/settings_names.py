"""What a knob is called: in the file, in the environment and by KCL; and the nearest one to a wrong name."""

import re
from collections.abc import Iterable, Iterator
from difflib import get_close_matches

from pipeline.settings import Settings
from pipeline.settings_values import is_mapping, knobs

PREFIX = "HEADRACE__"
_ENTRY = re.compile(r"__([0-9]{1,6})(?:__|$)")


def variable_for(key: str) -> str:
    """streams.0.name -> HEADRACE__STREAMS__0__NAME."""
    return PREFIX + key.upper().replace(".", "__")


def entry_index(variable: str) -> int:
    """Which entry of a list a variable is about."""
    found = _ENTRY.search(variable)
    return int(found[1]) if found else 0


def complain_of_variable(variable: str) -> str | None:
    """What is wrong with a variable's name, if anything."""
    known = {variable_for(key): hint for key, _, hint in knobs(Settings, index=str(entry_index(variable)))}
    if variable in known:
        return None
    for name, hint in known.items():
        if is_mapping(hint) and variable.startswith(f"{name}__"):
            return (
                f"{variable}: give all of it as {name}='{{name: value}}', which takes the place of the file's"
            )
    inside = [name for name in known if name.startswith(f"{variable}__")]
    near = inside or get_close_matches(variable, known, n=1)
    hint = f"did you mean {near[0]}?" if near else "`headrace config --doc` lists what there is"
    return f"{variable} is no setting's variable: {hint}"


def complain_of_key(name: str, section: str, *, known: Iterable[str]) -> str:
    """What is wrong with a key of the file that its section doesn't have."""
    head = f"unknown key {name!r} in {section or 'the top level'}"
    if near := get_close_matches(name, known, n=1):
        return f"{head}: did you mean {near[0]!r}?"
    if elsewhere := next(_elsewhere(name), None):
        return f"{head}: did you mean {elsewhere}?"
    return f"{head}; known: {', '.join(known)}"


def _elsewhere(name: str) -> Iterator[str]:
    """Keys of any section that are called so, by us or by KCL."""
    for key, spec, _ in knobs(Settings, index="N"):
        kcl = [word.lower() for word in re.findall(r"[a-z]+[A-Z]\w+", spec.metadata.get("kcl", ""))]
        if name == spec.name or name.lower() in kcl:
            yield key
