"""How sentences tell numbers."""

from __future__ import annotations


def counted(count: int, one: str, more: str | None = None) -> str:
    """`1 lease`, `2,000 leases`."""
    return f"{count:,} {one if count == 1 else more or one + 's'}"
