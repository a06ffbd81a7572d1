"""The value that describes a rule which the settings break."""

import re
from typing import NamedTuple

_IDENTIFIER = re.compile(r"\w[\w-]*")


class Broken(NamedTuple):
    key: str
    why: str
    """The rest of a sentence that begins with the key."""
    also: tuple[str, ...] = ()
    """Other keys that the rule looked at. While one of them has a mistake of its own, this rule isn't reported."""
    offset: int | None = None
    """Where in the setting's text the mistake is: a long text may have many lines."""


def is_table_name(name: str) -> bool:
    """Whether this is a namespace and a name, such as lake.orders."""
    names = name.split(".")
    return len(names) >= 2 and all(_IDENTIFIER.fullmatch(piece) for piece in names)
