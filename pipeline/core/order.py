"""Parents before children: when is a shard's parent out of its way?

parent ... ended in the table                                   -> ENDED
           no position, but a descendant has one                -> PASSED (counts as END everywhere)
           a position that isn't END                            -> in the way
           no position, but a row, or in scope of the origin,
             or named as a child by an END in the table         -> in the way: it is to be read first
           no position, no row, out of scope, still listed,
             and Kinesis has no record of it since the origin   -> BEFORE_START
           no position, no row, not listed, ResourceNotFound    -> GONE
           no position, no row, not listed, yet it answers      -> in the way (a listing may be late)
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime

from pipeline.core.lease import Lease
from pipeline.core.lineage import ParentIs, ParentReason
from pipeline.core.position import Positions
from pipeline.core.shard import Shard
from pipeline.core.stream import ShardKey, StreamId


@dataclass(frozen=True, slots=True)
class Family:
    """All shards of a stream with their parents and children, as known from listings, lease rows and the lake table."""

    stream: StreamId
    parents: Mapping[str, frozenset[str]]
    children: Mapping[str, frozenset[str]]
    in_scope: frozenset[str]
    """Shards in the listing that starts at the origin (ListShards with FROM_TIMESTAMP)."""
    listed: frozenset[str]
    """Shards in the listing of all shards, or in scope."""
    with_row: frozenset[str]
    expected: frozenset[str] = frozenset()
    """Shards that an END in the table names as children, listed or not."""

    def passed(self, positions: Positions) -> dict[str, str]:
        """Ancestor -> one of its descendants that has a position. Without a position of its own, such an ancestor counts as ended."""
        # An END is removed from the positions one day, and a late listing may show the shard again (D15 of docs/protocol.md).
        placed = sorted(key.shard_id for key in positions.shards if key.stream == self.stream)
        by: dict[str, str] = {}
        for shard_id in placed:
            todo = [shard_id]
            while todo:
                if its := self.parents.get(todo.pop()):
                    above = sorted(its - by.keys())
                    by.update(dict.fromkeys(above, shard_id))
                    todo += above
        return by

    def passed_by(self, shard_id: str, positions: Positions) -> str | None:
        """A descendant of the shard that has a position; None where none has."""
        return self.passed(positions).get(shard_id)

    def lacks_a_parent(self, shard_id: str, positions: Positions) -> bool:
        """Whether the shard seems to come from a merge of which one parent is known only: no listing shows the shard any
        more, and the parent's END names no other child."""
        its = self.parents.get(shard_id, frozenset())
        if shard_id in self.listed or len(its) != 1:
            return False
        known = positions.of(ShardKey(self.stream, *its))
        return known is not None and known.children == (shard_id,)

    def is_cut_off(self, shard_id: str, positions: Positions) -> bool:
        """Whether shards that descend from this one may have left the stream without a trace: it is closed, and a child of it
        is unknown, or has no position and is in no listing."""
        at = positions.of(ShardKey(self.stream, shard_id))
        if at is None or not at.ended:
            return at is not None and shard_id not in self.listed
        seen = [c in self.listed or positions.of(ShardKey(self.stream, c)) is not None for c in at.children]
        is_split = len(at.children) == 1 and self.parents[at.children[0]] == {shard_id}
        return not seen or not all(seen) or is_split

    def counts_as_end(self, shard_id: str, positions: Positions) -> bool:
        return counts_as_end(ShardKey(self.stream, shard_id), positions, self.passed(positions))


def counts_as_end(key: ShardKey, positions: Positions, passed: Mapping[str, str]) -> bool:
    """Whether the shard has ended in the table, or has no position while a descendant has one. `passed`: from `Family.passed`."""
    # A position of its own decides alone. KCL makes the rows of children before it ends the parent, and adopting turns all rows into
    # positions, so a descendant's position proves nothing against an open one (D13 of docs/protocol.md).
    position = positions.of(key)
    return position.ended if position is not None else key.shard_id in passed


