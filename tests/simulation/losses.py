"""Records that Kinesis forgot before anybody read them: which they are, and what has to be told of them.

It is worked out from the records that were put, their arrivals, the retention, and the moments at which shards were really
read; the product's word is what is judged. A record that isn't in the table has to have been trimmed when its shard was
read, and to lie in a gap that was committed before. Nobody has to tell of what was trimmed before the stream could first
be read: at TRIM_HORIZON, what arrived before the origin was decided.

A gap is a false alarm where the commits before it prove that the shard was whole up to a moment within the retention:

    the arrival of a record that landed      everything before it was landed, too
    a committed look at the tip              everything that had arrived by then was landed
    a parent's proof, for a child without    its records came after the parent's last one (not where the other parent went unread)
    the stream's beginning                   the moment named, if it was within reach, else when the origin was decided
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from pipeline.core.batch import Manifest, Staged
from pipeline.core.lineage import Range
from pipeline.core.position import Origin
from pipeline.core.stream import ShardKey, StreamId
from tests.simulation.scheduler import Process
from tests.simulation.truth import ShardTruth, Violation

if TYPE_CHECKING:
    from tests.simulation.world import World

_SECOND = timedelta(seconds=1)
"""Kinesis's Date is cut to it."""
_PROOFS = 12
"""The newest of a shard: nobody plans on what is older."""

_Token = tuple[int | None, int, bool]


