"""The landing decision: which part of a proposal may become part of the lake table, given the table's positions.

Each adapter of the port `LandingTable` asks `decide_landing` about the snapshot on which its commit is built (the
base), and commits only if that snapshot still is the newest. Exactly-once rests on this function.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime

from headrace.pipeline.core.landing.rests_on import reach
from headrace.pipeline.core.landing.valid_through import Through, through_after
from headrace.pipeline.core.ledger.batch import StagedFile, TakenFile
from headrace.pipeline.core.ledger.belonging import READ_FROM_STREAMS, why_too_early, why_too_late
from headrace.pipeline.core.ledger.generation import chain_of
from headrace.pipeline.core.ledger.ledger import FilesDone, Kind, LedgerPage, ParentIs, ParentReason, Range
from headrace.pipeline.core.order.parents import children_of_ends, strangers
from headrace.pipeline.core.shards.position import Origin, Position, Positions, is_forward, reaches
from headrace.pipeline.core.shards.stream import ShardKey, StreamId


@dataclass(frozen=True, slots=True)
class Proposal:
    """What a commit would add to a table: ranges of any kind, data files and origins; and what it would remove,
    such as END positions.
    """

    ranges: tuple[Range, ...] = ()
    files: tuple[StagedFile, ...] = ()
    origins: tuple[tuple[StreamId, Origin], ...] = ()
    drop: tuple[ShardKey, ...] = ()
    begun: tuple[ShardKey, ...] = ()
    """Shards whose positions show that nothing after the dropped ENDs is left to read. The children that an END names
    needn't be here."""
    proofs: tuple[tuple[StreamId, frozenset[str]], ...] = ()
    """For streams, the shards whose positions prove that the table knows all shards
    (`headrace.pipeline.core.landing.valid_through`)."""
    below: Mapping[ShardKey, frozenset[str]] = field(default_factory=dict)
    """For ranges that begin at the start of their shards: the shards' descendants, as far as the run knew them
    (D19)."""
    known: Mapping[StreamId, frozenset[str]] = field(default_factory=dict)
    """The streams of such ranges -> all shards that the run knew (D19)."""
    begun_by: Mapping[StreamId, Origin] = field(default_factory=dict)
    """For streams of ranges that begin before any record: the origin by which their reading began."""
    whole: bool = False
    """Everything of the proposal lands, or nothing does. For a commit that decides about rows of another table, too:
    their files may have rows of any shard."""
    also: tuple[StagedFile, ...] = ()
    """Staged files of another table, of which the ranges tell: they have to be there, and aren't added to this
    table."""
    taken: tuple[TakenFile, ...] = ()
    """Data files of another table, of which the ranges tell that they leave it. They have to be there, too: a
    compaction may have replaced one of them since, and then upkeep deletes it some days later."""
    compared: Positions | None = None
    """The positions of the table whose rows the proposed rows were compared with. Where another commit has moved a
    position since, the table may have further rows, and nothing lands."""
    looked: FilesDone | None = None
    """For a typed table: which files of the lake table have nothing left for it, once all of the proposal has
    landed."""
    rests_on: Positions = field(default_factory=Positions)
    """The positions with which `looked` was found, before the proposal. Where the base is behind one of them, `looked`
    isn't said."""
    window: str = ""
    """The id of the window for which the table is from this commit on. Where the table is another window's, or has a commit
    that isn't this window's, nothing lands."""
    gone: tuple[str, ...] = ()
    """Paths of data files that the commit removes from the table. Where the table lacks one of them, or another engine
    has deleted rows of one by a delete file, nothing lands."""


@dataclass(frozen=True, slots=True)
class RangeRefused:
    """A range that doesn't land. This isn't an error unless it is `fatal`: the records of the shard are read
    again, from the table's position on.
    """

    range: Range
    position: Position | None
    why: str
    fatal: bool = False
    """Its records can't be the stream's own. Whoever reads again reads and stages the same ones: a person has to
    look."""


