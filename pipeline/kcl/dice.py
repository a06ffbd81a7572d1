"""Shuffles where KCL shuffles. The caller passes the source of random numbers; without one, the order stays."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeVar

T = TypeVar("T")

Dice = Callable[[], float]
"""Returns a random number in [0, 1), as `headrace.pipeline.ports.base.Ids.dice` does."""


def shuffled(items: Iterable[T], dice: Dice | None) -> list[T]:
    out = list(items)
    if dice is None:
        return out
    for last in range(len(out) - 1, 0, -1):
        chosen = int(dice() * (last + 1))
        out[last], out[chosen] = out[chosen], out[last]
    return out
