"""A person's decision about one shard: the range that the ledger gets, and the checkpoint that the lease row gets.

    skip                   lost records are given up: the next wave reads what Kinesis still has, and records the gap
    skip --to SEQUENCE     reading goes on after that record
    skip --to-tip          reading goes on with records that are put from now on
    skip --end             the shard counts as read to its end, so that its children are read
    reposition --to table  the row is wrong: it gets the table's position as its checkpoint
    reposition --to lease  the row is right: the table's position moves to the row's checkpoint, without records

This module only plans. A decision that makes no sense, or that would harm, is a `Stop` with the reason.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime

from headrace.pipeline.core.leases.lease import Lease
from headrace.pipeline.core.ledger.author import Author
from headrace.pipeline.core.ledger.ledger import Kind, ParentReason, Range
from headrace.pipeline.core.order.parents import InTheWay
from headrace.pipeline.core.order.start_of_reading import Stop
from headrace.pipeline.core.shards.checkpoint import Checkpoint
from headrace.pipeline.core.shards.position import Position, Positions, Start, is_forward
from headrace.pipeline.core.shards.shard import Shard
from headrace.pipeline.core.shards.stream import ShardKey


@dataclass(frozen=True, slots=True)
class WhatIsLeft:
    """A decision: give up the records that Kinesis no longer has, and read the rest."""


@dataclass(frozen=True, slots=True)
class AfterRecord:
    """A decision: go on after the record with this sequence number."""

    sequence: int


@dataclass(frozen=True, slots=True)
class Tip:
    """A decision: go on after the newest record of the shard, which was found just now."""

    sequence: int | None
    """The sequence number of the newest record; None where Kinesis has none."""
    arrival: datetime | None
    looked: datetime
    """When the command looked, by Kinesis's clock."""
    is_open: bool = True
    # Only the tip of an open shard counts as `seen`. Children take the latest witness of their parents, and the
    # children of a closed shard may have got, and lost, records before the command looked.


@dataclass(frozen=True, slots=True)
class End:
    """A decision: treat the shard as read to its end."""

    shard: Shard | None
    """The shard in the unfiltered listing; None where the listing lacks it."""
    children: tuple[str, ...]
    is_gone: bool
    """Whether Kinesis answers ResourceNotFound for the shard."""


Target = WhatIsLeft | AfterRecord | Tip | End


@dataclass(frozen=True, slots=True)
class ShardSituation:
    """What the lease row, the lake table and the stream say about one shard."""

    key: ShardKey
    row: Lease
    positions: Positions
    parents: tuple[ParentReason, ...] = ()
    waiting: tuple[InTheWay, ...] = ()
    passed_by: str | None = None
    arrival: datetime | None = None
    """When the record at the row's checkpoint arrived; None where Kinesis no longer has it."""

    @property
    def position(self) -> Position | None:
        return self.positions.of(self.key)


@dataclass(frozen=True, slots=True)
class Person:
    """The person's command, with the reason that the person gave, for the ledger."""

    run: str
    claim: str
    why: str


@dataclass(frozen=True, slots=True)
class Decision:
    range: Range | None
    """None where the table needs no change. A shard without a position stays without one, because a position would make
    its ancestors count as ended."""
    sentences: tuple[str, ...]
    row: Checkpoint | None = None
    """The checkpoint that the row gets. None where the next wave brings the row forward by itself."""
    landed: Checkpoint | None = None
    """With `row`: the checkpoint up to which Headrace has landed the shard."""


def plan_skip(situation: ShardSituation, target: Target, person: Person) -> Decision | Stop:
    position = situation.position
    trouble = _why_no_skip(situation)
    if trouble is not None:
        return Stop(f"{situation.key}: {trouble}; nothing was changed")
    upto = _skipped_to(position or Position(), target)
    if isinstance(upto, Stop):
        return Stop(f"{situation.key}: {upto.why}; nothing was changed")
    if upto == position:
        return Stop(
            f"{situation.key}: this was decided before, or nothing is left to skip; nothing was changed"
        )
    skipped = _range(Kind.SKIPPED, situation, upto=upto, person=person)
    return Decision(skipped, (f"{situation.key}: {_skip_sentence(position, upto, target)}",))


def plan_reposition(
    situation: ShardSituation, *, to_lease: bool, sentinel: Checkpoint, person: Person
) -> Decision | Stop:
    """Make the lease row and the lake table agree about a shard: one of their two positions is right.

    `to_lease`: the table gets the row's position; otherwise the row gets the table's. `sentinel`: the checkpoint
    in the row of a shard of which nothing has landed.
    """
    position, row = situation.position, situation.row
    stands = position.checkpoint if position else None
    if situation.positions.origins.get(situation.key.stream) is None:
        return Stop(f"{situation.key}: no origin is decided for its stream yet; nothing was changed")
    if position is None and situation.passed_by is not None:
        return Stop(
            f"{situation.key}: the shard counts as ended, "
            f"because its descendant {situation.passed_by} has a position; clean-up "
            "will delete its row; nothing was changed"
        )
    if not _is_row_ahead(row, stands):
        return Stop(
            f"{situation.key}: the row and the table agree (both at {stands or 'the start'}), "
            "or the row is behind, and then the "
            "next wave brings it forward; nothing was changed"
        )
    if to_lease and position is None and situation.waiting:
        return Stop(
            f"{situation.key}: the shard's parents come first ({'; '.join(w.why for w in situation.waiting)}); "
            "nothing was changed"
        )
    upto = _position_of_row(situation, position or Position()) if to_lease else position or Position()
    if isinstance(upto, Stop):
        return Stop(f"{situation.key}: {upto.why}; nothing was changed")
    moved = _range(Kind.REPOSITION, situation, upto=upto, person=person)
    says = upto.checkpoint
    sentence = (
        f"{situation.key}: the table's position goes from {position or 'none'} to {upto}, "
        "as in the row: the records between are not "
        "landed here"
        if to_lease
        else f"{situation.key}: the row's checkpoint goes from {row.checkpoint} back to {says or sentinel}, "
        "as in the table: the records between are read and landed"
    )
    return Decision(moved if position or to_lease else None, (sentence,), row=says or sentinel, landed=says)