@dataclass(frozen=True, slots=True)
class Landing:
    """The part of a proposal that lands on a given snapshot, and the ranges that are refused."""

    page: LedgerPage
    files: tuple[StagedFile, ...]
    refused: tuple[RangeRefused, ...]
    positions: Positions
    """The base's positions with the landed ranges applied."""
    through: Through = field(default_factory=dict)
    """The time up to which the table has all records of each stream."""
    proves: bool = False
    """Whether a statement begins with this commit, which is then worth a snapshot of its own."""

    @classmethod
    def carrying(cls, positions: Positions, through: Through, files: tuple[StagedFile, ...] = ()) -> Landing:
        """A commit that lands nothing and repeats the positions of its base. `files`: new files that take the
        place of others.
        """
        return cls(LedgerPage(), files, (), positions, through)

    @classmethod
    def without_files(cls, proposal: Proposal, positions: Positions) -> Landing:
        """A landing in which all of the proposal is refused, because the table lacks a file that the proposal
        would remove.
        """
        return cls.refusing(
            proposal,
            positions,
            "another commit has removed a file that this one would remove, or has deleted rows of it",
        )

    @classmethod
    def refusing(cls, proposal: Proposal, positions: Positions, why: str) -> Landing:
        """A landing in which all of the proposal is refused."""
        refused = tuple(
            RangeRefused(proposed, positions.of(proposed.key), why) for proposed in proposal.ranges
        )
        return cls(LedgerPage(), (), refused, positions)

    @property
    def is_empty(self) -> bool:
        return not (self.page.ranges or self.page.origins or self.page.dropped or self.proves)


_UNSTATED: Through = {}


def decide_landing(
    base: Positions,
    proposal: Proposal,
    stated: Through = _UNSTATED,
    now: datetime | None = None,
    *,
    owner: str | None = None,
) -> Landing:
    """Accept or refuse each range of the proposal, given the positions of the base and what the base states
    (`valid-through`).

    `now`: the clock of the commit; None where arrivals aren't compared with it. `owner`: the id of the window to
    which the table belongs, empty for none; None where the table has no commit yet, so that it may become a
    window's table.
    """
    _check_proposal(proposal)
    if proposal.window and owner not in {None, proposal.window}:
        return Landing.refusing(proposal, base, "the table isn't this window's own")
    # An origin is decided once for ever: where the base has one, the proposed one is ignored. So is the origin of a
    # life that is over by now: a commit that arrives late would make the stream's present life, whose origin is
    # decided, look like a later one.
    decided = {
        stream: origin
        for stream, origin in proposal.origins
        if stream not in base.origins and not base.has_later_life(stream)
    }
    refused = _refused_ranges(base, proposal, decided, now)
    if proposal.whole and refused:
        why = f"the range lands together with {min(refused).shard_id}, which is refused"
        refused |= {r.key: RangeRefused(r, r.after, why) for r in proposal.ranges if r.key not in refused}
        # Nor an origin, an END that goes, or a statement: with any of them there would be a commit, which would remove
        # the files in `gone`.
        return Landing(LedgerPage(), (), tuple(refused.values()), base, stated)
    # From here on, a refused shard leaves nothing in the commit: no range, no file, no position (I10 of
    # docs/reference/protocol.md).
    landed = tuple(r for r in proposal.ranges if r.key not in refused)
    files = tuple(f for f in proposal.files if not f.shards & refused.keys())
    moved = {r.key: _carried(base.of(r.key), r) for r in landed if r.moves}
    dropped = tuple(k for k in proposal.drop if k not in moved and _may_drop(base, k, proposal.begun))
    positions = base.with_origins(decided).with_shards(moved, dropped)
    looked = proposal.looked if not refused and reach(base, proposal.rests_on) else None
    page = LedgerPage(landed, tuple(sorted(decided.items())), dropped, looked)
    through = through_after(stated, base, page=page, positions=positions, proofs=proposal.proofs)
    proves = not through.keys() <= stated.keys()
    return Landing(page, files, tuple(refused.values()), positions, through, proves)


def _refused_ranges(
    base: Positions, proposal: Proposal, decided: Mapping[StreamId, Origin], now: datetime | None
) -> dict[ShardKey, RangeRefused]:
    """One refusal for each shard: the first reason that is found is told."""
    refused: dict[ShardKey, RangeRefused] = {}
    new = {stream: strangers(stream, shard_ids, base) for stream, shard_ids in proposal.known.items()}
    for proposed in proposal.ranges:
        why = (
            _why_refused(base, decided, proposed)
            or _why_by_another_origin(base, proposed, proposal.begun_by)
            or _why_passed(base, proposed, proposal.below, new)
        )
        if why is not None:
            refused[proposed.key] = RangeRefused(proposed, base.of(proposed.key), why)
        elif why := _why_of_another(proposed, now):
            refused[proposed.key] = RangeRefused(proposed, base.of(proposed.key), why, fatal=True)
    if why := _why_compare_anew(base, proposal.compared):
        refused |= {
            r.key: RangeRefused(r, base.of(r.key), why) for r in proposal.ranges if r.key not in refused
        }
    refused |= _replays_alone(base, proposal, refused)
    refused |= _closed_over_files(proposal, refused)
    return refused


