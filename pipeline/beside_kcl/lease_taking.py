"""How a worker takes leases in `kcl.mode: 2.x`. No leader assigns leases: each worker takes them for itself,
as in KCL 2.x.

    at each tick                    the worker's tick counts up its own leases (`heartbeat: lease`)
    every two lease durations       the worker scans all leases. It takes leases whose counters stood still, or
                                    else steals from the worker with the most leases

The lease duration takes the place of KCL's failoverTimeMillis. KCL renews every third of it, and a tick is
shorter than that. KCL takes leases every two of it, as here. As in KCL, a counter is compared between two
scans.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from headrace.pipeline.beside_kcl.kcl_workers import kcl_workers_among, why_kcl_not_joined, why_mode_differs
from headrace.pipeline.core.leases.change import require_some, rows_written
from headrace.pipeline.core.leases.due import is_time
from headrace.pipeline.core.leases.lease import Lease
from headrace.pipeline.core.leases.sighting import (
    Sighting,
    Sightings,
    after_look,
    expired,
    from_cursor,
    suspects_to_cursor,
    time_from_cursor,
    time_to_cursor,
)
from headrace.pipeline.core.words.words import counted
from headrace.pipeline.duties.policy.memory import PartMemory, from_json
from headrace.pipeline.kcl.taker import NO_LIMIT, Observed, Pick, TakerRules, plan_take
from headrace.pipeline.kcl.writes import take
from headrace.pipeline.ports.base import Clock, Ids
from headrace.pipeline.ports.leases import LeaseStore, Tables, WorkerStore
from headrace.pipeline.settings.model import Settings

# Lease durations between two scans. KCL's workers look for leases to take at the same interval.
_DURATIONS = 2
# The scan's place on the taker's time line, in nanoseconds. So far from 0 that a counter that changed at 0
# is very old.
_SCAN_AT_NS = 2**62


@dataclass(frozen=True, slots=True)
class TakingMemory:
    """What a tick remembers for the next one. If it is lost, the counters of all owned leases count as just
    changed, and leases are taken later."""

    last: datetime | None = None
    last_mono: float = 0.0
    """The time of the last scan by the host's monotonic clock."""
    leases: Sightings = field(default_factory=dict)
    headrace_workers: frozenset[str] = frozenset()
    """Lease holders that aren't KCL workers."""
    why_not: str = ""
    """Why no lease was taken; empty where one was, or where there was nothing to take."""

    def as_json(self, *, whole: bool) -> Any:
        """The part that fits into a cursor: the leases that stood still for the longest time. The others
        start anew, which only delays taking them."""
        if self.last is None or not whole:
            # Not whole: the cursor has no room for the keys of the leases that this worker holds. A process that starts
            # without this memory scans at its first tick, and finds them.
            return None
        return [time_to_cursor(self.last), self.last_mono, suspects_to_cursor(self.leases)]

    @classmethod
    def of(cls, memory: PartMemory) -> TakingMemory:
        return memory if isinstance(memory, cls) else from_json(cls._read, memory, cls())

    @classmethod
    def _read(cls, said: Any) -> TakingMemory:
        last, mono, leases = said
        return cls(time_from_cursor(last), float(mono), from_cursor(leases))


