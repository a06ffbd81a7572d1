"""Parents before children (I3 of docs/reference/protocol.md): whether each parent of a shard is out of the way, and why.

The table, the lease rows and the listings are asked first, and Kinesis only where they don't tell:

the parent has ended in the table                                              ENDED
the parent has a position that isn't END                                       in the way
no position, but a descendant of the parent has one                            PASSED: the parent counts as ended
no position, but a row, or in scope of the origin, or named by a parent's END  in the way: the parent is read first
none of these, listed, and Kinesis has no record of it since the origin        BEFORE_START
none of these, not listed, and Kinesis answers ResourceNotFound                GONE, unless it can't have left Kinesis yet
none of these, not listed, and Kinesis knows the parent                        in the way: the listings may be late
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime

from headrace.pipeline.core.leases.lease import Lease
from headrace.pipeline.core.ledger.ledger import ParentIs, ParentReason
from headrace.pipeline.core.shards.position import Position, Positions
from headrace.pipeline.core.shards.shard import Shard
from headrace.pipeline.core.shards.stream import ShardKey, StreamId


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
    placed: frozenset[str] = frozenset()
    """Shards with a position in the table."""

    @property
    def known(self) -> frozenset[str]:
        """All shards of which anything is known. A shard that isn't among them may come after any of them."""
        return self.placed.union(self.parents, self.children)

    def passed(self, positions: Positions) -> dict[str, str]:
        """The ancestors of shards that have positions: ancestor -> one of its descendants that has a position. An
        ancestor that has no position of its own counts as ended then.
        """
        # An END is removed from the positions one day, and a late listing may show the shard again (D15 of
        # docs/reference/protocol.md).
        placed = sorted(key.shard_id for key in positions.shards if key.stream == self.stream)
        by: dict[str, str] = {}
        for shard_id in placed:
            todo = [shard_id]
            while todo:
                if parents := self.parents.get(todo.pop()):
                    above = sorted(parents - by.keys())
                    by.update(dict.fromkeys(above, shard_id))
                    todo += above
        return by

    def below(self, shard_id: str) -> frozenset[str]:
        """All known descendants of the shard."""
        descendants: set[str] = set()
        todo = [shard_id]
        while todo:
            new = self.children.get(todo.pop(), frozenset()) - descendants
            descendants |= new
            todo += new
        return frozenset(descendants)

    def passed_by(self, shard_id: str, positions: Positions) -> str | None:
        """A descendant of the shard that has a position; None where none has."""
        return self.passed(positions).get(shard_id)

    def last_arrival_above(self, shard_id: str, positions: Positions) -> datetime | None:
        """The latest known arrival among those ancestors of the shard that a listing shows. Each parent of the
        shard was closed after that time, because ancestors are closed by then, and both parents of a merge are
        closed at one moment.
        """
        arrivals: list[datetime] = []
        above, todo = set[str](), [shard_id]
        while todo:
            new = self.parents.get(todo.pop(), frozenset()) - above
            above |= new
            todo += new
            # A shard that has left the listings left while the retention was shorter, whatever today's retention would have kept.
            for ancestor in new & self.listed:
                position = positions.of(ShardKey(self.stream, ancestor))
                if position is not None and position.arrival is not None:
                    arrivals.append(position.arrival)
        return max(arrivals, default=None)

    def lacks_a_parent(self, shard_id: str, positions: Positions) -> bool:
        """Whether the shard may have a parent that isn't known: it seems to come from a merge of which only one parent is
        known, or it was adopted and nothing tells its parents any more."""
        # A split has two children, so a parent whose END names one child was merged. Listings name both parents of a
        # merge, but a shard that has left them is known by its parents' ENDs and rows alone.
        parents = self.parents.get(shard_id, frozenset())
        if shard_id in self.listed or len(parents) > 1:
            return False
        if not parents:
            # A row that was lost and is made again from the position of an adopted shard names no parents.
            adopted = positions.of(ShardKey(self.stream, shard_id))
            return adopted is not None and adopted.is_start_only
        position = positions.of(ShardKey(self.stream, *parents))
        return position is not None and position.children == (shard_id,)

    def is_cut_off(self, shard_id: str, positions: Positions) -> bool:
        """Whether descendants of the shard may have come and gone without Headrace knowing of them.

        That is so where the shard has a position but its children can't be found: it is in no listing before its
        END; or it has ended, and one of its children isn't known, or has neither a position nor a place in a
        listing.
        """
        position = positions.of(ShardKey(self.stream, shard_id))
        if position is None or not position.ended:
            return position is not None and shard_id not in self.listed
        children = self.children.get(shard_id, frozenset())
        are_known = [c in self.listed or positions.of(ShardKey(self.stream, c)) is not None for c in children]
        return not all(are_known) or self.lacks_a_child(shard_id)

    def lacks_a_child(self, shard_id: str) -> bool:
        """Whether a child of the ended shard may be unknown."""
        children = self.children.get(shard_id, frozenset())
        # A single child whose only known parent is this shard: a split of which one child isn't known, or a merge of
        # which one parent isn't.
        return len(children) < 2 and all(self.parents[child] == {shard_id} for child in children)


