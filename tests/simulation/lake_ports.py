"""The lake table and Spark as one process reaches them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import timedelta

from headrace.pipeline.core.landing.expiry_plan import History
from headrace.pipeline.core.landing.landing import Proposal
from headrace.pipeline.core.ledger.batch import Batch, BatchLimits, Manifest
from headrace.pipeline.core.ledger.live_files import LiveFiles
from headrace.pipeline.core.ledger.recording import Recorded
from headrace.pipeline.errors import Unreachable
from headrace.pipeline.ports.landing import Committed, TableState
from headrace.pipeline.ports.staging import OnWaiting, StagingSpec
from headrace.pipeline.upkeep.rewrite_plan import FileGroup, Replaced, Rewritten
from tests.simulation.ports import Port, ServiceCalls
from tests.simulation.scheduler import Killed
from tests.simulation.troubles.call_faults import LOAD
from tests.simulation.watch.file_watch import leave_behind
from tests.simulation.watch.truth import Violation


class Table(Port):
    """The lake table as one process reaches it."""

    service, name = "lake", "table"

    def __init__(self, calls: ServiceCalls) -> None:
        super().__init__(calls, calls.world.table)

    def exists(self) -> bool:
        return True

    def ensure(self, *, create: bool) -> None:
        """Nothing to do: the table always exists."""

    def load(self) -> TableState:
        state: TableState = self._calls.call(LOAD, "table.load", self._server.load)
        self._calls.process.loaded = self._calls.world.sim.now
        return state

    def staging_spec(self) -> StagingSpec:
        spec: StagingSpec = self._server.staging_spec()
        return spec

    def commit(self, proposal: Proposal) -> Committed:
        world, process = self._calls.world, self._calls.process
        if not process.alive:
            raise Killed
        world.sim.pause(0.005 + 0.05 * world.rng.random())
        if world.script is not None:
            world.script(process, "table.commit", (proposal,))
        if world.call_faults.occurs("frozen_at_commit"):
            world.call_faults.freeze(process, "table.commit", lambda: None)
        done: Committed = self._server.commit(proposal)
        world.sim.pause(0.005)
        world.kept.note_landed(process.claim, done.landing.page.ranges)
        world.tally.add_commit(process.claim, done)
        return done

    def retained(self) -> History:
        history: History = self._calls.call(LOAD, "table.retained", self._server.retained)
        return history

    def expire(self, history: History, snapshots: Sequence[int]) -> bool:
        self._require_nothing_claimed("expires snapshots")
        self._calls.world.sim.pause(0.05)
        done: bool = self._server.expire(history, snapshots)
        self._calls.world.tally.expired += len(snapshots) if done else 0
        return done

    def carry(self) -> TableState:
        self._calls.world.sim.pause(0.05)
        state: TableState = self._server.carry()
        return state

    def _require_nothing_claimed(self, what: str) -> None:
        claim = self._calls.process.claim
        for row in self._calls.world.leases.rows.values():
            if claim and row.run_claim == claim and (claim, row.key) not in self._calls.world.late_claims:
                raise Violation("I40", f"{claim} {what} while it holds {row.key}", row.key)


class Live(Port):
    """The lake table's data files as one process reaches them."""

    service, name = "lake", "live"

    def __init__(self, calls: ServiceCalls) -> None:
        super().__init__(calls, calls.world.live)

    def live(self) -> LiveFiles:
        found: LiveFiles = self._calls.call(LOAD, "live.live", self._server.live)
        return found

    def replace(self, rewritten: Sequence[Rewritten]) -> Replaced:
        if not self._calls.process.alive:
            raise Killed
        done: Replaced = self._server.replace(rewritten)
        self._calls.world.tally.compacted += len(done.done)
        return done


class Rewriting:
    """Spark writes files for a while, in which the fleet lands, and another engine may work on the table."""

    def __init__(self, calls: ServiceCalls) -> None:
        self._calls = calls

    def __call__(self, groups: Sequence[FileGroup]) -> tuple[Rewritten, ...]:
        calls, world = self._calls, self._calls.world
        if not calls.process.alive:
            raise Killed
        world.sim.pause(1.0 + 20.0 * world.rng.random())
        if world.script is not None:
            world.script(calls.process, "rewriter.rewrite", (groups,))
        if world.call_faults.occurs("hung"):
            world.call_faults.hang(calls.process, "rewriter", world.rng.choice((30.0, 130.0, 400.0)))
        return world.rewriter(groups)


