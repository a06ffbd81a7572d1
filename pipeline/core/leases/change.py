"""Writes on a lease row as values: which row, what must still be true, what is written, and why.

`headrace.pipeline.core.leases.change_kind` has a table of them; this module has a function for each line.

A run's own writes never require an exact counter, because beats count it up at the same time (D1 of
docs/reference/protocol.md). Writes that take a lease or give it away require the epoch as read, because a stream that
is created again has rows with the same keys (D12).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from headrace.pipeline.core.leases.change_kind import DELETES, MAKES, ChangeKind
from headrace.pipeline.core.leases.failure import Failure, failed_again
from headrace.pipeline.core.leases.lease import FIELDS, Lease
from headrace.pipeline.core.shards.checkpoint import Checkpoint
from headrace.pipeline.errors import HeadraceError


@dataclass(frozen=True, slots=True)
class Change:
    """One conditional write on one row, in terms of the fields of `Lease`. None in `requires` means that the attribute
    is absent."""

    key: str
    why: str
    kind: ChangeKind = field(kw_only=True)
    requires: Mapping[str, Any] = field(default_factory=dict, kw_only=True)
    holder: str | None = field(default=None, kw_only=True)
    """The worker that must hold the row: its checkpointOwner, or its leaseOwner where there is no checkpointOwner."""
    # A field of its own, because DynamoDB has to be given this rule as a condition with OR.
    put: Mapping[str, Any] = field(default_factory=dict, kw_only=True)
    add: Mapping[str, int] = field(default_factory=dict, kw_only=True)
    remove: frozenset[str] = field(default=frozenset(), kw_only=True)
    create: Lease | None = field(default=None, kw_only=True)
    """The whole new row. Unless it replaces one, there must be no row with its key yet."""

    def __post_init__(self) -> None:
        if (self.create is not None) is not (self.kind in MAKES):
            raise ValueError(f"a change of kind {self.kind} with {'a' if self.create else 'no'} whole row")
        unknown = (self.requires.keys() | self.put.keys() | self.add.keys() | self.remove) - FIELDS
        if unknown:
            raise ValueError(f"a lease row has no {sorted(unknown)}")

    @property
    def deletes(self) -> bool:
        return self.kind in DELETES


@dataclass(frozen=True, slots=True)
class Applied:
    lease: Lease
    """The row as it is now."""


@dataclass(frozen=True, slots=True)
class Refused:
    """The condition of a write didn't hold, because another process had changed the row. Nothing was written."""

    row: Lease | None
    """The row as it is; None where there is none."""


Outcome = Applied | Refused | HeadraceError
"""What became of one of many writes. An error is an outcome as well, so that it doesn't hide what became of the other
writes."""


def require_some(outcomes: Sequence[Outcome]) -> Sequence[Outcome]:
    """The outcomes of several writes. Where every write failed, the first error is raised, since the cause is the
    table then and not single rows.
    """
    errors = [outcome for outcome in outcomes if isinstance(outcome, HeadraceError)]
    if errors and len(errors) == len(outcomes):
        raise errors[0]
    return outcomes


def rows_written(outcomes: Iterable[Outcome]) -> tuple[Lease, ...]:
    """The rows that were written, as they are now."""
    return tuple(outcome.lease for outcome in outcomes if isinstance(outcome, Applied))


def create(lease: Lease, why: str) -> Change:
    return Change(lease.key, why, create=lease, kind=ChangeKind.CREATE)


def claim(read: Lease, me: str, run_claim: str, *, over: bool = False) -> Change:
    """Claim the shard for one wave. `over`: the run that waits for the shard (`wantedBy`) is over, or is this run."""
    # `wantedBy` as read: a run that began to wait since the look would never get the shard otherwise (D18). No
    # `checkpointOwner`: a pending handover comes first. The counter isn't required, because beats move it (D1).
    return Change(
        read.key,
        f"{me} reads this shard in run claim {run_claim}",
        requires={
            "checkpoint_owner": None,
            "owner": me,
            "run_claim": read.run_claim,
            "wanted_by": read.wanted_by,
            "stream_epoch": read.stream_epoch,
        },
        put={"run_claim": run_claim},
        add={"counter": 1},
        remove=frozenset({"wanted_by"} if over and read.wanted_by else ()),
        kind=ChangeKind.CLAIM,
    )