def counts_as_end(key: ShardKey, positions: Positions, passed: Mapping[str, str]) -> bool:
    """Whether the shard has ended in the table, or has no position while a descendant has one. `passed`: from
    `Family.passed`."""
    # A position of its own decides alone. Workers that aren't Headrace's make the rows of children before they end the
    # parent, and adopting turns all rows into positions, so a descendant's position proves nothing against an open one
    # (D13 of docs/reference/protocol.md).
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
    positions = positions or Positions()
    expected = children_of_ends(stream, positions)
    for child, parent_ids in expected.items():
        parents.setdefault(child, set()).update(parent_ids)
    children: dict[str, set[str]] = {}
    for shard_id, parent_ids in parents.items():
        for parent in parent_ids:
            children.setdefault(parent, set()).add(shard_id)
    return Family(
        stream,
        {k: frozenset(v) for k, v in parents.items()},
        {k: frozenset(v) for k, v in children.items()},
        in_scope=frozenset(s.shard_id for s in scope),
        listed=frozenset(s.shard_id for s in (*scope, *every)),
        with_row=frozenset(lease.shard_id for lease in rows),
        expected=frozenset(expected),
        placed=frozenset(key.shard_id for key in positions.shards if key.stream == stream),
    )


def children_of_ends(stream: StreamId, positions: Positions) -> dict[str, set[str]]:
    """Child -> the parents whose END in the table names it."""
    parents: dict[str, set[str]] = {}
    for key, position in positions.shards.items():
        if key.stream == stream and position.ended:
            for child in position.children:
                parents.setdefault(child, set()).add(key.shard_id)
    return parents


def are_all_parents(ends: Collection[Position | None]) -> bool:
    """Whether these ended parents are surely all that their child has: an END with a single child comes from a merge,
    which has two."""
    return len(ends) > 1 or any(end is not None and len(end.children) > 1 for end in ends)


def strangers(stream: StreamId, shard_ids: frozenset[str], positions: Positions) -> frozenset[str]:
    """The shards with a position of which it isn't known that they come before all of `shard_ids`. A shard is
    left out if ENDs in the table name all of its parents, and these parents are among `shard_ids`, or are left
    out themselves.
    """
    new = {key.shard_id for key in positions.shards if key.stream == stream} - shard_ids
    if not new:
        return frozenset()
    named = children_of_ends(stream, positions)

    new_with_parents = {
        shard_id
        for shard_id in new
        if are_all_parents([positions.of(ShardKey(stream, parent)) for parent in named.get(shard_id, ())])
    }
    while explained := {shard_id for shard_id in new_with_parents & new if named[shard_id].isdisjoint(new)}:
        new -= explained
    return frozenset(new)


@dataclass(frozen=True, slots=True)
class InTheWay:
    """A parent that has to be read before its child, and the reason."""

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
    keeps: Callable[[datetime], bool] = lambda _: False,
) -> tuple[tuple[ParentReason, ...], tuple[InTheWay, ...]]:
    """The parents that are out of the way, each with the reason, and the parents that have to be read first.

    `passed`: from `Family.passed`, where the caller has it already. The functions ask Kinesis: `is_gone` whether
    it answers ResourceNotFound for a shard that can have left it; `ended_before` whether a listed shard is closed and has no record
    since the origin; `holds_all` whether Kinesis still has every record since the origin; `keeps` whether it
    still has the records that it had at a moment.
    """
    passed = family.passed(positions) if passed is None else passed

    def is_empty(key: ShardKey) -> bool:
        return ended_before(key) if key.shard_id in family.listed else is_gone(key)

    reasons: list[ParentReason] = []
    waiting: list[InTheWay] = []
    for parent in sorted(family.parents.get(shard_id, ())):
        answer = _judge_without_kinesis(parent, family, positions, passed=passed)
        if answer is None:
            key = ShardKey(family.stream, parent)
            if parent in family.listed:
                if _do_listings_agree(shard_id, parent, family, positions):
                    before = ended_before(key)
                else:
                    unread = _unread_ancestors(parent, family, positions, passed=passed)
                    # `holds_all` comes last: if Kinesis has all records then, it had them when it gave the other
                    # answers.
                    before = bool(unread) and all(is_empty(ancestor) for ancestor in unread) and holds_all()
                answer = _judge_listed(parent, before_start=before)
            else:
                last_arrival = family.last_arrival_above(shard_id, positions)
                answer = _judge_unlisted(parent, gone=is_gone(key), last_arrival=last_arrival, keeps=keeps)
        (reasons if isinstance(answer, ParentReason) else waiting).append(answer)  # type: ignore[arg-type]
    return tuple(reasons), tuple(waiting)


