"""Reads an application's tables when a page asks for a picture, and keeps the last good one.

Without a page nothing is read: the tables are read by the request that finds a reading due, and requests that
come meanwhile get the picture before it. So ten open pages cost as much as one, and none costs nothing.
"""

from __future__ import annotations

import re
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from threading import Lock
from typing import Final

from headrace.pipeline.console.events import events_between
from headrace.pipeline.console.family import KnownFamily
from headrace.pipeline.console.pace import LookCost, next_look_after
from headrace.pipeline.console.people import states_that_move
from headrace.pipeline.console.picture import PictureFacts, picture_of
from headrace.pipeline.console.ports import LookedAtStreams, LookedAtTables, Peek, Peeked
from headrace.pipeline.console.stillness import Growth, RowStillness
from headrace.pipeline.console.values import Event, LagKind, Picture
from headrace.pipeline.core.leases.lease import Lease
from headrace.pipeline.errors import HeadraceError
from headrace.pipeline.inspect.balance import BEFORE_THE_FIRST_DASH
from headrace.pipeline.inspect.compare import observation_of
from headrace.pipeline.inspect.observation import TablesRead
from headrace.pipeline.ports.base import Clock
from headrace.pipeline.ports.usage import ProcessUsage

_COMPARED: Final = 150.0
"""Seconds between the two readings that are compared: longer than KCL's leader's lock is valid (120 s), and than a handover
may take (90 s)."""
_KEPT_EVERY: Final = 30.0
"""Seconds between the readings that are kept for comparing."""
_EVENTS: Final = 300


@dataclass(frozen=True, slots=True)
class FailedLook:
    """Why the newest reading of the tables failed, and since when readings fail."""

    since: datetime
    sentence: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """The answer to a page: the newest good picture, and why a later reading failed."""

    number: int
    """Counts the good looks."""
    picture: Picture | None
    leases: tuple[Lease, ...]
    events: tuple[Event, ...]
    trouble: FailedLook | None
    cost: LookCost
    again: timedelta
    """From the start of this look to the next."""


@dataclass(slots=True)
class ConsoleWatch:
    tables: LookedAtTables
    streams: LookedAtStreams
    clock: Clock
    spending: Callable[[], Callable[[], ProcessUsage]]
    """Begins to count what the console's clients ask, and gives the function that tells it."""
    peek: Peek | None = None
    every: timedelta = timedelta(seconds=10)
    cluster_by: re.Pattern[str] = field(default_factory=lambda: re.compile(BEFORE_THE_FIRST_DASH))
    cpu: Callable[[], float] = time.thread_time
    """CPU seconds of this thread so far."""
    _looking: Lock = field(default_factory=Lock)
    _kept: deque[tuple[float, TablesRead]] = field(default_factory=deque)
    _stillness: RowStillness = field(default_factory=RowStillness)
    _growth: Growth = field(default_factory=Growth)
    _family: KnownFamily = field(default_factory=KnownFamily)
    _events: deque[Event] = field(default_factory=lambda: deque(maxlen=_EVENTS))
    _last: TablesRead | None = None
    _due: float = 0.0
    _report: Report = field(init=False)

    def __post_init__(self) -> None:
        self._due = self.clock.monotonic()
        self._report = Report(
            number=0, picture=None, leases=(), events=(), trouble=None, cost=LookCost(0.0), again=self.every
        )

    def report(self, *, at_once: bool = False) -> Report:
        """The newest picture, after reading the tables again where that is due, or in any case with `at_once`. A
        request that comes while another one reads gets the picture before; the very first requests wait.
        """
        is_first = self._report.number == 0 and self._report.trouble is None
        # Ten open pages cost one look. Those that come while it is made get the picture before it,
        # at once.
        if not self._looking.acquire(blocking=is_first):
            return self._report
        try:
            if at_once or self.clock.monotonic() >= self._due:
                self._report = self._looked()
            return self._report
        finally:
            self._looking.release()

    def _looked(self) -> Report:
        began, cpu, spent = self.clock.monotonic(), self.cpu(), self.spending()
        try:
            report = self._look(began)
        except HeadraceError as error:
            before = self._report
            since = before.trouble.since if before.trouble else self.clock.now()
            report = replace(before, trouble=FailedLook(since, " ".join(str(error).split())))
        used = spent()
        cost = LookCost(
            cpu=self.cpu() - cpu,
            units=used.read_units,
            scans=used.of("dynamodb"),
            kinesis=used.of("kinesis"),
            provisioned=self.tables.provisioned(),
        )
        again = next_look_after(self.every, cost)
        self._due = began + again.total_seconds()
        return replace(report, cost=cost, again=again)

    def _look(self, now: float) -> Report:
        tables = self.tables.read()
        first = self._compared_with(now)
        watched = timedelta(seconds=0 if first is None else now - first[0])
        observation = (
            observation_of(tables, cluster_by=self.cluster_by)
            if first is None
            else observation_of(first[1], tables, watched=watched, cluster_by=self.cluster_by)
        )
        streams = self.streams(tables.leases)
        peeked = self.peek(observation.open_ones, streams, tables.read_at) if self.peek else Peeked()
        self._stillness.look(states_that_move(observation), now)
        seen = PictureFacts(
            observation=observation,
            place=self.tables.place,
            streams=streams,
            behind=peeked.behind,
            peek_trouble=peeked.trouble,
            stillness=self._stillness,
            growth=self._growth,
            family=self._family,
            monotonic=now,
        )
        picture = picture_of(seen)
        self._keep(now, tables, picture)
        return Report(
            number=self._report.number + 1,
            picture=picture,
            leases=tables.leases,
            events=tuple(self._events),
            trouble=None,
            cost=LookCost(0.0),
            again=self.every,
        )

    def _compared_with(self, now: float) -> tuple[float, TablesRead] | None:
        """The reading with which this one is compared: the newest that is old enough, else the oldest."""
        while len(self._kept) > 1 and now - self._kept[1][0] >= _COMPARED:
            self._kept.popleft()
        return self._kept[0] if self._kept else None

    def _keep(self, now: float, tables: TablesRead, picture: Picture) -> None:
        if self._last is not None:
            self._events.extend(events_between(self._last, tables))
        self._last = tables
        if not self._kept or now - self._kept[-1][0] >= _KEPT_EVERY:
            self._kept.append((now, tables))
        lags = {
            shard.kin.key: shard.lag.behind.total_seconds()
            for shard in picture.shards
            if shard.lag.behind is not None and shard.lag.kind is LagKind.MEASURED and shard.state != "ended"
        }
        self._growth.look(lags, now)
