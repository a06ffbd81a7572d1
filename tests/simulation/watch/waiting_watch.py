"""The judge of shards that wait (I50): a shard with an unread record is asked for it in time, and one with the claim of a dead run is claimed anew, where
a living worker holds its lease and no fault has disturbed that worker.

It knows nothing of how the product decides what is due: only the records that were put, who holds the row, when a wave last asked Kinesis for records
of the shard, and which faults a worker, its code server and its runs have met. Each of these begins the time anew:

    the record arrives     the run has died     the shard is read     the lease comes to its holder, and the parents have ended     a fault disturbs the holder

A run that has died counts as alive for `times.launch_grace` after its start, which a clock that is set back makes look later than it was. So after either
the bound is longer.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import TYPE_CHECKING

from headrace.pipeline.core.leases.lease import Lease
from headrace.pipeline.core.shards.stream import ShardKey
from headrace.pipeline.settings.model import TimeSettings
from tests.simulation.scheduler import Process
from tests.simulation.watch.truth import ShardTruth, Violation

if TYPE_CHECKING:
    from tests.simulation.machine import Host
    from tests.simulation.world import World

_TIMES = TimeSettings()
_EVERY = _TIMES.worker_tick.total_seconds()
_STARTS = 10.0
"""Seconds that a run takes from the tick that asks for it to its first wave: Dagster queues it, and starts its process."""
_AT_REST = (_TIMES.probe + 2 * _TIMES.worker_tick + _TIMES.lease_duration).total_seconds() + _STARTS
"""A probe finds the record at the latest a tick late, and the tick after it asks for a run. A claim that a run has left counts as dead once it has stood
still for the lease duration."""
_LEFT_ALONE = 600.0
"""For so long the product leaves a shard alone at most that fails again and again. A run that is at work then leaves it alone to its end."""
_GRACE = _TIMES.launch_grace.total_seconds()
"""For so long after its start a run counts as alive that Dagster hasn't seen die."""