def a_family(
    stream: StreamId,
    in_scope: Iterable[Shard],
    *,
    listed: Iterable[Shard] = (),
    leases: Iterable[Lease] = (),
    positions: Positions | None = None,
) -> Family:
    scope, every, rows = tuple(in_scope), tuple(listed), tuple(leases)
    parents: dict[str, set[str]] = {}
    for shard in (*scope, *every):
        parents.setdefault(shard.shard_id, set()).update(shard.parents)
    for lease in rows:
        parents.setdefault(lease.shard_id, set()).update(lease.parents)
        for child in lease.children:
            parents.setdefault(child, set()).add(lease.shard_id)
    expected = children_of_ends(stream, positions or Positions())
    for child, its in expected.items():
        parents.setdefault(child, set()).update(its)
    children: dict[str, set[str]] = {}
    for shard_id, its in parents.items():
        for parent in its:
            children.setdefault(parent, set()).add(shard_id)
    return Family(
        stream,
        {k: frozenset(v) for k, v in parents.items()},
        {k: frozenset(v) for k, v in children.items()},
        in_scope=frozenset(s.shard_id for s in scope),
        listed=frozenset(s.shard_id for s in (*scope, *every)),
        with_row=frozenset(lease.shard_id for lease in rows),
        expected=frozenset(expected),
    )


def children_of_ends(stream: StreamId, positions: Positions) -> dict[str, set[str]]:
    """Child -> the parents whose END in the table names it."""
    found: dict[str, set[str]] = {}
    for key, position in positions.shards.items():
        if key.stream == stream and position.ended:
            for child in position.children:
                found.setdefault(child, set()).add(key.shard_id)
    return found


@dataclass(frozen=True, slots=True)
class InTheWay:
    shard_id: str
    why: str


def parents_of(
    shard_id: str,
    family: Family,
    positions: Positions,
    is_gone: Callable[[ShardKey], bool],
    *,
    passed: Mapping[str, str] | None = None,
    ended_before: Callable[[ShardKey], bool] = lambda _: True,
    holds_all: Callable[[], bool] = lambda: False,
) -> tuple[tuple[ParentReason, ...], tuple[InTheWay, ...]]:
    """Why each parent is out of the way, and those that aren't. Kinesis is asked only where nothing else knows.

    `passed`: what the family tells of the positions, where it was asked already. `ended_before`: whether Kinesis finds a
    listed shard closed and without a record of the origin or later. `holds_all`: whether Kinesis still holds every record
    since the origin; called after the answers that it vouches for.
    """
    passed = family.passed(positions) if passed is None else passed

    def is_empty(key: ShardKey) -> bool:
        return ended_before(key) if key.shard_id in family.listed else is_gone(key)

    reasons: list[ParentReason] = []
    waiting: list[InTheWay] = []
    for parent in sorted(family.parents.get(shard_id, ())):
        answer = _parent(parent, family, positions, passed=passed)
        if answer is None:
            key = ShardKey(family.stream, parent)
            if parent in family.listed:
                if _is_in_step(shard_id, parent, family, positions):
                    before = ended_before(key)
                else:
                    line = _unread_line(parent, family, positions, passed=passed)
                    before = bool(line) and all(is_empty(each) for each in line) and holds_all()
                answer = _listed(parent, before_start=before)
            else:
                answer = _unlisted(parent, gone=is_gone(key))
        (reasons if isinstance(answer, ParentReason) else waiting).append(answer)  # type: ignore[arg-type]
    return tuple(reasons), tuple(waiting)


def lost_above(
    shard_id: str, family: Family, positions: Positions, reasons: Iterable[ParentReason]
) -> tuple[datetime, ...] | None:
    """None where every parent of the shard was read, or had nothing to read.

    Otherwise a parent left the stream unread, and records of shards above that parent may be lost, too. They arrived after the
    moments answered here: the witnesses of all shards below which others may have left the stream unseen.
    """
    if not family.lacks_a_parent(shard_id, positions) and all(r.why is not ParentIs.GONE for r in reasons):
        return None
    placed = ((key, at) for key, at in positions.shards.items() if key.stream == family.stream)
    cut = (at.witness for key, at in placed if family.is_cut_off(key.shard_id, positions))
    return tuple(sorted(witness for witness in cut if witness is not None))


