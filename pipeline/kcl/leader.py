"""KCL 2.x's leader of shard sync: all workers shuffle the lease owners with the same dice and take the first.

Those dice are java.util.Random's, a linear congruential generator of 48 bits.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

_SEED = 1947
_MULTIPLIER = 0x5DEECE66D
_MASK = (1 << 48) - 1


def order(owners: Iterable[str | None]) -> tuple[str, ...]:
    """The owners of all leases, in the order in which they would lead."""
    # Java sorts text by UTF-16 units, Python by code points.
    out = sorted({o for o in owners if o is not None}, key=lambda o: o.encode("utf-16-be", "surrogatepass"))
    states = _states(_SEED)
    for bound in range(len(out), 1, -1):
        chosen = _below(bound, states)
        out[bound - 1], out[chosen] = out[chosen], out[bound - 1]
    return tuple(out)


def _states(seed: int) -> Iterator[int]:
    """31 bits each, as Random.next(31) gives them."""
    state = (seed ^ _MULTIPLIER) & _MASK
    while True:
        state = (state * _MULTIPLIER + 0xB) & _MASK
        yield state >> 17


def _below(bound: int, states: Iterator[int]) -> int:
    """Random.nextInt(bound)."""
    if bound & (bound - 1) == 0:
        return bound * next(states) >> 31
    while True:
        bits = next(states)
        value = bits % bound
        if bits - value + bound - 1 < 1 << 31:  # Java sees the overflow of an int there, and throws again
            return value
