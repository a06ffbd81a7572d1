"""The judge of kept claims (I36): a kept claim was read again before each use, no row is far behind the lake table, and a
handover, a waiting run or a stop is served within a wave and a tick."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from headrace.pipeline.core.leases.change import Change
from headrace.pipeline.core.leases.change_kind import ChangeKind
from headrace.pipeline.core.leases.lease import Lease
from headrace.pipeline.core.ledger.batch import Batch
from headrace.pipeline.core.ledger.ledger import Range
from headrace.pipeline.core.shards.stream import ShardKey
from headrace.pipeline.duties.waves.report import WaveStep
from headrace.pipeline.settings.model import TimeSettings
from tests.simulation.scheduler import Process
from tests.simulation.watch.truth import Violation, number_of

if TYPE_CHECKING:
    from tests.simulation.world import World

_TIMES = TimeSettings()
_TICK = _TIMES.worker_tick.total_seconds()
_BEHIND = _TIMES.checkpoint.total_seconds()
_SLACK = 3.0
"""Seconds. For calls, and the steps between a look and a use, where no call fails."""
_FAULTS = 120.0
"""Seconds by which faults may make a checkpoint later: writes that are throttled or lost are made again at the next look."""
_LAST_RELEASE = 20.0
"""Seconds before the end of a run in which a fault may have kept it from releasing its rows."""
_AT_ONCE = 100
"""Of more rows some are written earlier, so that not all are due at once."""
_Token = tuple[int | None, int, bool]


class KeptWatch:
    def __init__(self, world: World) -> None:
        self._world = world
        self._read: dict[tuple[str, str], float] = {}
        """By claim and lease key: when the run last read the row, or claimed it."""
        self._claimed: dict[tuple[str, str], float] = {}
        self._late: set[tuple[str, str]] = set()
        """By claim and lease key: claims of requests that arrived after the run had given them up."""
        self._landed: dict[tuple[str, str], _Token] = {}
        """How far the run knows that it has landed the shard. Cleared when its claim is removed."""
        self._told: dict[tuple[str, str], _Token] = {}
        """As `_landed`, also once another process has taken the row."""
        self._written: dict[tuple[str, str], float] = {}
        """By claim and lease key: when the run last wrote the row's checkpoint without giving the row up."""
        self._reached: dict[ShardKey, list[tuple[float, _Token]]] = {}
        """The table's positions, each with when it was committed."""
        self._at_rest: dict[str, float] = {}
        """By claim: since when no wave of the run holds claims for reading. Without an entry a wave is at work."""
        self._waves: dict[str, float] = {}
        """By claim: when the run's last wave ended."""
        self._strangers: dict[str, float] = {}
        """By claim: when the run read a row of its own that a KCL worker had taken."""

    # -- what happens ------------------------------------------------------------------------------------------

    def note_read(self, process: Process, rows: Iterable[Lease]) -> None:
        if not process.claim:
            return
        for row in rows:
            self._read[process.claim, row.key] = self._world.sim.now
            # KCL's workers leave the claim in a row that they take. Without it the run had given the row away before, and reads it
            # only because a shard that it reads is a child of the row's shard.
            if row.holder in self._world.thieves and row.run_claim == process.claim:
                self._strangers.setdefault(process.claim, self._world.sim.now)

    def note_step(self, process: Process, step: WaveStep) -> None:
        if step is WaveStep.CLAIMED:
            self._at_rest.pop(process.claim, None)
        elif step is WaveStep.RELEASED:
            self._at_rest[process.claim] = self._waves[process.claim] = self._world.sim.now

    def note_write(self, before: Lease, after: Lease, change: Change, by: Process) -> None:
        if change.kind is ChangeKind.CLAIM and by.claim:
            self._late.discard((by.claim, after.key))
            if self._world.sim.current is None:
                self._late.add((by.claim, after.key))
            self._read[by.claim, after.key] = self._claimed[by.claim, after.key] = self._world.sim.now
            self._landed.pop((by.claim, after.key), None)
        elif before.run_claim is not None and after.run_claim is None:
            if before.run_claim == by.claim and before.holder == by.worker:
                self._judge_exact(before, after, by)
            self._landed.pop((before.run_claim, after.key), None)
        if change.kind is ChangeKind.CHECKPOINT and after.run_claim == by.claim:
            self._judge_often(after, by)
        if change.kind in {ChangeKind.WANT, ChangeKind.INITIATE} and after.run_claim is not None:
            self._expect_service(after.key, after.run_claim)

    def note_stop(self, worker_id: str) -> None:
        for row in self._world.leases.rows.values():
            if row.holder == worker_id and row.run_claim is not None:
                self._expect_service(row.key, row.run_claim)

    def note_landed(self, claim: str, ranges: Iterable[Range]) -> None:
        """A run has the answer to its commit."""
        for each in ranges:
            if each.moves:
                which = claim, self._world.key_of(each.key)
                self._landed[which] = self._told[which] = each.upto.token

    def landed_by(self, claim: str, key: str) -> int:
        """The number up to which the run knows that it has landed the shard; -1 where it has landed nothing."""
        return number_of(self._told.get((claim, key)))

    def note_rollback(self) -> None:
        self._reached.clear()

    # -- the judge ---------------------------------------------------------------------------------------------

    def judge_use(self, process: Process, batches: Iterable[Batch]) -> None:
        """A wave begins to read these shards."""
        world, claim, now = self._world, process.claim, self._world.sim.now
        for batch in batches:
            key = world.key_of(batch.key)
            age = now - self._read.get((claim, key), now)
            if age > _SLACK and not self._is_disturbed(process, now - age):
                raise Violation("I36", f"{process} reads {key}, whose row it read {age:.1f} s ago", key)
            ended, claimed = self._waves.get(claim, 0.0), self._claimed.get((claim, key), now)
            if self._strangers.get(claim, now) < ended and claimed < ended:
                raise Violation(
                    "I36", f"{process} has kept {key} although a KCL worker has taken a lease from it", key
                )

    def judge_commit(self, each: Range) -> None:
        """A range of a run is committed: the row shows what had landed a minute before."""
        world, now = self._world, self._world.sim.now
        reached = self._reached.setdefault(each.key, [])
        row, run = world.leases.rows.get(world.key_of(each.key)), world.runs.get(each.claim)
        calm = _BEHIND + _SLACK
        is_calm = run is not None and not self._is_disturbed(run.process, now - calm)
        bound = calm if is_calm else _BEHIND + _FAULTS
        due = next((token for at, token in reversed(reached) if at <= now - bound), None)
        reached.append((now, each.upto.token))
        if due is None or row is None or row.run_claim != each.claim or run is None:
            return
        if self._is_disturbed(run.process, now - bound, faults=False):
            return
        if row.checkpoint.is_end or due[0] is None:
            return
        if not row.checkpoint.is_digits or int(row.checkpoint.sequence) < due[0]:
            raise Violation(
                "I36",
                f"{run.process} commits {each.key} up to {each.upto}, and the row still says {row.checkpoint}, though "
                f"{due[0]} landed more than {bound:.0f} s ago",
                row.key,
            )

    def _judge_often(self, after: Lease, by: Process) -> None:
        """A kept row is written once in `times.checkpoint`."""
        world, now, which = self._world, self._world.sim.now, (by.claim, after.key)
        written, self._written[which] = self._written.get(which, self._claimed.get(which, now)), now
        # A run that isn't to keep a claim writes the row in its wave, and the end of a shard is written at once.
        is_kept = self._claimed.get(which, now) < self._waves.get(by.claim, -1.0)
        keeps = world.plan.keeps_claims and world.plan.shards <= _AT_ONCE and not world.thieves
        if not keeps or not is_kept or after.checkpoint.is_end or world.sim.current is None:
            return
        if now - written < _BEHIND - 2 * _TICK - _SLACK and not self._is_disturbed(by, now - _BEHIND):
            raise Violation(
                "I36", f"{by} writes {after.key} {now - written:.1f} s after it had written it", after.key
            )

    def require_not_behind(self, each: Range) -> None:
        """I8: a run that keeps its claim notices by its own memory that the table was rolled back."""
        key = self._world.key_of(each.key)
        known = self._landed.get((each.claim, key))
        after = -1 if each.after is None else each.after.sequence or -1
        if known is not None and known[0] is not None and after < known[0]:
            raise Violation(
                "I8",
                f"{each.run} landed {key} again after {after}, though it had landed it up to {known[0]}",
                key,
            )

    def judge_end(self, process: Process) -> None:
        """A run is over: it has released all rows. It doesn't know of a claim whose request arrived after it gave that claim up. A row of an ended
        shard, whose release may have failed in an earlier wave, isn't read by any run."""
        claimed = [row for row in self._world.leases.rows.values() if row.run_claim == process.claim]
        rows = [row for row in claimed if not row.has_ended]
        left = sorted(row.key for row in rows if (process.claim, row.key) not in self._late)
        # A release that failed in an earlier wave is tried again by each wave.
        if process.claim and left and not self._is_disturbed(process, self._world.sim.now - _LAST_RELEASE):
            raise Violation("I36", f"{process} is over and has left its claim on {', '.join(left)}", left[0])

    def _judge_exact(self, before: Lease, after: Lease, by: Process) -> None:
        """A run that releases a row which it has kept brings the checkpoint up to all that it landed, in the same write."""
        key = after.key
        landed, world = self._landed.get((by.claim, key)), self._world
        # A claim that outlives its wave isn't kept where no claims are: its release had failed.
        keeps = world.plan.keeps_claims and by.claim not in self._strangers
        is_kept = keeps and self._claimed.get((by.claim, key), 0.0) < self._waves.get(by.claim, -1.0)
        # Where no claim is kept, a checkpoint that failed leaves the row behind, and the next wave repairs it.
        # At the end of a shard the row gets SHARD_END before its release, or the next wave writes it. A request that arrives late
        # releases a row that the run has used on.
        is_late = world.sim.current is None
        if landed is None or landed[0] is None or landed[2] or is_late:
            return
        if not is_kept and (world.call_faults.are_on or self._is_disturbed(by, world.sim.now - 60.0)):
            return
        if after.checkpoint.is_end or (
            after.checkpoint.is_digits and int(after.checkpoint.sequence) >= landed[0]
        ):
            return
        raise Violation(
            "I36",
            f"{by} released {key} at {after.checkpoint}, though it had landed it up to {landed[0]}",
            key,
        )

    def _expect_service(self, key: str, claim: str) -> None:
        """Look, one tick after the wave at work, whether the run has given the shard away."""
        world, asked = self._world, self._world.sim.now

        def look() -> None:
            now, row, run = world.sim.now, world.leases.rows.get(key), world.runs.get(claim)
            if row is None or row.run_claim != claim or run is None or not run.is_at_work:
                return
            if not self._is_asked(row) or self._is_disturbed(run.process, asked - 60.0):
                return
            since = max(asked, self._at_rest.get(claim, now))
            if now - since > _TICK + _SLACK:
                raise Violation(
                    "I36",
                    f"{claim} has kept {key} in a pause for {now - since:.1f} s, though {self._is_asked(row)}",
                    key,
                )
            world.sim.after(1.0, look)

        world.sim.after(1.0, look)

    def _is_asked(self, row: Lease) -> str:
        """Why the run has to give the row away; empty if it hasn't to."""
        world = self._world
        if row.checkpoint_owner is not None:
            return f"it is being handed over to {row.owner}"
        waiting = world.runs.get(row.wanted_by or "")
        if waiting is not None and waiting.is_at_work:
            return f"{row.wanted_by} waits for it"
        worker = world.workers.get(row.holder or "")
        return "its worker stops" if worker is not None and worker.stopping else ""

    def _is_disturbed(self, process: Process, since: float, *, faults: bool = True) -> bool:
        """Whether a fault since then may be the reason: the process's calls fail or are slow, or it stands still."""
        met = self._world.call_faults
        stands_still = max(process.frozen_until, met.hangs.get(process, -1.0)) >= since
        # A late or slow call ends up to a minute after it was counted.
        return stands_still or (faults and met.met.get(process, -1e9) >= since - 60.0)
