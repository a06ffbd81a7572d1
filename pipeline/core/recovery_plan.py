"""What a person decides about one shard: which range it becomes in the ledger, and what its row is to say.

    skip                 what is lost is let go: the next wave goes on from what is left, and notes how far the gap went
    skip --to SEQUENCE   reading goes on after that record
    skip --to-tip        reading goes on with what comes from now on
    skip --end           the shard is over: its children begin
    reposition table     the row is wrong: it says where the table stands
    reposition lease     the table is behind: what another reader has read is not landed here

Nothing of it is done here. A plan that can't be meant is a `Stop` with a sentence.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime

from pipeline.core.checkpoint import Checkpoint
from pipeline.core.lease import Lease
from pipeline.core.lineage import Kind, ParentReason, Range
from pipeline.core.order import InTheWay
from pipeline.core.position import Position, Positions, Start, is_forward
from pipeline.core.shard import Shard
from pipeline.core.start_of_reading import Stop
from pipeline.core.stream import ShardKey


@dataclass(frozen=True, slots=True)
class WhatIsLeft:
    """Let go of what is lost, whatever it is."""


@dataclass(frozen=True, slots=True)
class AfterRecord:
    sequence: int


@dataclass(frozen=True, slots=True)
class Tip:
    """As just found by a read."""

    sequence: int | None
    """Of the newest record; None where Kinesis holds none."""
    arrival: datetime | None
    at: datetime
    """When it was looked for, by Kinesis's clock."""
    is_open: bool = True
    """A closed shard's tip is no witness: its children were there before."""


@dataclass(frozen=True, slots=True)
class End:
    shard: Shard | None
    """As the unfiltered listing shows it; None where it doesn't."""
    children: tuple[str, ...]
    is_gone: bool


Target = WhatIsLeft | AfterRecord | Tip | End


@dataclass(frozen=True, slots=True)
class ShardSituation:
    """One shard as row, table and stream tell of it."""

    key: ShardKey
    row: Lease
    positions: Positions
    parents: tuple[ParentReason, ...] = ()
    waiting: tuple[InTheWay, ...] = ()
    passed_by: str | None = None
    arrival: datetime | None = None
    """Of the record at the row's checkpoint; None where it can't be read any more."""

    @property
    def position(self) -> Position | None:
        return self.positions.of(self.key)


@dataclass(frozen=True, slots=True)
class Person:
    """Who decides, as the ledger will tell."""

    run: str
    claim: str
    why: str


@dataclass(frozen=True, slots=True)
class Decision:
    range: Range | None
    """None: the table has nothing to change, and a position would count its ancestors as ended."""
    sentences: tuple[str, ...]
    row: Checkpoint | None = None
    """What the row is to say; None: the next wave brings it into step by itself."""
    landed: Checkpoint | None = None
    """With `row`: up to where we have landed it."""


def plan_skip(scene: ShardSituation, target: Target, person: Person) -> Decision | Stop:
    at = scene.position
    trouble = _why_no_skip(scene)
    if trouble is not None:
        return Stop(f"{scene.key}: {trouble}; nothing was changed")
    upto = _skipped_to(at or Position(), target)
    if isinstance(upto, Stop):
        return Stop(f"{scene.key}: {upto.why}; nothing was changed")
    if upto == at:
        return Stop(f"{scene.key}: that was decided before, or nothing is left to skip; nothing was changed")
    skipped = _decided(Kind.SKIPPED, scene, upto=upto, person=person)
    return Decision(skipped, (f"{scene.key}: {_told(at, upto, target)}",))


def plan_reposition(
    scene: ShardSituation, *, to_lease: bool, sentinel: Checkpoint, person: Person
) -> Decision | Stop:
    """`sentinel`: what the row of a shard says of which nothing has landed."""
    at, row = scene.position, scene.row
    stands = at.checkpoint if at else None
    if scene.positions.origins.get(scene.key.stream) is None:
        return Stop(f"{scene.key}: no origin is decided for its stream; nothing was changed")
    if at is None and scene.passed_by is not None:
        return Stop(
            f"{scene.key}: it counts as ended, for {scene.passed_by} after it has a position; its row is left over and is "
            "cleared away in time; nothing was changed"
        )
    if not _disagree(row, stands):
        return Stop(
            f"{scene.key}: row and table agree (both at {stands or 'the start'}) or the row is behind, which the next wave "
            "mends by itself; nothing was changed"
        )
    if to_lease and at is None and scene.waiting:
        return Stop(
            f"{scene.key}: its turn hasn't come ({'; '.join(w.why for w in scene.waiting)}); nothing was changed"
        )
    upto = _as_the_row_says(scene, at or Position()) if to_lease else at or Position()
    if isinstance(upto, Stop):
        return Stop(f"{scene.key}: {upto.why}; nothing was changed")
    moved = _decided(Kind.REPOSITION, scene, upto=upto, person=person)
    says = upto.checkpoint
    told = (
        f"{scene.key}: the table goes from {at or 'nothing'} to {upto}, as the row says: what lies between is not landed here"
        if to_lease
        else f"{scene.key}: the row goes from {row.checkpoint} back to {says or sentinel}, where the table stands: what "
        "lies between is read and landed"
    )
    return Decision(moved if at or to_lease else None, (told,), row=says or sentinel, landed=says)


