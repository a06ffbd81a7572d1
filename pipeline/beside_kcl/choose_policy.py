"""Makes the policy that the settings ask for. Only this module turns the settings' modes into the parts of a policy.

    settings                       | who leads                | other workers  | lease rows  | how a worker gets leases
    -------------------------------+--------------------------+----------------+-------------+-------------------------
    neither of these two           | the holder of the lock   | KclNotJoined   | Headrace's  | the leader assigns them
    kcl.failover                   | the holder of the lock   | JoinedFleet    | KCL's       | the leader assigns them
    kcl.mode: 2.x                  | the first in the shuffle | KclNotJoined   | Headrace's  | it takes them itself
    kcl.mode: 2.x, kcl.failover    | the first in the shuffle | JoinedFleet    | KCL's       | it takes them itself
    kcl.mode: migrating            | as one of the four, by what the row `Migration3.0` says (`following.py`)

Runs keep claims from wave to wave only with the first of these, and then with `kcl.heartbeat: worker` and without
`kcl.allow_foreign_checkpoints`.

Where `kcl.failover` isn't set, KCL workers can still be started at any time, so `KclNotJoined` looks for them
at each tick.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from headrace.pipeline.beside_kcl.adoption_check import AdoptionCheck
from headrace.pipeline.beside_kcl.following import as_followed, followed
from headrace.pipeline.beside_kcl.join_3x import KCL_ROWS, JoinedWork
from headrace.pipeline.beside_kcl.kcl_workers import JoinedFleet, KclNotJoined
from headrace.pipeline.beside_kcl.kept_claims import KeepsUntilKclIsSeen, keeps_nothing
from headrace.pipeline.beside_kcl.land_foreign import TakeInForeign
from headrace.pipeline.beside_kcl.mode_2x import ElectedByShuffle, TakesLeases
from headrace.pipeline.beside_kcl.strategy import plan_moves_of
from headrace.pipeline.duties.policy.own_tables import LeasesBeat, WorkersBeat, alone, rules_of
from headrace.pipeline.duties.policy.policy import MayKeep, OtherWorkers, Policy, SignsOfLife
from headrace.pipeline.ports.base import Clock, Ids
from headrace.pipeline.ports.landing import LandingTable
from headrace.pipeline.ports.leases import LeaderLock, LeaseStore, Tables, WorkerStore
from headrace.pipeline.ports.reading import ShardSource
from headrace.pipeline.settings.choices import Heartbeat, Mode
from headrace.pipeline.settings.model import Settings


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyPorts:
    """The ports that the parts of a policy use."""

    leases: LeaseStore
    workers: WorkerStore
    lock: LeaderLock
    tables: Tables
    clock: Clock
    ids: Ids
    source: Callable[[], ShardSource]
    table: Callable[[], LandingTable]
    """Source and table are made at their first use, because few decisions need them."""


def policy_of(settings: Settings, ports: PolicyPorts) -> Policy:
    now = followed(settings, ports.tables, ports.clock)
    return _policy(as_followed(settings, now.mode), ports, now.settling)


def _policy(settings: Settings, ports: PolicyPorts, settling: str) -> Policy:
    """`settling`: why leases are neither assigned nor taken yet; empty where they may be."""
    life = _life(settings)
    helps_itself = settings.kcl.mode is Mode.KCL_2
    policy = replace(
        alone(settings, signs_of_life=life, leases=ports.leases, workers=ports.workers, lock=ports.lock),
        other_workers=_company(settings, ports),
        plan_moves=plan_moves_of(settings, rules_of(settings, life)),
        may_keep=_may_keep(settings, ports),
    )
    if settings.kcl.allow_foreign_checkpoints:
        policy = replace(policy, record_foreign_ranges=TakeInForeign(ports.leases).record_foreign_ranges)
    if settings.is_shared:
        work = JoinedWork(
            lock=ports.lock,
            workers=ports.workers,
            leases=ports.leases,
            times=settings.times,
            failover=settings.kcl.failover,
        )
        policy = replace(policy, rows=KCL_ROWS, own_leases=work)
    if settling:
        policy = replace(policy, why_not_assign=settling)
    # After the parts of a joined fleet, whose `own_leases` this mode replaces.
    if helps_itself:
        own_workers = frozenset(worker.id for worker in settings.workers)
        policy = replace(
            policy,
            election=ElectedByShuffle(own_workers=own_workers, leases=ports.leases, clock=ports.clock),
            plan_moves=None,
            own_leases=TakesLeases(
                leases=ports.leases,
                clock=ports.clock,
                ids=ports.ids,
                settings=settings,
                tables=ports.tables,
                workers=ports.workers,
                why_not=settling,
            ),
        )
    return policy


def _life(settings: Settings) -> SignsOfLife:
    match settings.kcl.heartbeat:
        case Heartbeat.WORKER:
            return WorkersBeat()
        case Heartbeat.LEASE:
            return LeasesBeat()


def _may_keep(settings: Settings, ports: PolicyPorts) -> MayKeep:
    """Whether runs keep claims. With settings that are meant for tables with KCL workers they keep none, also
    while no KCL worker is there."""
    kcl = settings.kcl
    expects_kcl = settings.is_shared or kcl.allow_foreign_checkpoints or kcl.mode is Mode.KCL_2
    if expects_kcl or kcl.heartbeat is Heartbeat.LEASE:
        return keeps_nothing
    return KeepsUntilKclIsSeen(ports.lock, ports.workers).may_keep


def _company(settings: Settings, ports: PolicyPorts) -> OtherWorkers:
    if settings.is_shared:
        adopted = AdoptionCheck(
            settings=settings, leases=ports.leases, source=ports.source, table=ports.table
        )
        return JoinedFleet(settings=settings, tables=ports.tables, workers=ports.workers, adopted=adopted)
    return KclNotJoined(
        times=settings.times,
        own_workers=frozenset(worker.id for worker in settings.workers),
        worker_rows=ports.workers if settings.kcl.mode is Mode.KCL_2 else None,
    )
