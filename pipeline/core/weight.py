"""What a lease weighs for the strategy `gap`: its throughput, and its part of how busy its worker's hosts are.

The CPU of a worker is shared out to the leases that the worker reads, by their throughput. A lease that moves is expected to
take its part along. That is a guess: the next figures show what a move really changed, so that nothing is moved by CPU again
before they can have changed (`SETTLES`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Final

from pipeline.core.lease import Lease

SETTLES: Final = timedelta(minutes=3)
"""A handover (90 s at most), then three averages of 30 s: what was measured before the move counts an eighth by then."""
_A_LEASE: Final = 1000
"""What each weighs where nobody measured any: fine enough for the tolerance."""
_READING: Final = 0.2
"""Of the CPU that hosts have left on average, so much is what an average worker reads worth: on hosts that idle throughput
decides, on busy ones CPU."""
_MOST: Final = 3.0
"""A worker's CPU for a KB/s counts as no more than so many times the fleet's average. A host that is busy for another reason
than its leases keeps a good part of them: to take them away makes it no less busy."""


@dataclass(frozen=True, slots=True)
class Weights:
    """In thousandths of a KB/s. Whole numbers, so that sums are the same in any order."""

    of: Mapping[str, int]
    """By lease."""
    factor: Mapping[str, float] = field(default_factory=dict)
    """By measured worker that reads: how much more its leases weigh for the CPU of its hosts."""
    cpu: Mapping[str, float] = field(default_factory=dict)
    """Percent, by worker. Empty: no worker is measured, and throughput alone counts."""
    read: Mapping[str, int] = field(default_factory=dict)
    """By worker: the throughput of what it reads now, without CPU."""

    def is_busier(self, one: str, other: str) -> bool:
        """Whether CPU, more than throughput, tells these two workers apart."""
        if one not in self.cpu or other not in self.cpu:
            return False
        average = sum(self.read.values()) / max(1, len(self.read))
        by_reading = _worth(self.cpu) * (self.read.get(one, 0) - self.read.get(other, 0)) / max(1, average)
        return self.cpu[one] - self.cpu[other] > max(0.0, by_reading)


def _worth(cpu: Mapping[str, float]) -> float:
    """Percent that an average worker's throughput counts as."""
    return max(1.0, _READING * (100 - sum(cpu.values()) / len(cpu)))


def weigh(leases: Iterable[Lease], cpu: Mapping[str, float]) -> Weights:
    """`cpu`: percent, of the workers that are measured."""
    leases = tuple(leases)
    known = [row.throughput_kbps for row in leases if row.throughput_kbps is not None]
    usual = max(1, round(1000 * sum(known) / len(known))) if any(known) else _A_LEASE
    plain = {row.key: _throughput(row, usual, measured=any(known)) for row in leases}
    read = dict.fromkeys(cpu, 0)
    for row in leases:
        if row.holder is not None:
            read[row.holder] = read.get(row.holder, 0) + plain[row.key]
    measured = sum(read[worker] for worker in cpu)
    spent = sum(cpu.values())
    if not measured or not spent:
        return Weights(plain)
    # Percent for each unit of throughput: as the fleet spends it, and as `_READING` counts it.
    average, unit = spent / measured, _worth(cpu) * len(cpu) / measured
    others = 1 + average / unit
    factor = {
        worker: 1 + min(percent / read[worker], _MOST * average) / unit if read[worker] else others
        for worker, percent in cpu.items()
    }
    weights = {row.key: round(plain[row.key] * factor.get(row.holder or "", others)) for row in leases}
    return Weights(weights, dict.fromkeys(read, others) | factor, dict(cpu), read)


def _throughput(row: Lease, usual: int, *, measured: bool) -> int:
    """A quiet lease isn't free: its shard is asked, too."""
    if not measured or row.throughput_kbps is None:
        return usual
    return max(1, usual // 10, round(1000 * row.throughput_kbps))
