"""How busy the host of a Spark task was: one reading of its counters when a task begins, and one when it ends.

The counters only grow, so two readings cover all the time between them. The last reading stays in the Python worker,
which Spark keeps for a minute, so that the next task's measurement covers the pause between the two tasks, too. Without
the pause a host would look as busy as it is during a task, however rarely tasks run.
"""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

from headrace.pipeline.core.ledger.batch import HostLoad
from headrace.pipeline.kcl.cpu import is_sample
from headrace.pipeline.kcl.network import Traffic, rate, traffic
from headrace.pipeline.lake.staging.cpu_counters import UNREADABLE, CpuCounters, find_source

LEAST: Final = timedelta(seconds=2)
"""The shortest time that is measured. The time of a shorter task is added to the next task's measurement."""
MOST: Final = timedelta(seconds=60)
"""The longest time that is measured: an older reading says little about this wave."""
_INTERFACE: Final = "eth0"
"""The network interface that KCL measures, and that most containers have."""
_EVERYWHERE: Final = "00000000"
"""The destination 0.0.0.0 of the default route, as /proc/net/route writes it."""


@dataclass(frozen=True, slots=True)
class _Reading:
    at: float
    cpu: Any
    """The reading of the CPU counters; None if it failed."""
    traffic: Traffic | None


class Gauge:
    def __init__(
        self,
        host: str,
        source: CpuCounters[Any] | None,
        *,
        root: Path = Path("/"),
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._host = host
        self._source = source
        self._root = root
        self._monotonic = monotonic
        self._interface = _interface(root)
        self._last: _Reading | None = None

    def begin(self) -> None:
        """Called when a task begins: take a reading, unless the last one is recent enough to compare with."""
        if self._source is not None and (self._last is None or self._since(self._last) > MOST):
            self._last = self._read(self._source)

    def end(self) -> tuple[HostLoad, ...]:
        """Called when a task ends: returns the host's load since the last measurement; empty if too little time
        has passed or the counters can't be read.
        """
        before = self._last
        if self._source is None or before is None or self._since(before) < LEAST:
            return ()
        now = self._read(self._source)
        # A failed reading doesn't replace a good one: the next task measures from the good one on.
        if now.cpu is not None or before.cpu is None:
            self._last = now
        return (self._load(self._source, before, now, span=timedelta(seconds=now.at - before.at)),)

    def _since(self, last: _Reading) -> timedelta:
        return timedelta(seconds=self._monotonic() - last.at)

    def _read(self, source: CpuCounters[Any]) -> _Reading:
        cpu = None
        # Without a reading, the reported load has no percentage.
        with suppress(*UNREADABLE):
            cpu = source.read()
        return _Reading(self._monotonic(), cpu, self._traffic())

    def _traffic(self) -> Traffic | None:
        try:
            return traffic((self._root / "proc/net/dev").read_text(encoding="ascii"), self._interface)
        except (OSError, ValueError, IndexError):
            return None

    def _load(
        self, source: CpuCounters[Any], before: _Reading, now: _Reading, *, span: timedelta
    ) -> HostLoad:
        percent = None
        if before.cpu is not None and now.cpu is not None:
            # The text of /proc/stat is parsed only here, so a strange format shows here.
            with suppress(*UNREADABLE):
                measured = source.percent(before.cpu, now.cpu, span)
                percent = measured if is_sample(measured) else None
        received = sent = None
        if before.traffic is not None and now.traffic is not None:
            received = rate(before.traffic.received, now.traffic.received, span)
            sent = rate(before.traffic.sent, now.traffic.sent, span)
        return HostLoad(self._host, span, percent, received, sent)


@lru_cache(maxsize=1)
def host_gauge() -> Gauge:
    """This process's gauge. A Python worker of Spark runs its tasks one after the other, so they may share it."""
    return Gauge(socket.gethostname(), find_source(Path("/"), os.environ))


def _interface(root: Path) -> str:
    """The interface to measure: eth0, or the interface of the default route where there is no eth0."""
    try:
        lines = (root / "proc/net/route").read_text(encoding="ascii").splitlines()
    except OSError:
        return _INTERFACE
    routes = [line.split()[:2] for line in lines[1:]]
    names = {name for name, *_ in routes}
    by_default = [name for name, to in routes if to == _EVERYWHERE]
    return by_default[0] if by_default and _INTERFACE not in names else _INTERFACE