def beat(read: Lease, me: str, *, throughput_kbps: float | None = None) -> Change:
    return Change(
        read.key,
        f"worker {me} lives",
        holder=me,
        requires={"run_claim": read.run_claim},
        put={} if throughput_kbps is None else {"throughput_kbps": throughput_kbps},
        add={"counter": 1},
        kind=ChangeKind.BEAT,
    )


def repair(read: Lease, run_claim: str, upto: Checkpoint) -> Change:
    # The holder is required as read, because a KCL worker takes a row without touching `runClaim`: then the row
    # is its own.
    return Change(
        read.key,
        f"the table's position is {upto}, the row's checkpoint {read.checkpoint}",
        holder=read.holder,
        requires={"run_claim": run_claim, "checkpoint": read.checkpoint},
        put={"checkpoint": upto, "landed": upto},
        add={"counter": 1},
        kind=ChangeKind.REPAIR,
    )


def checkpoint(
    read: Lease,
    me: str,
    run_claim: str,
    *,
    upto: Checkpoint,
    throughput_kbps: float | None = None,
    looked_at: datetime | None = None,
    behind_ms: int | None = None,
) -> Change:
    """Write how far the wave has landed the shard into the row. `looked_at`, `behind_ms`: as in `release`, for a
    row that the run goes on keeping.
    """
    # The claim is required and not only the holder: a run that was frozen wakes up in a worker that still holds the
    # lease, while another run of the same worker has gone on (D2). KCL counts owner switches since the last checkpoint.
    put: dict[str, Any] = {"checkpoint": upto, "landed": upto, "owner_switches": 0} | _look(
        looked_at, behind_ms
    )
    if throughput_kbps is not None:
        # As many places as the row keeps. Else `is_own_write` would find another value after a lost answer.
        put["throughput_kbps"] = round(throughput_kbps, 6)
    return Change(
        read.key,
        f"landed up to {upto}",
        holder=me,
        requires={"run_claim": run_claim, "checkpoint": read.checkpoint},
        put=put,
        add={"counter": 1},
        remove=frozenset({"pending", "pending_state"}),
        kind=ChangeKind.CHECKPOINT,
    )


def prepare_checkpoint(
    read: Lease, me: str, run_claim: str, *, upto: Checkpoint, state: bytes | None = None
) -> Change:
    """The first step of KCL's two-step checkpoint. The next checkpoint removes what this one writes."""
    return Change(
        read.key,
        f"the processor is about to checkpoint at {upto}",
        holder=me,
        requires={"run_claim": run_claim, "checkpoint": read.checkpoint},
        put={"pending": upto, "pending_state": state},
        add={"counter": 1},
        kind=ChangeKind.PREPARE,
    )


def release(
    read: Lease,
    run_claim: str,
    *,
    looked_at: datetime | None = None,
    behind_ms: int | None = None,
    failure: Failure | None = None,
    is_well: bool = False,
    throughput_kbps: float | None = None,
    landed: Checkpoint | None = None,
) -> Change:
    """Remove the claim. `failure`: the wave failed for this shard. `is_well`: the wave read the shard without an
    error, so a failure in the row is removed. With neither, a failure in the row stays. `landed`: another
    program's checkpoint, from which the wave read on.
    """
    # The counter stays. With a release that counts up, the renewal of a KCL worker that had just taken the row would
    # fail.
    put: dict[str, Any] = ({} if failure is None else {"failure": failure}) | _look(looked_at, behind_ms)
    if throughput_kbps is not None:
        put["throughput_kbps"] = throughput_kbps
    if landed is not None:
        put["landed"] = landed
    return Change(
        read.key,
        "the wave is over",
        requires={"run_claim": run_claim},
        put=put,
        remove=frozenset({"run_claim", "failure"} if is_well and read.failure else {"run_claim"}),
        kind=ChangeKind.RELEASE,
    )


def checkpoint_and_release(last: Change, free: Change) -> Change:
    """A `checkpoint` and a `release` of one row in one write, for a row that the run has kept from wave to wave."""
    # Two writes would leave a moment in which the row is free and behind the table.
    return Change(
        last.key,
        f"{last.why}, and {free.why}",
        holder=last.holder,
        requires={**last.requires, **free.requires},
        put={**last.put, **free.put},
        add=last.add,
        remove=last.remove | free.remove,
        kind=ChangeKind.CHECKPOINT_AND_RELEASE,
    )


