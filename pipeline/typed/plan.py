"""Which rows of the lake table a wave of a typed table parses. Pure functions on values.

    positions of both tables ─► plan_wishes ─► (headrace.pipeline.typed.files.portion: which files) ─► (Spark surveys) ─► plan_wave ─► (Spark parses)

What is parsed goes by positions of shards and never by snapshots: compaction, expiry and a rollback of the lake table change nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta

from headrace.pipeline.core.ledger.generation import is_chain
from headrace.pipeline.core.ledger.ledger import ParentIs, ParentReason
from headrace.pipeline.core.order.parents import are_all_parents, children_of_ends
from headrace.pipeline.core.shards.position import Position, Positions, is_forward
from headrace.pipeline.core.shards.sort_texts import key_of, position_at, record_in
from headrace.pipeline.core.shards.stream import ShardKey, StreamId
from headrace.pipeline.typed.values import Piece, PlannedRange, ReadUnit, Wanted, WaveLimits, WavePlan, Wishes

_FORGOTTEN = timedelta(days=1)
"""Kinesis forgets a shard at the earliest a day after its end, and only then the lake table drops the shard's position. A shard without a
position may also belong to a lake table that was rolled back: there all positions are older than the shard's last row."""


def plan_wishes(source: Positions, target: Positions, *, takes: Callable[[StreamId], bool]) -> Wishes:
    """What the typed table lacks. `source`: the lake table's positions. `takes`: whether the typed table is for this stream."""
    streams = tuple(sorted(stream for stream in _lives(source, target) if takes(stream)))
    parents = {stream: _parents(stream, source, target) for stream in streams}
    expected = {ShardKey(s, child) for s in streams for child in children_of_ends(s, target)}
    keys = {
        key for key in (*source.shards, *target.shards) if key.stream in parents and not is_chain(key)
    } | expected
    behind = [key for key in sorted(keys) if _is_behind(source.of(key), target.of(key))]
    due = [key for key in sorted(keys) if key not in behind and _is_due(key, source, target)]
    waiting = {key for key in due if _is_in_the_way(key, parents[key.stream], source, target)}
    wanted = [_wanted(key, parents[key.stream], source, target) for key in due if key not in waiting]
    set_back = {key.stream for key in behind}
    others = [] if streams else sorted({stream.name for stream in source.origins})
    unknown = (
        [f"the lake table has no stream that the target takes; it has {', '.join(others)}"] if others else []
    )
    return Wishes(
        tuple(replace(each, is_over=each.is_over and each.key.stream not in set_back) for each in wanted),
        frozenset(keys - {each.key for each in wanted}),
        bool(waiting),
        streams,
        tuple((s, source.origins[s]) for s in streams if s in source.origins.keys() - target.origins.keys()),
        (
            *unknown,
            *(
                f"{key}: the lake table is at {source.of(key)}, behind the typed table's {target.of(key)}: it was rolled back or set back. Nothing "
                "of the shard is parsed until the lake table is past that position"
                for key in behind
            ),
        ),
    )


def _lives(source: Positions, target: Positions) -> Iterator[StreamId]:
    """The lives of streams of which the lake table may have rows that the typed table lacks."""
    yield from source.origins
    # A repair of the lake table drops a former life that neither Kinesis nor a snapshot knows any more. Its rows are still there.
    yield from (s for s in target.streams() - source.origins.keys() if source.has_later_life(s))


def _is_behind(landed: Position | None, at: Position | None) -> bool:
    return at is not None and landed is not None and not is_forward(at, landed)


