"""Which rows of the lake table a wave of a typed table parses. Pure functions on values.

    positions of both tables ─► plan_wishes ─► (headrace.pipeline.typed.files.portion: which files) ─► (Spark surveys)
    ─► plan_wave ─► (Spark parses)

What is parsed is decided by positions of shards and never by snapshots, so that compaction, expiry and a rollback
of the lake table make no difference.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta

from headrace.pipeline.core.ledger.generation import is_chain
from headrace.pipeline.core.ledger.ledger import ParentIs, ParentReason
from headrace.pipeline.core.order.parents import are_all_parents, children_of_ends
from headrace.pipeline.core.shards.position import Position, Positions, is_forward
from headrace.pipeline.core.shards.sort_texts import position_at, record_in, sort_key_of
from headrace.pipeline.core.shards.stream import ShardKey, StreamId
from headrace.pipeline.typed.former_lives import waits_for_former_lives
from headrace.pipeline.typed.unknown_parents import left_out, waits_for_unknown_parents
from headrace.pipeline.typed.values import Piece, PlannedRange, ReadUnit, Wanted, WaveLimits, WavePlan, Wishes

_FORGOTTEN = timedelta(days=1)
"""Kinesis forgets a shard at the earliest a day after its end, and only then the lake table drops the shard's position.
A shard without a position may also belong to a lake table that was rolled back: there all positions are older than the
shard's last row."""


def plan_wishes(source: Positions, target: Positions, *, takes: Callable[[StreamId], bool]) -> Wishes:
    """The rows that the typed table lacks. `source`: the lake table's positions; `target`: the typed table's.
    `takes`: whether the typed table takes records of a stream.
    """
    source = _with_ends_behind(source, target)
    streams = tuple(sorted(stream for stream in _lives(source, target) if takes(stream)))
    parents = {stream: _parents(stream, source, target) for stream in streams}
    expected = {ShardKey(s, child) for s in streams for child in children_of_ends(s, target)}
    keys = {
        key for key in (*source.shards, *target.shards) if key.stream in parents and not is_chain(key)
    } | expected
    behind = [key for key in sorted(keys) if _is_behind(source.of(key), target.of(key))]
    due = [key for key in sorted(keys) if key not in behind and _is_due(key, source, target)]
    waiting = {key for key in due if _is_in_the_way(key, parents[key.stream], source, target)}
    hiding = [key for key in sorted(keys) if _hides_ancestors(key, source, target)]
    lacks = [
        _wanted(key, parents[key.stream], source, target) for key in (*due, *hiding) if key not in waiting
    ]
    set_back = {key.stream for key in behind}
    stream_names = [] if streams else sorted({stream.name for stream in source.origins})
    unknown = (
        [f"the lake table has no stream that the target takes; it has {', '.join(stream_names)}"]
        if stream_names
        else []
    )
    return Wishes(
        tuple(replace(lack, is_over=lack.is_over and lack.key.stream not in set_back) for lack in lacks),
        frozenset(keys - {lack.key for lack in lacks}),
        bool(waiting),
        streams,
        tuple((s, source.origins[s]) for s in streams if s in source.origins.keys() - target.origins.keys()),
        (
            *unknown,
            *(
                f"{key}: the lake table is at {source.of(key)}, behind the typed table's {target.of(key)}: "
                "it was rolled back or set back. Nothing "
                "of the shard is parsed until the lake table is past that position"
                for key in behind
            ),
        ),
        former=frozenset(filter(source.has_later_life, streams)),
        left_out=left_out(source, streams),
        waiting=frozenset(waiting),
    )


def _lives(source: Positions, target: Positions) -> Iterator[StreamId]:
    """The lives of streams of which the lake table may have rows that the typed table lacks."""
    yield from source.origins
    # A repair of the lake table drops a former life that neither Kinesis nor a snapshot knows any more. Its rows are
    # still there.
    yield from left_out(source, target.streams())


def _with_ends_behind(source: Positions, target: Positions) -> Positions:
    """The lake table's positions, with each END at the typed table's position that the lake table has before that
    position.

    A person had given up the last records of the shard, the typed table passed them, and then another engine's expiry took
    the ledger that told so: a repair knows the rows only. Nothing lands after an END, so that the END alone is left to
    take, and the shard's children would wait for it for ever.
    """
    ends = {
        key: replace(position, ended=True, children=landed.children)
        for key, position in target.shards.items()
        if (landed := source.of(key)) is not None and landed.ended and _is_behind(landed, position)
    }
    return replace(source, shards={**source.shards, **ends}) if ends else source


