"""Examines an application's tables once: the rows of leases and workers, the leader's lock and the lake table.
Changes nothing.

Whether a worker reads its shards is judged by the inspector (`headrace.pipeline.inspect`), as in the console and
`headrace status`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path

from headrace.pipeline.app.wiring import Wiring
from headrace.pipeline.beside_kcl.following import followed
from headrace.pipeline.core.leases.election import LockRow
from headrace.pipeline.errors import HeadraceError
from headrace.pipeline.health.verdict import (
    HealthCheck,
    HealthCode,
    HealthVerdict,
    LeaderState,
    check_leader,
    check_shards,
    check_streams,
)
from headrace.pipeline.inspect.layout import LayoutFacts
from headrace.pipeline.inspect.observation import Observation
from headrace.pipeline.inspect.progress import progress_of
from headrace.pipeline.inspect.successive import SuccessiveLooks
from headrace.pipeline.settings.choices import Mode

_LOOK = 1.0
"""Seconds between two looks at the lock."""


@dataclass(slots=True, kw_only=True)
class Examining:
    wiring: Wiring
    most: timedelta
    """The longest lag that is well."""
    home: Path | None = None
    """The folder of the lake, if it is one on this host: a look doesn't make it."""
    _lock: LockRow | None = None
    """The lock as last seen."""
    _beat_at: float | None = None
    """When the lock was last seen to have changed, by the monotonic clock."""
    _looks: SuccessiveLooks = field(init=False)

    def __post_init__(self) -> None:
        settings = self.wiring.settings
        tables = LayoutFacts(lease_table=settings.lease_table, state_table=settings.state_table)
        self._looks = SuccessiveLooks(self.wiring.ports.clock, tables)

    def look(self, *, patient: bool) -> HealthVerdict:
        """Examine the leader, the shards and the lake table.

        `patient`: whether to wait for the leader's next beat, which takes a few seconds. Where this is called
        again and again, the beats of the call before are used instead.
        """
        checks = (*self._leader(patient=patient), *self._shards(), *self._lake_table())
        return HealthVerdict(self.wiring.settings.application, checks)

    def _leader(self, *, patient: bool) -> Iterator[HealthCheck]:
        ports = self.wiring.ports
        if followed(self.wiring.settings, ports.tables(), ports.clock).mode is Mode.KCL_2:
            return  # workers take leases for themselves, and the lock isn't used
        try:
            yield check_leader(self._state(patient=patient))
        except HeadraceError as error:
            yield HealthCheck("leader", HealthCode.UNKNOWN, str(error))

    def _state(self, *, patient: bool) -> LeaderState:
        clock, lock = self.wiring.ports.clock, self.wiring.ports.lock()
        row = lock.read()
        if row is None:
            self._lock = self._beat_at = None
            return LeaderState(None, beats=False)
        if self._lock is None or self._beat_at is None:
            # A lock that is seen for the first time may have stood still for hours: its next beat shows whether the leader lives.
            self._lock, self._beat_at = row, clock.monotonic()
        until = clock.monotonic() + row.duration.total_seconds()
        while patient and row == self._lock and clock.monotonic() < until:
            clock.pause(_LOOK)
            row = lock.read()
            if row is None:
                return LeaderState(None, beats=False)
        if row != self._lock:
            self._lock, self._beat_at = row, clock.monotonic()
            return LeaderState(row.owner, beats=True)
        still = clock.monotonic() - self._beat_at
        # By how long this process has seen the lock stand still: the lock has no time in it, and
        # stamps of other hosts are by their clocks.
        return LeaderState(row.owner, beats=still < row.duration.total_seconds())

    def _shards(self) -> Iterator[HealthCheck]:
        try:
            observation = self._observed()
        except HeadraceError as error:
            yield HealthCheck("shards", HealthCode.UNKNOWN, str(error))
        else:
            yield from check_shards(progress_of(observation), most=self.most)

    def _observed(self) -> Observation:
        """The rows of leases and workers, compared with those of the look before: what has moved between them is alive."""
        rows = self.wiring.leases().scan().leases
        return self._looks.observation(rows, self.wiring.ports.workers().listing().workers)

    def _lake_table(self) -> Iterator[HealthCheck]:
        table = self.wiring.settings.landing.table
        if self.home is not None and not self.home.exists():
            yield HealthCheck(
                "lake table",
                HealthCode.UNKNOWN,
                f"there is no folder {self.home} (landing.home), so that the lake table {table} isn't there. Nothing was made; the "
                "first tick of a new application makes its table",
            )
            return
        try:
            state = self.wiring.ports.table("health").load()
        except HeadraceError as error:
            yield HealthCheck("lake table", HealthCode.UNKNOWN, str(error))
        else:
            yield HealthCheck("lake table", HealthCode.WELL, f"{table} has its positions")
            yield from check_streams(state.positions, self.wiring.settings.stream_names)
