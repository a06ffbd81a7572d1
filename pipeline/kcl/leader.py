"""How KCL 2.x elects the leader of shard sync: each worker shuffles all lease owners with the same seed, and
the first leads.

KCL shuffles by java.util.Random, a linear congruential generator of 48 bits, which is computed here digit for digit.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

# From KCL's DeterministicShuffleShardSyncLeaderDecider.
_SEED = 1947
# From java.util.Random; its increment is 0xB.
_MULTIPLIER = 0x5DEECE66D
_MASK = (1 << 48) - 1


def order_of_leadership(owners: Iterable[str | None]) -> tuple[str, ...]:
    """All lease owners in shuffled order. The first one leads."""
    # Java sorts text by UTF-16 units, Python by code points. The shuffle starts from the sorted order.
    out = sorted({o for o in owners if o is not None}, key=lambda o: o.encode("utf-16-be", "surrogatepass"))
    states = _java_random(_SEED)
    for bound in range(len(out), 1, -1):
        chosen = _next_int(bound, states)
        out[bound - 1], out[chosen] = out[chosen], out[bound - 1]
    return tuple(out)


def _java_random(seed: int) -> Iterator[int]:
    """The numbers that java.util.Random.next(31) returns, one after the other."""
    state = (seed ^ _MULTIPLIER) & _MASK
    while True:
        state = (state * _MULTIPLIER + 0xB) & _MASK
        # The upper 31 of the 48 bits.
        yield state >> 17


def _next_int(bound: int, states: Iterator[int]) -> int:
    """The number that java.util.Random.nextInt(bound) returns."""
    if bound & (bound - 1) == 0:
        return bound * next(states) >> 31
    while True:
        bits = next(states)
        value = bits % bound
        # Java detects here that an int overflows, and draws another number.
        if bits - value + bound - 1 < 1 << 31:
            return value