def lost_above(
    shard_id: str, family: Family, positions: Positions, reasons: Iterable[ParentReason]
) -> tuple[datetime, ...] | None:
    """The moments after which records of a shard's ancestors may have been lost. None where every parent was
    read, or had nothing to read.
    """
    # A parent that is gone, or isn't known, left Kinesis unread, and so may shards above it have. Nothing tells which
    # shards these were, so the witnesses of all shards count whose descendants may have come and gone unknown.
    if not family.lacks_a_parent(shard_id, positions) and all(r.why is not ParentIs.GONE for r in reasons):
        return None
    placed = ((key, position) for key, position in positions.shards.items() if key.stream == family.stream)
    cut = (position.witness for key, position in placed if family.is_cut_off(key.shard_id, positions))
    return tuple(sorted(witness for witness in cut if witness is not None))


def _judge_without_kinesis(
    parent: str, family: Family, positions: Positions, *, passed: Mapping[str, str]
) -> ParentReason | InTheWay | None:
    """What the table, the rows and the listings say about a parent; None where they say nothing, and Kinesis has to be
    asked."""
    key = ShardKey(family.stream, parent)
    position = positions.of(key)
    if position is not None and position.ended:
        return ParentReason(parent, ParentIs.ENDED)
    if position is not None:
        return InTheWay(parent, f"{parent} hasn't ended: its position is {position}")
    if parent in passed:
        return ParentReason(parent, ParentIs.PASSED, passed[parent])
    if parent in family.with_row or parent in family.in_scope or parent in family.expected:
        return InTheWay(parent, f"{parent} hasn't been read to its end")
    return None


def _do_listings_agree(child: str, parent: str, family: Family, positions: Positions) -> bool:
    """Whether both listings agree that the parent was closed before the origin."""
    # Listings can be late, and Kinesis's answer alone isn't enough: a closed shard whose records are trimmed gives the
    # same answer as one that never had any. So three things have to hold. The listing of the scope has the child: it
    # knows the reshard. Both parents of a merge are out of scope, since they were closed at one moment. And nothing
    # above the parent is in scope.
    in_play = family.in_scope | family.with_row | family.expected
    above, todo = set[str](), [parent]
    while todo:
        more = family.parents.get(todo.pop(), frozenset()) - above
        above |= more
        todo += more
    ancestors = above | family.parents[child]
    return (
        child in family.in_scope
        and ancestors.isdisjoint(in_play)
        and all(positions.of(ShardKey(family.stream, ancestor)) is None for ancestor in ancestors)
    )


def _unread_ancestors(
    parent: str, family: Family, positions: Positions, *, passed: Mapping[str, str]
) -> tuple[ShardKey, ...]:
    """The parent and all shards above it that haven't ended in the table; empty where one of them has to be read
    first."""
    # Where the listings disagree, Kinesis's answers are still enough while it has every record since the origin: a
    # closed shard without such a record never had one. An example is an origin in the future: of two shards that were
    # merged before it, one may have been read to its empty end while the row of the other was lost. The shards above
    # are asked about as well, because they count as ended as soon as the child has a position.
    unread: dict[str, ShardKey] = {}
    todo = [parent]
    while todo:
        ancestor = todo.pop()
        key = ShardKey(family.stream, ancestor)
        if ancestor in unread or counts_as_end(key, positions, passed):
            continue
        if _judge_without_kinesis(ancestor, family, positions, passed=passed) is not None:
            return ()
        unread[ancestor] = key
        todo += sorted(family.parents.get(ancestor, ()))
    return tuple(unread.values())


def _judge_listed(parent: str, *, before_start: bool) -> ParentReason | InTheWay:
    if before_start:
        return ParentReason(parent, ParentIs.BEFORE_START)
    return InTheWay(
        parent, f"{parent} may have been open at the origin, and the listing of that time may be late"
    )


def _judge_unlisted(
    parent: str, *, gone: bool, last_arrival: datetime | None, keeps: Callable[[datetime], bool]
) -> ParentReason | InTheWay:
    if not gone:
        return InTheWay(
            parent, f"no listing shows {parent}, but it hasn't left the stream; the listings may be late"
        )
    # Kinesis is asked for the time after it has denied the parent: what it keeps then, it kept before.
    if last_arrival is not None and keeps(last_arrival):
        return InTheWay(
            parent,
            f"no listing shows {parent}, and Kinesis denies it, but it was closed after {last_arrival:%Y-%m-%d %H:%M:%S} UTC, "
            "within the retention: it can't have left the stream yet",
        )
    return ParentReason(parent, ParentIs.GONE)


def parents_first(shards: Iterable[str], parents: Mapping[str, frozenset[str]]) -> tuple[str, ...]:
    """The shards, each after its parents; otherwise in the order of their ids."""
    chosen = set(shards)
    out: dict[str, None] = {}
    for shard_id in sorted(chosen):
        # A loop and not a recursion: after thousands of reshards the recursion would be too deep for Python. `entered`
        # keeps parents that contradict each other from being visited for ever.
        todo, entered = [shard_id], set[str]()
        while todo:
            current = todo[-1]
            above = [
                parent
                for parent in sorted(parents.get(current, frozenset()), reverse=True)
                if parent in chosen and parent not in entered and parent not in out
            ]
            if above:
                entered.add(current)
                todo += above
            else:
                out.setdefault(todo.pop())
    return tuple(out)