@dataclass(frozen=True, slots=True)
class TakingReport:
    memory: TakingMemory
    sentence: str = ""
    """Says what was taken, or why no lease may be taken. Empty: there was nothing to take."""
    taken: tuple[Lease, ...] = ()
    held: frozenset[str] | None = None
    """Keys of all leases that this worker holds now; None if this tick didn't scan."""

    def __str__(self) -> str:
        return self.sentence


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseTaking:
    me: str
    leases: LeaseStore
    clock: Clock
    ids: Ids
    settings: Settings
    tables: Tables
    workers: WorkerStore

    def tick(self, memory: TakingMemory) -> TakingReport:
        """Take leases, if a scan is due. The worker's tick calls this after it has counted up the counters of its
        own leases, and not while the worker is stopping.
        """
        now, mono = self.clock.now(), self.clock.monotonic()
        if not is_time(memory.last, now, every=self._period):
            return TakingReport(memory, memory.why_not)
        rows = {row.key: row for row in self._scan()}
        sightings = after_look(
            memory.leases,
            {key: _counter_of(row) for key, row in rows.items()},
            since=_since_last_scan(memory, now, mono),
            tick=self._period,
        )
        headrace_workers = self._headrace_workers(memory.headrace_workers, rows.values())
        if why := self._why_not(rows.values(), sightings, headrace_workers):
            held = self._held(rows.values())
            return TakingReport(TakingMemory(now, mono, sightings, headrace_workers, why), why, held=held)
        observed = {key: Observed(row, _moved_ns(row, sightings[key])) for key, row in rows.items()}
        pick = plan_take(observed, self.me, at_ns=_SCAN_AT_NS, rules=self._rules)
        taken = self._take([rows[key] for key in pick.keys(self.ids.dice)], pick)
        # A lease that was just taken counts as alive, though no beat of it was seen yet.
        sightings |= {row.key: Sighting(_counter_of(row), moved=True) for row in taken}
        held = self._held([*rows.values(), *taken])
        return TakingReport(
            TakingMemory(now, mono, sightings, headrace_workers), _sentence(taken, pick), taken, held
        )

    def _held(self, rows: Iterable[Lease]) -> frozenset[str]:
        return frozenset(row.key for row in rows if row.holder == self.me)

    def _headrace_workers(self, earlier: frozenset[str], rows: Iterable[Lease]) -> frozenset[str]:
        """The other lease holders that aren't KCL workers. `earlier`: those that an earlier scan found."""
        owners = {row.holder for row in rows if row.holder is not None} - {self.me}
        # The rows of workers that are known to be Headrace's needn't be read at each scan.
        if self.settings.is_shared or owners <= earlier:
            return earlier & owners
        return frozenset(owners) - kcl_workers_among(owners - earlier, self.workers)

    def _why_not(self, rows: Iterable[Lease], sightings: Sightings, headrace_workers: frozenset[str]) -> str:
        """Why no lease may be taken: KCL's workers share leases in the other mode, or KCL workers may be
        running though the settings join none."""
        if why := why_mode_differs(self.settings, self.tables):
            return why
        if self.settings.is_shared:
            return ""
        still = expired(sightings, self.settings.times.lease_duration)
        # A holder counts as running as long as one of its leases hasn't stood still for the lease duration.
        running = {row.holder for row in rows if row.holder is not None and row.key not in still}
        return why_kcl_not_joined(running - {self.me, *headrace_workers})

    @property
    def _period(self) -> timedelta:
        return _DURATIONS * self.settings.times.lease_duration

    @property
    def _rules(self) -> TakerRules:
        most = self.settings.assignment.max_leases
        return TakerRules(
            duration_ns=_ns(self.settings.times.lease_duration),
            max_leases=NO_LIMIT if most is None else most,
            max_steals=self.settings.kcl.steal_at_most,
            priority=self.settings.kcl.very_old_first,
        )

    def _scan(self) -> list[Lease]:
        return [row for row in self.leases.scan().leases if not row.has_ended]

    def _take(self, rows: Sequence[Lease], pick: Pick) -> tuple[Lease, ...]:
        """Takes the leases, and returns those that no other worker took first."""
        if pick.steals and rows:
            # The owners of these leases are alive and renew them, so the counters of the scan may be outdated by now.
            owners = {row.key: row.owner for row in rows}
            listed_now = self.leases.get_many(list(owners)).leases
            rows = [row for row in listed_now if row.owner == owners[row.key] and not row.has_ended]
        why = f"-> {self.me}: {pick.why}"
        takes = [take(row, self.me, f"{row.owner or 'unowned'} {why}", steals=pick.steals) for row in rows]
        return rows_written(require_some(self.leases.apply_all(takes)))


def _since_last_scan(memory: TakingMemory, now: datetime, mono: float) -> timedelta | None:
    """The time since the last scan, the smaller one of two clocks: the wall clock may have been set, and the
    monotonic clock starts again with each host."""
    if memory.last is None:
        return None
    return min(now - memory.last, timedelta(seconds=mono - memory.last_mono))


def _counter_of(row: Lease) -> str:
    """The row's counter. A row of another life of the stream has the same key, and soon the same counter again."""
    return str(row.counter) if row.stream_epoch is None else f"{row.counter} of {row.stream_epoch}"


def _moved_ns(row: Lease, sighting: Sighting) -> int:
    """When the counter last changed, for the taker. 0 for a lease that had no owner when it was first seen, and whose
    counter hasn't changed since."""
    return 0 if row.owner is None and not sighting.moved else _SCAN_AT_NS - _ns(sighting.credit)


def _ns(span: timedelta) -> int:
    return span // timedelta(microseconds=1) * 1000


def _sentence(taken: tuple[Lease, ...], pick: Pick) -> str:
    if not pick.count:
        return ""
    return f"took {counted(len(taken), 'lease')} of {pick.count} ({pick.why})"
