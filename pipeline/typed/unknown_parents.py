"""Which shards wait because nothing tells their parents, of which rows may be left (I3). Pure functions on values.

The parents of a shard are known by their ENDs. Where the lake table has forgotten a parent, and the made table doesn't
have its END yet, only the order of the records tells: Kinesis gives a child greater sequence numbers than any record
of its parents has. So a shard whose parents aren't known may be a child of each shard of its stream that ends before
the shard's own first row.

A wave commits its rows all or nothing, and takes the lowest ones first. So it is enough for a typed table that no such
shard comes before one that no wave takes now. A processor may stop at any record, and there such a shard also waits for
those that the same wave takes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from headrace.pipeline.core.shards.position import Position, Positions
from headrace.pipeline.core.shards.sort_texts import sort_key_of
from headrace.pipeline.core.shards.stream import ShardKey, StreamId
from headrace.pipeline.typed.values import Piece, Wanted, Wishes


def left_out(source: Positions, streams: Iterable[StreamId]) -> frozenset[StreamId]:
    """The former lives among these streams of which the lake table has forgotten the positions, as after a repair."""
    return frozenset(s for s in streams if s not in source.origins and source.has_later_life(s))


def waits_for_unknown_parents(wishes: Wishes, pieces: Mapping[ShardKey, list[Piece]]) -> frozenset[ShardKey]:
    """The shards of which a wave takes nothing. `pieces`: the rows of each shard that a survey has found."""
    bounds = {
        key: _Bounds(min(p.first for p in of), max(p.last for p in of)) for key, of in pieces.items() if of
    }
    lacks = {lack.key: lack for lack in wishes.wanted}
    ahead = [(lack.key, _end(lack)) for lack in wishes.held if _may_have_unknown_children(lack)]
    if wishes.may_stop:
        ahead += _ahead_in_the_wave(wishes, bounds)
    waiting = set[ShardKey]()
    in_order = sorted(bounds.items(), key=lambda item: (item[1].last, item[0]))
    for key, own in in_order:
        lack = lacks.get(key)
        if (lack is None or lack.is_new) and _is_behind_one(key, own.first, ahead):
            waiting.add(key)
            # Its own children, which may be unknown as well, wait with it.
            ahead.append((key, own.last))
    if wishes.may_stop:
        # Where a shard without a record began isn't known, so that each of the others may be its parent.
        recordless = (lack.key for lack in wishes.wanted if lack.is_new and lack.key not in bounds)
        waiting |= {key for key in recordless if _is_behind_one(key, _beginning(lacks[key]), ahead)}
    return frozenset(waiting)


@dataclass(frozen=True, slots=True)
class _Bounds:
    first: str
    last: str


def _ahead_in_the_wave(wishes: Wishes, bounds: Mapping[ShardKey, _Bounds]) -> Iterator[tuple[ShardKey, str]]:
    lacks = {lack.key: lack for lack in wishes.wanted}
    for key, own in bounds.items():
        if key not in lacks or _may_have_unknown_children(lacks[key]):
            yield key, own.last
    for key, lack in lacks.items():
        # Only its end is left. It ends together with the rows of unknown shards where nothing else would look for them.
        ends_alone = lack.upto is not None or key.stream in wishes.left_out
        if key not in bounds and lack.after is not None and ends_alone and _may_have_unknown_children(lack):
            yield key, sort_key_of(lack.after)


def _is_behind_one(key: ShardKey, first: str | None, ahead: Iterable[tuple[ShardKey, str]]) -> bool:
    return any(
        other.stream == key.stream and other != key and (first is None or end < first) for other, end in ahead
    )


def _may_have_unknown_children(lack: Wanted) -> bool:
    """An open shard of the lake table has no child with rows there, and an END names all children."""
    return lack.upto is None or (lack.upto.ended and not lack.upto.children)


def _end(lack: Wanted) -> str:
    """A sort key that no row of the shard's children is below."""
    return sort_key_of(lack.upto) or lack.floor


def _beginning(lack: Wanted) -> str | None:
    position: Position | None = lack.upto
    return sort_key_of(position) or None
