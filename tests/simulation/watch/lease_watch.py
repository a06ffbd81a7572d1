"""The lease table and the judge of its writes: was the process that wrote a row allowed to (I2, I8, I9, I18-I20, I23, I25)?"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from headrace.pipeline.core.leases.change import Applied, Change, Refused
from headrace.pipeline.core.leases.change_kind import ChangeKind
from headrace.pipeline.core.leases.lease import Lease
from headrace.pipeline.core.ledger.ledger import Range
from headrace.pipeline.core.shards.checkpoint import Checkpoint
from headrace.pipeline.core.shards.stream import ShardKey
from headrace.pipeline.errors import TablesMissing
from headrace.pipeline.ports.leases import NO_ROWS, Listing
from tests.memory.leases import MemoryLeaseStore
from tests.simulation.scheduler import Process
from tests.simulation.troubles.to_and_fro import ToAndFro
from tests.simulation.watch.deleted_watch import judge_delete
from tests.simulation.watch.end_watch import judge_children
from tests.simulation.watch.lock_watch import judge_leads
from tests.simulation.watch.looked_watch import judge_looked, judge_tip
from tests.simulation.watch.silence_watch import (
    judge_beaten_since,
    judge_second_look,
    judge_silence,
    judge_taken,
)
from tests.simulation.watch.truth import ShardTruth, Violation, number_of
from tests.simulation.watch.turn_watch import judge_waiting

if TYPE_CHECKING:
    from tests.simulation.world import World


ODD = "somebody-elses"
"""The key of a row that Headrace doesn't understand."""
_FOR_A_WHILE = 30.0
"""Seconds. A run that has beaten steadily for so long can't have looked dead to any process."""
_IN_A_TICK = 10.0
"""Seconds in which a tick that met no fault has looked at the beats of runs, and written."""
_SEEN_BY = 20.0
"""Seconds by which each worker has seen what a person wrote into a row: at rest it reads its rows at every third tick."""


