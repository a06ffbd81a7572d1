"""How a deployment treats KCL workers in its tables: as part of its fleet, or, if the settings don't join
them, as a reason to stop."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta

from headrace.pipeline.beside_kcl.adoption_check import AdoptionCheck, AdoptionMemory
from headrace.pipeline.core.leases.lease import Lease
from headrace.pipeline.core.leases.sighting import expired, living
from headrace.pipeline.core.leases.worker import Worker, not_ours
from headrace.pipeline.duties.policy.leader_watch import LeaderWatchMemory
from headrace.pipeline.duties.policy.memory import PartMemory
from headrace.pipeline.duties.policy.policy import AssignmentPaused, AssignmentView, MayAssign, Presence
from headrace.pipeline.kcl.migration import ACTS_AS_2X
from headrace.pipeline.ports.leases import Listing, Tables, WorkerStore
from headrace.pipeline.settings.choices import Mode
from headrace.pipeline.settings.model import Settings, TimeSettings

KCL_SILENT = timedelta(seconds=60)
"""KCL's own rule: a worker isn't active any more once its row is older than two reports, which come every 30 s."""


def silence_allowed(worker: Worker, times: TimeSettings) -> timedelta:
    return times.lease_duration if worker.is_ours else KCL_SILENT


def silent_kcl_workers(view: AssignmentView) -> frozenset[str]:
    """KCL workers with a lease that stood still for the lease duration. They are dead, even if their rows are
    recent enough."""
    holders = {row.holder for row in view.rows if row.key in view.lost and row.holder is not None}
    return frozenset(holders) - view.fleet.ours


# --- the settings join no KCL workers -------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class KclNotJoined:
    """The judgement on other workers where the settings join no KCL workers. If KCL workers renew leases
    nevertheless, no lease is assigned or taken.
    """

    times: TimeSettings
    own_workers: frozenset[str]
    """The workers of this deployment."""
    worker_rows: WorkerStore | None = None
    """Set in mode 2.x, where no assignment pass watches the leases: then the rows of lease holders are looked up."""

    def why_not_lead(self) -> str | None:
        return None

    def patience(self, worker: Worker) -> timedelta:
        return silence_allowed(worker, self.times)

    def judge(self, view: AssignmentView) -> MayAssign | AssignmentPaused:
        if strangers := self._strangers(view):
            return AssignmentPaused(why_kcl_not_joined(strangers), strangers)
        return MayAssign(view.fleet.ready, silent_kcl_workers(view))

    def others_read(self, strangers: frozenset[str], listing: Listing) -> bool:
        """Whether a lease has a holder without a Headrace row, which may be a KCL worker even if its row isn't
        understood. Deletions then wait.
        """
        # An assignment pass has watched the leases, and tells which strangers renew some.
        if self.worker_rows is None:
            return bool(strangers)
        holders = {row.holder for row in listing.leases if row.holder is not None and not row.has_ended}
        outsiders = sorted(holders - self.own_workers)
        rows = self.worker_rows.get_many(outsiders).workers if outsiders else ()
        return bool(not_ours(outsiders, rows))

    def presence(self, me: str, watch: LeaderWatchMemory, memory: PartMemory, now: datetime) -> Presence:
        """Whether this worker beats: it doesn't while a KCL worker leads. Without a beat the KCL leader soon
        stops assigning leases to it, and leases that it assigned before expire and go to other workers.
        """
        if not watch.is_led_by_another(within=KCL_SILENT):
            return Presence()
        return Presence(
            f"worker {me} does nothing, because a KCL worker leads this application and kcl.failover isn't "
            "set. Stop KCL's workers and adopt their application (`headrace adopt`), "
            "or set kcl.failover to work beside them"
        )

    def why_not_hold(self, row: Lease) -> str | None:
        return None

    def _strangers(self, view: AssignmentView) -> frozenset[str]:
        """The KCL workers that renew leases: they have a row of KCL's, or no row."""
        fleet = view.fleet
        if fleet.misread_rows:
            # A worker row isn't understood. It may be a Headrace worker's, so no worker counts as unknown.
            return frozenset()
        known_ids = {row.worker_id for row in fleet.rows}
        # A Headrace worker makes its row again within a tick.
        without_row = expired(fleet.seen, 2 * self.times.worker_tick) - known_ids
        # A KCL 2.x worker has no row at all, and one of 3.x has a row without Headrace's beat.
        kcls = (known_ids - fleet.ours) | without_row
        moving = living(view.counters, self.times.lease_duration)
        return frozenset(
            row.holder
            for row in view.rows
            if row.holder is not None and row.holder in kcls and row.key in moving and row.run_claim is None
        )