def _check_proposal(proposal: Proposal) -> None:
    """Raise for a proposal that contradicts itself. That is a bug of the caller, so no part of the proposal can be
    trusted."""
    # Aggregates are taken apart landing by landing, in one commit, and no position moves.
    apart = [(r.key, r.after) for r in proposal.ranges if r.kind is Kind.UNPACKED]
    keys = [r.key for r in proposal.ranges if r.kind is not Kind.UNPACKED]
    if len(keys) + len({key for key, _ in apart}) != len({r.key for r in proposal.ranges}):
        raise ValueError("a proposal holds at most one range of a shard")
    if len(apart) != len(set(apart)):
        raise ValueError("a proposal takes the aggregates of a range apart twice")
    if proposal.gone and not proposal.whole:
        raise ValueError("files are removed only by a proposal that lands as a whole or not at all")
    if not proposal.gone and any(r.kind is Kind.UNPACKED for r in proposal.ranges):
        # Of two commits that take the same aggregates apart, the second one is refused because the first has removed
        # the files.
        raise ValueError(
            "aggregates are taken apart only together with the removal of the files that have them"
        )
    if orphans := frozenset().union(*(f.shards for f in proposal.files)) - {r.key for r in proposal.ranges}:
        raise ValueError(f"files hold rows of shards that the proposal has no range for: {sorted(orphans)}")


def _why_refused(base: Positions, decided: Mapping[StreamId, Origin], proposed: Range) -> str | None:
    position = base.of(proposed.key)
    # The comparison of the compare-and-swap, for each shard. It keeps the ranges of a shard one chain without gap or
    # overlap (I4).
    if proposed.moves and _token(position) != _token(proposed.after):
        return f"the table's position is {position or 'none'}, but this range began at position {proposed.after or 'none'}"
    if proposed.moves and position and proposed.after and position.footing != proposed.after.footing:
        return (
            f"the table's position is {position}, "
            "but what is decided about the records after it has changed since this range began"
        )
    if proposed.moves and not proposed.may_go_back and not is_forward(proposed.after, proposed.upto):
        return f"the range would move the position back, from {proposed.after} to {proposed.upto}"
    if proposed.key.stream not in base.origins and proposed.key.stream not in decided:
        return f"no origin is decided for {proposed.key.stream}"
    # Only a shard's first range names its parents. Later ranges land only after it, so its parents were out of the way
    # by then (I3).
    if proposed.after is None and (
        why := next((why for p in proposed.parents if (why := _why_in_the_way(base, proposed.key, p))), None)
    ):
        return why
    # What lies after the position is still to be read: rows of a replay there would land once more.
    if proposed.kind is Kind.REPLAY and not (position and reaches(position, proposed.upto)):
        return (
            f"the table's position is {position or 'none'}, "
            f"before the end {proposed.upto} of the range that would be replaced"
        )
    return None


def _why_by_another_origin(
    base: Positions, proposed: Range, begun_by: Mapping[StreamId, Origin]
) -> str | None:
    """Why a range that begins before any record may begin elsewhere than the table says: a person has set the table
    back to before the stream's origin, or repaired it with another one, after the run had looked."""
    stream = proposed.key.stream
    begins_before_any = proposed.after is None or proposed.after.sequence is None
    read_by, origin = begun_by.get(stream), base.origins.get(stream)
    if not begins_before_any or read_by is None or origin is None or origin.footing == read_by.footing:
        return None
    return (
        f"the origin of its stream is {origin.start}, decided at {origin.decided}, "
        "and this range was read by another one"
    )


def _why_compare_anew(base: Positions, compared: Positions | None) -> str | None:
    """Whether the table may have rows that the proposed rows weren't compared with."""
    # Every commit of Headrace that brings rows moves a position. Compaction, retention and expiry move none, and bring
    # no row.
    if compared is None:
        return None
    keys = sorted(base.shards.keys() | compared.shards.keys())
    moved = next((key for key in keys if _token(base.of(key)) != _token(compared.of(key))), None)
    if moved is None:
        return None
    return f"the rows of the range have to be compared with those that another commit has brought of {moved.shard_id}"


def _token(position: Position | None) -> object:
    return position.token if position else None


def _why_in_the_way(base: Positions, child: ShardKey, parent: ParentReason) -> str | None:
    """Whether the parent still is out of the way, for the reason that the run found before it read."""
    # A rollback between the run's look and the commit may have removed the parent's position. BEFORE_START and GONE
    # rest on Kinesis's answers, which a rollback doesn't change, so only a position that appeared meanwhile is checked
    # for these.
    position = base.of(ShardKey(child.stream, parent.shard_id))
    if position is not None:
        return (
            None
            if position.ended
            else f"the shard's parent {parent.shard_id} hasn't ended in the table (the parent's position is {position})"
        )
    if parent.why is ParentIs.ENDED:
        return f"the shard's parent {parent.shard_id} had ended when the run looked, but has no position in the table now"
    if parent.why is ParentIs.PASSED and (
        parent.by is None or base.of(ShardKey(child.stream, parent.by)) is None
    ):
        return (
            f"the shard's parent {parent.shard_id} counted as ended because of its descendant {parent.by}, "
            "which has no position in the table now"
        )
    return None


