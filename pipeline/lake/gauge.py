"""What the host of a task was busy with: one reading as the task begins, one as it ends, nothing in between.

The counters only grow, so that two readings tell of all the time between them: nobody has to look every second. And the
last reading stays with the Python worker, which Spark keeps for a minute: the next task's answer covers the pause
between two waves too. Without it a worker would seem as busy as it is while it works, however seldom that is.
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

from pipeline.core.batch import HostLoad
from pipeline.kcl.cpu import is_sample
from pipeline.kcl.network import Traffic, rate, traffic
from pipeline.lake.cpu import UNREADABLE, Source, find_source

LEAST: Final = timedelta(seconds=2)
"""KCL's first report comes after two captures. A task that is shorter leaves its time to the next one's answer."""
MOST: Final = timedelta(seconds=60)
"""What lies further back says nothing of this wave."""
_INTERFACE: Final = "eth0"
"""KCL's, and that of most containers."""
_EVERYWHERE: Final = "00000000"
"""The destination of the default route."""


@dataclass(frozen=True, slots=True)
class _Reading:
    at: float
    cpu: Any
    """As its source has it; None: it couldn't be read."""
    traffic: Traffic | None


class Gauge:
    def __init__(
        self,
        host: str,
        source: Source[Any] | None,
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
        """Something to compare with, where the last reading is too old for that."""
        if self._source is not None and (self._last is None or self._since(self._last) > MOST):
            self._last = self._read(self._source)

    def end(self) -> tuple[HostLoad, ...]:
        """What came since the last answer; nothing of a host that can't be measured, or too early."""
        before = self._last
        if self._source is None or before is None or self._since(before) < LEAST:
            return ()
        now = self._read(self._source)
        if now.cpu is not None or before.cpu is None:
            self._last = now
        return (self._load(self._source, before, now, span=timedelta(seconds=now.at - before.at)),)

    def _since(self, last: _Reading) -> timedelta:
        return timedelta(seconds=self._monotonic() - last.at)

    def _read(self, source: Source[Any]) -> _Reading:
        cpu = None
        with suppress(*UNREADABLE):  # told by a load without percent
            cpu = source.read()
        return _Reading(self._monotonic(), cpu, self._traffic())

    def _traffic(self) -> Traffic | None:
        try:
            return traffic((self._root / "proc/net/dev").read_text(encoding="ascii"), self._interface)
        except (OSError, ValueError, IndexError):
            return None

    def _load(self, source: Source[Any], before: _Reading, now: _Reading, *, span: timedelta) -> HostLoad:
        percent = None
        if before.cpu is not None and now.cpu is not None:
            with suppress(*UNREADABLE):  # a first line of /proc/stat may be nonsense, too
                found = source.percent(before.cpu, now.cpu, span)
                percent = found if is_sample(found) else None
        received = sent = None
        if before.traffic is not None and now.traffic is not None:
            received = rate(before.traffic.received, now.traffic.received, span)
            sent = rate(before.traffic.sent, now.traffic.sent, span)
        return HostLoad(self._host, span, percent, received, sent)


@lru_cache(maxsize=1)
def host_gauge() -> Gauge:
    """Of this process: the tasks of one Python worker come one after the other."""
    return Gauge(socket.gethostname(), find_source(Path("/"), os.environ))


def _interface(root: Path) -> str:
    """eth0, or else the one that the default route takes."""
    try:
        lines = (root / "proc/net/route").read_text(encoding="ascii").splitlines()
    except OSError:
        return _INTERFACE
    routes = [line.split()[:2] for line in lines[1:]]
    names = {name for name, *_ in routes}
    by_default = [name for name, to in routes if to == _EVERYWHERE]
    return by_default[0] if by_default and _INTERFACE not in names else _INTERFACE
