"""Up to which arrival time the lake table has all records of a stream: the table's statement `valid-through`.

"Every record that Kinesis received between the stream's origin and this time is in the table, or the lineage table
tells why it isn't." A statement needs to know two things:

*All shards are known.* The table has positions of shards that were read, and doesn't know of a root shard that no run
has read yet. So a statement begins with a proof by the leader, which lists all shards at each clean-up
(`shards_that_prove`). From then on each commit carries it: whatever becomes of the known shards, an END names the
children, which count as open.

*How far each open shard has landed.* Up to its witness: the arrival of its last landed record, or the later time at
which Kinesis said that nothing newer was there. A child that wasn't read yet is bounded by the witnesses of its
parents, as far as these say anything about the child (`Positions.children_since`). The stream is as far as the shard
that is furthest behind, and a shard of which nothing is known keeps the statement where it was.

*Quiet shards.* A shard without new records holds the statement up, so the leader asks Kinesis now and then whether
there is anything after the positions in the table (`quiet_shards`, `seen_quiet`): ten minutes after other shards have
landed more, and in a stream at rest once after each full hour, so that whoever waits for the hour isn't kept waiting.

Only times by Kinesis's clocks count. A statement never goes back: what was complete stays so. It is withdrawn where
that needn't be so: after a person moved a position, and after an END that may not name all children.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from datetime import datetime, timedelta

from headrace.pipeline.core.ledger.arrivals import APPROXIMATE
from headrace.pipeline.core.ledger.author import Author
from headrace.pipeline.core.ledger.ledger import Kind, LedgerPage, Range
from headrace.pipeline.core.order.cover import is_whole
from headrace.pipeline.core.order.parents import Family, children_of_ends
from headrace.pipeline.core.shards.position import TRIM, Position, Positions, Start
from headrace.pipeline.core.shards.shard import Shard
from headrace.pipeline.core.shards.stream import ShardKey, StreamId

Through = Mapping[StreamId, datetime]
"""Stream -> up to when its records are in the table. A stream without a statement isn't there."""


BEHIND_OTHERS = timedelta(minutes=10)
"""How far the statement may stay behind the records of other shards because of quiet shards. Then Kinesis is asked
about these."""
_FRESH = BEHIND_OTHERS / 2
"""Kinesis isn't asked about a shard whose latest known moment is younger than this: it doesn't hold the statement up
for long."""
_HOUR_WAITS = _FRESH + APPROXIMATE
"""How long after a full hour Kinesis is asked whether the hour is complete: then about each shard that holds the
statement below it. Asking once an hour, because it costs a commit, and a request to Kinesis for each open shard."""
_MOST_ASKED = 1_000
"""The most shards that the leader asks about in one tick. Asking about so many takes a second or two."""


def through_after(
    stated: Through,
    base: Positions,
    *,
    page: LedgerPage,
    positions: Positions,
    proofs: Iterable[tuple[StreamId, frozenset[str]]],
) -> dict[StreamId, datetime]:
    """The `valid-through` times of a commit with this ledger page, by stream. `stated`, `base`: the times and
    positions of the snapshot on which it is built; `positions`: those of the commit itself. `proofs`: for
    streams, what `shards_that_prove` returned.
    """
    withdrawn = {recorded.key.stream for recorded in page.ranges if _withdraws(recorded)}
    # Checked on the base: between the leader's look and the commit the table may have been rolled back.
    proven = {stream for stream, shards in proofs if shards and _are_placed(stream, shards, base)}
    after: dict[StreamId, datetime] = {}
    for stream in sorted((stated.keys() | proven) - withdrawn):
        moments = [when for when in (stated.get(stream), reached(stream, positions)) if when is not None]
        if moments:
            after[stream] = max(moments)
    return after


def reached(stream: StreamId, positions: Positions) -> datetime | None:
    """The arrival time up to which all known shards of the stream have landed; None where that isn't known of one
    of them.
    """
    placed = {key.shard_id: position for key, position in positions.shards.items() if key.stream == stream}
    bounds = [position.witness for position in placed.values() if not position.ended]
    for child, parents in children_of_ends(stream, positions).items():
        if child not in placed:
            # A child's records arrived after those of all its parents, of which some may be open: the earliest time is
            # safe.
            bounds.extend(positions.children_since(ShardKey(stream, parent)) for parent in parents)
    moments = [bound for bound in bounds if bound is not None]
    return min(moments) - APPROXIMATE if moments and len(moments) == len(bounds) else None


def quiet_shards(
    stream: StreamId, stated: Through, positions: Positions, *, now: datetime, retention: timedelta
) -> dict[ShardKey, Start | int]:
    """The open shards of which Kinesis has to be asked whether they have new records, each with the place after
    which to ask. Empty while the stream's `valid-through` is recent enough. `now`: the `Date` of an answer of
    Kinesis from before the asking.
    """
    until = stated.get(stream)
    witnesses = {
        key: position.witness
        for key, position in positions.shards.items()
        if key.stream == stream and position.witness is not None
    }
    if until is None or not witnesses:
        return {}
    if max(witnesses.values()) - until <= BEHIND_OTHERS + APPROXIMATE and until >= (
        now - _HOUR_WAITS
    ).replace(minute=0, second=0, microsecond=0):
        return {}
    # Half of the retention: Kinesis can't have removed any record that arrived after the witness before it is asked.
    # Kinesis can't be asked for what may be left of the record at a position inside it.
    quiet = sorted(
        (witness, key)
        for key, witness in witnesses.items()
        if not positions.shards[key].ended and not positions.shards[key].inside
        if _FRESH < now - witness <= retention / 2
    )
    return {key: _after(positions.shards[key]) for _, key in quiet[:_MOST_ASKED]}


