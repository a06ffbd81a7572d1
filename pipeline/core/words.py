"""How sentences tell numbers, and names that come from tables which others write."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches
from typing import Final

_WIDEST: Final = 200
"""Of a cell. The longest lease key, with its stream before it, fits."""


def counted(count: int, one: str, more: str | None = None) -> str:
    """`1 lease`, `2,000 leases`."""
    return f"{count:,} {one if count == 1 else more or one + 's'}"


def clean(text: str) -> str:
    """What moves a cursor, ends a line or turns the direction of writing is spelled out, as in a Python string."""
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else ascii(char)[1:-1] for char in text)


def cell(text: str) -> str:
    """As wide as it will be shown, so that columns stand."""
    shown = clean(text)
    return shown if len(shown) <= _WIDEST else f"{shown[: _WIDEST - 3]}..."


def no_such_shard(key: str, there: Iterable[str]) -> str:
    """The sentence about a key that nothing has, with those that are spelt nearly so."""
    there = sorted(set(there))
    near = get_close_matches(key, there, n=3, cutoff=0.5) or there[:3]
    told = (
        f"near it: {', '.join(near)}" if near else "no shard has a lease yet: the leader's sensor makes them"
    )
    return f"there is no shard {key!r} ({told}); nothing was read"