def _is_behind(landed: Position | None, position: Position | None) -> bool:
    return position is not None and landed is not None and not is_forward(position, landed)


def _wanted(
    key: ShardKey, parents: Mapping[str, Iterable[str]], source: Positions, target: Positions
) -> Wanted:
    position, landed = target.of(key), source.of(key)
    above = [ShardKey(key.stream, parent) for parent in sorted(parents.get(key.shard_id, ()))]
    ended = [parent for parent in above if target.has_ended(parent)]
    reasons = (
        tuple(ParentReason(parent.shard_id, ParentIs.ENDED) for parent in ended) if position is None else ()
    )
    is_over = landed is None and _is_over(key, [position, *map(target.of, ended)], source)
    # A root shard has no parents, and can't be told from a shard whose parents came and went.
    is_new = position is None and not are_all_parents([target.of(parent) for parent in ended])
    floor = "" if is_new else _floor(key, parents, target)
    return Wanted(key, position, landed, floor, reasons, is_over, is_new)


def _is_over(key: ShardKey, positions: Iterable[Position | None], source: Positions) -> bool:
    """Whether nothing more lands of a shard whose position the lake table has dropped: the shard is of a former life,
    which the table has dropped as a whole, or the table is more than a day past all that is known of the shard."""
    if key.stream not in source.origins:
        return True
    since = max(
        (position.witness for position in positions if position is not None and position.witness is not None),
        default=None,
    )
    latest = max(
        (p.witness for k, p in source.shards.items() if k.stream == key.stream and p.witness is not None),
        default=None,
    )
    return since is not None and latest is not None and latest - since > _FORGOTTEN


def _parents(stream: StreamId, source: Positions, target: Positions) -> dict[str, set[str]]:
    parents = children_of_ends(stream, source)
    for child, namers in children_of_ends(stream, target).items():
        parents.setdefault(child, set()).update(namers)
    return parents


def _is_due(key: ShardKey, source: Positions, target: Positions) -> bool:
    position, landed = target.of(key), source.of(key)
    if position is not None and position.ended:
        # The shard was taken for over, and then the lake table, which had been rolled back for more than a day, landed
        # it to its end.
        return landed is not None and landed.token != position.token and is_forward(position, landed)
    if landed is None:
        # A shard that an END in the lake table names has no row there yet. Else the lake table has dropped the shard's
        # position, which it does only after the shard's end.
        return key.shard_id not in children_of_ends(key.stream, source)
    has_something = landed.sequence is not None or landed.ended
    return has_something and (position is None or position.token != landed.token)


def _hides_ancestors(key: ShardKey, source: Positions, target: Positions) -> bool:
    """Whether nothing of the stream is parsed yet, and the shard has no record: of its ancestors the lake table may have rows and no position
    any more. They are looked for because of it, or nothing would look for them until the next record lands."""
    landed = source.of(key)
    has_nothing = landed is not None and landed.sequence is None and not landed.ended
    return has_nothing and target.of(key) is None and key.stream not in target.origins


def _is_in_the_way(
    key: ShardKey, parents: Mapping[str, Iterable[str]], source: Positions, target: Positions
) -> bool:
    """Whether rows of a parent may still come before those of the shard (I3)."""
    above = [ShardKey(key.stream, parent) for parent in parents.get(key.shard_id, ())]
    placed = [parent for parent in above if target.of(parent) or source.of(parent)]
    return any(not target.has_ended(parent) for parent in placed)


def _floor(key: ShardKey, parents: Mapping[str, Iterable[str]], target: Positions) -> str:
    """A sort key below all rows of the shard that the typed table lacks: its own position, or the end of its
    parents."""
    position = target.of(key)
    if position is not None and position.sequence is not None:
        return sort_key_of(position)
    above = [target.of(ShardKey(key.stream, parent)) for parent in parents.get(key.shard_id, ())]
    return min((sort_key_of(parent_position) for parent_position in above), default="")


# --- what the wave takes ----------------------------------------------------------------------------------------


