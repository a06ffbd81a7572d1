"""Parents before children: when is a shard's parent out of its way?

parent ... ended in the table                                   -> ENDED
           no position, but a descendant has one                -> PASSED (counts as END everywhere)
           a position that isn't END                            -> in the way
           no position, but a row, or in scope of the origin    -> in the way: it is to be read first
           no position, no row, out of scope, still listed      -> BEFORE_START
           no position, no row, not listed, ResourceNotFound    -> GONE
           no position, no row, not listed, yet it answers      -> in the way (a listing may be late)
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from pipeline.core.lease import Lease
from pipeline.core.lineage import ParentIs, ParentReason
from pipeline.core.position import Positions
from pipeline.core.shard import Shard
from pipeline.core.stream import ShardKey, StreamId


@dataclass(frozen=True, slots=True)
class Family:
    """Parents and children of a stream's shards, from all that was heard of them: listings and rows."""

    stream: StreamId
    parents: Mapping[str, frozenset[str]]
    children: Mapping[str, frozenset[str]]
    in_scope: frozenset[str]
    """Listed in the scope of the origin."""
    listed: frozenset[str]
    """In the unfiltered listing, in scope or not."""
    with_row: frozenset[str]

    def passed_by(self, shard_id: str, positions: Positions) -> str | None:
        """A descendant of the shard that has a position."""
        todo, met = sorted(self.children.get(shard_id, ())), set[str]()
        while todo:
            child = todo.pop()
            if child in met:
                continue
            met.add(child)
            if positions.of(ShardKey(self.stream, child)) is not None:
                return child
            todo.extend(sorted(self.children.get(child, ())))
        return None

    def counts_as_end(self, shard_id: str, positions: Positions) -> bool:
        position = positions.of(ShardKey(self.stream, shard_id))
        if position is not None:
            return position.ended
        return self.passed_by(shard_id, positions) is not None


def a_family(
    stream: StreamId, in_scope: Iterable[Shard], *, listed: Iterable[Shard] = (), leases: Iterable[Lease] = ()
) -> Family:
    scope, every, rows = tuple(in_scope), tuple(listed), tuple(leases)
    parents: dict[str, set[str]] = {}
    for shard in (*scope, *every):
        parents.setdefault(shard.shard_id, set()).update(shard.parents)
    for lease in rows:
        parents.setdefault(lease.shard_id, set()).update(lease.parents)
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
    )


@dataclass(frozen=True, slots=True)
class InTheWay:
    shard_id: str
    why: str


def parents_of(
    shard_id: str, family: Family, positions: Positions, is_gone: Callable[[ShardKey], bool]
) -> tuple[tuple[ParentReason, ...], tuple[InTheWay, ...]]:
    """Why each parent is out of the way, and those that aren't. Kinesis is asked only where nothing else knows."""
    reasons: list[ParentReason] = []
    waiting: list[InTheWay] = []
    for parent in sorted(family.parents.get(shard_id, ())):
        answer = _parent(parent, family, positions, is_gone)
        (reasons if isinstance(answer, ParentReason) else waiting).append(answer)  # type: ignore[arg-type]
    return tuple(reasons), tuple(waiting)


def _parent(
    parent: str, family: Family, positions: Positions, is_gone: Callable[[ShardKey], bool]
) -> ParentReason | InTheWay:
    key = ShardKey(family.stream, parent)
    at = positions.of(key)
    if at is not None:
        return (
            ParentReason(parent, ParentIs.ENDED) if at.ended else InTheWay(parent, f"{parent} stands at {at}")
        )
    by = family.passed_by(parent, positions)
    if by is not None:
        return ParentReason(parent, ParentIs.PASSED, by)
    if parent in family.with_row or parent in family.in_scope:
        return InTheWay(parent, f"{parent} hasn't been read to its end")
    if parent in family.listed:
        return ParentReason(parent, ParentIs.BEFORE_START)
    if is_gone(key):
        return ParentReason(parent, ParentIs.GONE)
    return InTheWay(parent, f"{parent} is in no listing, yet Kinesis still knows it")


def parents_first(shards: Iterable[str], parents: Mapping[str, frozenset[str]]) -> tuple[str, ...]:
    """All of them, each after those of its parents that are among them; otherwise by id."""
    wanted = set(shards)
    out: dict[str, None] = {}

    def visit(shard_id: str, above: frozenset[str]) -> None:
        if shard_id in out or shard_id in above:
            return
        for parent in sorted(parents.get(shard_id, frozenset()) & wanted):
            visit(parent, above | {shard_id})
        out[shard_id] = None

    for shard_id in sorted(wanted):
        visit(shard_id, frozenset())
    return tuple(out)
