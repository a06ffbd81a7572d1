"""CPU utilisation in percent, as KCL's workers report it, from what the platform's files and documents say."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from math import copysign, inf, nan

_NO_SHARES = 2
"""What a container weighs that its task doesn't list."""


def _over(dividend: float, divisor: float) -> float:
    """As Java divides: by zero, too. NaN and infinity are no percentage, so that such a sample counts as failed."""
    if divisor:
        return dividend / divisor
    return copysign(inf, dividend) if dividend else nan


def _at_most_100(percent: float) -> float:
    return percent if percent != percent else min(100.0, percent)  # noqa: PLR0124 - NaN stays NaN


def is_sample(percent: float) -> bool:
    """Whether a value may be kept; anything else counts as a failed capture."""
    return 0.0 <= percent <= 100.0


def cpus_in(cpuset: str) -> int:
    """The number of CPUs in a list such as `0-4,6,8-10`."""
    return sum(_group(text) for text in cpuset.strip().rstrip(",").split(","))


def _group(text: str) -> int:
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
    user, nice, system, idle, iowait = (int(text) for text in line.split()[1:6])
    return _Stat(user + nice, iowait, idle, user + nice + system + idle + iowait)


def from_proc_stat(before: str | None, line: str) -> float:
    """EC2: the first lines of /proc/stat at two moments; 0 at the first.

    Waiting for I/O counts as busy; interrupts and stolen time don't count at all.
    """
    if before is None or line == before:
        return 0.0
    was, now = _stat(before), _stat(line)
    if was.busy_user == 0:
        return 0.0  # KCL's sign of a first call
    idle, total = abs(now.idle - was.idle), abs(now.total - was.total)
    if total < idle and now.iowait < was.iowait:
        return 0.0  # the kernel's iowait may fall
    return _over(total - idle, total) * 100.0


def cgroup_limit(cpu_max: str, cpuset: str) -> float:
    """Version 2: cores by cpu.max (`MAX PERIOD`), or those of cpuset.cpus.effective where it says `max`."""
    most, period = cpu_max.split()[:2]
    return float(cpus_in(cpuset)) if most == "max" else float(most) / int(period)


def cgroup_limit_v1(quota: int, period: int, cpuset: str) -> float:
    """Version 1: cores by cpu.cfs_quota_us and cpu.cfs_period_us; a quota of -1 is none."""
    return float(cpus_in(cpuset)) if quota == -1 else quota / period


def from_cgroup(used: float, wall: float, limit: float) -> float:
    """EKS: CPU time used in a stretch of wall time (same unit), of so many cores."""
    return _at_most_100(_over(_over(used, wall), limit) * 100.0)


@dataclass(frozen=True, slots=True)
class Usage:
    """ECS's stats of one container: of itself and of the system, in the same unit."""

    own: int
    system: int


def ecs_limit(mine: int | None, shares: Iterable[int], *, task: float | None, online: float) -> float:
    """Cores that a container may use: its share of the task's, or of all where the task has no limit."""
    weight = _NO_SHARES if mine is None else mine
    return _over(weight, sum(shares)) * (online if task is None else task)


def from_ecs(before: Usage, now: Usage, *, online: float, limit: float) -> float:
    """ECS: `before` is all zero at a container's first sample."""
    if before.own == 0 and before.system == 0:
        return 0.0
    system = now.system - before.system
    if system == 0:
        return 100.0
    return _at_most_100(_over((now.own - before.own) / system * online, limit) * 100.0)
