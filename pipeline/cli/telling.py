"""Text for people: names from tables that others write reach a terminal, and must not steer it."""

import sys
from typing import Final, TextIO

_WIDEST: Final = 200
"""Of a cell. The longest lease key, with its stream before it, fits."""


def tell(*lines: object, file: TextIO | None = None) -> None:
    """Each argument is one line, whatever is in it."""
    out = sys.stdout if file is None else file
    print(*(clean(str(line)) for line in lines), sep="\n", file=out, flush=True)


def tell_aside(*lines: object) -> None:
    """Beside the answer, which a pipe may be reading."""
    tell(*lines, file=sys.stderr)


def clean(text: str) -> str:
    """What moves a cursor, ends a line or turns the direction of writing is spelled out, as in a Python string."""
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else ascii(char)[1:-1] for char in text)


def cell(text: str) -> str:
    """As wide as it will be shown, so that columns stand."""
    shown = clean(text)
    return shown if len(shown) <= _WIDEST else f"{shown[: _WIDEST - 3]}..."
