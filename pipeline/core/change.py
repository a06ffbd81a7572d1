"""Writes on a lease row as values: what must still be true, what becomes of it, and why.

    kind       | decided by            | must still be true
    -----------+-----------------------+---------------------------------------------------
    create     | sync, end of a shard  | no such row
    claim      | a run, before a wave  | holder = me, no handover, runClaim and wantedBy as read
    beat       | a run or a worker     | holder = me, runClaim as read
    repair     | a run, before a wave  | runClaim = mine, checkpoint as read
    checkpoint | a run, after a commit | holder = me, runClaim = mine, checkpoint as read
    prepare    | a run                 | the same; the checkpoint itself stays
    release    | a run, after a wave   | runClaim = mine
    want       | a waiting run         | wantedBy as read
    unwant     | a waiting run         | wantedBy = mine
    assign     | the leader            | owner, checkpointOwner and counter as observed
    move       | the leader            | the same; its holder lives and isn't reading
    initiate   | the leader            | owner = old, no handover yet (the counter is left alone, as KCL does)
    redirect   | the leader            | owner and checkpointOwner as observed
    call off   | the leader            | owner, checkpointOwner and counter as observed
    complete   | the holder, or anyone once overdue | owner, checkpointOwner and runClaim as read
    give up    | a stopping worker     | holder = me
    note children | a run, end of a shard | holder = me, runClaim = mine
    note failure | a worker's tick      | holder = me, runClaim as read, no failure yet
    hold       | a person's command    | owner, checkpointOwner, runClaim and wantedBy as read
    reposition | a person's command    | runClaim = mine, checkpoint as read
    retire     | the leader            | stream epoch and counter as observed
    delete     | the leader            | the counter as observed (of an ended one: SHARD_END too)
    stamp      | `headrace adopt`      | no stream epoch yet
    give back  | `headrace give-back`  | checkpoint, counter and runClaim as read
    take, evict, renew, note range | another application's rules (`kcl.writes`) | as written there

A run's own writes never demand an exact counter: heartbeats move it beside them. Whoever takes a row or gives it away
demands its stream's life as read, too: a recreated stream has rows of the same names (D12 of docs/protocol.md).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import StrEnum
from typing import Any, Final

from pipeline.core.checkpoint import Checkpoint
from pipeline.core.failure import Failure, failed_again
from pipeline.core.lease import FIELDS, Lease
from pipeline.errors import HeadraceError


class ChangeKind(StrEnum):
    """What a change is for: one for each line of the table above."""

    CREATE = "create"
    CLAIM = "claim"
    BEAT = "beat"
    REPAIR = "repair"
    CHECKPOINT = "checkpoint"
    PREPARE = "prepare"
    RELEASE = "release"
    WANT = "want"
    UNWANT = "unwant"
    ASSIGN = "assign"
    MOVE = "move"
    INITIATE = "initiate"
    REDIRECT = "redirect"
    CALL_OFF = "call off"
    COMPLETE = "complete"
    GIVE_UP = "give up"
    NOTE_CHILDREN = "note children"
    NOTE_FAILURE = "note failure"
    HOLD = "hold"
    REPOSITION = "reposition"
    RETIRE = "retire"
    DELETE = "delete"
    STAMP = "stamp"
    GIVE_BACK = "give back"
    TAKE = "take"
    EVICT = "evict"
    RENEW = "renew"
    NOTE_RANGE = "note range"


MOVES: Final = frozenset({ChangeKind.INITIATE, ChangeKind.MOVE})
"""A lease goes from one living worker to another."""
DELETES: Final = frozenset({ChangeKind.RETIRE, ChangeKind.DELETE})
"""After these the row is gone."""


@dataclass(frozen=True, slots=True)
class Change:
    """One conditional write on one row. Field names are those of `Lease`; None in `requires` is 'absent'."""

    key: str
    why: str
    kind: ChangeKind = field(kw_only=True)
    requires: Mapping[str, Any] = field(default_factory=dict, kw_only=True)
    holder: str | None = field(default=None, kw_only=True)
    """Must be the row's checkpointOwner, or its leaseOwner where there is no checkpointOwner."""
    put: Mapping[str, Any] = field(default_factory=dict, kw_only=True)
    add: Mapping[str, int] = field(default_factory=dict, kw_only=True)
    remove: frozenset[str] = field(default=frozenset(), kw_only=True)
    create: Lease | None = field(default=None, kw_only=True)
    """The whole row; must not exist yet."""

    def __post_init__(self) -> None:
        if (self.create is not None) is not (self.kind is ChangeKind.CREATE):
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
    """A lost race: somebody else was first, and nothing was written."""

    found: Lease | None
    """The row that stood in the way; None when there is none."""


Outcome = Applied | Refused | HeadraceError
"""Of one of many writes: an error too is an answer, so that one row's trouble doesn't hide what became of the others."""


