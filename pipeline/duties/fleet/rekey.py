"""`headrace rekey`: the lease rows get the form of the `streams_mode` in the settings.

    rows and positions -> plan -> nobody at work? -> make rows -> delete rows

Only lease rows are written. If the command is killed on the way, each shard still has a row, and the command goes
on when it is run again.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta

from headrace.pipeline.core.leases.change import Applied, Change
from headrace.pipeline.core.order.start_of_reading import Stop
from headrace.pipeline.core.sharing.rekey_plan import Rekey, RekeyScene, plan_rekey
from headrace.pipeline.core.words.words import counted
from headrace.pipeline.errors import BadSetting, HeadraceError, Transient
from headrace.pipeline.ports.landing import LandingTable
from headrace.pipeline.ports.leases import LeaderLock, LeaseStore, WorkerStore
from headrace.pipeline.settings.choices import FormerStreams
from headrace.pipeline.settings.model import Settings
from headrace.pipeline.settings.stream_names import name_in

_LOOK = timedelta(seconds=5)
"""The time between two looks for beats: as long as between two ticks of a worker."""

Signs = dict[str, object]
"""Who beats -> what changes with each beat."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rekeying:
    settings: Settings
    leases: LeaseStore
    """The rows of both forms."""
    workers: WorkerStore
    lock: LeaderLock
    table: LandingTable
    why_not: str | None = None
    """Why the rows may not be changed with these settings."""

    def plan(self, chosen: str | None = None) -> Rekey:
        """The writes that the command would make. `chosen`: the name of the stream to which rows without a name
        belong.
        """
        if self.why_not is not None:
            raise BadSetting(self.why_not)
        scene = RekeyScene(
            rows=self.leases.scan().leases,
            positions=self.table.load().positions,
            names=tuple(name_in(stream.name) for stream in self.settings.streams),
            reads_former=self.settings.former_streams is FormerStreams.KEEP,
            chosen=chosen,
        )
        plan = plan_rekey(scene, multi=self.settings.multi)
        if isinstance(plan, Stop):
            raise BadSetting(plan.why)
        return plan

    def require_alone(self, progress: Callable[[str], None], pause: Callable[[float], None]) -> None:
        """Watch the rows of workers and the leader for as long as a living one may be silent. Raises an error at
        the first beat of one that isn't stopping.
        """
        before = self._signs()
        patience = self._patience(before)
        waited = timedelta(0)
        while waited < patience:
            progress(
                f"watching whether a worker still reads these shards, {(patience - waited).total_seconds():.0f} s to go"
            )
            pause(_LOOK.total_seconds())
            waited += _LOOK
            now = self._signs()
            if alive := sorted(who for who, sign in now.items() if before.get(who) != sign):
                raise BadSetting(
                    f"{alive[0]} is at work. Nothing was changed. Stop all workers of this application first (`headrace stop`), KCL's workers, "
                    "too, and run the command again"
                )

    def carry_out(self, plan: Rekey) -> str:
        """Make the planned writes. Returns a sentence about them."""
        self._write(plan.creations)
        self._write(plan.deleted)
        return (
            f"{counted(len(plan.creations), 'lease row')} made, {counted(len(plan.deleted), 'lease row')} deleted: all rows have the form of "
            f"streams_mode: {self.settings.streams_mode}. Start the workers with these settings"
        )

    def _write(self, changes: tuple[Change, ...]) -> None:
        outcomes = self.leases.apply_all(changes)
        for change, outcome in zip(changes, outcomes, strict=True):
            if isinstance(outcome, HeadraceError):
                raise outcome
            if not isinstance(outcome, Applied) and not (change.deletes and outcome.row is None):
                raise Transient(
                    f"another process changed the lease row {change.key} at the same time. Each shard still has a row, and nothing of the lake "
                    "table was changed. Stop all workers of this application, and run the command again"
                )

    def _signs(self) -> Signs:
        """What shows that somebody is at work. A stopping worker reads nothing, though its sensor beats on."""
        rows = self.workers.listing().workers
        signs: Signs = {
            f"worker {row.worker_id}": (row.token, row.last_update) for row in rows if not row.stopping
        }
        for lease in self.leases.scan().leases:
            if lease.holder is not None:
                who = f"worker {lease.holder}"
                signs[who] = (signs.get(who), lease.counter)
        lock = self.lock.read()
        if lock is not None and not lock.released:
            signs[f"the leader {lock.owner}"] = lock.version
        return signs

    def _patience(self, signs: Signs) -> timedelta:
        if not signs:
            return timedelta(0)
        lock = self.lock.read()
        promised = timedelta(0) if lock is None else lock.duration
        return max(self.settings.times.lease_duration, promised)