def _wanted(
    key: ShardKey, parents: Mapping[str, Iterable[str]], source: Positions, target: Positions
) -> Wanted:
    at, landed = target.of(key), source.of(key)
    above = [ShardKey(key.stream, parent) for parent in sorted(parents.get(key.shard_id, ()))]
    ended = [parent for parent in above if target.has_ended(parent)]
    reasons = tuple(ParentReason(parent.shard_id, ParentIs.ENDED) for parent in ended) if at is None else ()
    is_over = landed is None and _is_over(key, [at, *map(target.of, ended)], source)
    # A root shard has no parents, and can't be told from a shard whose parents came and went.
    is_new = at is None and not are_all_parents([target.of(parent) for parent in ended])
    floor = "" if is_new else _floor(key, parents, target)
    return Wanted(key, at, landed, floor, reasons, is_over, is_new)


def _is_over(key: ShardKey, known: Iterable[Position | None], source: Positions) -> bool:
    """Whether nothing more lands of a shard whose position the lake table has dropped: the shard is of a former life, which the table has
    dropped as a whole, or the table is more than a day past all that is known of the shard."""
    if key.stream not in source.origins:
        return True
    since = max((at.witness for at in known if at is not None and at.witness is not None), default=None)
    now = max(
        (p.witness for k, p in source.shards.items() if k.stream == key.stream and p.witness is not None),
        default=None,
    )
    return since is not None and now is not None and now - since > _FORGOTTEN


def _parents(stream: StreamId, source: Positions, target: Positions) -> dict[str, set[str]]:
    found = children_of_ends(stream, source)
    for child, its in children_of_ends(stream, target).items():
        found.setdefault(child, set()).update(its)
    return found


def _is_due(key: ShardKey, source: Positions, target: Positions) -> bool:
    at, landed = target.of(key), source.of(key)
    if at is not None and at.ended:
        # The shard was taken for over, and then the lake table, which had been rolled back for more than a day, landed it to its end.
        return landed is not None and landed.token != at.token and is_forward(at, landed)
    if landed is None:
        # A shard that an END in the lake table names has no row there yet. Else the lake table has dropped the shard's position,
        # which it does only after the shard's end.
        return key.shard_id not in children_of_ends(key.stream, source)
    has_something = landed.sequence is not None or landed.ended
    return has_something and (at is None or at.token != landed.token)


def _is_in_the_way(
    key: ShardKey, parents: Mapping[str, Iterable[str]], source: Positions, target: Positions
) -> bool:
    """Whether rows of a parent may still come before those of the shard (I3)."""
    above = [ShardKey(key.stream, parent) for parent in parents.get(key.shard_id, ())]
    known = [parent for parent in above if target.of(parent) or source.of(parent)]
    return any(not target.has_ended(parent) for parent in known)


def _floor(key: ShardKey, parents: Mapping[str, Iterable[str]], target: Positions) -> str:
    """A sort key below all rows of the shard that the typed table lacks: its own position, or the end of its parents."""
    at = target.of(key)
    if at is not None and at.sequence is not None:
        return key_of(at)
    above = [target.of(ShardKey(key.stream, parent)) for parent in parents.get(key.shard_id, ())]
    return min((key_of(each) for each in above), default="")


# --- what the wave takes ----------------------------------------------------------------------------------------


def plan_wave(
    wishes: Wishes, pieces: Sequence[Piece], *, ceiling: str | None, limits: WaveLimits
) -> WavePlan:
    clusters = {key: list(_clusters(of)) for key, of in _by_shard(pieces).items()}
    taken = _taken(clusters, limits)
    wanted = {each.key: each for each in wishes.wanted}
    # Rows of a shard of which neither table has a position: it came and went between two waves of the typed table.
    unknown = [Wanted(key, None, None) for key in clusters if key not in wanted]
    # Once nothing more is looked for because of a shard, rows of shards that nobody knows would never be found.
    are_all = ceiling is None and all(len(taken.get(w.key, ())) == len(clusters[w.key]) for w in unknown)
    ranges: list[PlannedRange] = []
    is_last = ceiling is None and not wishes.has_waiting
    for each in (*wishes.wanted, *sorted(unknown, key=lambda w: w.key)):
        own = taken.get(each.key, [])
        is_whole = len(own) == len(clusters.get(each.key, ())) and _is_below(each, ceiling)
        is_last = is_last and is_whole
        upto = _upto(each, own, may_end=are_all) if is_whole else _cut(own)
        if each.is_new and not own and not are_all:
            continue
        if upto is not None and upto.token != (each.after or Position()).token:
            ranges.append(_range(each, upto, [piece for cluster in own for piece in cluster]))
    read = [p for each in ranges for cluster in taken.get(each.key, ()) for p in cluster]
    return WavePlan(tuple(ranges), tuple(units_of(read)), sum(p.malformed for p in read), is_last)


