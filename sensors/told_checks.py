"""Which evaluations of checks the sensor that watches the application writes to Dagster: an evaluation where a check has
changed, where a new run has changed its table, each hour while it fails, and each six hours.

A check that holds mustn't stay so in Dagster while nobody can look. After a few looks in a row that failed, each check
gets one evaluation which says so.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

import dagster as dg

from headrace.assets.checks import (
    UnknownChecks,
    check_key_of,
    check_specs,
    evaluation_of,
    evaluation_of_unknown,
)
from headrace.assets.planned import tell_check
from headrace.pipeline.checking.verdict import Verdict
from headrace.pipeline.ports.base import Clock
from headrace.pipeline.settings.model import Settings

FAILED_LOOKS = 3
"""Looks in a row that fail before the checks count as not known: a single one may fail by a slow answer."""
_FAILING_AGAIN = timedelta(hours=1)
_AGAIN = timedelta(hours=6)


@dataclass(frozen=True, slots=True)
class _Told:
    """What was told of a check."""

    holds: bool | None
    """None: it isn't known."""
    run: str | None
    """The run of the table's latest materialization."""
    at: float
    """By the monotonic clock."""

    def is_news(self, before: "_Told | None") -> bool:
        if before is None or (self.holds, self.run) != (before.holds, before.run):
            return True
        again = _AGAIN if self.holds else _FAILING_AGAIN
        return self.at - before.at >= again.total_seconds()


@dataclass(slots=True)
class ToldChecks:
    """What this process has told of the checks. Losing it costs a round of evaluations."""

    settings: Settings
    clock: Clock
    _told: dict[dg.AssetCheckKey, _Told] = field(default_factory=dict)
    _failed: int = 0
    """Looks in a row that failed."""
    _failed_since: datetime | None = None

    def looked(self, verdicts: Sequence[Verdict], instance: dg.DagsterInstance) -> None:
        """Tell what a look has shown, as far as it is news."""
        self._failed, self._failed_since = 0, None
        by_key = {check_key_of(self.settings, verdict): verdict for verdict in verdicts}
        for key, now in self._news({key: verdict.holds for key, verdict in by_key.items()}, instance):
            tell_check(instance, evaluation_of(self.settings, by_key[key]), now.run)
            self._told[key] = now

    def could_not_look(self, error: Exception, instance: dg.DagsterInstance) -> bool:
        """Note a look that failed. Returns whether the checks count as not known, in Dagster too."""
        self._failed += 1
        self._failed_since = self._failed_since or self.clock.now()
        if self._failed < FAILED_LOOKS:
            return False
        unknown = UnknownChecks(self._failed_since, str(error) or type(error).__name__)
        keys = [spec.key for spec in check_specs(self.settings)]
        for key, now in self._news(dict.fromkeys(keys), instance):
            tell_check(instance, evaluation_of_unknown(self.settings, key, unknown, instance), now.run)
            self._told[key] = now
        return True

    def _news(
        self, states: dict[dg.AssetCheckKey, bool | None], instance: dg.DagsterInstance
    ) -> Iterable[tuple[dg.AssetCheckKey, _Told]]:
        newest = instance.get_latest_materialization_events([key.asset_key for key in states])
        for key, holds in states.items():
            event = newest.get(key.asset_key)
            # Dagster calls a check evaluated only by the run of the asset's newest materialization.
            # While records flow there is a new one each minute, so the evaluation is written with
            # that run's id.
            now = _Told(holds, None if event is None else event.run_id, self.clock.monotonic())
            if now.is_news(self._told.get(key)):
                yield key, now
