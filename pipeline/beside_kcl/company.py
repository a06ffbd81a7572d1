"""Workers of KCL's in the same tables: invited by the settings, or found by a lookout."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta

from pipeline.beside_kcl.adoption_check import AdoptionCheck, AdoptionMemory
from pipeline.core.lease import Lease
from pipeline.core.sighting import expired, living
from pipeline.core.worker import Worker, not_ours
from pipeline.duties.leader_watch import LeaderWatchMemory
from pipeline.duties.part_memory import PartMemory
from pipeline.duties.policy import AssignmentPaused, AssignmentView, MayAssign, Presence
from pipeline.kcl.migration import ACTS_AS_2X
from pipeline.ports import Listing, Tables, WorkerStore
from pipeline.settings.choices import Mode
from pipeline.settings.model import Settings, TimeSettings

KCL_SILENT = timedelta(seconds=60)
"""KCL's own rule for a worker's stamp: two of its reports, each 30 s apart, are missing."""


def patience_with(worker: Worker, times: TimeSettings) -> timedelta:
    return times.lease_duration if worker.is_ours else KCL_SILENT


def silent_guests(view: AssignmentView) -> frozenset[str]:
    """Workers of KCL's that let a lease stand still: their stamp may be a minute old, and they are dead all the same."""
    holders = {row.holder for row in view.rows if row.key in view.lost and row.holder is not None}
    return frozenset(holders) - view.fleet.ours


# --- nobody was invited -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Lookout:
    """The settings join no fleet. While workers of KCL's are at work here all the same, nothing is given out."""

    times: TimeSettings
    here: frozenset[str]
    """The workers of this deployment."""
    ask_of_holders: WorkerStore | None = None
    """Where no pass watches the leases: whoever holds one has to be known by a row."""

    def why_not_lead(self) -> str | None:
        return None

    def patience(self, worker: Worker) -> timedelta:
        return patience_with(worker, self.times)

    def judge(self, view: AssignmentView) -> MayAssign | AssignmentPaused:
        if strangers := self._strangers(view):
            return AssignmentPaused(uninvited(strangers), strangers)
        return MayAssign(view.fleet.ready, silent_guests(view))

    def others_read(self, strangers: frozenset[str], listing: Listing) -> bool:
        """A holder whose row isn't understood may be a worker of KCL's: a deletion waits."""
        if self.ask_of_holders is None:
            return bool(strangers)
        holders = {row.holder for row in listing.leases if row.holder is not None and not row.has_ended}
        asked = sorted(holders - self.here)
        known = self.ask_of_holders.get_many(asked).workers if asked else ()
        return bool(not_ours(asked, known))

    def presence(self, me: str, watch: LeaderWatchMemory, memory: PartMemory, now: datetime) -> Presence:
        """Without a beat a leader of KCL's soon gives this worker nothing; what it gave expires there."""
        if not watch.is_led_by_another(within=KCL_SILENT):
            return Presence()
        return Presence(
            f"worker {me}: a worker of KCL leads here, and the settings join no fleet: this one does nothing. Stop KCL's workers "
            "and adopt their application (`headrace adopt`), or set kcl.failover to live beside them"
        )

    def why_not_hold(self, row: Lease) -> str | None:
        return None

    def _strangers(self, view: AssignmentView) -> frozenset[str]:
        """Who renews leases, and is of KCL's kind by its row or by having none. A row that isn't understood may be of
        ours: then nobody counts as a stranger."""
        fleet = view.fleet
        if fleet.misread_rows:
            return frozenset()
        known = {row.worker_id for row in fleet.rows}
        without_row = expired(fleet.seen, 2 * self.times.worker_tick) - known  # ours would have made it anew
        kcls = (known - fleet.ours) | without_row
        moving = living(view.counters, self.times.lease_duration)
        return frozenset(
            row.holder
            for row in view.rows
            if row.holder is not None and row.holder in kcls and row.key in moving and row.run_claim is None
        )


def uninvited(strangers: Collection[str]) -> str:
    if not strangers:
        return ""
    return (
        f"workers of KCL renew leases here ({', '.join(sorted(strangers))}), and the settings join no fleet: nothing is given "
        "out or taken. Stop them and adopt their application (`headrace adopt`), or set kcl.failover to live "
        "beside them"
    )


# --- a fleet that the settings join -------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Guests:
    """Workers of KCL's count as workers: they are given leases, and their silence is judged by KCL's own rule."""

    settings: Settings
    tables: Tables
    workers: WorkerStore
    adopted: AdoptionCheck

    def why_not_lead(self) -> str | None:
        return out_of_step(self.settings, self.tables)

    def patience(self, worker: Worker) -> timedelta:
        return patience_with(worker, self.settings.times)

    def judge(self, view: AssignmentView) -> MayAssign:
        presumed_dead = silent_guests(view)
        return MayAssign(view.fleet.living - presumed_dead, presumed_dead)

    def others_read(self, strangers: frozenset[str], listing: Listing) -> bool:
        return False

    def presence(self, me: str, watch: LeaderWatchMemory, memory: PartMemory, now: datetime) -> Presence:
        """KCL's leader gives leases to whichever worker has a row that is renewed. A worker that may read nothing yet must
        have none, or the shards that it is given stand unread."""
        why, known = self.adopted.look(AdoptionMemory.of(memory), now)
        told = f"worker {me} may read nothing yet, and offers itself for no lease: {why}" if why else None
        return Presence(told, known)

    def why_not_hold(self, row: Lease) -> str | None:
        """KCL's workers don't claim what they read, so that nothing in the row would tell that they do."""
        if row.holder is None:
            return None
        found = self.workers.get(row.holder)
        if found is not None and found.is_ours:
            return None
        return f"{row.holder}, a worker of KCL's, holds {row.key}: stop it, or wait until a worker of ours has it"


def out_of_step(settings: Settings, tables: Tables) -> str | None:
    """Why this worker mustn't touch who reads what: KCL's workers have agreed on the other way to share leases."""
    version = tables.client_version()
    if version is None or (version in ACTS_AS_2X) is (settings.kcl.mode is Mode.KCL_2):
        return None
    mode = Mode.KCL_2 if version in ACTS_AS_2X else Mode.OWN
    return (
        f"KCL's workers have agreed on CLIENT_VERSION_{version}, which goes with kcl.mode: {mode}, and the settings say "
        f"{settings.kcl.mode}; leases are left to them until the two agree, what is ours already is read on"
    )


def strangers_among(names: Iterable[str], workers: WorkerStore) -> frozenset[str]:
    """A worker whose row isn't understood may be of ours: it keeps nobody from working."""
    asked = sorted(names)
    found = workers.get_many(asked)
    return not_ours(asked, found.workers) - {row.key for row in found.skipped}
