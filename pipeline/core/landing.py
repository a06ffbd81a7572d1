"""The landing decision: what of a proposal may become part of the table, given where the table stands.

Every adapter of `LandingTable` asks this function about the base that its commit will be built on, and
commits only if that base is still the newest. All of exactly-once hangs on these few lines.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from pipeline.core.batch import StagedFile
from pipeline.core.lineage import LedgerPage, ParentIs, ParentReason, Range
from pipeline.core.order import children_of_ends
from pipeline.core.position import Origin, Position, Positions, is_forward
from pipeline.core.stream import ShardKey, StreamId


@dataclass(frozen=True, slots=True)
class Proposal:
    """What a commit would like to say. Any kind of range, with or without files."""

    ranges: tuple[Range, ...] = ()
    files: tuple[StagedFile, ...] = ()
    origins: tuple[tuple[StreamId, Origin], ...] = ()
    drop: tuple[ShardKey, ...] = ()


@dataclass(frozen=True, slots=True)
class RangeRefused:
    """The table had moved, or an order would have been broken. Not an error: the shard is read again."""

    range: Range
    found: Position | None
    why: str


@dataclass(frozen=True, slots=True)
class Landing:
    """What of a proposal stands on a given base."""

    page: LedgerPage
    files: tuple[StagedFile, ...]
    refused: tuple[RangeRefused, ...]
    positions: Positions
    """The base's positions, carried forward."""

    @property
    def is_empty(self) -> bool:
        return not (self.page.ranges or self.page.origins or self.page.dropped)


def decide_landing(base: Positions, proposal: Proposal) -> Landing:
    """Judge each range against the base, and take along what shares a file with a refused one."""
    _check_proposal(proposal)
    refused: dict[ShardKey, RangeRefused] = {}
    decided = {stream: origin for stream, origin in proposal.origins if stream not in base.origins}
    for each in proposal.ranges:
        why = _why_refused(base, decided, each)
        if why is not None:
            refused[each.key] = RangeRefused(each, base.of(each.key), why)
    refused |= _closed_over_files(proposal, refused)
    landed = tuple(r for r in proposal.ranges if r.key not in refused)
    files = tuple(f for f in proposal.files if not f.shards & refused.keys())
    moved = {r.key: _carried(base.of(r.key), r) for r in landed if r.moves}
    dropped = tuple(k for k in proposal.drop if k not in moved and _may_drop(base, k))
    positions = base.with_origins(decided).with_shards(moved, dropped)
    page = LedgerPage(landed, tuple(sorted(decided.items())), dropped)
    return Landing(page, files, tuple(refused.values()), positions)


def _check_proposal(proposal: Proposal) -> None:
    """Mistakes of the caller: refused as a whole, for no part of them can be trusted."""
    keys = [r.key for r in proposal.ranges]
    if len(keys) != len(set(keys)):
        raise ValueError("a proposal holds at most one range of a shard")
    if orphans := frozenset().union(*(f.shards for f in proposal.files)) - set(keys):
        raise ValueError(f"files hold rows of shards that the proposal has no range for: {sorted(orphans)}")


def _why_refused(base: Positions, decided: Mapping[StreamId, Origin], each: Range) -> str | None:
    found = base.of(each.key)
    if each.moves and (found.token if found else None) != (each.after.token if each.after else None):
        return f"the table stands at {found or 'nothing'}, this range began at {each.after or 'nothing'}"
    if each.moves and not each.may_go_back and not is_forward(each.after, each.upto):
        return f"it would move the position back, from {each.after} to {each.upto}"
    if each.key.stream not in base.origins and each.key.stream not in decided:
        return f"no origin is decided for {each.key.stream}"
    if each.after is None:
        return next((why for p in each.parents if (why := _why_in_the_way(base, each.key, p))), None)
    return None


def _why_in_the_way(base: Positions, child: ShardKey, parent: ParentReason) -> str | None:
    """The reason that the run saw must still hold in the base (a rollback may have taken it away)."""
    at = base.of(ShardKey(child.stream, parent.shard_id))
    if at is not None:
        return (
            None
            if at.ended
            else f"its parent {parent.shard_id} hasn't ended in the table (it stands at {at})"
        )
    if parent.why is ParentIs.ENDED:
        return f"its parent {parent.shard_id} was taken as ended, but has no position in the table"
    if parent.why is ParentIs.PASSED and (
        parent.by is None or base.of(ShardKey(child.stream, parent.by)) is None
    ):
        return f"its parent {parent.shard_id} was taken as passed by {parent.by}, which has no position in the table"
    return None


def _may_drop(base: Positions, key: ShardKey) -> bool:
    """An END that children without a position need stays: they would count it as unread. So does one that a parent's
    END names: it would look like a child that is still to be read."""
    at = base.of(key)
    if at is None or not at.ended or not at.children or key.shard_id in children_of_ends(key.stream, base):
        return False
    return all(base.of(ShardKey(key.stream, child)) is not None for child in at.children)


def _closed_over_files(
    proposal: Proposal, refused: Mapping[ShardKey, RangeRefused]
) -> dict[ShardKey, RangeRefused]:
    """No file of a refused shard lands, and no shard lands in part: follow shared files to the end."""
    by_key = {r.key: r for r in proposal.ranges}
    out = set(refused)
    taken: dict[ShardKey, RangeRefused] = {}
    grew = True
    while grew:
        grew = False
        for file in proposal.files:
            if not file.shards & out:
                continue
            for key in file.shards - out:
                cause = min(file.shards & out)
                taken[key] = RangeRefused(
                    by_key[key], by_key[key].after, f"it shares a file with {cause.shard_id}"
                )
                out.add(key)
                grew = True
    return taken


def _carried(before: Position | None, moved: Range) -> Position:
    """A move that brings no witness, start or children of its own keeps those of the base."""
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
