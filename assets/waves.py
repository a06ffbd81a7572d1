"""The loop of a run: wave after wave, until there is nothing left to do or its time is up.

Dagster's asset and `headrace consume` both run it; nothing in here knows Dagster.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime

from pipeline.duties.consume import Consumption
from pipeline.duties.wave import Landed, WaveReport
from pipeline.ports import Clock
from pipeline.settings import Settings

_BREATH = 1.0
"""Seconds between two waves of which the first brought nothing though the shard isn't at its tip."""
_RETRY = 2.0
"""Seconds between two tries for a shard that another run is reading."""
_TRIES = 10
"""For shards that nobody is reading and that can't be had: they were given away, or their parents come first. While
this run waits its worker starts no other, which may be the very one that has to come first."""


@dataclass(slots=True, kw_only=True)
class Run:
    consumption: Consumption
    settings: Settings
    clock: Clock
    pause: Callable[[float], None]
    on_wave: Callable[[WaveReport], None]
    is_stopping: Callable[[], bool]
    waiting: dict[str, str] = field(default_factory=dict)
    """In partition mode: shards that aren't done, with why."""
    _began: float = field(init=False)

    def __post_init__(self) -> None:
        self._began = self.clock.monotonic()

    def all_that_is_due(self) -> None:
        """Every wave plans anew: children and new leases are taken up, given-away ones are dropped."""
        news = self._began
        while True:
            began = self.clock.monotonic()
            report = self._wave(None)
            if report.rows or report.goes_on:
                news = self.clock.monotonic()
            if self._is_over() or self.clock.monotonic() - news >= self.settings.times.idle.total_seconds():
                return
            if not report.goes_on:
                self._pause_until(began + self.settings.wave.every.total_seconds())
            elif report.rows == 0:
                self.pause(_BREATH)

    def catch_up(self, keys: tuple[str, ...]) -> dict[str, str]:
        """Read each of these shards to its tip as of now, or its end. Returns those that couldn't be, with why.

        As long as records land it goes on, however long the backlog; without any, it waits for the linger time where
        another run is reading, and not for long where none is.
        """
        since = self.clock.now()
        self.waiting = dict.fromkeys(keys, "its tip wasn't reached")
        in_vain = 0
        while True:
            report = self._wave(tuple(self.waiting))
            for key in [key for key in self.waiting if self._is_done(key, report, since)]:
                del self.waiting[key]
            if not self.waiting:
                return {}
            self.waiting.update({p.lease_key: p.why for p in report.problems if p.lease_key in self.waiting})
            if report.rows:
                self._began = self.clock.monotonic()
            busy = {p.lease_key for p in report.problems if p.busy} & self.waiting.keys()
            in_vain = 0 if busy or report.goes_on else in_vain + 1
            if self._is_over() or in_vain >= _TRIES:
                for key in self.waiting:
                    self.consumption.claims.unwant(key)
                return self.waiting
            for key in sorted(busy):
                self.consumption.claims.want(key)
            if not report.goes_on:
                self.pause(_RETRY)

    def _is_done(self, key: str, report: WaveReport, since: datetime) -> bool:
        if key in self.consumption.failed or any(_is_current(each, key, since) for each in report.landed):
            return True
        row = self.consumption.leases.get(key)
        return row is not None and row.has_ended

    def _wave(self, keys: tuple[str, ...] | None) -> WaveReport:
        report = self.consumption.wave(keys)
        self.on_wave(report)
        return report

    def _is_over(self) -> bool:
        lingered = self.clock.monotonic() - self._began > self.settings.times.linger.total_seconds()
        return lingered or self.is_stopping()

    def _pause_until(self, moment: float) -> None:
        left = moment - self.clock.monotonic()
        if left > 0:
            self.pause(left)


def _is_current(landed: Landed, key: str, since: datetime) -> bool:
    """At the tip, or past what was the tip when the run began: a busy shard may never stand at its tip."""
    staged = landed.staged
    arrived = staged.last_arrival is not None and staged.last_arrival >= since
    return landed.lease_key == key and staged.error is None and (staged.at_tip or arrived)
