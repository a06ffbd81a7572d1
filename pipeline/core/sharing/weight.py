"""The weight of each lease for the strategy `gap`: its throughput, and its part of its worker's CPU load.

A worker's CPU load is divided among the leases that the worker reads, in proportion to their throughput. A lease that
moves is expected to take its part along. That is an estimate; only new measurements show what the move changed. So
nothing is moved by CPU again until the measurements can show it (`SETTLES`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Final

from headrace.pipeline.core.leases.lease import Lease

SETTLES: Final = timedelta(minutes=3)
"""After a move: a handover takes 90 s at most, and then come three averages of 30 s. By then, figures from before the
move count an eighth, because each new average counts half."""
_UNMEASURED: Final = 1000
"""The weight of each lease where no lease has a throughput. Large enough that rounding is finer than the tolerance."""
_READING: Final = 0.2
"""An average worker's throughput counts as much as this share of the CPU that is idle on average. So on idle hosts
throughput decides, and on busy hosts CPU."""
_MOST_CPU: Final = 3.0
"""A worker's CPU for each KB/s counts as at most this many times the fleet's average. A host that is busy for another
reason than its leases so keeps a good part of them, because moving all of them away wouldn't make the host less
busy."""


@dataclass(frozen=True, slots=True)
class Weights:
    """How much each lease weighs, in thousandths of a KB/s. Weights are whole numbers, so that a sum is the same
    in any order.
    """

    of: Mapping[str, int]
    """Lease key -> weight."""
    factor: Mapping[str, float] = field(default_factory=dict)
    """Measured worker -> how much more its leases weigh because of the CPU load of its hosts."""
    cpu: Mapping[str, float] = field(default_factory=dict)
    """Worker -> CPU in percent. Empty where no worker is measured; then only throughput counts."""
    read: Mapping[str, int] = field(default_factory=dict)
    """Worker -> throughput of the leases that it reads now, whatever CPU that takes."""

    def is_busier(self, giver: str, taker: str) -> bool:
        """Whether the CPU of `giver` is higher than that of `taker` by more than their throughputs explain."""
        if giver not in self.cpu or taker not in self.cpu:
            return False
        average = sum(self.read.values()) / max(1, len(self.read))
        by_reading = (
            _percent_of_average(self.cpu)
            * (self.read.get(giver, 0) - self.read.get(taker, 0))
            / max(1, average)
        )
        return self.cpu[giver] - self.cpu[taker] > max(0.0, by_reading)


def _percent_of_average(cpu: Mapping[str, float]) -> float:
    """The percentage of CPU that an average worker's throughput counts as."""
    return max(1.0, _READING * (100 - sum(cpu.values()) / len(cpu)))


def weigh(leases: Iterable[Lease], cpu: Mapping[str, float]) -> Weights:
    """How much each lease weighs, and how much each worker can carry.

    `cpu`: the CPU in percent of each worker that is measured.
    """
    leases = tuple(leases)
    rates = [row.throughput_kbps for row in leases if row.throughput_kbps is not None]
    usual = max(1, round(1000 * sum(rates) / len(rates))) if any(rates) else _UNMEASURED
    plain = {row.key: _throughput(row, usual, measured=any(rates)) for row in leases}
    read = dict.fromkeys(cpu, 0)
    for row in leases:
        if row.holder is not None:
            read[row.holder] = read.get(row.holder, 0) + plain[row.key]
    measured = sum(read[worker] for worker in cpu)
    spent = sum(cpu.values())
    if not measured or not spent:
        return Weights(plain)
    # CPU in percent for each unit of throughput: `average` as measured over the fleet, `unit` as `_READING` counts it.
    average, unit = spent / measured, _percent_of_average(cpu) * len(cpu) / measured
    # Workers that aren't measured count as average ones.
    unmeasured = 1 + average / unit
    factor = {
        worker: 1 + min(percent / read[worker], _MOST_CPU * average) / unit if read[worker] else unmeasured
        for worker, percent in cpu.items()
    }
    weights = {row.key: round(plain[row.key] * factor.get(row.holder or "", unmeasured)) for row in leases}
    return Weights(weights, dict.fromkeys(read, unmeasured) | factor, dict(cpu), read)


def _throughput(row: Lease, usual: int, *, measured: bool) -> int:
    """The lease's weight by throughput alone. `usual`: the average of all leases that have one."""
    # Never less than a tenth of the average: a quiet shard costs requests too.
    if not measured or row.throughput_kbps is None:
        return usual
    return max(1, usual // 10, round(1000 * row.throughput_kbps))
