"""What `headrace dev` says of sensors whose ticks fail again and again: the whole reason once, then a short line at
distances that grow, and a line once the sensor works again.

A sensor ticks each five seconds. Said each time, one reason, such as missing credentials, would push everything else out
of the terminal.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

from headrace.pipeline.cli.beside.reminders import Reminders
from headrace.pipeline.core.words.words import counted

_MOST_NAMED: Final = 5
_MOST_REASONS: Final = 100
"""Reasons that are remembered: they could be new each time."""
_VARYING: Final = re.compile(r"[0-9a-f]{8}-[0-9a-f-]{27}|\d+")
"""Ids of requests and numbers, which differ from try to try."""


@dataclass(slots=True)
class _Reason:
    reminders: Reminders
    sensors: set[str]
    ticks: int = 1


@dataclass(slots=True)
class _Failing:
    since: datetime
    has_ticked: bool = False
    """Whether another tick has begun since the last failure."""


@dataclass(slots=True)
class FailingSensors:
    """Each method returns the lines to print. Times are those of Dagster's log."""

    _reasons: dict[str, _Reason] = field(default_factory=dict)
    _sensors: dict[str, _Failing] = field(default_factory=dict)

    def failed(self, sensor: str, reason: str, more: Sequence[str], now: datetime) -> Iterator[str]:
        """`reason`: its first line; `more`: its further lines."""
        self.stays_failed(sensor, now)
        text = _VARYING.sub("#", "".join((reason, *more)))
        known = self._reasons.get(text)
        if known is None:
            if len(self._reasons) >= _MOST_REASONS:
                del self._reasons[next(iter(self._reasons))]
            self._reasons[text] = _Reason(Reminders(now), {sensor})
            yield f"headrace: the sensor {sensor} failed: {reason}\n"
            yield from more
            return
        known.ticks += 1
        if sensor not in known.sensors:
            yield f"headrace: the sensor {sensor} failed for the same reason as {min(known.sensors)}\n"
            known.sensors.add(sensor)
        elif known.reminders.is_due(now):
            names = ", ".join(sorted(known.sensors)[:_MOST_NAMED])
            if len(known.sensors) > _MOST_NAMED:
                names = f"{names}, ..."
            yield (
                f"headrace: still failing since {known.reminders.since:%Y-%m-%d %H:%M:%S %z}, by {counted(known.ticks, 'tick')} of {names}: "
                f"{reason.partition('. ')[0]}\n"
            )

    def stays_failed(self, sensor: str, now: datetime) -> None:
        """Called for each failure, also for one that is told in another way."""
        self._sensors.setdefault(sensor, _Failing(now)).has_ticked = False

    def ticks(self, sensor: str) -> Iterator[str]:
        """Called where a tick begins. The one before is over, and has failed only if that was told."""
        failing = self._sensors.get(sensor)
        if failing is None:
            return
        if not failing.has_ticked:
            failing.has_ticked = True
            return
        del self._sensors[sensor]
        for text, reason in list(self._reasons.items()):
            reason.sensors.discard(sensor)
            if not reason.sensors:
                del self._reasons[text]
        yield (
            f"headrace: the sensor {sensor} works again, after failures since {failing.since:%Y-%m-%d %H:%M:%S %z}\n"
        )