def seen_quiet(
    stream: StreamId,
    stated: Through,
    positions: Positions,
    *,
    keys: Iterable[ShardKey],
    news: Collection[ShardKey],
    now: datetime,
    by: str,
) -> tuple[Range, ...]:
    """Ranges without records that state, for the shards in which Kinesis has nothing new, that nothing came after
    their positions up to `now`. Empty if a shard with news keeps `valid-through` where it is anyway. `now`,
    `positions`: as for `quiet_shards`. `by`: who asked.
    """
    upto = {key: replace(positions.shards[key], seen=now) for key in keys if key not in news}
    until = reached(stream, positions.with_shards(upto)) if news else None
    if news and (until is None or until <= stated[stream]):
        return ()
    return tuple(
        Author(by).range(Kind.LANDED, key, positions.shards[key], position) for key, position in upto.items()
    )


def _after(position: Position) -> Start | int:
    # From the oldest record in Kinesis, where none has landed: a record from before the stream's origin is then taken
    # for news.
    return position.sequence if position.sequence is not None else position.start or TRIM


def overall(stated: Through, positions: Positions) -> datetime | None:
    """The `valid-through` time of all streams of the table together; None where one of them has none. Of each
    stream only the newest life counts, because nothing more can land of a life that is over.
    """
    if not stated:
        # A table may have ten thousand shards, and each commit asks.
        return None
    newest: dict[str, StreamId] = {stream.arn: stream for stream in sorted(positions.streams())}
    if not newest or any(stream not in stated for stream in newest.values()):
        return None
    return min(stated[stream] for stream in newest.values())


def shards_that_prove(family: Family, listed: Iterable[Shard], positions: Positions) -> frozenset[str] | None:
    """The shards whose positions prove that the table knows every shard with unread records; None where they
    don't prove it. `listed`: all shards that Kinesis lists. `family`: made of this listing and of these
    positions.
    """
    shards = tuple(listed)
    # A late listing may hide shards, but then hash keys are left out.
    if not is_whole(shards):
        return None
    passed = family.passed(positions)
    if all(_is_known(shard.shard_id, family, positions, passed) for shard in shards):
        return frozenset(key.shard_id for key in positions.shards if key.stream == family.stream)
    return None


def _is_known(shard_id: str, family: Family, positions: Positions, passed: Mapping[str, str]) -> bool:
    """Whether the shard has a position, comes before one that has, or after open shards that the table knows."""
    return _is_read(shard_id, family, positions, passed) or _is_ahead(shard_id, family, positions, passed)


def _is_ahead(shard_id: str, family: Family, positions: Positions, passed: Mapping[str, str]) -> bool:
    """Whether the shard is read after known shards: an END names it, or each of its parents has an open position or is
    itself ahead."""
    todo, visited, is_anchored = [shard_id], set[str](), False
    while todo:
        current = todo.pop()
        if current in visited:
            continue
        visited.add(current)
        position, parents = (
            positions.of(ShardKey(family.stream, current)),
            family.parents.get(current, frozenset()),
        )
        if position is not None and not position.ended:
            is_anchored = True
        elif position is not None:
            # An END that doesn't name this child. It was expected itself, which says nothing about its children.
            return False
        elif current not in family.listed and any(map(family.lacks_a_child, parents)):
            # A late listing hides the shard, and a merge may have joined it from a further parent that nothing tells
            # of.
            return False
        elif current in family.expected:
            is_anchored = True
            # After a merge, the END of one parent says nothing about the other parent, which a late listing may hide.
            todo += (parent for parent in parents if not _is_read(parent, family, positions, passed))
        elif not parents:
            # A root shard that no run has read.
            return False
        else:
            todo += parents
    # Parents that contradict each other may lead in a circle to nothing.
    return is_anchored


def _is_read(shard_id: str, family: Family, positions: Positions, passed: Mapping[str, str]) -> bool:
    """Whether the shard has a position, or comes before one that has."""
    # The first range of a descendant named the reason why each shard above it needn't be read.
    return shard_id in passed or positions.of(ShardKey(family.stream, shard_id)) is not None


def _withdraws(recorded: Range) -> bool:
    """Whether the range may make a statement wrong."""
    if not recorded.moves:
        return False
    return recorded.may_go_back or (
        recorded.upto.ended and not (recorded.kind is Kind.LANDED and recorded.upto.children)
    )


def _are_placed(stream: StreamId, shards: Iterable[str], positions: Positions) -> bool:
    return all(ShardKey(stream, shard) in positions.shards for shard in shards)
