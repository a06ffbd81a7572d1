"""`kcl.mode: 2.x`: no leader gives leases out; each worker helps itself, as KCL 2.x's do.

    each tick           own leases are beaten, by the worker's tick (`heartbeat: lease`)
    every two durations scan -> whose counters stood still? -> take what is free, else steal from the most loaded

KCL's times at failoverTimeMillis = the lease duration: it renews every third of it, and our tick is shorter than that; it
takes every two of it, and so do we. A counter is judged between two scans, as there.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from pipeline.beside_kcl.company import out_of_step, strangers_among, uninvited
from pipeline.core.change import applied, require_some
from pipeline.core.due import is_time
from pipeline.core.lease import Lease
from pipeline.core.sighting import (
    Sighting,
    Sightings,
    expired,
    from_cursor,
    look,
    suspects_to_cursor,
    time_from_cursor,
    time_to_cursor,
)
from pipeline.core.words import counted
from pipeline.duties.part_memory import PartMemory, from_json
from pipeline.duties.streams import of_our_form
from pipeline.kcl.taker import NO_LIMIT, Observed, Pick, TakerRules, plan_take
from pipeline.kcl.writes import take
from pipeline.ports import Clock, Ids, LeaseStore, Tables, WorkerStore
from pipeline.settings.model import Settings

_DURATIONS = 2
_NOW = 2**62
"""Nanoseconds: whatever moved at 0 stood still for ever."""


@dataclass(frozen=True, slots=True)
class TakingMemory:
    """What a tick remembers for the next one. Lost, all owned leases count as just seen to move: that costs time only."""

    last: datetime | None = None
    last_mono: float = 0.0
    """By the host's other clock, which nobody sets."""
    leases: Sightings = field(default_factory=dict)
    ours: frozenset[str] = frozenset()
    """Owners that were found to be no worker of KCL's."""
    why_not: str = ""
    """Why nothing was taken."""

    def as_json(self, *, whole: bool) -> Any:
        """What moved at the last scan begins anew when only this is left: nobody is condemned by that. Without the rows
        that the worker holds the next tick of another process has to scan at once: nothing is kept."""
        if self.last is None or not whole:
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
    """Empty: nothing was taken."""
    taken: tuple[Lease, ...] = ()
    mine: frozenset[str] | None = None
    """Keys of all that this worker holds now; None when it didn't look."""

    def __str__(self) -> str:
        return self.sentence


@dataclass(frozen=True, slots=True, kw_only=True)
class Taking:
    me: str
    leases: LeaseStore
    clock: Clock
    ids: Ids
    settings: Settings
    tables: Tables
    workers: WorkerStore

    def tick(self, memory: TakingMemory) -> TakingReport:
        """After the own leases were beaten. A worker that is stopping takes nothing: it doesn't come here."""
        now, mono = self.clock.now(), self.clock.monotonic()
        if not is_time(memory.last, now, every=self._period):
            return TakingReport(memory, memory.why_not)
        rows = {row.key: row for row in self._scan()}
        seen = look(
            memory.leases,
            {key: str(row.counter) for key, row in rows.items()},
            since=_between(memory, now, mono),
            tick=self._period,
        )
        ours = self._ours(memory.ours, rows.values())
        if why := self._why_not(rows.values(), seen, ours):
            return TakingReport(TakingMemory(now, mono, seen, ours, why), why, mine=self._held(rows.values()))
        observed = {key: Observed(row, _moved(row, seen[key])) for key, row in rows.items()}
        pick = plan_take(observed, self.me, at_ns=_NOW, rules=self._rules)
        taken = self._take([rows[key] for key in pick.keys(self.ids.dice)], pick)
        seen |= {row.key: Sighting(str(row.counter), moved=True) for row in taken}
        held = self._held([*rows.values(), *taken])
        return TakingReport(TakingMemory(now, mono, seen, ours), _sentence(taken, pick), taken, held)

    def _held(self, rows: Iterable[Lease]) -> frozenset[str]:
        return frozenset(row.key for row in rows if row.holder == self.me)

    def _ours(self, known: frozenset[str], rows: Iterable[Lease]) -> frozenset[str]:
        owners = {row.holder for row in rows if row.holder is not None} - {self.me}
        if self.settings.is_shared or owners <= known:
            return known & owners
        return frozenset(owners) - strangers_among(owners - known, self.workers)

    def _why_not(self, rows: Iterable[Lease], seen: Sightings, ours: frozenset[str]) -> str:
        """The fleet shares leases in the other way, or workers of KCL's may live that the settings don't share with."""
        if self.settings.is_shared:
            return out_of_step(self.settings, self.tables) or ""
        still = expired(seen, self.settings.times.lease_duration)
        others = {row.holder for row in rows if row.holder is not None and row.key not in still}
        return uninvited(others - {self.me, *ours})

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
        listing = of_our_form(self.leases.scan(), multi=self.settings.multi)
        return [row for row in listing.leases if not row.has_ended]

    def _take(self, rows: Sequence[Lease], pick: Pick) -> tuple[Lease, ...]:
        """Those at which nobody was first."""
        if pick.steals and rows:
            # Their owners beat: by now the counters may be others, and so may the owners.
            owners = {row.key: row.owner for row in rows}
            found = self.leases.get_many(list(owners)).leases
            rows = [now for now in found if now.owner == owners[now.key] and not now.has_ended]
        why = f"-> {self.me}: {pick.why}"
        takes = [take(row, self.me, f"{row.owner or 'unowned'} {why}") for row in rows]
        return applied(require_some(self.leases.apply_all(takes)))


def _between(memory: TakingMemory, now: datetime, mono: float) -> timedelta | None:
    """Since the last scan. The wall clock may have been set, the other one begins anew with each host: the less counts."""
    if memory.last is None:
        return None
    return min(now - memory.last, timedelta(seconds=mono - memory.last_mono))


def _moved(row: Lease, seen: Sighting) -> int:
    """As the taker counts: 0 for one that was unowned when first seen, and hasn't moved since."""
    return 0 if row.owner is None and not seen.moved else _NOW - _ns(seen.credit)


def _ns(span: timedelta) -> int:
    return span // timedelta(microseconds=1) * 1000


def _sentence(taken: tuple[Lease, ...], pick: Pick) -> str:
    if not pick.count:
        return ""
    return f"took {counted(len(taken), 'lease')} of {pick.count} ({pick.why})"
