"""CPU utilisation in percent, as KCL's workers compute it from the files or the documents of their platform."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from math import copysign, inf, nan

# The CPU shares that KCL assumes of a container that the ECS task document doesn't list.
_SHARES_IF_UNLISTED = 2


def _java_divide(dividend: float, divisor: float) -> float:
    """Divides as Java does: a division by zero gives infinity or NaN. `is_sample` refuses both, so the sample fails."""
    if divisor:
        return dividend / divisor
    return copysign(inf, dividend) if dividend else nan


def _at_most_100(percent: float) -> float:
    # NaN, which isn't equal to itself, stays NaN: min(100.0, NaN) would be 100.0.
    return percent if percent != percent else min(100.0, percent)  # noqa: PLR0124 -- see above


def is_sample(percent: float) -> bool:
    """Whether a value is a percentage. A sample with any other value counts as failed."""
    return 0.0 <= percent <= 100.0


def cpus_in(cpuset: str) -> int:
    """The number of CPUs in a list such as `0-4,6,8-10`."""
    return sum(_cpus_in_part(text) for text in cpuset.strip().rstrip(",").split(","))


def _cpus_in_part(text: str) -> int:
    if "-" not in text:
        return 1
    first, last = text.split("-")[:2]
    return int(last) - int(first) + 1


@dataclass(frozen=True, slots=True)
class _Stat:
    busy_user: int
    iowait: int
    idle: int
    total: int


def _stat(line: str) -> _Stat:
    # `cpu user nice system idle iowait irq softirq steal ...`: as in KCL, only the first five numbers are read.
    user, nice, system, idle, iowait = (int(text) for text in line.split()[1:6])
    return _Stat(user + nice, iowait, idle, user + nice + system + idle + iowait)


def from_proc_stat(before: str | None, line: str) -> float:
    """Utilisation on EC2, from the first line of /proc/stat at two moments. The first sample (`before` is None) is 0.

    As in KCL, waiting for I/O counts as busy, and time in interrupts or taken by the hypervisor isn't counted.
    """
    if before is None or line == before:
        return 0.0
    earlier, latest = _stat(before), _stat(line)
    if earlier.busy_user == 0:
        # KCL takes a user time of 0 for its own first call.
        return 0.0
    idle, total = abs(latest.idle - earlier.idle), abs(latest.total - earlier.total)
    if total < idle and latest.iowait < earlier.iowait:
        # The kernel's iowait counter may go down (see `man 5 proc_stat`).
        return 0.0
    return _java_divide(total - idle, total) * 100.0


def cgroup_limit(cpu_max: str, cpuset: str) -> float:
    """The cores of a cgroup of version 2: cpu.max holds `MAX PERIOD`. Where MAX is the word `max`, all CPUs of
    cpuset.cpus.effective count."""
    most, period = cpu_max.split()[:2]
    return float(cpus_in(cpuset)) if most == "max" else float(most) / int(period)


def cgroup_limit_v1(quota: int, period: int, cpuset: str) -> float:
    """The cores of a cgroup of version 1: cpu.cfs_quota_us divided by cpu.cfs_period_us. A quota of -1 means
    no limit: all CPUs of the set count."""
    return float(cpus_in(cpuset)) if quota == -1 else quota / period


def from_cgroup(used: float, wall: float, limit: float) -> float:
    """Utilisation on EKS: `used` CPU time within `wall` time (in the same unit), as a share of `limit` cores."""
    return _at_most_100(_java_divide(_java_divide(used, wall), limit) * 100.0)


@dataclass(frozen=True, slots=True)
class Usage:
    """The CPU time of one ECS container and of its whole host, in the same unit."""

    own: int
    system: int


def ecs_limit(mine: int | None, shares: Iterable[int], *, task: float | None, online: float) -> float:
    """The cores that a container may use: its share of the task's cores, or of all `online` cores if the task
    has no limit.

    `mine`: the CPU shares of this container; None if the task document doesn't list it. `shares`: those of
    all containers.
    """
    weight = _SHARES_IF_UNLISTED if mine is None else mine
    return _java_divide(weight, sum(shares)) * (online if task is None else task)


def from_ecs(before: Usage, usage: Usage, *, online: float, limit: float) -> float:
    """Utilisation on ECS. For a container's first sample, ECS reports a `before` of zeros."""
    if before.own == 0 and before.system == 0:
        return 0.0
    system = usage.system - before.system
    if system == 0:
        # KCL's rule where the host's counter didn't move.
        return 100.0
    return _at_most_100(_java_divide((usage.own - before.own) / system * online, limit) * 100.0)