def note_failure(read: Lease, me: str, why: str, *, when: datetime) -> Change:
    """Note why the worker can't even begin a wave for this shard. Refused where the row has a failure already."""
    return Change(
        read.key,
        f"{me} can't read this shard",
        holder=me,
        requires={"run_claim": read.run_claim, "stream_epoch": read.stream_epoch, "failure": None},
        put={"failure": failed_again(None, why, when)},
        kind=ChangeKind.NOTE_FAILURE,
    )


def want(read: Lease, run_claim: str) -> Change:
    return Change(
        read.key,
        f"run claim {run_claim} waits for this shard",
        # As read: of two runs that begin to wait at once only one gets the mark, and the other one sees it.
        requires={"wanted_by": read.wanted_by},
        put={"wanted_by": run_claim},
        kind=ChangeKind.WANT,
    )


def unwant(read: Lease, run_claim: str) -> Change:
    return Change(
        read.key,
        f"run claim {run_claim} no longer waits for this shard",
        requires={"wanted_by": run_claim},
        remove=frozenset({"wanted_by"}),
        kind=ChangeKind.UNWANT,
    )


def assign(read: Lease, to: str, why: str) -> Change:
    """Give the lease to a worker at once. For a lease that has no holder, or whose holder is dead."""
    # The exact counter is required: a holder that came back has beaten since, and keeps its lease.
    switched = read.holder is not None and read.holder != to
    return Change(
        read.key,
        why,
        requires={
            "owner": read.owner,
            "checkpoint_owner": read.checkpoint_owner,
            "counter": read.counter,
            "stream_epoch": read.stream_epoch,
        },
        put={"owner": to},
        add={"counter": 1, "owner_switches": 1} if switched else {"counter": 1},
        remove=frozenset({"checkpoint_owner", "run_claim"}),
        kind=ChangeKind.ASSIGN,
    )


def move(read: Lease, to: str, why: str, *, when: datetime) -> Change:
    """Move a lease that isn't being read from a living worker to another one at once. `when`: the time, from which
    `times.dwell` counts."""
    given = assign(read, to, why)
    return replace(given, kind=ChangeKind.MOVE, put={**given.put, **_stamp(when)})


def initiate_handover(read: Lease, to: str, why: str, *, when: datetime | None = None) -> Change:
    """Ask the holder to finish its wave and hand the shard over to `to`."""
    # The counter stays, as in KCL. The holder keeps its claim until its wave has ended.
    return Change(
        read.key,
        why,
        requires={"owner": read.owner, "checkpoint_owner": None, "stream_epoch": read.stream_epoch},
        put={"owner": to, "checkpoint_owner": read.owner} | _stamp(when),
        kind=ChangeKind.INITIATE,
    )


def redirect_handover(read: Lease, to: str, why: str) -> Change:
    """Name another next owner, because the first one died during the handover. The holder reads on."""
    return Change(
        read.key,
        why,
        requires={"owner": read.owner, "checkpoint_owner": read.checkpoint_owner},
        put={"owner": to},
        kind=ChangeKind.REDIRECT,
    )


def call_off_handover(read: Lease, why: str) -> Change:
    """End a handover whose next owner died: the holder keeps the lease, and its run reads on."""
    return Change(
        read.key,
        why,
        requires={"owner": read.owner, "checkpoint_owner": read.checkpoint_owner, "counter": read.counter},
        put={"owner": read.checkpoint_owner},
        remove=frozenset({"checkpoint_owner"}),
        kind=ChangeKind.CALL_OFF,
    )


def complete_handover(read: Lease, why: str) -> Change:
    """Make the next owner the holder. A claim of the old holder is removed, so its late writes on the row are
    refused."""
    return Change(
        read.key,
        why,
        requires={
            "owner": read.owner,
            "checkpoint_owner": read.checkpoint_owner,
            "run_claim": read.run_claim,
        },
        add={"counter": 1},
        remove=frozenset({"checkpoint_owner", "run_claim"}),
        kind=ChangeKind.COMPLETE,
    )