class WatchedLeases:
    """The lease table in memory. Each write is judged before its answer goes back."""

    def __init__(self, world: World) -> None:
        self._world = world
        self.store = MemoryLeaseStore()
        self._old: Mapping[str, Lease] = {}
        """An older state of the rows, which a stale read shows."""
        self.refused = 0
        self.moved = ("", "", -1e9)
        """The latest move of a lease to another owner: its key, the old holder, and when."""
        if world.plan.odd_rows:
            self.store.hold_odd_row(ODD, "its form is unknown")
        self.made: dict[str, float] = {}
        """When each row was created, by key."""
        self._to_and_fro = ToAndFro(world)
        self.scan_times: defaultdict[str, tuple[float, float]] = defaultdict(lambda: (0.0, 0.0))
        """By the name of a process, which the process that follows it has, too: when all lease rows were read the last time but one, and the
        last time."""
        self._counted: dict[str, float] = {}
        """By key: when the row's counter was last counted up."""
        self._handovers: dict[str, float] = {}
        """By key: when the row's handover to its present next owner was started."""
        self._ahead: dict[tuple[str, str], Checkpoint] = {}
        """By claim and key: the checkpoint of a claimed row that was ahead of the table, because the table was
        rolled back."""

    def note_scan(self, by: Process) -> None:
        earlier, last = self.scan_times[by.name]
        now = self._world.sim.now
        # A tick may read them more than once.
        self.scan_times[by.name] = (last if now - last > _IN_A_TICK else earlier), now

    @property
    def rows(self) -> dict[str, Lease]:
        return self.store._rows

    def keep_stale_copy(self) -> None:
        self._old = dict(self.rows)

    def get(self, key: str) -> Lease | None:
        self._require_table()
        return self.store.get(key)

    def get_many(self, keys: Sequence[str]) -> Listing:
        self._require_table()
        return self.store.get_many(keys)

    def scan(self) -> Listing:
        self._require_table()
        world = self._world
        if world.call_faults.occurs("stale"):
            world.note("dynamo", "a stale scan")
            return Listing(tuple(self._old.values()), self.store.scan().skipped)
        return self.store.scan()

    def held_by(self, worker_id: str, known: Mapping[str, Lease] = NO_ROWS) -> Listing:
        self._require_table()
        world = self._world
        if world.call_faults.occurs("stale"):
            world.note("dynamo", f"a stale index for {worker_id}")
            world.waiting.disturb(worker_id)
            return Listing(tuple(row for row in self._old.values() if row.owner == worker_id))
        return self.store.held_by(worker_id, known)

    def apply(
        self, change: Change, by: Process, *, looked: float | None = None, sent: float | None = None
    ) -> Applied | Refused:
        """`looked`: when the sending process had last read the worker rows. `sent`: when it sent the request. Both are passed in because the
        request may arrive late."""
        self._require_table()
        if change.key == ODD:
            raise Violation(
                "I23", f"{by} writes to a row that Headrace doesn't understand ({change.why})", ODD
            )
        before = self.rows.get(change.key)
        done = self.store.apply(change)
        self._world.tally.writes += 1
        if isinstance(done, Refused):
            self.refused += 1
            self._judge_refusal(done.row, change, by)
            self._world.note(by.name, f"{change.key}: refused ({change.why}), found {_short(done.row)}")
            return done
        after = self.rows.get(change.key)
        if after is not before:
            self._world.note(by.name, _Written(change, after))
            looked = by.looked_at_workers if looked is None else looked
            self._judge(before, after, change, by, looked, self._world.sim.now if sent is None else sent)
        elif after is not None and any(getattr(after, name) != value for name, value in change.put.items()):
            raise Violation(
                "I2",
                f"{by} takes its write on {change.key} for applied; the row is claimed by {after.run_claim}",
                change.key,
            )
        return done

    def _require_table(self) -> None:
        if self._world.tables_missing:
            raise TablesMissing("the lease table doesn't exist")

    # -- the judge ---------------------------------------------------------------------------------------------

    def _judge(
        self,
        before: Lease | None,
        after: Lease | None,
        change: Change,
        by: Process,
        looked: float,
        sent: float,
    ) -> None:
        if after is None:
            if before is not None:
                judge_delete(self._world, before, by)
            return
        if before is not None and change.kind is ChangeKind.REPLACE:
            judge_delete(self._world, before, by)
            before = None
        if before is None:
            self.made[after.key] = self._world.sim.now
            self._judge_position(after, by)
            return
        judge_leads(self._world, change, by)
        self._judge_write(before, after, change, by, looked, sent)
        if after.counter != before.counter:
            self._counted[after.key] = self._world.sim.now

    def _judge_write(
        self, before: Lease, after: Lease, change: Change, by: Process, looked: float, sent: float
    ) -> None:
        self._world.kept.note_write(before, after, change, by)
        if after.checkpoint != before.checkpoint:
            self._judge_checkpoint(before, after, by)
        if after.run_claim != before.run_claim:
            self._judge_claim(before, after, change, by)
        if after.owner != before.owner or after.checkpoint_owner != before.checkpoint_owner:
            self._judge_move(before, after, change, by, looked, sent)
        if change.kind is ChangeKind.WANT:
            self._world.call_listeners(before, after, change, by)
        if after.counter < before.counter:
            raise Violation("I18", f"{by}: the counter of {after.key} went back", after.key)

    def _judge_refusal(self, found: Lease | None, change: Change, by: Process) -> None:
        """I27: the checkpoint of a run whose claim still stands isn't refused because of a beat in between (D1)."""
        if found is None or not by.claim or "checkpoint" not in change.put:
            return
        mine = found.run_claim == by.claim and found.holder == by.worker
        if mine and found.checkpoint == change.requires.get("checkpoint"):
            raise Violation("I27", f"{by} holds {change.key}, but its checkpoint is refused", change.key)

    def _judge_checkpoint(self, before: Lease, after: Lease, by: Process) -> None:
        key = after.key
        if before.run_claim is None or before.run_claim != by.claim:
            raise Violation("I2", f"{by} ({by.claim}) checkpointed {key}, claimed by {before.run_claim}", key)
        if before.holder != by.worker:
            raise Violation("I2", f"{by} checkpointed {key}, held by {before.holder}", key)
        if after.checkpoint < before.checkpoint:
            raise Violation(
                "I9", f"{by}: {key} went back from {before.checkpoint} to {after.checkpoint}", key
            )
        self._judge_position(after, by)
        if after.has_ended:
            judge_children(self._world, self._shard(after), after, by)

    def _judge_position(self, row: Lease, by: Process) -> None:
        """I8: a row's checkpoint is never ahead of the table, unless the table was rolled back."""
        shard = self._shard(row)
        token = shard.token if shard else None
        if shard is not None and shard.was is not None and not _is_beyond(row.checkpoint, shard.was):
            return  # the table was rolled back, and the row stands where the table stood before
        if _is_beyond(row.checkpoint, token) and not (row.checkpoint.is_end and self._counts_as_ended(shard)):
            raise Violation(
                "I8", f"{by}: the row {row.key} stands at {row.checkpoint}, the table at {token}", row.key
            )

    def _counts_as_ended(self, shard: ShardTruth | None) -> bool:
        """Whether the shard was never read and a descendant has a position. The judge of that landing made sure that nothing
        of the shard was to be read."""
        truth = self._world.truth
        return shard is not None and shard.token is None and truth.is_passed(shard, truth.placed())

    def shard(self, row: Lease | None) -> ShardTruth | None:
        return None if row is None else self._shard(row)

    def _shard(self, row: Lease) -> ShardTruth | None:
        stream = self._world.truth.stream_of(row)
        return None if stream is None else self._world.truth.shards.get(ShardKey(stream, row.shard_id))

    def is_ahead(self, row: Lease) -> bool:
        """Whether the row is ahead of the table, because the table was rolled back."""
        shard = self._shard(row)
        if shard is None or not self._world.truth.lives(shard.key.stream):
            return False
        said = (row.checkpoint, row.landed) if row.landed is not None else (row.checkpoint,)
        beyond = [each for each in said if _is_beyond(each, shard.token)]
        return bool(beyond) and not (all(each.is_end for each in beyond) and self._counts_as_ended(shard))

    def require_turn(self, key: str, *, asked: float, by: str) -> None:
        """I27: a sensor asks for no run of a shard whose parent is still being read. `asked`: when the sensor's
        tick began."""
        row = self.rows.get(key)
        if row is None or row.looked_at is not None or row.landed is not None:
            return
        if asked < self.made.get(key, asked):
            return  # a person has repositioned the row, and a worker at rest goes by the row as it was
        parents = [self.rows[each] for each in row.parent_keys if each in self.rows]
        open_ones = [p for p in parents if not p.has_ended and p.stream_epoch == row.stream_epoch]
        first = [parent.key for parent in open_ones if self.made.get(parent.key, asked) < asked]
        if first:
            raise Violation(
                "I27", f"{by} asks for a run of {key}, though its parent {first[0]} is unread", key
            )

    def forget_ahead(self, key: str) -> None:
        """Forget that the row was ahead of the table: a person has repositioned it. A shard that had ended may be open again."""
        self.made[key] = self._world.sim.now + _SEEN_BY
        self._ahead = {which: at for which, at in self._ahead.items() if which[1] != key}

    def require_not_ahead(self, landed: Range) -> None:
        """A run that claimed a row ahead of the table stops that shard; it doesn't read the shard again from the
        table's position."""
        at = self._ahead.get((landed.claim, self._world.key_of(landed.key)))
        if at is not None and _is_beyond(at, landed.after.token if landed.after else None):
            raise Violation(
                "I8",
                f"{landed.run} landed {landed.key} again, though the row's checkpoint {at} shows that the table was rolled back",
                landed.key.shard_id,
            )

    def _judge_claim(self, before: Lease, after: Lease, change: Change, by: Process) -> None:
        key, world = after.key, self._world
        if after.run_claim is None:
            its = world.runs.get(
                before.run_claim or ""
            )  # a late request may be of the process's previous claim
            if (
                by.worker
                and before.holder == after.holder
                and before.run_claim != by.claim
                and (its is None or its.process is not by)
            ):
                raise Violation("I2", f"{by} ({by.claim}) released {key}, claimed by {before.run_claim}", key)
            if change.put.get("behind_ms") == 0 and world.sim.current is not None:
                judge_tip(world, self._shard(after), before, by=by)
            if "looked_at" in change.put:
                judge_looked(self._world, self._shard(after), after, change, by=by)
            return
        if after.run_claim != by.claim:
            raise Violation("I2", f"{by} claimed {key} for {after.run_claim}", key)
        if before.holder != by.worker or before.owner != by.worker:
            raise Violation("I2", f"{by} claimed {key}, held by {before.holder} for {before.owner}", key)
        if before.checkpoint_owner is not None:
            raise Violation("I2", f"{by} claimed {key} during its handover to {before.owner}", key)
        self._judge_busy(before, by)
        judge_waiting(self._world, before, by)
        if self.is_ahead(after):
            self._ahead[by.claim, key] = after.landed or after.checkpoint
        else:
            self._ahead.pop((by.claim, key), None)
        world.call_listeners(before, after, change, by)

    def _judge_busy(self, before: Lease, by: Process) -> None:
        """I25: no process replaces the claim of a run that is alive, beats, and is alive for Dagster too."""
        claim = before.run_claim or ""
        if claim != by.claim and self.is_at_work(claim):
            silent = self._world.sim.now - self._world.workers.beaten[claim]
            raise Violation(
                "I25", f"{by} took {before.key} from {claim}, which beat {silent:.1f} s ago", before.key
            )

    def is_at_work(self, claim: str) -> bool:
        """Whether the run with this claim is alive by its beat, for Dagster, and in truth. A run that was frozen in
        the last five minutes doesn't count: another process may rightly have taken it for dead."""
        run, now = self._world.runs.get(claim), self._world.sim.now
        if run is None or not run.process.alive or not run.is_alive_for_dagster:
            return False
        return (
            run.process.frozen_until < now - 300.0
            and now - self._world.workers.beaten.get(claim, -1e9) < 10.0
        )

    def _judge_move(
        self, before: Lease, after: Lease, change: Change, by: Process, looked: float, sent: float
    ) -> None:
        key = after.key
        if before.holder != after.holder and after.counter <= before.counter:
            raise Violation(
                "I18", f"{by}: {key} went from {before.holder} to {after.holder}, but its counter stayed", key
            )
        taken = before.owner != after.owner and before.holder is not None and after.owner is not None
        if taken and after.checkpoint_owner is None:
            seen = {row.key: row for row in by.scans.leases} if by.scans else {}
            read = seen.get(key)
            if read is not None and before.counter not in {read.counter, change.requires.get("counter")}:
                raise Violation(
                    "I18",
                    f"{by} took {key} at counter {before.counter}, but had seen counter {read.counter}",
                    key,
                )
        handover = after.checkpoint_owner, after.owner
        if after.checkpoint_owner is not None and (before.checkpoint_owner, before.owner) != handover:
            # A handover that goes to another worker has its own time.
            self._handovers[key] = self._world.sim.now
        elif before.run_claim not in {None, by.claim} and change.kind is not ChangeKind.ASSIGN:
            self._judge_early_handover(before, after, by)
        if after.owner is None and change.why != f"{before.holder} stops":
            raise Violation("I2", f"{by} gave up {key} of {before.holder} ({change.why})", key)
        is_completed = before.checkpoint_owner is not None and after.checkpoint_owner is None
        if is_completed and before.holder != after.holder and after.run_claim is not None:
            raise Violation(
                "I21",
                f"{by} hands {key} over, and leaves {before.holder}'s claim {after.run_claim} in it",
                key,
            )
        if taken:
            self.moved = (key, before.holder or "", self._world.sim.now)
        judge_taken(self._world, before, change, by, moved=self._counted.get(key, 0.0))
        is_taken_over = change.kind is ChangeKind.ASSIGN and before.holder is not None
        if is_taken_over and after.owner != before.holder:
            judge_silence(self._world, before, by, looked)
            judge_second_look(self._world, before, by)
            judge_beaten_since(self._world, before, by, looked=looked, sent=sent)
        self._to_and_fro.judge(before, after, change, by)
        self._world.call_listeners(before, after, change, by)

    def _judge_early_handover(self, before: Lease, after: Lease, by: Process) -> None:
        """I21: a shard that a living run is reading is given up or handed over by that run only, or once the
        deadline has passed."""
        key, world = before.key, self._world
        is_given_up = after.owner is None
        is_handed_over = before.checkpoint_owner is not None and after.owner == before.owner
        if not is_given_up and not (is_handed_over and after.checkpoint_owner is None):
            return
        since = world.sim.now - self._handovers.get(key, -1e9)
        jumped = any(host is by.host and at > world.sim.now - 150.0 for at, host in world.jumps)
        claim = before.run_claim or ""
        if (is_handed_over and (since > 85.0 or jumped)) or not self.is_at_work(claim):
            return
        # The acting process may have looked at a time when the run's beats were missing.
        lately = world.sim.now - _FOR_A_WHILE
        is_calm = world.call_faults.met.get(by, -1e9) < lately and by.frozen_until < lately
        if world.sim.now - world.workers.steady[claim] < (_IN_A_TICK if is_calm else _FOR_A_WHILE):
            return
        what = "given up" if is_given_up else f"handed over after {since:.1f} s"
        raise Violation("I21", f"{by}: {key} was {what} while {before.run_claim} was reading it", key)


class _Written:
    """An entry of the history, which is turned into text only when a person reads it."""

    __slots__ = ("after", "change")

    def __init__(self, change: Change, after: Lease | None) -> None:
        self.change = change
        self.after = after

    def __str__(self) -> str:
        return f"{self.change.key}: {self.change.why} -> {_short(self.after)}"


def _is_beyond(said: Checkpoint, token: tuple[int | None, int, bool] | None) -> bool:
    """Whether the checkpoint lies after the position with this token."""
    if said.is_end:
        return token is None or not token[2]
    if not said.is_digits or (token is not None and token[2]):
        return False
    return int(said.sequence) + said.sub > number_of(token)


def _short(row: Lease | None) -> str:
    """The row in one line of the history."""
    if row is None:
        return "nothing"
    over = f" (from {row.checkpoint_owner})" if row.checkpoint_owner else ""
    claim = f" claim {row.run_claim}" if row.run_claim else ""
    wanted = f" wanted {row.wanted_by}" if row.wanted_by else ""
    return f"{row.owner}{over} #{row.counter} @{row.checkpoint}{claim}{wanted}"