def _range(kind: Kind, situation: ShardSituation, *, upto: Position, person: Person) -> Range:
    position = situation.position
    return Author(person.run, person.claim).range(
        kind,
        situation.key,
        position,
        upto,
        # Also a person's range is checked at the commit: the first one of a shard names the parents (I3 of
        # docs/reference/protocol.md).
        parents=situation.parents if position is None else (),
        why=person.why,
    )


def _why_no_skip(situation: ShardSituation) -> str | None:
    position = situation.position
    stands = position.checkpoint if position else None
    if situation.positions.origins.get(situation.key.stream) is None:
        return "no origin is decided for the shard's stream yet, so there is nothing to skip"
    if position is not None and position.ended:
        return "the shard has ended, so nothing is left to skip"
    if position is None and situation.passed_by is not None:
        return f"the shard counts as ended, because its descendant {situation.passed_by} has a position"
    if position is None and situation.waiting:
        return f"the shard's parents come first ({'; '.join(w.why for w in situation.waiting)})"
    if _is_row_ahead(situation.row, stands):
        return (
            f"the row's checkpoint is {situation.row.checkpoint} and the "
            f"table's position is {position or 'none'}: first decide with "
            "`headrace reposition` which of the two is right"
        )
    return None


def _is_row_ahead(row: Lease, stands: Checkpoint | None) -> bool:
    """Whether the row is ahead of the table, by its checkpoint or by the checkpoint that Headrace itself last wrote."""
    said = [row.landed, row.checkpoint if row.checkpoint.is_digits or row.checkpoint.is_end else None]
    return any(checkpoint is not None and (stands is None or checkpoint > stands) for checkpoint in said)


def _skipped_to(position: Position, target: Target) -> Position | Stop:
    match target:
        case WhatIsLeft():
            return replace(position, gap_accepted=True)
        case AfterRecord(sequence):
            upto = Position(sequence, gap_accepted=True)
            if not is_forward(position, upto) or position.sequence == sequence:
                return Stop(f"the table's position is {position}, and {sequence} isn't after it")
            return upto
        case Tip(sequence, arrival, moment, is_open):
            last_look = moment if is_open else position.seen
            skipped = moment if is_open else position.skipped_until
            if sequence is not None and is_forward(position, Position(sequence)):
                stays = sequence == position.sequence
                return Position(
                    sequence, arrival=arrival, seen=last_look, skipped_until=skipped if stays else None
                )
            # Kinesis has no newer record than the position. Where none has landed at all, reading starts at this
            # moment.
            start = Start(moment) if position.sequence is None and is_open else position.start
            return replace(position, seen=last_look, start=start, gap_accepted=False, skipped_until=skipped)
        case End(shard, children, is_gone):
            if shard is not None and not shard.closed:
                return Stop(
                    "the shard is still open, so it has no end yet; --to-tip skips the records that it holds now"
                )
            # An END is committed for ever, so it waits until its children are known. Of a forgotten shard nobody can
            # tell them.
            if not is_gone and not children:
                return Stop(
                    "no listing names the shard's children yet, and its end is recorded together with them; try again"
                )
            return replace(position, ended=True, children=children, gap_accepted=False)


def _skip_sentence(position: Position | None, upto: Position, target: Target) -> str:
    stood = f"the table's position is {position}" if position else "no record of the shard has landed"
    match target:
        case WhatIsLeft():
            return f"{stood}; the next wave goes on with what the stream still holds, and records how far the gap went"
        case AfterRecord(sequence):
            return f"{stood}; all records up to {sequence} are skipped"
        case Tip():
            return f"{stood}; all records up to {upto}, the shard's tip at {target.looked.isoformat()}, are skipped"
        case End():
            children = ", ".join(upto.children) or "none is known"
            return f"{stood}; the shard's other records are skipped, it ends, and its children are read ({children})"


def _position_of_row(situation: ShardSituation, position: Position) -> Position | Stop:
    """The position that the row's checkpoint stands for."""
    row, said = situation.row, situation.row.checkpoint
    if said.is_end:
        return replace(position, ended=True, children=tuple(sorted(row.children)) or position.children)
    if not said.is_digits:
        return Stop(f"the row's checkpoint is {said}, which names no record to go on after")
    # The arrival of the record at the checkpoint becomes the witness. Where Kinesis no longer has that record, nothing
    # tells since when records may be lost, so the next wave records a gap and reads on.
    upto = Position(
        int(said.sequence),
        said.sub,
        arrival=situation.arrival,
        gap_accepted=situation.arrival is None,
        inside=True,
    )
    if not is_forward(position, upto):
        return Stop(
            f"the row's checkpoint {said} is behind the table's position {position}, "
            "so records would land twice. Delete these records "
            "from the table first, or choose --to table"
        )
    return upto