def _why_passed(
    base: Positions,
    proposed: Range,
    below: Mapping[ShardKey, frozenset[str]],
    new: Mapping[StreamId, frozenset[str]],
) -> str | None:
    """Why a range may not begin at its shard's start, although the table has no position of the shard: another run has
    read the shard to its end meanwhile, and the END has been removed since. Then the table has a position of a
    descendant. `new`: shards of which the run couldn't know whether they are descendants, because there was none of
    them when it looked."""
    if proposed.after is not None:
        return None
    descendants = sorted(below.get(proposed.key, ()))
    by = next(
        (shard for shard in descendants if base.of(ShardKey(proposed.key.stream, shard)) is not None), None
    )
    if by is not None:
        return f"another run has read this shard to its end: its descendant {by} has a position in the table"
    if new.get(proposed.key.stream):
        return (
            "another run may have read this shard to its end: "
            f"{min(new[proposed.key.stream])} has a position in the table, and whether it is a "
            "descendant wasn't known when the range was read"
        )
    return None


def _why_of_another(proposed: Range, now: datetime | None) -> str | None:
    """Why records that were read from the stream can't be its own (I43 of docs/reference/protocol.md)."""
    if proposed.kind not in READ_FROM_STREAMS or not proposed.rows:
        return None
    late = None if now is None else why_too_late(proposed.last_arrival, now)
    return why_too_early(proposed.key.stream, proposed.first_arrival) or late


def _may_drop(base: Positions, key: ShardKey, begun: tuple[ShardKey, ...]) -> bool:
    """Whether the END can be removed without the shard looking like one that is still to be read."""
    # Children without a position would wait for this shard: once all have positions, these show that it ended. A child
    # that has only a start inherits this shard's witness. And a shard without a position that a parent's END names as a
    # child counts as unread.
    position = base.of(key)
    if position is None or not position.ended or key.shard_id in children_of_ends(key.stream, base):
        return False
    below = (*(ShardKey(key.stream, child) for child in position.children), *begun)
    return bool(below) and all(base.is_independent(child) for child in below)


def _replays_alone(
    base: Positions, proposal: Proposal, refused: Mapping[ShardKey, RangeRefused]
) -> dict[ShardKey, RangeRefused]:
    """The replays whose shard's generation isn't raised by the same commit (I39 of docs/reference/protocol.md): of two replays of
    the same rows, both would land. An empty range has no file by which a second replay could be noticed."""
    raised = {r.key for r in proposal.ranges if r.moves and r.key not in refused}
    why = "the generation of its shard isn't raised with the range, because another commit has raised it meanwhile"
    return {
        r.key: RangeRefused(r, base.of(r.key), why)
        for r in proposal.ranges
        if r.kind is Kind.REPLAY and r.key not in refused and chain_of(r.key) not in raised
    }


def _closed_over_files(
    proposal: Proposal, refused: Mapping[ShardKey, RangeRefused]
) -> dict[ShardKey, RangeRefused]:
    """The ranges that can't land because they share a file with a refused one, over any number of files (D10 of
    docs/reference/protocol.md)."""
    # No file with records of a refused shard lands, and no shard lands in part. So a refused shard takes the other
    # shards in its files along, these take the shards in their other files along, and so on until nothing is added.
    by_key = {r.key: r for r in proposal.ranges}
    out = set(refused)
    taken: dict[ShardKey, RangeRefused] = {}
    grew = True
    while grew:
        grew = False
        for file in proposal.files:
            causes = file.shards & out
            if not causes:
                continue
            why = f"the range shares a file with {min(causes).shard_id}, which is refused"
            for key in sorted(file.shards - out):
                taken[key] = RangeRefused(by_key[key], by_key[key].after, why)
                out.add(key)
                grew = True
    return taken


def _carried(before: Position | None, moved: Range) -> Position:
    """The shard's new position: the range's end, completed by what only the base's position has."""
    # Two runs may look at a shard one after the other, and the later commit may have the older look: the newer `seen`
    # stays, so that the witness never goes back. A reposition or a repair replaces the whole position.
    after = moved.upto
    if before is None or moved.may_go_back:
        return after
    return replace(
        after,
        children=after.children or before.children,
        arrival=after.arrival or before.arrival,
        seen=max((t for t in (before.seen, after.seen) if t is not None), default=None),
        start=(after.start or before.start) if after.sequence is None else None,
    )
