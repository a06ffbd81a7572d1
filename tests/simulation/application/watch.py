"""The judge of a processor's application (I47). It goes by what the processor's processes get and ask for, and by the lease rows."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from headrace.pipeline.core.leases.change import Applied, Change, Refused
from headrace.pipeline.core.leases.change_kind import ChangeKind
from headrace.pipeline.core.leases.lease import Lease
from headrace.pipeline.core.shards.checkpoint import LATEST, SHARD_END, Checkpoint
from headrace.pipeline.core.shards.stream import ShardKey, StreamId
from headrace.pipeline.ports.leases import Listing
from headrace.pipeline.settings.choices import InitialPosition, OnDataLoss
from tests.memory.leases import MemoryLeaseStore
from tests.simulation.scheduler import Process
from tests.simulation.watch.deleted_watch import shortest_wait_of_former
from tests.simulation.watch.truth import ShardTruth, Violation

if TYPE_CHECKING:
    from tests.simulation.application.child import Requested
    from tests.simulation.application.fleet import ApplicationFleet


@dataclass(slots=True, eq=False)
class ProcessorInstance:
    """One process of the processor, which works on one shard."""

    shard: ShardTruth
    lease_key: str
    claim: str
    worker: str
    passed: int = 0
    """How many of the shard's records lie before the next one that it may get."""
    own: set[Checkpoint] = field(default_factory=set)
    """The checkpoint at which it began, and those for which it has asked."""
    has_begun: bool = False
    is_over: bool = False


@dataclass(slots=True)
class ShardAccount:
    """What became of one shard."""

    given: set[int] = field(default_factory=set)
    """The numbers of the records that some process got."""
    requested: dict[Checkpoint, set[str]] = field(default_factory=dict)
    """The checkpoints that processes asked for, with the claims of their runs."""
    prepared: dict[Checkpoint, set[str]] = field(default_factory=dict)
    """As `requested`, of those that were to be prepared."""
    had: set[Checkpoint] = field(default_factory=set)
    """The checkpoints that the row had at a claim or after a write of Headrace's."""
    claimed_rows: dict[str, Lease] = field(default_factory=dict)
    """By claim: the row as it was when it was claimed."""
    of_claim: dict[str, set[Checkpoint]] = field(default_factory=dict)
    """By claim: the row's checkpoint when it was claimed, and those that were written for the claim."""
    live: dict[str, ProcessorInstance] = field(default_factory=dict)
    """By claim: the process at work."""
    lost: set[int] = field(default_factory=set)
    """The numbers of the records that no process gets, because they had left the stream before."""
    has_ended: bool = False
    begins: int | None = None
    """How many of the shard's records lie before the first one that is to be read; None before that is known."""


class ApplicationRows(MemoryLeaseStore):
    """The lease table of the application."""

    def __init__(self, fleet: ApplicationFleet) -> None:
        super().__init__()
        self._fleet = fleet
        self.stale: Listing | None = None
        """What a late scan shows."""

    @property
    def rows(self) -> dict[str, Lease]:
        return self._rows

    def keep_stale_copy(self) -> None:
        self.stale = Listing(tuple(self._rows.values()))

    def shard(self, row: Lease | None) -> ShardTruth | None:
        truth = self._fleet.truth
        stream = None if row is None else truth.stream_of(row)
        return None if row is None or stream is None else truth.shards.get(ShardKey(stream, row.shard_id))

    def require_turn(self, key: str, *, asked: float, by: str) -> None:
        """Nothing: which turns come first is judged where records are landed."""

    def arrive(self, change: Change, process: Process, claim: str, worker: str) -> Applied | Refused:
        """Apply a write that was sent for this claim of this worker."""
        before = self._rows.get(change.key)
        done = self.apply(change)
        after = self._rows.get(change.key)
        if after is before:
            return done
        if before is not None and (after is None or change.kind is ChangeKind.REPLACE):
            self._fleet.watch.note_deleted(before, process)
        if after is None:
            return done
        if before is None or change.kind is ChangeKind.REPLACE:
            self._fleet.watch.note_row(after)
        else:
            self._fleet.watch.note_write(before, after, change, process, (worker, claim))
        return done