def require_some(outcomes: Sequence[Outcome]) -> Sequence[Outcome]:
    """Trouble with some of the rows is theirs. Trouble with every one of them is the caller's, and raised."""
    errors = [each for each in outcomes if isinstance(each, HeadraceError)]
    if errors and len(errors) == len(outcomes):
        raise errors[0]
    return outcomes


def applied(outcomes: Iterable[Outcome]) -> tuple[Lease, ...]:
    """The rows that were written, as they are now."""
    return tuple(each.lease for each in outcomes if isinstance(each, Applied))


def create(lease: Lease, why: str) -> Change:
    return Change(lease.key, why, create=lease, kind=ChangeKind.CREATE)


def claim(read: Lease, me: str, run_claim: str, *, over: bool = False) -> Change:
    """Take the row for one wave. `over`: the run that wants it is over, or is this one."""
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
        f"{me} lives",
        holder=me,
        requires={"run_claim": read.run_claim},
        put={} if throughput_kbps is None else {"throughput_kbps": throughput_kbps},
        add={"counter": 1},
        kind=ChangeKind.BEAT,
    )


def repair(read: Lease, run_claim: str, at: Checkpoint) -> Change:
    return Change(
        read.key,
        f"the table stands at {at}, the row at {read.checkpoint}",
        holder=read.holder,
        requires={"run_claim": run_claim, "checkpoint": read.checkpoint},
        put={"checkpoint": at, "landed": at},
        add={"counter": 1},
        kind=ChangeKind.REPAIR,
    )


def checkpoint(
    read: Lease, me: str, run_claim: str, *, at: Checkpoint, throughput_kbps: float | None = None
) -> Change:
    put: dict[str, Any] = {"checkpoint": at, "landed": at, "owner_switches": 0}
    if throughput_kbps is not None:
        put["throughput_kbps"] = round(throughput_kbps, 6)  # as the row keeps it, or it isn't known again
    return Change(
        read.key,
        f"landed up to {at}",
        holder=me,
        requires={"run_claim": run_claim, "checkpoint": read.checkpoint},
        put=put,
        add={"counter": 1},
        remove=frozenset({"pending", "pending_state"}),
        kind=ChangeKind.CHECKPOINT,
    )


def prepare_checkpoint(
    read: Lease, me: str, run_claim: str, *, at: Checkpoint, state: bytes | None = None
) -> Change:
    """The first half of KCL's checkpoint in two steps, for its readers; the next checkpoint clears it."""
    return Change(
        read.key,
        f"about to checkpoint at {at}",
        holder=me,
        requires={"run_claim": run_claim, "checkpoint": read.checkpoint},
        put={"pending": at, "pending_state": state},
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
) -> Change:
    """`failure`: the wave failed for this shard. `is_well`: the wave read it well. Neither: what the row says stays."""
    put: dict[str, Any] = {} if failure is None else {"failure": failure}
    if throughput_kbps is not None:
        put["throughput_kbps"] = throughput_kbps
    if looked_at is not None:
        put["looked_at"] = looked_at.replace(microsecond=looked_at.microsecond // 1000 * 1000)  # so too
    if behind_ms is not None:
        put["behind_ms"] = behind_ms
    return Change(
        read.key,
        "the wave is over",
        requires={"run_claim": run_claim},
        put=put,
        remove=frozenset({"run_claim", "failure"} if is_well and read.failure else {"run_claim"}),
        kind=ChangeKind.RELEASE,
    )


def note_failure(read: Lease, me: str, why: str, *, at: datetime) -> Change:
    """What keeps a worker from even starting a wave for this shard. A row that tells of a failure already is left alone."""
    return Change(
        read.key,
        f"{me} can't read this shard",
        holder=me,
        requires={"run_claim": read.run_claim, "stream_epoch": read.stream_epoch, "failure": None},
        put={"failure": failed_again(None, why, at)},
        kind=ChangeKind.NOTE_FAILURE,
    )


def want(read: Lease, run_claim: str) -> Change:
    return Change(
        read.key,
        f"run claim {run_claim} waits for this shard",
        requires={"wanted_by": read.wanted_by},
        put={"wanted_by": run_claim},
        kind=ChangeKind.WANT,
    )


def unwant(read: Lease, run_claim: str) -> Change:
    return Change(
        read.key,
        f"run claim {run_claim} waits no more",
        requires={"wanted_by": run_claim},
        remove=frozenset({"wanted_by"}),
        kind=ChangeKind.UNWANT,
    )


def assign(read: Lease, to: str, why: str) -> Change:
    """Give the row to a worker at once: nobody holds it, or its holder is dead."""
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


def move(read: Lease, to: str, why: str, *, at: datetime) -> Change:
    """Give the row of a living worker to another one at once. `at`: when, for the least time that it is to stay there."""
    given = assign(read, to, why)
    return replace(given, kind=ChangeKind.MOVE, put={**given.put, **_stamp(at)})


def initiate_handover(read: Lease, to: str, why: str, *, at: datetime | None = None) -> Change:
    """Ask the holder to finish its wave and hand the shard over. It goes on beating meanwhile: the counter is left alone."""
    return Change(
        read.key,
        why,
        requires={"owner": read.owner, "checkpoint_owner": None, "stream_epoch": read.stream_epoch},
        put={"owner": to, "checkpoint_owner": read.owner} | _stamp(at),
        kind=ChangeKind.INITIATE,
    )


def redirect_handover(read: Lease, to: str, why: str) -> Change:
    """The next owner died before its turn came: name another one. The holder reads on."""
    return Change(
        read.key,
        why,
        requires={"owner": read.owner, "checkpoint_owner": read.checkpoint_owner},
        put={"owner": to},
        kind=ChangeKind.REDIRECT,
    )


def call_off_handover(read: Lease, why: str) -> Change:
    """There is nobody better to hand it to: the holder keeps it, and its run isn't disturbed."""
    return Change(
        read.key,
        why,
        requires={"owner": read.owner, "checkpoint_owner": read.checkpoint_owner, "counter": read.counter},
        put={"owner": read.checkpoint_owner},
        remove=frozenset({"checkpoint_owner"}),
        kind=ChangeKind.CALL_OFF,
    )


def complete_handover(read: Lease, why: str) -> Change:
    """The next owner may read from now on."""
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
        add={"counter": 1},
        remove=frozenset({"owner", "checkpoint_owner", "run_claim"}),
        kind=ChangeKind.GIVE_UP,
    )


