"""One run follows several typed tables: a wave of each target in turn, again and again, as long as records come.

A run for each wave of each target would cost more than the waves: a start of a process and of a Spark session, and a
row, an event log and an output in Dagster's storage. Dagster's job calls this module, which doesn't import Dagster.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta

from headrace.pipeline.errors import HeadraceError
from headrace.pipeline.ports.base import Clock
from headrace.pipeline.typed.done_wave import Wave
from headrace.pipeline.typed.wave import Parsing

EVERY = timedelta(seconds=30)
"""The least time between the starts of two waves of a target that has caught up."""
_IDLE = 4 * EVERY
"""A run ends when no target had anything to parse for this long. Longer than `times.idle`, because starting a run costs
more than the few looks in which nothing is found."""
# Every wave ends later than this, so that each call is one wave.
_ONE_WAVE = timedelta(0)


@dataclass(slots=True, kw_only=True)
class Following:
    parsings: Mapping[str, Parsing]
    """The parsing of each target, by the target's name."""
    clock: Clock
    on_wave: Callable[[str, Wave], None]
    """Called after each wave, with the target's name."""
    failed: dict[str, str] = field(default_factory=dict)
    """Targets that failed, each with the reason."""

    def follow(self, at_most: timedelta) -> None:
        """Do waves until a target fails, until no record has come for a while, or until the first round that ends
        after `at_most`.

        In the round in which a target fails, the others have their turn. Dagster shows the failure once the run
        has ended.
        """
        began = last_news = self.clock.monotonic()
        while True:
            round_began = self.clock.monotonic()
            waves = self._round()
            moment = self.clock.monotonic()
            if any(wave.snapshot is not None for wave in waves):
                last_news = moment
            is_over = moment - began > at_most.total_seconds() or moment - last_news >= _IDLE.total_seconds()
            if self.failed or is_over:
                return
            if all(wave.is_last for wave in waves):
                # From the start of the round: one that took long is followed by the next one at once.
                self.clock.pause(max(0.0, round_began + EVERY.total_seconds() - moment))

    def _round(self) -> list[Wave]:
        """A wave of each target. A target that is far behind has one wave a round, too, so that the others don't wait
        for it."""
        waves: list[Wave] = []
        for name, parsing in self.parsings.items():
            try:
                wave = next(parsing.waves(at_most=_ONE_WAVE))
            except HeadraceError as error:
                self.failed[name] = str(error)
            else:
                self.on_wave(name, wave)
                waves.append(wave)
        return waves
