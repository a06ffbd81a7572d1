"""Which shards wait because their parents aren't known any more and may have rows left (rule I3 of the protocol).
Pure functions on values.

Normally the position END of the parents shows that they are done. Where the lake table has forgotten a parent,
and the made table doesn't have its END yet, only the order of the records helps: Kinesis gives a child greater
sequence numbers than any record of its parents has. So a shard whose parents aren't known may be a child of each
shard of its stream that ends before the shard's own first row.

A wave commits all of its rows or none, and takes those with the lowest sort keys first, which is enough for a
typed table. A processor may stop at any record of a shard while the others go on. There such a shard waits until
nothing is left of those that may be its parents: neither in the same wave, nor where the processor has stopped.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from heapq import nsmallest

from headrace.pipeline.core.shards.position import Positions
from headrace.pipeline.core.shards.sort_texts import sort_key_of
from headrace.pipeline.core.shards.stream import ShardKey, StreamId
from headrace.pipeline.typed.values import Piece, Wanted, Wishes


def left_out(source: Positions, streams: Iterable[StreamId]) -> frozenset[StreamId]:
    """Those of the streams that are former lives whose positions the lake table has forgotten, as after a repair."""
    return frozenset(s for s in streams if s not in source.origins and source.has_later_life(s))


def waits_for_unknown_parents(wishes: Wishes, pieces: Mapping[ShardKey, list[Piece]]) -> frozenset[ShardKey]:
    """The shards of which a wave takes nothing, because a shard that may be their parent has rows left. `pieces`:
    the rows of each shard that a survey has found.
    """
    if not wishes.may_stop:
        return frozenset()
    bounds = {
        key: _Bounds(min(p.first for p in of), max(p.last for p in of)) for key, of in pieces.items() if of
    }
    lacks = {lack.key: lack for lack in wishes.wanted}
    beginnings: dict[ShardKey, str | None] = {
        key: own.first for key, own in bounds.items() if key not in lacks or lacks[key].is_new
    }
    # Of a shard without a record in the table it may not be known where it began.
    beginnings |= {
        key: sort_key_of(lack.upto) or None
        for key, lack in lacks.items()
        if lack.is_new and key not in bounds
    }
    ends: dict[StreamId, list[tuple[str, ShardKey]]] = {}
    for key, end in _ahead(wishes, bounds):
        ends.setdefault(key.stream, []).append((end, key))
    # Of each stream the two lowest ones are enough, because a shard doesn't wait for itself.
    lowest = {stream: nsmallest(2, of) for stream, of in ends.items()}
    return frozenset(
        key
        for key, first in beginnings.items()
        if any(other != key and (first is None or end < first) for end, other in lowest.get(key.stream, ()))
    )


@dataclass(frozen=True, slots=True)
class _Bounds:
    first: str
    last: str


def _ahead(wishes: Wishes, bounds: Mapping[ShardKey, _Bounds]) -> Iterator[tuple[ShardKey, str]]:
    """The shards with something left that may be parents of unknown shards, each with a sort key below which no child
    of it has a row."""
    lacks = {lack.key: lack for lack in wishes.wanted}
    for lack in wishes.stopped:
        if _may_have_unknown_children(lack, wishes):
            yield lack.key, sort_key_of(lack.upto) or lack.floor
    for key, own in bounds.items():
        if key not in lacks or _may_have_unknown_children(lacks[key], wishes):
            yield key, own.last
    for key, lack in lacks.items():
        # Only its end is left. Where nothing else would look for the rows of unknown shards, it ends together with them.
        ends_alone = lack.upto is not None or key.stream in wishes.left_out
        is_at_end = key not in bounds and lack.after is not None and ends_alone
        if is_at_end and _may_have_unknown_children(lack, wishes):
            yield key, sort_key_of(lack.after)


def _may_have_unknown_children(lack: Wanted, wishes: Wishes) -> bool:
    """An open shard of the lake table has no child with rows there, and an END names all children. A repair may have
    left out children of a life that is over, and has never seen some of the ENDs there."""
    if lack.upto is None or lack.key.stream in wishes.former:
        return True
    return lack.upto.ended and not lack.upto.children
