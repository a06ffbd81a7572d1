"""Measures how busy the CPUs are that a Spark task runs on, by the system's counters of CPU time.

    ECS (its metadata address is in the environment)  -> percent of the container's share of its task
    a cgroup with a file of limits (any container)     -> percent of the cores that it may use; version 2, else 1
    any other Linux                                    -> percent of the whole machine, from /proc/stat

The formulas are KCL's (`headrace.pipeline.kcl.cpu`). KCL reads cgroups in Kubernetes only and /proc/stat on EC2
only, and measures nothing elsewhere. Here the first source that can be read is taken.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from typing import Any, Final, Protocol, TypeVar
from urllib.parse import urlsplit

from headrace.pipeline.kcl.cpu import (
    Usage,
    cgroup_limit,
    cgroup_limit_v1,
    ecs_limit,
    from_cgroup,
    from_ecs,
    from_proc_stat,
)

ECS_VARIABLE: Final = "ECS_CONTAINER_METADATA_URI_V4"
_US: Final = timedelta(microseconds=1)
_ANSWER_IN: Final = 1.0
"""Seconds. The address is on the same host, and a task must not wait long for a metadata service that hangs."""
_MOST_BYTES: Final = 1024 * 1024
"""The most bytes read of one metadata document; real ones have about 10 kB."""
UNREADABLE: Final = (
    OSError,
    HTTPException,
    ValueError,
    LookupError,
    TypeError,
    AttributeError,
    ZeroDivisionError,
)
"""Exceptions of a source whose files or documents are missing or have an unexpected form."""

T = TypeVar("T")


class CpuCounters(Protocol[T]):
    """Counters of CPU time that only grow. Two readings of them give a percentage."""

    def read(self) -> T: ...

    def percent(self, before: T, now: T, span: timedelta) -> float: ...


def find_source(root: Path, environ: Mapping[str, str]) -> CpuCounters[Any] | None:
    """The first source of CPU times that can be read; None where no source can. `root` is / except in tests."""
    ecs = environ.get(ECS_VARIABLE, "").rstrip("/")
    candidates: list[CpuCounters[Any]] = [Cgroup2(root), Cgroup1(root), ProcStat(root)]
    for source in [Ecs(ecs), *candidates] if ecs else candidates:
        try:
            source.read()
        except UNREADABLE:
            continue
        return source
    return None


@dataclass(frozen=True, slots=True)
class ProcStat:
    root: Path

    def read(self) -> str:
        with (self.root / "proc/stat").open(encoding="ascii") as lines:
            line = lines.readline()
        if not line.startswith("cpu "):
            raise ValueError("/proc/stat doesn't begin with the sum of all CPUs")
        return line

    def percent(self, before: str, now: str, span: timedelta) -> float:
        return from_proc_stat(before, now)


@dataclass(frozen=True, slots=True)
class Used:
    """A reading of a cgroup: CPU time used in microseconds, and the number of cores that it may use now."""

    us: float
    limit: float


@dataclass(frozen=True, slots=True)
class Cgroup2:
    root: Path

    def read(self) -> Used:
        folder = self.root / "sys/fs/cgroup"
        name, used = _text(folder / "cpu.stat").split()[:2]
        if name != "usage_usec":
            raise ValueError("cpu.stat doesn't begin with usage_usec")
        # The root cgroup has no cpu.max: on a machine without containers this source can't be read, and the next one is
        # tried.
        most = _text(folder / "cpu.max")
        cpuset = _text(folder / "cpuset.cpus.effective") if most.startswith("max") else ""
        return Used(int(used), cgroup_limit(most, cpuset))

    def percent(self, before: Used, now: Used, span: timedelta) -> float:
        return from_cgroup(now.us - before.us, span / _US, now.limit)


@dataclass(frozen=True, slots=True)
class Cgroup1:
    root: Path

    def read(self) -> Used:
        folder = self.root / "sys/fs/cgroup"
        quota = int(_text(folder / "cpu/cpu.cfs_quota_us"))
        period = int(_text(folder / "cpu/cpu.cfs_period_us"))
        cpuset = _text(folder / "cpuset/cpuset.effective_cpus") if quota == -1 else ""
        # Most systems mount the controllers cpu and cpuacct as one folder.
        together = folder / "cpu/cpuacct.usage"
        used = _text(together if together.exists() else folder / "cpuacct/cpuacct.usage")
        return Used(int(used) / 1000, cgroup_limit_v1(quota, period, cpuset))

    def percent(self, before: Used, now: Used, span: timedelta) -> float:
        return from_cgroup(now.us - before.us, span / _US, now.limit)


@dataclass(frozen=True, slots=True)
class Stats:
    """A reading of ECS's statistics of one container."""

    now: Usage
    earlier: Usage
    """Docker's previous reading, which is in the same document; all zero in the first document."""
    online: int


@dataclass(slots=True)
class Ecs:
    uri: str
    _limit: float | None = None
    """Number of cores that the container may use. An ECS task's limits don't change while it runs, so this is read
    once."""

    def read(self) -> Stats:
        stats = _document(f"{self.uri}/stats")
        now, online = _usage(stats["cpu_stats"]), int(stats["cpu_stats"]["online_cpus"])
        if self._limit is None:
            self._limit = self._ask_limit(online)
        return Stats(now, _usage(stats["precpu_stats"]), online)

    def percent(self, before: Stats, now: Stats, span: timedelta) -> float:
        # ECS's agent reads its containers now and then, and between two readings answers the same document twice.
        earlier = now.earlier if before.now == now.now else before.now
        return from_ecs(earlier, now.now, online=now.online, limit=self._limit or now.online)

    def _ask_limit(self, online: int) -> float:
        task, me = _document(f"{self.uri}/task"), _document(self.uri)["DockerId"]
        shares = {container["DockerId"]: int(container["Limits"]["CPU"]) for container in task["Containers"]}
        cores = task.get("Limits", {}).get("CPU")
        return ecs_limit(shares.get(me), shares.values(), task=cores, online=online)


def _usage(stats: Mapping[str, Any]) -> Usage:
    return Usage(int(stats["cpu_usage"]["total_usage"]), int(stats.get("system_cpu_usage", 0)))


def _document(uri: str) -> Any:
    """Fetch a JSON document with http.client, which ignores the environment's proxies: they can't reach this
    address."""
    address = urlsplit(uri)
    connection = HTTPConnection(address.hostname or "", address.port, timeout=_ANSWER_IN)
    try:
        connection.request("GET", address.path or "/")
        answer = connection.getresponse()
        if answer.status != 200:
            raise ValueError(f"{uri} answered {answer.status}")
        return json.loads(answer.read(_MOST_BYTES))
    finally:
        connection.close()


def _text(path: Path) -> str:
    return path.read_text(encoding="ascii")