class ApplicationWatch:
    def __init__(self, fleet: ApplicationFleet) -> None:
        self._fleet = fleet
        self.accounts: dict[ShardKey, ShardAccount] = {}
        self._deleted: dict[str, Lease] = {}
        """By lease key: the row as it was when it was deleted last."""
        self._begun: dict[str, tuple[StreamId, datetime]] = {}
        """By stream name: the life of the stream of which the first row was made, and when."""
        self._made: dict[str, float] = {}
        """By lease key: when the row was made last."""
        self._claimed: dict[str, float] = {}
        """By claim: when it was made."""

    def account(self, shard: ShardTruth) -> ShardAccount:
        account = self.accounts.get(shard.key)
        if account is None:
            account = self.accounts[shard.key] = ShardAccount()
        return account

    # -- where reading begins ----------------------------------------------------------------------------------------

    def note_row(self, row: Lease) -> None:
        """A row is made."""
        self._made[row.key] = self._fleet.sim.now
        stream = self._fleet.truth.stream_of(row)
        if stream is None:
            return
        if stream.name not in self._begun:
            self._begun[stream.name] = stream, self._fleet.clock.now()
            is_latest = self._fleet.drawn.position is InitialPosition.LATEST
            if is_latest and (row.checkpoint != LATEST or row.looked_at is None):
                self._fail(
                    self._fleet.truth.shards[ShardKey(stream, row.shard_id)],
                    f"the first row of {stream.name} is made at {row.checkpoint}, from {row.looked_at} on, and not at LATEST",
                )

    def _begins_at(self, stream: StreamId) -> datetime | None:
        """The moment from which the stream is read; None where that is its beginning."""
        match self._fleet.drawn.position:
            case InitialPosition.TRIM_HORIZON:
                return None
            case InitialPosition.AT_TIMESTAMP:
                return self._fleet.since
            case InitialPosition.LATEST:
                # A later life of the stream is read from its beginning.
                life, moment = self._begun.get(stream.name, (stream, None))
                return moment if life == stream else None

    def _is_before_the_start(self, key: ShardKey, claim: str = "", *, has_begun: bool = False) -> bool:
        """Whether nobody has to read the shard: it was closed before the moment at which reading begins, and has no row, or had none when
        this claim was made, or when its child was begun (`has_begun`)."""
        shard, moment = self._fleet.truth.shards[key], self._begins_at(key.stream)
        if shard.closed is None or moment is None or shard.closed > moment:
            return False
        row_key = self._fleet.key_of(key)
        is_late = self._made.get(row_key, 0.0) > self._claimed.get(claim, float("inf"))
        return has_begun or row_key not in self._fleet.leases.rows or is_late

    def _start(self, shard: ShardTruth, row: Lease) -> int:
        """How many records lie before the first one that is to be read, of a shard without a checkpoint."""
        moment = self._begins_at(shard.key.stream)
        if moment is not None and self._fleet.drawn.position is InitialPosition.LATEST:
            # Each of the first shards is read from when its own row was made. A shard that was opened later is a child.
            moment = row.looked_at if row.checkpoint == LATEST and shard.opened <= moment else None
        first = 0 if moment is None else bisect_left(shard.arrivals, moment)
        account = self.account(shard)
        account.begins = first if account.begins is None else min(first, account.begins)
        self._fleet.call_faults.happened["began_inside"] += first > 0
        return first

    # -- the rows ----------------------------------------------------------------------------------------------------

    def note_deleted(self, row: Lease, by: Process) -> None:
        """A row is deleted, or replaced by one of a later life."""
        fleet = self._fleet
        self._deleted[row.key] = row
        shard, stream = fleet.leases.shard(row), fleet.truth.stream_of(row)
        if shard is None or stream is None or not fleet.truth.lives(stream) or row.has_ended:
            return
        if row.stream_epoch is not None and row.stream_epoch < stream.epoch:
            return
        taken_out = fleet.truth.taken_out.get(stream.name)
        if taken_out is None:
            self._fail(shard, f"{by} deletes the open row {row.key}")
        elif fleet.sim.now - taken_out < shortest_wait_of_former(fleet.world, taken_out):
            self._fail(
                shard,
                f"{by} deletes {row.key} {fleet.sim.now - taken_out:.0f} s after its stream was taken out",
            )
        fleet.call_faults.happened["application_forgot"] += 1

    def note_write(
        self, before: Lease, after: Lease, change: Change, by: Process, sender: tuple[str, str]
    ) -> None:
        shard = self._fleet.leases.shard(after)
        if shard is None:
            return
        account = self.account(shard)
        if change.kind is ChangeKind.CLAIM and after.run_claim is not None:
            account.claimed_rows[after.run_claim] = before
            self._claimed[after.run_claim] = self._fleet.sim.now
            account.of_claim.setdefault(after.run_claim, set()).add(before.checkpoint)
            account.had.add(before.checkpoint)
        if after.checkpoint != before.checkpoint:
            self._judge_checkpoint(shard, before, after, by, sender)
            account.had.add(after.checkpoint)
            account.of_claim.setdefault(sender[1], set()).add(after.checkpoint)
            self._fleet.call_faults.happened["application_checkpoint"] += 1

        if after.pending != before.pending and after.pending is not None:
            self._judge_prepared(shard, before, after.pending, by, sender)

    def _judge_prepared(
        self, shard: ShardTruth, before: Lease, pending: Checkpoint, by: Process, sender: tuple[str, str]
    ) -> None:
        if (before.holder, before.run_claim) != sender:
            self._fail(shard, f"{by} prepares {pending} for {sender}, and {before.holder} has the row")
        if sender[1] not in self.account(shard).prepared.get(pending, ()):
            self._fail(shard, f"{by} prepares {pending}, for which no process of {sender[1]} has asked")
        self._fleet.call_faults.happened["prepared"] += 1

    def _judge_checkpoint(
        self, shard: ShardTruth, before: Lease, after: Lease, by: Process, sender: tuple[str, str]
    ) -> None:
        account, upto = self.account(shard), after.checkpoint
        if (before.holder, before.run_claim) != sender:
            self._fail(
                shard,
                f"{by} moves the checkpoint for {sender}, and {before.holder} has the row ({before.run_claim})",
            )
        if upto < before.checkpoint:
            self._fail(shard, f"{by} moves the checkpoint back from {before.checkpoint} to {upto}")
        nothing_is_left = upto.is_end and (self._is_empty(shard) or self._is_gone(shard.key))
        if sender[1] not in account.requested.get(upto, ()) and not nothing_is_left:
            self._fail(shard, f"{by} writes {upto}, for which no process of {sender[1]} has asked")
        if upto.is_end:
            account.has_ended = True
            missing = [
                name
                for name in shard.children
                if not self._is_known(shard, name)
                and not self._is_before_the_start(ShardKey(shard.key.stream, name))
                and not self._is_gone(ShardKey(shard.key.stream, name))
            ]
            # Of a shard in which nothing was to be read another leaf's row may have told the end. A later listing makes these rows, and
            # the judge of what is left unread looks at the end.
            if missing and not self._is_empty(shard):
                self._fail(shard, f"it has ended, and there are no rows of its children {missing}")

    def _is_empty(self, shard: ShardTruth) -> bool:
        """Whether the shard was closed before the moment at which reading begins. A row that was made of it all the same ends
        without a process where one of its descendants is read already."""
        moment = self._begins_at(shard.key.stream)
        return moment is not None and shard.closed is not None and shard.closed <= moment

    def _is_known(self, parent: ShardTruth, child: str) -> bool:
        key = ShardKey(parent.key.stream, child)
        return (
            self.accounts.get(key, ShardAccount()).has_ended
            or self._fleet.key_of(key) in self._fleet.leases.rows
        )

    def note_foreign(self, key: ShardKey, number: int) -> None:
        """A worker of KCL processes the records from the row's checkpoint up to this one."""
        shard, row = self._fleet.truth.shards[key], self._fleet.leases.rows[self._fleet.key_of(key)]
        first, end = self._passed(shard, row), bisect_right(shard.sequences, number)
        self.account(shard).given.update(shard.sequences[first:end])

    # -- the processor's processes -----------------------------------------------------------------------------------

    def begin(
        self, instance: ProcessorInstance, since: Checkpoint, pending: Mapping[str, Any] | None
    ) -> None:
        """A process is told where its shard begins, and which checkpoint was prepared and not made."""
        shard, account = instance.shard, self.account(instance.shard)
        other = account.live.get(instance.claim)
        if instance.has_begun or (other is not None and not other.is_over):
            self._fail(shard, f"a second process begins for {instance.claim}")
        claimed = account.claimed_rows.get(instance.claim)
        if claimed is None or since < claimed.checkpoint or since not in account.had:
            claimed_at = None if claimed is None else claimed.checkpoint
            self._fail(shard, f"a process begins at {since}, and the row was claimed at {claimed_at}")
        for parent in shard.parents:
            key = ShardKey(shard.key.stream, parent)
            has_ended = self.accounts.get(key, ShardAccount()).has_ended
            is_before = self._is_before_the_start(key, instance.claim, has_begun=since.is_digits)
            if not (has_ended or is_before or self._is_gone(key)):
                self._fail(shard, f"a process begins before its parent {parent} has ended")
        self._judge_pending(instance, pending)
        # A run works on where the rows of a stream that was taken out are deleted.
        row = self._fleet.leases.rows.get(instance.lease_key) or self._deleted[instance.lease_key]
        # A run that stood still begins where it claimed the row, whatever later runs have written into it. At LATEST the row's
        # last look tells which moment that is.
        row = row if row.run_claim == instance.claim else account.claimed_rows[instance.claim]
        instance.has_begun, instance.passed = True, self._passed(shard, replace(row, checkpoint=since))
        instance.own.add(since)
        account.live[instance.claim] = instance
        self._fleet.call_faults.happened["application_instance"] += 1

    def _judge_pending(self, instance: ProcessorInstance, pending: Mapping[str, Any] | None) -> None:
        row = self._fleet.leases.rows.get(instance.lease_key)
        if row is None or row.run_claim != instance.claim:
            return
        told = None
        if pending is not None:
            told = Checkpoint(pending["sequenceNumber"], pending["subSequenceNumber"])
            self._fleet.call_faults.happened["pending_told"] += 1
        if told != row.pending:
            self._fail(
                instance.shard, f"a process hears that {told} is prepared, and the row has {row.pending}"
            )

    def go_on(self, instance: ProcessorInstance, claim: str) -> None:
        """A process that was kept gets on under the claim of another run."""
        account = self.account(instance.shard)
        other, known = account.live.get(claim), account.of_claim.get(claim, set())
        if other is not None and other is not instance and not other.is_over:
            self._fail(instance.shard, f"a second process goes on for {claim}")
        # A run that has lost its claim while it stood still may meet a process of the next one, at a checkpoint of its own.
        if known.isdisjoint(instance.own):
            said = ", ".join(map(str, sorted(known)))
            self._fail(
                instance.shard, f"a process goes on that knows no checkpoint of the row under {claim}: {said}"
            )
        account.live.pop(instance.claim, None)
        instance.claim = claim
        account.live[claim] = instance
        self._fleet.call_faults.happened["kept_by_the_next_run"] += 1

    def give(self, instance: ProcessorInstance, numbers: Sequence[int]) -> None:
        """A process gets these records."""
        shard = instance.shard
        if numbers and instance.has_begun:
            instance.passed = self._over_lost(shard, instance.passed, numbers[0])
        expected = shard.sequences[instance.passed : instance.passed + len(numbers)]
        if not instance.has_begun or list(numbers) != expected:
            self._fail(shard, f"a process gets {list(numbers)[:3]} in the place of {expected[:3]}")
        instance.passed += len(numbers)
        given = self.account(shard).given
        self._fleet.call_faults.happened["given_again"] += sum(number in given for number in numbers)
        given.update(numbers)

    def _over_lost(self, shard: ShardTruth, passed: int, number: int | None) -> int:
        """How many records lie before this one (None: before the shard's end), where each one that was passed over can have been lost."""
        stop = len(shard.sequences) if number is None else bisect_left(shard.sequences, number)
        if any(not self._may_be_lost(arrival) for arrival in shard.arrivals[passed:stop]):
            return passed
        lost = shard.sequences[passed:stop]
        self.account(shard).lost.update(lost)
        self._fleet.call_faults.happened["application_lost"] += len(lost)
        return max(passed, stop)

    def _may_be_lost(self, arrival: datetime) -> bool:
        """Whether a record has left the stream, and the settings let reading go on after it."""
        plan = self._fleet.plan
        if plan.on_data_loss is OnDataLoss.STOP:
            return False
        return arrival < self._fleet.clock.now() - timedelta(seconds=plan.retention)

    def _is_gone(self, key: ShardKey) -> bool:
        """Whether the shard has left the stream with its last record, and the settings let reading go on without it."""
        return self._fleet.plan.on_data_loss is OnDataLoss.CONTINUE and self._fleet.world.is_unlisted(key)

    def note_end(self, instance: ProcessorInstance) -> None:
        """A process is told that its shard has ended."""
        shard = instance.shard
        instance.passed = self._over_lost(shard, instance.passed, None)
        if shard.closed is None or instance.passed != len(shard.sequences):
            self._fail(
                shard, f"a process is told the end after {instance.passed} of {len(shard.sequences)} records"
            )

    def request(self, instance: ProcessorInstance, upto: Checkpoint) -> None:
        """A process asks for a checkpoint."""
        instance.own.add(upto)
        self.account(instance.shard).requested.setdefault(upto, set()).add(instance.claim)

    def prepare(self, instance: ProcessorInstance, upto: Checkpoint) -> None:
        """A process asks to prepare a checkpoint."""
        self.account(instance.shard).prepared.setdefault(upto, set()).add(instance.claim)

    def hear(self, instance: ProcessorInstance, requested: Requested, error: str | None) -> None:
        """A process hears what became of its checkpoint."""
        upto = requested.checkpoint
        shard, row = instance.shard, self._fleet.leases.rows.get(instance.lease_key)
        has_row = row is not None and (row.holder, row.run_claim) == (instance.worker, instance.claim)
        if error == "ShutdownException" and has_row:
            self._fail(shard, f"a process hears that {instance.claim} has lost the lease, which it has")
        is_judged, had = (
            error is None and upto != SHARD_END and not requested.is_prepared,
            self.account(shard).had,
        )
        if is_judged and upto not in had and not any(checkpoint >= upto for checkpoint in had):
            self._fail(shard, f"a process hears that {upto} is durable, and no row has it")
        if error is not None:
            self._fleet.call_faults.happened[f"heard_{error}"] += 1

    # -- the end -----------------------------------------------------------------------------------------------------

    def left_of(self, shard: ShardTruth) -> str:
        """What the processor hasn't done of the shard; empty where nothing is left."""
        account, row = self.account(shard), self._fleet.leases.rows.get(self._fleet.key_of(shard.key))
        if self._is_before_the_start(shard.key) or (account.has_ended and self._is_empty(shard)):
            return ""
        if row is not None and not (row.checkpoint.is_digits or row.checkpoint.is_end):
            self._start(shard, row)
        begins, done = account.begins or 0, account.given | account.lost
        last = max(done, default=0)
        # What was lost before a record that some process got was noted then: only behind all of these nothing was.
        missing = [
            number
            for number, arrival in zip(shard.sequences[begins:], shard.arrivals[begins:], strict=True)
            if number not in done and (number < last or not self._may_be_lost(arrival))
        ]
        if missing:
            return f"{len(missing)} records were given to no process, the first is {missing[0]}"
        if shard.closed is not None:
            return (
                ""
                if account.has_ended or self._is_gone(shard.key)
                else "it is closed, and the processor hasn't checkpointed its end"
            )
        if row is None:
            return "it is open and has no row"
        passed = self._passed(shard, row)
        return (
            ""
            if all(self._may_be_lost(arrival) for arrival in shard.arrivals[passed:])
            else f"its checkpoint is at {passed} of {len(shard.sequences)}"
        )

    def _passed(self, shard: ShardTruth, row: Lease) -> int:
        """How many records lie before the row's checkpoint."""
        checkpoint = row.checkpoint
        if checkpoint.is_end:
            return len(shard.sequences)
        if not checkpoint.is_digits:
            return self._start(shard, row)
        return bisect_right(shard.sequences, int(checkpoint.sequence) + checkpoint.sub)

    def _fail(self, shard: ShardTruth, why: str) -> None:
        raise Violation("I47", f"application, {shard.key.shard_id}: {why}", shard.key.shard_id)