def note_children(read: Lease, children: frozenset[str]) -> Change:
    """KCL's meta-info update at the end of a shard, by who holds it: the row of a later life has other children
    (D12 of docs/protocol.md)."""
    return Change(
        read.key,
        f"the shard ended in {', '.join(sorted(children))}",
        holder=read.holder,
        requires={"run_claim": read.run_claim, "stream_epoch": read.stream_epoch},
        put={"children": children},
        kind=ChangeKind.NOTE_CHILDREN,
    )


def hold(read: Lease, run_claim: str, why: str) -> Change:
    """A person's command takes the row for a moment, on behalf of whoever owns it."""
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


def reposition(read: Lease, run_claim: str, *, at: Checkpoint, landed: Checkpoint | None, why: str) -> Change:
    """The row says what the person decided; also back. `landed` None: we have landed nothing that counts."""
    return Change(
        read.key,
        why,
        requires={"run_claim": run_claim, "checkpoint": read.checkpoint},
        put={"checkpoint": at} | ({} if landed is None else {"landed": landed}),
        add={"counter": 1},
        # A row that was never looked at is due at once.
        remove=frozenset(
            {"pending", "pending_state", "looked_at", "behind_ms"} | ({"landed"} if landed is None else set())
        ),
        kind=ChangeKind.REPOSITION,
    )


def retire(read: Lease, why: str) -> Change:
    """Delete a row of an earlier life of its stream, whoever beats it: there is nothing left to read."""
    return Change(read.key, why, requires={"stream_epoch": read.stream_epoch}, kind=ChangeKind.RETIRE)


def delete_ended(read: Lease, why: str) -> Change:
    return Change(
        read.key,
        why,
        requires={"checkpoint": read.checkpoint, "counter": read.counter},
        kind=ChangeKind.DELETE,
    )


def delete_garbage(read: Lease, why: str) -> Change:
    """Of a shard that Kinesis doesn't know any more, or of a stream that isn't read any more.

    A beat that comes between the look and this write changes nothing about that; who beats at each tick would save the
    row for ever. A claim, a checkpoint or another holder does.
    """
    unmoved = ("stream_epoch", "checkpoint", "owner", "checkpoint_owner", "run_claim")
    return Change(
        read.key, why, requires={name: getattr(read, name) for name in unmoved}, kind=ChangeKind.DELETE
    )


def _stamp(at: datetime | None) -> dict[str, Any]:
    return {} if at is None else {"assigned_at": at.replace(microsecond=at.microsecond // 1000 * 1000)}


_MARKS = frozenset({"wanted_by", "assigned_at"})
"""A waiting run's claim and a leader's stamp: nobody else writes that very value."""


def is_own_work(change: Change, found: Lease | None) -> bool:
    """Whether a refusal is only the echo of this very write, applied before with its answer lost.

    Believed only where the row bears a mark of ours (a claim's id is fresh with each attempt) or its counter stands
    where this assignment left it, *and* every value is ours.
    """
    if found is None or not change.put or not _is_marked(change, found):
        return False
    return all(getattr(found, name) == value for name, value in change.put.items()) and not any(
        getattr(found, name) for name in change.remove
    )


def _is_marked(change: Change, found: Lease) -> bool:
    run_claim = change.put.get("run_claim", change.requires.get("run_claim"))
    if run_claim is not None:
        return bool(found.run_claim == run_claim)
    seen = change.requires.get("counter")
    if seen is not None and "owner" in change.put:
        return bool(found.counter == seen + change.add.get("counter", 0))
    return seen is None and not _MARKS.isdisjoint(change.put)