def why_kcl_not_joined(strangers: Collection[str]) -> str:
    if not strangers:
        return ""
    return (
        f"KCL workers ({', '.join(sorted(strangers))}) renew leases of this application and kcl.failover "
        "isn't set, so no lease is assigned or taken. Stop KCL's workers and adopt their application "
        "(`headrace adopt`), or set kcl.failover to work beside them"
    )


# --- the settings join a fleet of KCL workers -------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinedFleet:
    """The judgement on other workers where KCL workers belong to the fleet: the leader assigns leases to them,
    and they count as dead by KCL's own rule.
    """

    settings: Settings
    tables: Tables
    workers: WorkerStore
    adopted: AdoptionCheck

    def why_not_lead(self) -> str | None:
        return why_mode_differs(self.settings, self.tables)

    def patience(self, worker: Worker) -> timedelta:
        return silence_allowed(worker, self.settings.times)

    def judge(self, view: AssignmentView) -> MayAssign:
        dead = silent_kcl_workers(view)
        return MayAssign(view.fleet.living - dead, dead)

    def others_read(self, strangers: frozenset[str], listing: Listing) -> bool:
        return False

    def presence(self, me: str, watch: LeaderWatchMemory, memory: PartMemory, now: datetime) -> Presence:
        """Whether this worker beats. KCL's leader assigns leases to each worker with a recent row. A worker that
        may not read yet must have no such row, or no worker would read the shards that it is assigned.
        """
        why, memory_after = self.adopted.look(AdoptionMemory.of(memory), now)
        why_not = f"worker {me} may not read yet, and so asks for no leases: {why}" if why else None
        return Presence(why_not, memory_after)

    def why_not_hold(self, row: Lease) -> str | None:
        """Why a command must not claim the lease of a KCL worker; None for other leases. KCL workers write no
        claim, so the row doesn't show whether the worker is reading.
        """
        if row.holder is None:
            return None
        holder = self.workers.get(row.holder)
        if holder is not None and holder.is_ours:
            return None
        return (
            f"the KCL worker {row.holder} holds {row.key}: stop that worker, or wait until a Headrace "
            "worker holds the lease"
        )


def why_mode_differs(settings: Settings, tables: Tables) -> str | None:
    """Why this worker must not assign or take leases: the row Migration3.0 says that KCL's workers share
    leases in the other mode. In modes 2.x and 3.x at once, leaders would assign leases while workers steal
    them."""
    version = tables.client_version()
    if version is None or (version in ACTS_AS_2X) is (settings.kcl.mode is Mode.KCL_2):
        return None
    mode = Mode.KCL_2 if version in ACTS_AS_2X else Mode.OWN
    return (
        f"KCL's workers are at CLIENT_VERSION_{version}, which needs kcl.mode: {mode} or migrating, "
        f"but kcl.mode is {settings.kcl.mode}. Until that is changed, Headrace neither assigns nor takes "
        "leases; it goes on reading those that it has"
    )


def why_not_handed_over(settings: Settings) -> str | None:
    """Why a user's code may not give a shard to another worker; None where it may."""
    return "beside KCL's workers the leader of the fleet alone assigns leases" if settings.is_shared else None


def why_not_rekey(settings: Settings) -> str | None:
    """Why no lease row may get another key: the settings share the lease table with KCL's workers."""
    if not settings.is_shared:
        return None
    return (
        "kcl.failover is set: KCL's workers go by the keys of the lease rows, and read all shards anew "
        "where these change. Nothing was changed. Stop KCL's workers, take the block `kcl` out of the "
        "settings, and run the command again"
    )


def kcl_workers_among(names: Iterable[str], workers: WorkerStore) -> frozenset[str]:
    """The workers of these names that are KCL's. A worker whose row isn't understood isn't counted: it may be
    a Headrace worker, which must not keep the others from working."""
    sorted_names = sorted(names)
    listing = workers.get_many(sorted_names)
    return not_ours(sorted_names, listing.workers) - {row.key for row in listing.skipped}