def _parent(
    parent: str, family: Family, positions: Positions, *, passed: Mapping[str, str]
) -> ParentReason | InTheWay | None:
    """What the table, the rows and the listings say about a parent; None where they say nothing, and Kinesis has to be asked."""
    key = ShardKey(family.stream, parent)
    at = positions.of(key)
    if at is not None:
        return (
            ParentReason(parent, ParentIs.ENDED) if at.ended else InTheWay(parent, f"{parent} stands at {at}")
        )
    if parent in passed:
        return ParentReason(parent, ParentIs.PASSED, passed[parent])
    if parent in family.with_row or parent in family.in_scope or parent in family.expected:
        return InTheWay(parent, f"{parent} hasn't been read to its end")
    return None


def _is_in_step(child: str, parent: str, family: Family, positions: Positions) -> bool:
    """Whether both listings agree that the parent was closed before the origin."""
    # Listings can be late, and Kinesis's answer alone isn't enough: a closed shard whose records are trimmed gives the same answer as
    # one that never had any. So three things have to hold. The listing of the scope has the child: it knows the reshard. Both parents of
    # a merge are out of scope, since they were closed at one moment. And nothing above the parent is in scope.
    known = family.in_scope | family.with_row | family.expected
    above, todo = set[str](), [parent]
    while todo:
        more = family.parents.get(todo.pop(), frozenset()) - above
        above |= more
        todo += more
    others = above | family.parents[child]
    return (
        child in family.in_scope
        and others.isdisjoint(known)
        and all(positions.of(ShardKey(family.stream, each)) is None for each in others)
    )


def _unread_line(
    parent: str, family: Family, positions: Positions, *, passed: Mapping[str, str]
) -> tuple[ShardKey, ...]:
    """The parent and every shard above it that hasn't ended in the table; none where one of them is to be read.

    Where the listings don't agree, Kinesis's word on each of these is enough while it still holds every record since the
    origin: a closed shard without such a record never had one, and nothing of it is to be read. So it is where a start
    lay in the future: of two shards that were merged before it one may have been read to its (empty) end, while the row of
    the other was lost. The shards above have to be asked about, too: they count as ended once the child has a position.
    """
    line: dict[str, ShardKey] = {}
    todo = [parent]
    while todo:
        each = todo.pop()
        key = ShardKey(family.stream, each)
        if each in line or counts_as_end(key, positions, passed):
            continue
        if _parent(each, family, positions, passed=passed) is not None:
            return ()
        line[each] = key
        todo += sorted(family.parents.get(each, ()))
    return tuple(line.values())


def _listed(parent: str, *, before_start: bool) -> ParentReason | InTheWay:
    if before_start:
        return ParentReason(parent, ParentIs.BEFORE_START)
    return InTheWay(
        parent, f"{parent} may have been open at the stream's start: the listing of that time is late"
    )


def _unlisted(parent: str, *, gone: bool) -> ParentReason | InTheWay:
    if gone:
        return ParentReason(parent, ParentIs.GONE)
    return InTheWay(parent, f"{parent} is in no listing, yet Kinesis still knows it")


def parents_first(shards: Iterable[str], parents: Mapping[str, frozenset[str]]) -> tuple[str, ...]:
    """The shards, each after its parents; otherwise in the order of their ids."""
    wanted = set(shards)
    out: dict[str, None] = {}
    for shard_id in sorted(wanted):
        # A loop and not a recursion: after thousands of reshards the recursion would be too deep for Python. `entered` keeps parents
        # that contradict each other from being visited for ever.
        todo, entered = [shard_id], set[str]()
        while todo:
            each = todo[-1]
            above = [
                parent
                for parent in sorted(parents.get(each, frozenset()), reverse=True)
                if parent in wanted and parent not in entered and parent not in out
            ]
            if above:
                entered.add(each)
                todo += above
            else:
                out.setdefault(todo.pop())
    return tuple(out)
