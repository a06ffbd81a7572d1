"""The judges of what a commit of the lake table tells of itself: what a range says of its records (I45), what a position keeps of the one before it,
which ENDs go (I7), and up to when a stream is said to be there as a whole."""

from __future__ import annotations

from bisect import bisect_left
from datetime import datetime
from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING

from headrace.pipeline.core.landing.valid_through import overall
from headrace.pipeline.core.ledger.ledger import Kind, Range
from headrace.pipeline.core.order.parents import children_of_ends
from headrace.pipeline.core.shards.position import Positions
from headrace.pipeline.core.shards.stream import ShardKey, StreamId
from tests.memory.aggregates import LandedRow, numbers_of
from tests.memory.table import Snapshot
from tests.simulation.watch.truth import ShardTruth, Violation

if TYPE_CHECKING:
    from tests.simulation.world import World

_UNREAD_ENDS = frozenset({Kind.SKIPPED, Kind.FOREIGN, Kind.ADOPT})


def judge_told(world: World, made: Snapshot, below: Positions) -> None:
    """`below`: the positions of the snapshot that the commit is built on."""
    landed: dict[ShardKey, list[LandedRow]] = {}
    names: dict[ShardKey, set[str]] = {}
    for file in made.files:
        for key, rows in groupby(world.stage.rows[file.path], key=itemgetter(0)):
            landed.setdefault(key, []).extend(rows)
            names.setdefault(key, set()).add(file.path.rsplit("/", 1)[-1])
    for each in made.page.ranges:
        if not each.moves or each.kind not in {Kind.LANDED, Kind.SKIPPED}:
            continue
        _judge_carried(each, below, made)
        there = landed.get(each.key, [])
        if each.rows != len(there) or set(each.files) != names.get(each.key, set()):
            raise _told_wrong(
                each, f"{len(there)} rows in {sorted(names.get(each.key, ()))} are those of the shard"
            )
        if each.rows:
            first, last = numbers_of(there[0])[0], numbers_of(there[-1])[-1]
            _judge_arrivals(world.truth.shards[each.key], each, first, last)


def _judge_arrivals(shard: ShardTruth, each: Range, first: int, last: int) -> None:
    arrivals = _arrival(shard, first), _arrival(shard, last)
    if (each.first_arrival, each.last_arrival) != arrivals:
        raise _told_wrong(each, f"its records arrived from {arrivals[0]} to {arrivals[1]}")


def _arrival(shard: ShardTruth, number: int) -> datetime:
    return shard.arrivals[bisect_left(shard.sequences, number)]


def _told_wrong(each: Range, truth: str) -> Violation:
    return Violation(
        "I45",
        f"a range of {each.key} tells of {each.rows} rows in {sorted(each.files)} from {each.first_arrival} to {each.last_arrival}, but {truth}",
        each.key.shard_id,
    )


def _judge_carried(each: Range, below: Positions, made: Snapshot) -> None:
    """A position that stays at its record keeps that record's arrival, and the moment up to which nothing was lost doesn't go back."""
    was, now = below.of(each.key), made.positions.of(each.key)
    if was is None or now is None:
        return
    if (
        was.sequence == now.sequence
        and was.arrival is not None
        and (now.arrival is None or now.arrival < was.arrival)
    ):
        raise Violation(
            "I9",
            f"the position of {each.key} stays at {now}, and its record's arrival goes from {was.arrival} to {now.arrival}",
            each.key.shard_id,
        )
    if was.witness is not None and (now.witness is None or now.witness < was.witness):
        raise Violation(
            "I9",
            f"{each.key} was whole up to {was.witness}, and is up to {now.witness} now",
            each.key.shard_id,
        )


def judge_dropped_ends(world: World, made: Snapshot) -> None:
    """An END stays for as long as Kinesis keeps records of its shard, whatever Kinesis answers. It goes after the ENDs that name its shard, and
    once its children have begun."""
    kept_since = world.clock.now() - world.losses.retention
    for key in made.page.dropped:
        shard = world.truth.shards[key]
        if world.truth.lives(key.stream) and shard.arrivals and shard.arrivals[-1] > kept_since:
            raise Violation(
                "I7",
                f"the END of {key} is removed, whose last record arrived at {shard.arrivals[-1]}",
                key.shard_id,
            )
        if key.shard_id in children_of_ends(key.stream, made.positions):
            raise Violation("I7", f"the END of {key} is removed, and its parent's END names it", key.shard_id)
        if waiting := [name for name in shard.children if _is_unread(world, ShardKey(key.stream, name))]:
            raise Violation(
                "I7", f"the END of {key} is removed, and its children {waiting} are unread", key.shard_id
            )


def _is_unread(world: World, key: ShardKey) -> bool:
    """Whether records of the shard are still to be read, and nothing is known of it but by its parents."""
    shard, truth = world.truth.shards[key], world.truth
    is_passed = truth.is_passed(shard, truth.placed())
    return shard.token is None and truth.lives(key.stream) and not world.is_unlisted(key) and not is_passed


def judge_through(world: World, made: Snapshot) -> None:
    """No record that arrived before the time which the commit states is still to be read. Other rules judge whether those
    that Kinesis has trimmed before they were read are recorded as lost."""
    for stream, until in made.through.items():
        _judge_stated(world, made, stream, until)
    for each in made.page.ranges:
        # Nobody has read this end, so nobody knows whether it names all children.
        if each.upto.ended and each.kind in _UNREAD_ENDS and each.key.stream in made.through:
            raise Violation(
                "valid-through",
                f"snapshot {made.id} ends {each.key} by {each.kind}, and states {made.through[each.key.stream]}",
                each.key.shard_id,
            )
    together = overall(made.through, made.positions)
    _judge_together(made, together)
    if together is not None and len(made.positions.origins) > 1:
        for stream in filter(world.truth.lives, made.positions.origins):
            _judge_stated(world, made, stream, together)


def _judge_together(made: Snapshot, together: datetime | None) -> None:
    """What is stated of all streams holds for each: no stream of which nothing is stated is passed over."""
    if together is None:
        return
    newest = {stream.arn: stream for stream in sorted(made.positions.origins)}
    for stream in newest.values():
        own = made.through.get(stream)
        if own is None or own < together:
            raise Violation(
                "valid-through", f"snapshot {made.id} states {together} of all streams, and {own} of {stream}"
            )


def _judge_stated(world: World, made: Snapshot, stream: StreamId, until: datetime) -> None:
    kept = world.clock.now() - world.losses.retention
    wanted = max(kept, world.table.origins.get(stream) or kept)
    for shard in (each for each in world.truth.shards.values() if each.key.stream == stream):
        # What KCL had read of an adopted shard is read by nobody.
        first = max(shard.read, shard.begins or 0)
        unread = shard.arrivals[bisect_left(shard.arrivals, wanted, first) :][:1]
        if unread and unread[0] < until:
            raise Violation(
                "valid-through",
                f"snapshot {made.id} states {until}, and a record of {shard.key} from {unread[0]} is unread",
                shard.key.shard_id,
            )