def plan_wave(
    wishes: Wishes, pieces: Sequence[Piece], *, ceiling: str | None, limits: WaveLimits
) -> WavePlan:
    by_shard = _by_shard(pieces)
    clusters = {key: list(_clusters(of)) for key, of in by_shard.items()}
    later = waits_for_former_lives(wishes, by_shard)
    waiting = waits_for_unknown_parents(wishes, by_shard) | later
    taken = _taken({key: of for key, of in clusters.items() if key not in waiting}, limits)
    by_key = {w.key: w for w in wishes.wanted}
    # Rows of a shard of which neither table has a position: it came and went between two waves of the typed table.
    unknown = [Wanted(key, None, None) for key in clusters if key not in by_key]
    # Once nothing more is looked for because of a shard, rows of shards that nobody knows would never be found.
    left = [w.key for w in unknown if len(taken.get(w.key, ())) < len(clusters[w.key])]
    are_all = ceiling is None and not left
    # In a life that the lake table has forgotten, such rows are looked for anyway, and may wait for this very END.
    # So may those of a later life, which other waves come to.
    may_end = ceiling is None and all(
        key in later or (key in waiting and key.stream in wishes.left_out) for key in left
    )
    ranges: list[PlannedRange] = []
    is_last = ceiling is None and not wishes.has_waiting and not waiting
    for lack in (*wishes.wanted, *sorted(unknown, key=lambda w: w.key)):
        if lack.key in waiting:
            continue
        own = taken.get(lack.key, [])
        is_whole = len(own) == len(clusters.get(lack.key, ())) and _is_below(lack, ceiling)
        is_last = is_last and is_whole
        upto = _upto(lack, own, may_end=may_end) if is_whole else _cut(own)
        if lack.is_new and not own and not are_all:
            continue
        if upto is not None and upto.token != (lack.after or Position()).token:
            ranges.append(_range(lack, upto, [piece for cluster in own for piece in cluster]))
    read = [p for planned in ranges for cluster in taken.get(planned.key, ()) for p in cluster]
    return WavePlan(tuple(ranges), tuple(units_of(read)), sum(p.malformed for p in read), is_last)


_Cluster = list[Piece]


def _by_shard(pieces: Iterable[Piece]) -> dict[ShardKey, list[Piece]]:
    by_key: dict[ShardKey, list[Piece]] = {}
    for piece in pieces:
        by_key.setdefault(piece.key, []).append(piece)
    return by_key


def _clusters(pieces: list[Piece]) -> Iterator[_Cluster]:
    """Pieces of a shard between which it can be cut: no piece reaches into the next cluster, and no Kinesis record
    does."""
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
        # At least one cluster: else one that is larger than the limits would stop the table for good.
        if taken and (rows > limits.records or size > limits.bytes):
            break
        taken.setdefault(key, []).append(cluster)
    return taken


def _is_below(lack: Wanted, ceiling: str | None) -> bool:
    """Whether no file above the ceiling can have rows of the shard that are wanted."""
    return ceiling is None or (lack.high is not None and lack.high <= ceiling)


def _cut(taken: list[_Cluster]) -> Position | None:
    """The position of the last row that the wave takes; None where it takes none."""
    if not taken:
        return None
    last = max((piece for cluster in taken for piece in cluster), key=lambda p: p.last)
    return position_at(last.last, last.newest)


def _upto(lack: Wanted, taken: list[_Cluster], *, may_end: bool) -> Position | None:
    if lack.upto is not None:
        return lack.upto
    reached = _cut(taken) or lack.after
    return replace(reached or Position(), ended=True) if lack.is_over and may_end else reached


def _range(lack: Wanted, upto: Position, pieces: list[Piece]) -> PlannedRange:
    return PlannedRange(
        lack.key,
        lack.after,
        upto,
        lack.parents,
        rows=sum(p.rows for p in pieces),
        bytes=sum(p.bytes for p in pieces),
        oldest=min((p.oldest for p in pieces if p.oldest is not None), default=None),
        newest=max((p.newest for p in pieces if p.newest is not None), default=None),
        first=min((p.first for p in pieces), default=""),
    )


def units_of(pieces: Iterable[Piece]) -> Iterator[ReadUnit]:
    """The row groups that have the rows of these pieces, each with the number of these rows in it, and of those before it."""
    rows: dict[tuple[str, int], int] = {}
    for piece in pieces:
        place = (piece.path, piece.group)
        rows[place] = rows.get(place, 0) + piece.rows
    first = 0
    for (path, group), count in sorted(rows.items()):
        yield ReadUnit(path, group, first, count)
        first += count
