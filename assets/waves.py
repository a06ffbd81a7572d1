"""The loop of a run: wave after wave, until there is nothing left to do or its time is up.

Dagster's asset and `headrace consume` both run it; nothing in here knows Dagster.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

from pipeline.duties.consume import Consumption
from pipeline.duties.wave import WaveReport
from pipeline.ports import Clock
from pipeline.settings import Settings

_BREATH = 1.0
"""Seconds between two waves of which the first brought nothing though the shard isn't at its tip."""
_RETRY = 2.0
"""Seconds between two tries for a shard that another run is reading."""


@dataclass(slots=True, kw_only=True)
class Run:
    consumption: Consumption
    settings: Settings
    clock: Clock
    pause: Callable[[float], None]
    on_wave: Callable[[WaveReport], None]
    is_stopping: Callable[[], bool]
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
        """Read each of these shards once to its tip (or its end). Returns those that couldn't be, with why."""
        waiting = dict.fromkeys(keys, "no wave has looked at it yet")
        while True:
            report = self._wave(tuple(waiting))
            for key in waiting.copy():
                row = self.consumption.leases.get(key)
                if (
                    row is None
                    or row.has_ended
                    or key in self.consumption.failed
                    or _reached_tip(report, key)
                ):
                    del waiting[key]
            if not waiting:
                return {}
            waiting.update({p.lease_key: p.why for p in report.problems if p.lease_key in waiting})
            if self._is_over():
                return waiting
            for key in {p.lease_key for p in report.problems} & waiting.keys():
                self.consumption.claims.want(key)
            if not report.goes_on:
                self.pause(_RETRY)

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


def _reached_tip(report: WaveReport, key: str) -> bool:
    return any(
        each.lease_key == key and each.staged.error is None and each.staged.at_tip for each in report.landed
    )
