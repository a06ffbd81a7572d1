"""Calls the user's hooks for what has changed since this process last saw it, after each tick and each wave."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import timedelta
from functools import partial
from typing import Any

from headrace.pipeline.core.shards.partition import partition_of
from headrace.pipeline.duties.fleet.sensor_turn import LastTick, Turn
from headrace.pipeline.duties.fleet.worker_report import WorkerMemory, WorkerState
from headrace.pipeline.duties.waves.report import WaveReport
from headrace.pipeline.hooks.calls import HookCalls
from headrace.pipeline.hooks.code import code_named
from headrace.pipeline.ports.base import Clock
from headrace.pipeline.settings.model import Settings

OnWave = Callable[[WaveReport], None]
AT_THE_END = timedelta(seconds=5)
"""How long a run waits at its end for hooks that are still at work."""


class NoHooks:
    """Calls nothing, because the settings name no hooks."""

    def worked(self, worker_id: str, last_tick: LastTick[WorkerMemory], turn: Turn) -> Turn:
        return turn

    def led(self, turn: Turn, *, has_made_tables: bool) -> Turn:
        return turn

    @contextmanager
    def running(self, worker_id: str, on_wave: OnWave, tell: Callable[[str], object]) -> Iterator[OnWave]:
        yield on_wave


@dataclass(slots=True)
class CalledHooks:
    """Calls the user's hooks for what has changed since this object last saw it. After a restart of the process
    it has seen nothing yet: the first tick reports all leases that the worker holds, so no call is missing.
    """

    calls: HookCalls
    lease_table: str
    _states: dict[str, WorkerState] = field(default_factory=dict)
    _held: dict[str, frozenset[str]] = field(default_factory=dict)

    def worked(self, worker_id: str, last_tick: LastTick[WorkerMemory], turn: Turn) -> Turn:
        """Called after a tick of a worker's sensor. Returns the turn, with errors of hooks added."""
        # No state: the tick has failed, and saw neither the worker's row nor its leases.
        if turn.state is not None and last_tick.memory is not None:
            if turn.state is not self._states.get(worker_id):
                self._states[worker_id] = turn.state
                self.calls.call("on_worker_state", worker=worker_id, state=str(turn.state))
            before, held = self._held.get(worker_id, frozenset()), last_tick.memory.held
            for method, keys in (("on_lease_taken", held - before), ("on_lease_lost", before - held)):
                for key in sorted(keys):
                    self.calls.call(method, worker=worker_id, shard=partition_of(key))
            self._held[worker_id] = held
        return self._with_troubles(turn)

    def led(self, turn: Turn, *, has_made_tables: bool) -> Turn:
        """Called after a tick of the leader's sensor. Returns the turn, with errors of hooks added.
        `has_made_tables`: whether this tick has created the lease table.
        """
        if has_made_tables:
            self.calls.call("on_tables_created", lease_table=self.lease_table)
        return self._with_troubles(turn)

    @contextmanager
    def running(self, worker_id: str, on_wave: OnWave, tell: Callable[[str], object]) -> Iterator[OnWave]:
        """Within the `with` block, a run works for this worker. The block gets a function, to be called with the
        report of each wave.
        """

        def waved(report: WaveReport) -> None:
            on_wave(report)
            for end in report.ends:
                shard, children = partition_of(end.lease_key), list(end.children)
                self.calls.call("on_shard_ended", worker=worker_id, shard=shard, children=children)
            for trouble in self.calls.troubles():
                tell(trouble)

        try:
            yield waved
        finally:
            # The process ends with its run, and the thread of the hooks with the process.
            if not self.calls.settle(AT_THE_END):
                tell(
                    f"hooks are still at work {AT_THE_END.total_seconds():.0f} s after the run's end: they aren't waited for"
                )
            for trouble in self.calls.troubles():
                tell(trouble)

    def _with_troubles(self, turn: Turn) -> Turn:
        troubles = "; ".join(self.calls.troubles())
        if not troubles:
            return turn
        return replace(turn, sentence=f"{turn.sentence}; {troubles}", alarm=turn.alarm or troubles)


Hooks = NoHooks | CalledHooks


def hooks_of(settings: Settings, clock: Clock) -> Hooks:
    if (named := settings.hooks) is None:
        return NoHooks()
    make = partial(_made, named, settings.written.folder)
    return CalledHooks(HookCalls(make=make, monotonic=clock.monotonic), settings.lease_table)


def _made(named: str, folder: str) -> Any:
    return code_named(named, folder, setting="hooks")()