def give_up(read: Lease, me: str) -> Change:
    return Change(
        read.key,
        f"{me} stops",
        holder=me,
        # A run of this worker may have claimed the shard for another wave since the look.
        requires={"run_claim": read.run_claim},
        add={"counter": 1},
        remove=frozenset({"owner", "checkpoint_owner", "run_claim"}),
        kind=ChangeKind.GIVE_UP,
    )


def note_children(read: Lease, children: frozenset[str]) -> Change:
    """Write the children's names at the end of a shard, as KCL does before SHARD_END."""
    # With a single stream, a row of a later life has the same key and other children, so the epoch is required (D12).
    return Change(
        read.key,
        f"the shard has ended; its children are {', '.join(sorted(children))}",
        holder=read.holder,
        requires={"run_claim": read.run_claim, "stream_epoch": read.stream_epoch},
        put={"children": children},
        kind=ChangeKind.NOTE_CHILDREN,
    )


def hold(read: Lease, run_claim: str, why: str) -> Change:
    """Claim the shard for a person's command, whichever worker owns it."""
    return Change(
        read.key,
        why,
        requires={
            "owner": read.owner,
            "checkpoint_owner": None,
            "run_claim": read.run_claim,
            "wanted_by": read.wanted_by,
            "stream_epoch": read.stream_epoch,
        },
        put={"run_claim": run_claim},
        add={"counter": 1},
        remove=frozenset({"wanted_by"} if read.wanted_by else ()),
        kind=ChangeKind.HOLD,
    )


def reposition(
    read: Lease, run_claim: str, *, place: Checkpoint, landed: Checkpoint | None, why: str
) -> Change:
    """Write the checkpoint that a person decided on, which may be an earlier one. `landed`: up to where Headrace has
    landed the shard; None where nothing has landed."""
    return Change(
        read.key,
        why,
        requires={"run_claim": run_claim, "checkpoint": read.checkpoint},
        put={"checkpoint": place} | ({} if landed is None else {"landed": landed}),
        add={"counter": 1},
        # Without `looked_at` the shard counts as never read, so it is due at once.
        remove=frozenset(
            {"pending", "pending_state", "looked_at", "behind_ms"} | ({"landed"} if landed is None else set())
        ),
        kind=ChangeKind.REPOSITION,
    )


def retire(read: Lease, why: str) -> Change:
    """Delete a row that belongs to an earlier life of its stream."""
    # Not even the counter is required: with `heartbeat: lease` a beat would refuse the write at every tick, and nothing
    # of that life is left to read.
    return Change(read.key, why, requires={"stream_epoch": read.stream_epoch}, kind=ChangeKind.RETIRE)


def replace_retired(read: Lease, made: Lease, why: str) -> Change:
    """Put the row of the present life in the place of the row of an earlier life, which has its key."""
    # One write: a leader that died between two would leave nothing that tells that the stream was read before.
    return replace(retire(read, why), create=made, kind=ChangeKind.REPLACE)


def delete_ended(read: Lease, why: str) -> Change:
    """Delete the tombstone of an ended shard. Refused where another process wrote the row since the look."""
    return Change(
        read.key,
        why,
        requires={"checkpoint": read.checkpoint, "counter": read.counter},
        kind=ChangeKind.DELETE,
    )


def delete_garbage(read: Lease, why: str) -> Change:
    """Delete the row of a shard that Kinesis has forgotten, or of a former stream."""
    # Without the counter, for the reason given in `retire`. A claim, a checkpoint or another holder since the look
    # saves the row.
    unmoved = ("stream_epoch", "checkpoint", "owner", "checkpoint_owner", "run_claim")
    return Change(
        read.key, why, requires={name: getattr(read, name) for name in unmoved}, kind=ChangeKind.DELETE
    )


def _stamp(when: datetime | None) -> dict[str, Any]:
    return {} if when is None else {"assigned_at": in_milliseconds(when)}


def _look(looked_at: datetime | None, behind_ms: int | None) -> dict[str, Any]:
    looked = {} if looked_at is None else {"looked_at": in_milliseconds(looked_at)}
    return looked | ({} if behind_ms is None else {"behind_ms": behind_ms})


def in_milliseconds(when: datetime) -> datetime:
    """The time in whole milliseconds, as a lease row keeps it."""
    return when.replace(microsecond=when.microsecond // 1000 * 1000)