@dataclass(slots=True)
class Losses:
    world: World
    decided: dict[StreamId, Origin] = field(default_factory=dict)
    """What the table was told of each stream's start, once it was judged."""
    sure: bool = True
    """False once a person rolled the table back or repaired it: what the commits had proved went with them."""
    _read_at: dict[tuple[str, ShardKey, _Token], datetime] = field(default_factory=dict)
    """By claim, shard and how far it got."""
    _newest: dict[tuple[str, ShardKey], tuple[Staged, datetime]] = field(default_factory=dict)
    landed_by: dict[tuple[str, ShardKey], datetime] = field(default_factory=dict)
    """By claim: the arrival of the last record that it landed."""
    last_read: dict[ShardKey, float] = field(default_factory=dict)

    @property
    def retention(self) -> timedelta:
        return timedelta(seconds=self.world.plan.retention)

    # -- what was read, and when ---------------------------------------------------------------------------------

    def note_read(self, process: Process, made: Manifest) -> None:
        now = self.world.clock.now()
        for each in made.staged:
            self._read_at[process.claim, each.key, each.upto.token] = now
            self._newest[process.claim, each.key] = each, now
            if each.error is None:
                self.last_read[each.key] = self.world.sim.now

    def newest_read(self, claim: str, key: ShardKey) -> tuple[Staged, datetime] | None:
        """By a run, of a shard: what it brought, and when."""
        return self._newest.get((claim, key))

    def read_at(self, each: Range) -> datetime:
        return self._read_at.get((each.claim, each.key, each.upto.token)) or self.world.clock.now()

    # -- records that aren't there -------------------------------------------------------------------------------

    def must_be_there(
        self, shard: ShardTruth, wanted: list[int], rows: Iterable[int], read_at: datetime
    ) -> list[int]:
        """Of the records that come next, those that a reader of that moment has to bring."""
        there = set(rows)
        at = dict(zip(shard.sequences, shard.arrivals, strict=True))
        return [n for n in wanted if n in there or not self.is_told(shard, at[n], read_at)]

    def is_told(self, shard: ShardTruth, arrival: datetime, now: datetime) -> bool:
        """Whether a record that isn't landed is accounted for."""
        if arrival >= now - self.retention:
            return False
        if any(since <= arrival <= until for since, until in shard.gaps):
            return True
        before = shard.unread_until or self.unread_until(shard, now)
        return before is not None and arrival <= before

    def unread_until(self, shard: ShardTruth, now: datetime) -> datetime | None:
        """What arrived before this was trimmed before the stream was ever to be read."""
        if shard.key.stream not in self.decided:
            return None
        nothing_landed = shard.token is None or shard.token[0] is None
        if not nothing_landed or not self._starts_at_the_horizon(shard):
            return None
        return min(now - self.retention, self._decided_at(shard.key.stream))

    def _decided_at(self, stream: StreamId) -> datetime:
        """The true moment of the answer that the origin was decided by."""
        origin = self.decided[stream]
        return self.world.source.answers.get(stream, {}).get(origin.decided, origin.decided)

    def _starts_at_the_horizon(self, shard: ShardTruth) -> bool:
        """A root, or a shard whose parents had left the stream before anybody read them, were KCL's to their end, or ended
        without a record of theirs and began so themselves."""
        stream, world = shard.key.stream, self.world
        if not self.is_first_of_ours(stream) or self._named_within_reach(stream) is not None:
            return False
        parents = (world.truth.shards[ShardKey(stream, name)] for name in shard.parents)
        return all(
            (parent.token is None and world.is_unlisted(parent.key))
            or _was_kcls(parent)
            or (parent.token is not None and parent.token[0] is None and self._starts_at_the_horizon(parent))
            for parent in parents
        )

    def is_first_of_ours(self, stream: StreamId) -> bool:
        """Of its lives, the first that has an origin: an earlier one may have been KCL's alone."""
        return next((each for each in self.decided if each.arn == stream.arn), stream) == stream

    def _named_within_reach(self, stream: StreamId) -> datetime | None:
        origin = self.decided[stream]
        named = origin.start.at
        return None if named is None or named < origin.decided - self.retention else named

    # -- gaps ----------------------------------------------------------------------------------------------------

    def judged_gap(
        self, shard: ShardTruth, each: Range, made: datetime, planned: float
    ) -> tuple[datetime, datetime]:
        """Its bounds. `made`: when its commit was made; `planned`: when its run had last looked at the table."""
        since, until = each.first_arrival, each.last_arrival
        about = each.key.shard_id
        if since is None or until is None:
            raise Violation("I13", f"a gap of {each.key} without bounds", about)
        if until > made + _SECOND - self.retention:
            raise Violation(
                "I13", f"{each.key}: a gap up to {until}, told at {made}: Kinesis held its end then", about
            )
        whole = self.whole_until(shard, planned) if self.sure and not self.world.plan.adopted else None
        if whole is not None and (since < whole - _SECOND or made + _SECOND - whole <= self.retention):
            raise Violation(
                "I13",
                f"{each.key}: a gap from {since} to {until}, told at {made}, though it was whole up to {whole}",
                about,
            )
        return since, until

    def whole_until(self, shard: ShardTruth, at: float) -> datetime:
        """Up to when the commits before that moment prove that nothing of the shard was lost."""
        own = next((proof for when, proof in reversed(shard.proofs) if when <= at), None)
        if own is not None:
            return own
        stream = shard.key.stream
        parents = [self.world.truth.shards[ShardKey(stream, name)] for name in shard.parents]
        placed = [self.whole_until(parent, at) for parent in parents if parent.token is not None]
        went_unread = any(each.token is None and self.world.is_unlisted(each.key) for each in parents)
        return max(placed) if placed and not went_unread else self._begun(stream)

    def _begun(self, stream: StreamId) -> datetime:
        if stream not in self.decided or not self.is_first_of_ours(stream):
            return datetime.fromtimestamp(stream.epoch, UTC)
        origin, named = self.decided[stream], self._named_within_reach(stream)
        return origin.decided if named is None or named > origin.decided else named

    def add_proof(self, shard: ShardTruth, each: Range, stop: int) -> None:
        """Of a landed range. `stop`: how many of the shard's records the position has passed with it."""
        seen, known = each.upto.seen, [proof for _, proof in shard.proofs[-1:]]
        if seen is not None and stop < len(shard.arrivals) and shard.arrivals[stop] < seen:
            self._judge_seen(shard, each, stop, seen)
        if each.rows and stop:
            known.append(shard.arrivals[stop - 1])
            self.landed_by[each.claim, each.key] = shard.arrivals[stop - 1]
        if seen is not None:
            known.append(seen)
        if known:
            shard.proofs = (*shard.proofs[1 - _PROOFS :], (self.world.sim.now, max(known)))

    def _judge_seen(self, shard: ShardTruth, each: Range, stop: int, seen: datetime) -> None:
        """Nothing that had arrived by then lies beyond the position, but for what was before the start or is told of."""
        origin, read_at = self.decided[shard.key.stream].start.at, self.read_at(each)
        for arrival in shard.arrivals[stop:]:
            if arrival >= seen:
                return
            if (origin is None or arrival >= origin) and not self.is_told(shard, arrival, read_at):
                raise Violation(
                    "I13",
                    f"{each.key} counts as seen to its tip at {seen}, a record of {arrival} is after {each.upto}",
                    each.key.shard_id,
                )

    def judge_looked(self, shard: ShardTruth, looked: datetime) -> None:
        """A shard whose row says that it was looked at to its tip: the table knows of a moment that isn't much older."""
        if shard.ended or not self.sure or shard.key.stream not in self.decided:
            return
        whole = self.whole_until(shard, self.world.sim.now)
        if looked - whole > self.retention / 4 + 2 * _SECOND:
            raise Violation(
                "I13",
                f"{shard.key}: looked at to its tip at {looked}, and the table knows it whole up to {whole} only",
                shard.key.shard_id,
            )

    # -- when all is over ----------------------------------------------------------------------------------------

    def unaccounted(self, shard: ShardTruth, landed: dict[int, int]) -> Iterator[str]:
        """What is wrong with the shard's records, now that everything has been read. `landed`: times by record."""
        now = self.world.clock.now()
        first = self.world.truth.first(shard, self.decided[shard.key.stream].start.at)
        for at, sequence in enumerate(shard.sequences):
            times = landed.get(sequence, 0)
            if times > 1 or (times and at < first):
                yield f"record {sequence} is in the table {times} times, and its place is {at} of {first}"
            elif not times and at >= first and not self._is_forgiven(shard, at, now):
                yield f"record {sequence} of {shard.arrivals[at]} is nowhere, and in no gap"

    def _is_forgiven(self, shard: ShardTruth, at: int, now: datetime) -> bool:
        """It was passed over for good reason when its shard was read, or would be now."""
        arrival = shard.arrivals[at]
        if shard.sequences[at] in shard.forgiven or self.is_told(shard, arrival, now):
            return True
        return any(self._told_below(shard, arrival))

    def _told_below(self, shard: ShardTruth, arrival: datetime) -> Iterator[bool]:
        """Of a shard that left the stream without anybody having known it, its descendants tell."""
        if shard.token is None and arrival < self.world.clock.now() - self.retention:
            for name in shard.children:
                child = self.world.truth.shards[ShardKey(shard.key.stream, name)]
                yield any(since <= arrival <= until for since, until in child.gaps)
                yield from self._told_below(child, arrival)


def _was_kcls(shard: ShardTruth) -> bool:
    """KCL read it to its end: nobody of ours knows when that was."""
    return shard.ended and shard.begins == len(shard.sequences)
