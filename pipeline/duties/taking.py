"""`coordination.mode: 2.x`: no leader gives leases out; each worker helps itself, as KCL 2.x's do.

    each tick           own leases are beaten, by the worker's tick (`heartbeat: lease`)
    every two durations scan -> whose counters stood still? -> take what is free, else steal from the most loaded

KCL's times at failoverTimeMillis = the lease duration: it renews every third of it, and our tick is shorter than that; it
takes every two of it, and so do we. A counter is judged between two scans, as there.

The shard sync is done by the worker that all find to be first when they shuffle the owners with the same dice.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from pipeline.core.change import applied, require_some
from pipeline.core.due import is_time
from pipeline.core.lease import Lease
from pipeline.core.sighting import Sighting, Sightings, expired, look
from pipeline.core.words import counted
from pipeline.duties.assignment import uninvited
from pipeline.duties.streams import of_our_form
from pipeline.kcl import leader
from pipeline.kcl.migration import ACTS_AS_2X
from pipeline.kcl.taker import NO_LIMIT, Observed, Pick, TakerRules, plan_take
from pipeline.kcl.writes import take
from pipeline.ports import Clock, Ids, LeaseStore, Tables, WorkerStore
from pipeline.settings import Settings
from pipeline.settings_choices import Mode

_DURATIONS = 2
_FIRST_SHUFFLE = timedelta(seconds=60)
_SHUFFLE = timedelta(seconds=300)
_NOW = 2**62
"""Nanoseconds: whatever moved at 0 stood still for ever."""


def out_of_step(settings: Settings, tables: Tables) -> str | None:
    """Why this worker mustn't touch who reads what: KCL's workers have agreed on the other way to share leases."""
    version = tables.client_version()
    if version is None or (version in ACTS_AS_2X) is (settings.coordination.mode is Mode.KCL_2):
        return None
    mode = Mode.KCL_2 if version in ACTS_AS_2X else Mode.OWN
    return (
        f"KCL's workers have agreed on CLIENT_VERSION_{version}, which goes with coordination.mode: {mode}, and the settings say "
        f"{settings.coordination.mode}; leases are left to them until the two agree, what is ours already is read on"
    )


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
        found = self.workers.get_many(sorted(owners - known))
        understood = {row.worker_id for row in found.workers if row.is_ours}
        # A row that isn't understood may be of ours.
        return (known & owners) | understood | {row.key for row in found.skipped}

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
            max_steals=self.settings.coordination.steal_at_most,
            priority=self.settings.coordination.very_old_first,
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


@dataclass(frozen=True, slots=True)
class ShuffleMemory:
    first: datetime | None = None
    last: datetime | None = None
    leader: str | None = None
    """None: nobody owned a lease, and everybody leads."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shuffle:
    """Who syncs the shards. KCL 2.x asks for the first time at once, then after a minute, then every five."""

    ours: frozenset[str]
    """The workers of this deployment."""
    leases: LeaseStore
    clock: Clock
    multi: bool = False

    def tick(self, memory: ShuffleMemory) -> tuple[ShuffleMemory, bool]:
        """What to remember, and whether this deployment leads."""
        now = self.clock.now()
        if _is_due(memory, now):
            # Rows of ended shards keep the name of whoever ended them until a leader clears them away: it may be gone.
            rows = of_our_form(self.leases.scan(), multi=self.multi).leases
            order = leader.order(row.owner for row in rows if not row.has_ended)
            memory = ShuffleMemory(memory.first or now, now, order[0] if order else None)
        return memory, memory.leader is None or memory.leader in self.ours


def _is_due(memory: ShuffleMemory, now: datetime) -> bool:
    if memory.last is None:
        return True
    wait = _FIRST_SHUFFLE if memory.last == memory.first else _SHUFFLE
    return not timedelta(0) <= now - memory.last < wait


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