class WaitingWatch:
    def __init__(self, world: World) -> None:
        self._world = world
        self._disturbed: dict[str, float] = {}
        """By worker: when a fault last disturbed it, its code server or a run of it."""
        self._graced: dict[str, float] = {}
        """By worker: when a process of it last died, or the clock of its host was set back."""
        self._processes: dict[Process, tuple[str, ...]] = {}
        """The processes that were at work at the last look, each with the workers that it works for."""
        self._readable: dict[str, tuple[str | None, float]] = {}
        """By lease key: the holder of a row that can be read, and since when both have been so."""

        self._set_elsewhere = 0
        """How often a person had set the lake table elsewhere at the last look: its shards wait for a person then."""
        self._failed: dict[str, float] = {}
        """By lease key: when a run last ended that had failed for the shard."""
        self._left: dict[str, tuple[str, float]] = {}
        """By lease key: the claim of a dead run that a readable row has, and since when it has been seen there."""

    def start(self) -> None:
        # What KCL's workers read of shards isn't known here, and before an adoption nobody reads.
        if not self._world.plan.foreign:
            self._world.sim.after(_EVERY, self._look)

    def note_failed(self, keys: Iterable[str]) -> None:
        """A run that has failed for these shards is over."""
        self._failed.update(dict.fromkeys(keys, self._world.sim.now))

    def note_death(self, *workers: str) -> None:
        """A process of these workers has died."""
        self.disturb(*workers)
        self._graced.update(dict.fromkeys(workers, self._world.sim.now))

    def note_set_back(self, host: Host) -> None:
        """The clock was set back by which code servers judge the runs of their workers."""
        of_host = (deployment for deployment in self._world.deployments if deployment.host is host)
        workers = (worker for deployment in of_host for worker in deployment.workers)
        self._graced.update(dict.fromkeys(workers, self._world.sim.now))

    def disturb(self, *workers: str) -> None:
        self._disturbed.update(dict.fromkeys(workers, self._world.sim.now))

    def _look(self) -> None:
        world = self._world
        world.sim.after(max(_EVERY, world.pace), self._look)
        self._note_processes()
        self._note_outages()
        living = self._living_workers()
        for shard in world.truth.shards.values():
            row = world.leases.rows.get(world.key_of(shard.key))
            if row is not None:
                self._look_at(shard, row, living)

    def _look_at(self, shard: ShardTruth, row: Lease, living: frozenset[str]) -> None:
        is_unread, left = shard.read < len(shard.sequences), self._claim_left_in(row)
        if not (is_unread or left) or not self._can_be_read(shard, row, living):
            self._readable.pop(row.key, None)
            self._left.pop(row.key, None)
            return
        if self._readable.get(row.key, (None, 0.0))[0] != row.holder:
            self._readable[row.key] = row.holder, self._world.sim.now
        if left is not None:
            self._judge_left(row, left)
        if is_unread:
            self._judge_unread(shard, row)

    def _claim_left_in(self, row: Lease) -> str | None:
        """The claim in the row, if its run is dead or over."""
        run = self._world.runs.get(row.run_claim or "")
        return None if run is None or run.is_at_work or row.has_ended else row.run_claim

    def _judge_left(self, row: Lease, claim: str) -> None:
        if self._left.get(row.key, ("", 0.0))[0] != claim:
            self._left[row.key] = claim, self._world.sim.now
        if late := self._late(row, self._left[row.key][1]):
            raise Violation(
                "I50",
                f"{row.key} of {row.holder} has had the claim of the dead run {claim} for {late:.0f} s",
                row.key,
            )

    def _judge_unread(self, shard: ShardTruth, row: Lease) -> None:
        oldest = self._oldest_unread(shard)
        if oldest is None:
            return
        arrived = (oldest - self._world.start_of_time).total_seconds()
        if late := self._late(row, max(arrived, self._world.losses.last_read.get(shard.key, 0.0))):
            raise Violation(
                "I50",
                f"a record of {row.key} from {oldest} is unread, {row.holder} holds its lease, and no wave has asked for it for {late:.0f} s",
                row.key,
            )

    def _late(self, row: Lease, since: float) -> float:
        """For how many seconds the row's worker might have done what is due since then; 0 as long as it is in time."""
        holder = row.holder or ""
        begins = max(since, self._readable[row.key][1], self._disturbed.get(holder, 0.0))
        waited = self._world.sim.now - begins
        return waited if waited > self._bound(holder) else 0.0

    def _bound(self, worker: str) -> float:
        plan = self._world.plan
        # A wave that is at work when the record comes, and the one after it.
        waves = plan.wave_every + 2.0 * (2.0 + 2.0 * plan.wave_takes)
        bound = _AT_REST + waves
        graced = self._graced.get(worker, -1e9)
        return bound + _GRACE if self._world.sim.now - graced < bound + _GRACE else bound

    def _oldest_unread(self, shard: ShardTruth) -> datetime | None:
        world = self._world
        first, now = world.truth.first(shard, world.table.origins.get(shard.key.stream)), world.clock.now()
        unread = shard.arrivals[max(first, shard.read) :]
        return next((at for at in unread if not world.losses.is_reported(shard, at, now)), None)

    def _can_be_read(self, shard: ShardTruth, row: Lease, living: frozenset[str]) -> bool:
        """Whether nothing but the shard's worker keeps it from being read."""
        world, stream = self._world, shard.key.stream
        is_known = world.truth.lives(stream) and stream in world.losses.decided
        is_held = row.stream_epoch == stream.epoch and row.holder in living and row.checkpoint_owner is None
        if not (is_known and is_held) or stream.name in world.truth.taken_out or world.source.denied:
            return False
        # A shard that fails is left alone for up to ten minutes, and one whose row is ahead of the table waits for a person.
        if row.failure is not None or world.leases.is_ahead(row) or self._has_just_failed(shard, row):
            return False
        if shard.token is not None and shard.token[0] is not None:
            return True
        # While listings may leave the shard out, its parents aren't known.
        is_listed = not (world.plan.mix.late_listing or world.plan.of_a_table)
        parents = [world.truth.shards[ShardKey(stream, name)] for name in shard.parents]
        return (
            is_listed
            and all(parent.ended for parent in parents)
            and not any(map(self._is_left_alone, parents))
        )

    def _is_left_alone(self, parent: ShardTruth) -> bool:
        """Whether the row of a parent that has landed to its end doesn't tell so yet, because the run that read it has failed since. The next wave
        of the parent writes it, and a shard that fails isn't asked for at once."""
        row = self._world.leases.rows.get(self._world.key_of(parent.key))
        return (
            row is not None
            and not row.has_ended
            and (row.failure is not None or self._has_just_failed(parent, row))
        )

    def _has_just_failed(self, shard: ShardTruth, row: Lease) -> bool:
        """Whether a run that failed as a whole has named the shard, and no wave has read it since. No row tells that."""
        failed = self._failed.get(row.key, -1e9)
        last_read = self._world.losses.last_read.get(shard.key, 0.0)
        return last_read <= failed and self._world.sim.now - failed < _LEFT_ALONE

    def _living_workers(self) -> frozenset[str]:
        world = self._world
        alive = {
            worker
            for deployment in world.deployments
            if deployment.is_up and any(host.alive for host in deployment.run_hosts)
            for worker in deployment.workers
        }
        stopping = {row.worker_id for row in world.workers.listing().workers if row.stopping}
        return frozenset(alive - stopping)

    # -- what disturbs a worker ----------------------------------------------------------------------------------------

    def _note_outages(self) -> None:
        world, now = self._world, self._world.sim.now
        is_down = any(until > now - _EVERY for until in world.call_faults.down.values())
        jumped = any(at > now - 2 * _EVERY for at, _ in world.jumps)
        happened = world.call_faults.happened
        set_elsewhere = happened["rolled_back"] + happened["rolled_forward"] + happened["repaired"]
        is_elsewhere, self._set_elsewhere = set_elsewhere != self._set_elsewhere, set_elsewhere
        if is_down or jumped or is_elsewhere or world.tables_missing or now < world.quiet_until:
            self.disturb(*(worker for deployment in world.deployments for worker in deployment.workers))

    def _note_processes(self) -> None:
        world = self._world
        servers = {d.server: d.workers for d in world.deployments if d.server is not None}
        at_work: dict[Process, tuple[str, ...]] = {}
        for process in (process for host in world.hosts for process in host.processes):
            workers = servers.get(process, (process.worker,) if process.worker else ())
            if workers:
                at_work[process] = workers
                self._note_faults(process, workers)
        new = [
            workers
            for process, workers in at_work.items()
            if process in servers and process not in self._processes
        ]
        dead = [
            workers
            for process, workers in self._processes.items()
            if process not in at_work and not process.alive
        ]
        for workers in (*new, *dead):
            self.note_death(*workers)
        self._processes = at_work

    def _note_faults(self, process: Process, workers: Iterable[str]) -> None:
        faults, now = self._world.call_faults, self._world.sim.now
        stands_until: Mapping[Process, float] = faults.hangs
        last = max(
            faults.met.get(process, -1e9),
            min(now, process.frozen_until),
            min(now, stands_until.get(process, -1e9)),
        )
        for worker in workers:
            self._disturbed[worker] = max(last, self._disturbed.get(worker, -1e9))