class Lineage(Port):
    service, name = "lake", "lineage"

    def __init__(self, calls: ServiceCalls) -> None:
        super().__init__(calls, calls.world.lineage)

    def record(self, *, at_most: timedelta | None = None) -> Recorded:
        if not self._calls.process.alive:
            raise Killed
        self._calls.world.sim.pause(0.2 + self._calls.world.rng.random())
        recorded: Recorded = self._server.record(at_most=at_most)
        return recorded


class Stage:
    """The stage port of one run, whose Spark may have to start first. Reading takes time, sometimes far too long,
    and the stream may be recreated while a run reads. `consumer`: the one by which the run reads; None where it polls."""

    def __init__(self, calls: ServiceCalls, consumer: str | None = None) -> None:
        self._calls = calls
        self._is_open = False
        self._fan_out = None if consumer is None else _fan_out_stage(calls, consumer)

    def open(self, on_waiting: OnWaiting) -> None:
        calls, world = self._calls, self._calls.world
        if self._is_open:
            return
        if not calls.process.alive:
            raise Killed
        self._require_no_claim()
        if world.script is not None:
            world.script(calls.process, "stage.open", (on_waiting,))
        if world.call_faults.occurs("cold"):
            self._start(on_waiting)
        self._is_open = True

    def _require_no_claim(self) -> None:
        """The check of I41: a run claims no shard while its Spark starts."""
        claim = self._calls.process.claim
        for row in self._calls.world.leases.rows.values():
            if row.run_claim == claim:
                raise Violation("I41", f"{claim} holds {row.key} while its Spark starts", row.key)

    def _start(self, on_waiting: OnWaiting) -> None:
        """Spark starts late, sometimes later than a run without progress counts as hung, or doesn't start."""
        calls, world = self._calls, self._calls.world
        seconds, comes = world.rng.choice((15.0, 45.0, 130.0, 280.0)), world.rng.random() < 0.7
        how = f"Spark starts for {seconds:.0f} s{'' if comes else ' in vain'}"
        world.call_faults.note_fault(calls.process, "stage", how)
        until = world.sim.now + seconds
        while world.sim.now < until:
            world.sim.pause(min(10.0, until - world.sim.now))
            world.waiting.disturb(calls.process.worker)
            on_waiting("still waiting for Spark")
            self._require_no_claim()
        if not comes:
            raise Unreachable("Spark didn't start")

    def stage(self, batches: Sequence[Batch], spec: StagingSpec, limits: BatchLimits) -> Manifest:
        calls, world = self._calls, self._calls.world
        if not calls.process.alive:
            raise Killed
        self.open(lambda _: None)
        world.kept.judge_use(calls.process, batches)
        world.sim.pause(0.1 + world.rng.random() * (1.0 + 2.0 * world.plan.wave_takes))
        if world.script is not None:
            world.script(calls.process, "stage.read", (batches,))
        if world.call_faults.occurs("hung"):
            seconds = world.rng.choice((30.0, 130.0, 400.0, 1e6))
            world.call_faults.hang(calls.process, "stage", seconds)
        made = (
            self._polled(batches, spec, limits)
            if self._fan_out is None
            else self._fan_out(batches, spec, limits)
        )
        leave_behind(world, made)
        world.tally.staged_rows += sum(each.rows for each in made.staged)
        world.sim.pause(0.05 + 0.3 * world.rng.random())
        if world.script is not None:
            world.script(calls.process, "stage.staged", (made,))
        return made

    def _polled(self, batches: Sequence[Batch], spec: StagingSpec, limits: BatchLimits) -> Manifest:
        calls, world = self._calls, self._calls.world
        for batch in batches:
            world.count_read(batch.key)
        made = world.stage.stage(batches, spec, limits)
        world.losses.note_read(calls.process, made)
        return made


def _fan_out_stage(
    calls: ServiceCalls, consumer: str
) -> Callable[[Sequence[Batch], StagingSpec, BatchLimits], Manifest]:
    # Only here: few plans read by fan-out, and the reader brings botocore with it.
    from tests.simulation.fan_out.stage import FanOutStage

    return FanOutStage(calls.world, calls.process, consumer).stage