_Cluster = list[Piece]


def _by_shard(pieces: Iterable[Piece]) -> dict[ShardKey, list[Piece]]:
    found: dict[ShardKey, list[Piece]] = {}
    for piece in pieces:
        found.setdefault(piece.key, []).append(piece)
    return found


def _clusters(pieces: list[Piece]) -> Iterator[_Cluster]:
    """Pieces of a shard between which it can be cut: no piece reaches into the next cluster, and no Kinesis record does."""
    cluster: _Cluster = []
    end = ""
    for piece in sorted(pieces, key=lambda p: (p.first, p.last, p.path, p.group)):
        if cluster and record_in(piece.first) > record_in(end):
            yield cluster
            cluster, end = [], ""
        cluster.append(piece)
        end = max(end, piece.last)
    if cluster:
        yield cluster


def _taken(clusters: Mapping[ShardKey, list[_Cluster]], limits: WaveLimits) -> dict[ShardKey, list[_Cluster]]:
    """The clusters with the lowest ends, over all shards, within the limits; at least one."""
    in_order = sorted(
        (max(piece.last for piece in cluster), key, number)
        for key, of in clusters.items()
        for number, cluster in enumerate(of)
    )
    taken: dict[ShardKey, list[_Cluster]] = {}
    rows = size = 0
    for _, key, number in in_order:
        cluster = clusters[key][number]
        rows += sum(piece.rows for piece in cluster)
        size += sum(piece.bytes for piece in cluster)
        if taken and (rows > limits.records or size > limits.bytes):
            break
        taken.setdefault(key, []).append(cluster)
    return taken


def _is_below(each: Wanted, ceiling: str | None) -> bool:
    """Whether no file above the ceiling can have rows of the shard that are wanted."""
    return ceiling is None or (each.high is not None and each.high <= ceiling)


def _cut(taken: list[_Cluster]) -> Position | None:
    """The position of the last row that the wave takes; None where it takes none."""
    if not taken:
        return None
    last = max((piece for cluster in taken for piece in cluster), key=lambda p: p.last)
    return position_at(last.last, last.newest)


def _upto(each: Wanted, taken: list[_Cluster], *, may_end: bool) -> Position | None:
    if each.upto is not None:
        return each.upto
    at = _cut(taken) or each.after
    return replace(at or Position(), ended=True) if each.is_over and may_end else at


def _range(each: Wanted, upto: Position, pieces: list[Piece]) -> PlannedRange:
    return PlannedRange(
        each.key,
        each.after,
        upto,
        each.parents,
        rows=sum(p.rows for p in pieces),
        bytes=sum(p.bytes for p in pieces),
        oldest=min((p.oldest for p in pieces if p.oldest is not None), default=None),
        newest=max((p.newest for p in pieces if p.newest is not None), default=None),
        first=min((p.first for p in pieces), default=""),
    )


def units_of(pieces: Iterable[Piece]) -> Iterator[ReadUnit]:
    """The row groups of the pieces, with numbers for all their rows."""
    rows: dict[tuple[str, int], int] = {}
    for piece in pieces:
        at = (piece.path, piece.group)
        rows[at] = rows.get(at, 0) + piece.rows
    first = 0
    for (path, group), count in sorted(rows.items()):
        yield ReadUnit(path, group, first, count)
        first += count
