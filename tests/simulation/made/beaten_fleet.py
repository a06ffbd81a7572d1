"""A fleet whose ticks come every fifteen seconds, beside KCL workers that take each lease which stands still for ten: `headrace beat` runs on each
host, and its judge (I46) looks at what it writes and at what it leaves.

The processes run the product's own duty with the settings of a joined fleet. The ticks go by the plan's settings, which join none: KCL's own way
of making rows is tried elsewhere.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from headrace.pipeline.app.wiring import Wiring
from headrace.pipeline.core.leases.change import Applied, Change, Refused
from headrace.pipeline.core.leases.lease import Lease
from headrace.pipeline.duties.fleet.beater import BeaterMemory
from headrace.pipeline.errors import HeadraceError
from headrace.pipeline.settings.choices import Beat
from headrace.pipeline.settings.model import BEATS_ALONE, Settings
from tests.simulation.hosts import Deployment
from tests.simulation.ports import Leases, ServiceCalls
from tests.simulation.process_ports import ProcessPorts
from tests.simulation.scheduler import Process
from tests.simulation.stretches import TICK
from tests.simulation.troubles.thief import Thief
from tests.simulation.watch.truth import Violation

if TYPE_CHECKING:
    from tests.simulation.world import World

PACE: Final = 15.0
"""Seconds between two ticks of a sensor."""
_FAILOVER: Final = timedelta(seconds=10)
_LOOKS: Final = 20.0
"""Seconds between two looks of a KCL worker: two failover times."""
_STARTS_AGAIN: Final = 1.0
_MOMENT: Final = 5.0
"""Seconds: a turn, with slow answers."""
_LONGEST_FREEZE: Final = 150.0


class BeatenFleet:
    def __init__(self, world: World) -> None:
        self.world = world
        self._turns: dict[str, list[float]] = {}
        """By worker: when a turn of its process ended well, since that process last met a fault."""
        self._seen: dict[str, tuple[str, int, int | None]] = {}
        """By key: holder, counter and the stream's life at KCL's last look."""

    def start(self) -> None:
        world = self.world
        if not world.plan.beats:
            return
        world.pace = PACE
        world.sim.at(world.plan.fault_seconds, self._end)
        for deployment in world.deployments:
            self._watch(deployment)
        world.sim.after(_LOOKS, self._look)

    def _end(self) -> None:
        self.world.pace = TICK

    # -- the processes -----------------------------------------------------------------------------------------------

    def _watch(self, deployment: Deployment) -> None:
        """Start the process anew whenever it has died, as `headrace dev` does."""
        world = self.world
        if not deployment.host.alive:
            world.sim.after(_STARTS_AGAIN, lambda: self._watch(deployment))
            return
        process = world.a_process(f"beat@{deployment.host.name}", deployment.host)
        began = world.sim.now

        def on_death() -> None:
            deployment.host.processes.pop(process, None)
            world.sim.after(_STARTS_AGAIN, lambda: self._watch(deployment))

        process.on_death = on_death
        wiring = Wiring(joined(deployment.settings), BeatPorts(world, process, began))
        for worker in deployment.workers:
            world.sim.spawn(process, partial(self._beat, process, wiring, worker))

    def _beat(self, process: Process, wiring: Wiring, worker: str) -> None:
        world, memory = self.world, BeaterMemory()
        due = world.sim.now
        while True:
            process.worker = worker
            try:
                report = wiring.beater(worker).turn(memory)
            except HeadraceError:
                self._turns.pop(worker, None)
            else:
                memory = report.memory
                is_silent = "silent" in report.sentence
                if is_silent or world.call_faults.met.get(process, -1e9) > world.sim.now - _MOMENT:
                    self._turns.pop(worker, None)
                else:
                    self._turns.setdefault(worker, []).append(world.sim.now)
            due = max(due + wiring.beater(worker).every.total_seconds(), world.sim.now)
            process.host.pause(due - world.sim.now)

    # -- KCL's workers -----------------------------------------------------------------------------------------------

    def _look(self) -> None:
        """What KCL's taker does: it takes a lease whose counter is the same as at its last look."""
        world, now = self.world, self.world.sim.now
        rows = {row.key: row for row in world.leases.rows.values() if row.holder and not row.has_ended}
        # Also by the stream's life: the row of a shard that was created again begins with the counter that the former row had.
        looks = {key: (row.holder or "", row.counter, row.stream_epoch) for key, row in rows.items()}
        still = [row for key, row in rows.items() if self._seen.get(key) == looks[key]]
        self._seen = looks
        for row in still:
            self._judge(row)
        if now < world.plan.fault_seconds:
            if still:
                Thief(world).steal(world.rng.choice(still).key)
            world.sim.after(_LOOKS, self._look)

    def _judge(self, row: Lease) -> None:
        world, now = self.world, self.world.sim.now
        turns = [at for at in self._turns.get(row.holder or "", ()) if at > now - _LOOKS + _MOMENT]
        is_steady = len(turns) >= 4 and not world.plan.mix.stale and not world.plan.mix.half_done
        if is_steady and row.run_claim is None and row.checkpoint_owner is None:
            raise Violation(
                "I46",
                f"{row.key} stood still for {_LOOKS:.0f} s, though `headrace beat` beat for {row.holder} {len(turns)} times",
                row.key,
            )


def joined(settings: Settings) -> Settings:
    kcl = replace(settings.kcl, failover=_FAILOVER, beat=Beat.PROCESS, allow_foreign_checkpoints=True)
    return replace(settings, kcl=kcl)


class BeatPorts(ProcessPorts):
    """`began`: when the process started."""

    def __init__(self, world: World, process: Process, began: float) -> None:
        super().__init__(world, process)
        self._judged = JudgedLeases(ServiceCalls(world, process), began)

    def leases(self) -> Any:
        return self._judged


class JudgedLeases(Leases):
    """The lease table as a process that beats reaches it."""

    def __init__(self, calls: ServiceCalls, began: float) -> None:
        super().__init__(calls)
        self._began = began

    def _arrive(self, change: Change, process: Process, **sending: Any) -> Applied | Refused:
        world, now = self._calls.world, self._calls.world.sim.now
        before = world.leases.rows.get(change.key)
        done = super()._arrive(change, process, **sending)
        if isinstance(done, Refused) or before is None:
            return done
        worker = change.why.split()[1]
        if before.holder != worker:
            raise Violation("I46", f"{process} beat for {change.key}, held by {before.holder}", change.key)
        if before.run_claim is not None and world.leases.is_at_work(before.run_claim):
            raise Violation(
                "I46", f"{process} beat for {change.key}, which {before.run_claim} reads", change.key
            )
        silence = world.workers.silence(worker, now)
        was_frozen = (
            process.frozen_until > now - _LONGEST_FREEZE
            or world.call_faults.met.get(process, -1e9) > now - 60
        )
        runs = [at for claim, at in world.workers.beaten.items() if at > now - silence]
        if (
            silence > BEATS_ALONE.total_seconds() + 2 * _MOMENT
            and not (was_frozen or runs)
            and self._began < now - silence
        ):
            raise Violation(
                "I46", f"{process} beat for {worker}, which had been silent for {silence:.0f} s", change.key
            )
        return done