def _decided(kind: Kind, scene: ShardSituation, *, upto: Position, person: Person) -> Range:
    at = scene.position
    return Range(
        kind,
        scene.key,
        after=at,
        upto=upto,
        run=person.run,
        claim=person.claim,
        parents=scene.parents if at is None else (),
        why=person.why,
    )


def _why_no_skip(scene: ShardSituation) -> str | None:
    at = scene.position
    stands = at.checkpoint if at else None
    if scene.positions.origins.get(scene.key.stream) is None:
        return "no origin is decided for its stream, so nothing of it was ever to be read"
    if at is not None and at.ended:
        return "it has ended: nothing of it is left to skip"
    if at is None and scene.passed_by is not None:
        return f"it counts as ended, for {scene.passed_by} after it has a position"
    if at is None and scene.waiting:
        return f"its turn hasn't come ({'; '.join(w.why for w in scene.waiting)})"
    if _disagree(scene.row, stands):
        return (
            f"its row stands at {scene.row.checkpoint} and the table at {at or 'nothing'}: `headrace reposition` first "
            "decides which of the two is right"
        )
    return None


def _disagree(row: Lease, stands: Checkpoint | None) -> bool:
    """The row is ahead of the table: by its checkpoint, or by what we ourselves landed once."""
    said = [row.landed, row.checkpoint if row.checkpoint.is_digits or row.checkpoint.is_end else None]
    return any(each is not None and (stands is None or each > stands) for each in said)


def _skipped_to(at: Position, target: Target) -> Position | Stop:
    match target:
        case WhatIsLeft():
            return replace(at, gap_accepted=True)
        case AfterRecord(sequence):
            upto = Position(sequence, gap_accepted=True)
            if not is_forward(at, upto) or at.sequence == sequence:
                return Stop(f"it stands at {at}, and {sequence} isn't beyond that")
            return upto
        case Tip(sequence, arrival, moment, is_open):
            seen = moment if is_open else at.seen
            if sequence is not None and is_forward(at, Position(sequence)):
                return Position(sequence, arrival=arrival, seen=seen)
            # No record to stand at: from this moment on, where nothing has landed yet.
            start = Start(moment) if at.sequence is None and is_open else at.start
            return replace(at, seen=seen, start=start, gap_accepted=False)
        case End(shard, children, is_gone):
            if shard is not None and not shard.closed:
                return Stop("it is still open and has no end: --to-tip passes over what it holds now")
            if not is_gone and not children:
                return Stop(
                    "no listing names its children yet, and without them its end would be a hole; try again"
                )
            return replace(at, ended=True, children=children, gap_accepted=False)


def _told(at: Position | None, upto: Position, target: Target) -> str:
    stood = f"it stands at {at}" if at else "nothing of it has landed"
    match target:
        case WhatIsLeft():
            return f"{stood}; the next wave goes on with what the stream still holds, and records how far the gap went"
        case AfterRecord(sequence):
            return f"{stood}; everything up to {sequence} is passed over"
        case Tip():
            return f"{stood}; everything up to {upto}, its tip at {target.at.isoformat()}, is passed over"
        case End():
            children = ", ".join(upto.children) or "none that is known"
            return f"{stood}; its rest is passed over, it ends, and its children begin ({children})"


def _as_the_row_says(scene: ShardSituation, at: Position) -> Position | Stop:
    row, said = scene.row, scene.row.checkpoint
    if said.is_end:
        return replace(at, ended=True, children=tuple(sorted(row.children)) or at.children)
    if not said.is_digits:
        return Stop(f"its row says {said}, which is no place to go to")
    # That very record is the witness. Without it nobody knows since when the stream was whole.
    upto = Position(int(said.sequence), said.sub, arrival=scene.arrival, gap_accepted=scene.arrival is None)
    if not is_forward(at, upto):
        return Stop(
            f"its row says {said}, behind the table's {at}: the table's rows would land twice. Delete the rows first, or "
            "choose --to table"
        )
    return upto
