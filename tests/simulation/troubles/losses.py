"""The judge of lost records: which records Kinesis trimmed before a run read them, and which gaps have to report them.

What was lost is worked out from the records that were put, their arrivals, the retention, and the times at which shards were
really read, never from what the product says. A record that isn't in the table must have been trimmed when its shard
was read, and must lie in a gap that was committed before. No gap is needed for a record that was trimmed before the
stream could first be read: with TRIM_HORIZON, a record that arrived before the origin was decided.

A gap is a false alarm if earlier commits prove that nothing was lost up to a time within the retention:

    what is known                                  what it proves
    the arrival of a landed record                 every record before it has landed
    a committed look at the tip                    every record that had arrived by then has landed
    a parent's proof, for a child without its own  the child's records came after the parent's last record; where a parent
                                                   was never read, after the earliest proof of any shard that was read
    the stream's beginning, where a shard has      nothing before the named timestamp is wanted, if that was within
    none of these                                  the retention; else nothing before the origin's decision
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from headrace.pipeline.core.ledger.batch import Manifest, Staged
from headrace.pipeline.core.ledger.ledger import Range
from headrace.pipeline.core.shards.position import Origin
from headrace.pipeline.core.shards.stream import ShardKey, StreamId
from tests.simulation.scheduler import Process
from tests.simulation.watch.truth import ShardTruth, Violation

if TYPE_CHECKING:
    from tests.simulation.world import World

_SECOND = timedelta(seconds=1)
"""Kinesis's Date header is in whole seconds."""
_PROOFS = 12
"""How many proofs of a shard are kept. No run in these fleets plans on an older state of the table."""

_Token = tuple[int | None, int, bool]


@dataclass(slots=True)
class Losses:
    """What was read when, and the judgement of missing records and of gaps."""

    world: World
    decided: dict[StreamId, Origin] = field(default_factory=dict)
    """The committed origin of each stream, once it was judged."""
    sure: bool = True
    """False once a person has rolled the table back or repaired it, because earlier commits then prove nothing any
    more."""
    _read_at: dict[tuple[str, ShardKey, _Token], datetime] = field(default_factory=dict)
    """When a shard was read, by claim, shard, and the position that was reached."""
    _newest: dict[tuple[str, ShardKey], tuple[tuple[Staged, datetime], ...]] = field(default_factory=dict)
    landed_by: dict[tuple[str, ShardKey], datetime] = field(default_factory=dict)
    """By claim and shard: the arrival of the last record that the run landed."""
    last_read: dict[ShardKey, float] = field(default_factory=dict)

    @property
    def retention(self) -> timedelta:
        return timedelta(seconds=self.world.plan.retention)

    # -- what was read, and when ---------------------------------------------------------------------------------

    def note_read(self, process: Process, made: Manifest) -> None:
        now = self.world.clock.now()
        for each in made.staged:
            self._read_at[process.claim, each.key, each.upto.token] = now
            self._newest[process.claim, each.key] = (
                (each, now),
                *self.newest_reads(process.claim, each.key)[:1],
            )
            if each.error is None:
                self.last_read[each.key] = self.world.sim.now

    def newest_reads(self, claim: str, key: ShardKey) -> tuple[tuple[Staged, datetime], ...]:
        """What the run with this claim read in its last two waves of the shard, and when; the newest first."""
        return self._newest.get((claim, key), ())

    def read_at(self, each: Range) -> datetime:
        return self._read_at.get((each.claim, each.key, each.upto.token)) or self.world.clock.now()

    # -- records that aren't there -------------------------------------------------------------------------------

    def must_be_there(
        self, shard: ShardTruth, wanted: list[int], rows: Iterable[int], read_at: datetime
    ) -> list[int]:
        """The records of `wanted` that a run reading at `read_at` has to land: all but those that were trimmed and
        reported."""
        there = set(rows)
        at = dict(zip(shard.sequences, shard.arrivals, strict=True))
        return [n for n in wanted if n in there or not self.is_reported(shard, at[n], read_at)]

    def is_reported(self, shard: ShardTruth, arrival: datetime, now: datetime) -> bool:
        """Whether a record that hasn't landed was trimmed, and either lies in a gap or needs none."""
        if arrival >= now - self.retention:
            return False
        if any(since <= arrival <= until for since, until in shard.gaps):
            return True
        before = shard.unread_until or self.unread_until(shard, now)
        return before is not None and arrival <= before

    def still_unread_until(self, shard: ShardTruth, now: datetime) -> datetime | None:
        """The same as `unread_until`, after earlier readings that found no record. What was trimmed by then needs no gap later either."""
        until, earlier = self.unread_until(shard, now), shard.unread_until
        return until if until is None or earlier is None else max(until, earlier)

    def unread_until(self, shard: ShardTruth, now: datetime) -> datetime | None:
        """Records that arrived before this time were trimmed before the stream could first be read, and need no gap. Where a retention has
        passed since the origin was decided, the records that the stream had by then need one, too."""
        if shard.key.stream not in self.decided:
            return None
        nothing_landed = shard.token is None or shard.token[0] is None
        if not nothing_landed or not self._starts_at_the_horizon(shard):
            return None
        trimmed, decided = now - self.retention, self._decided_at(shard.key.stream)
        return trimmed if trimmed <= decided else decided - self.retention

    def _was_trimmed_before(self, shard: ShardTruth, arrival: datetime, first_read: datetime | None) -> bool:
        """Whether the record needs no gap, because it had left the stream before the shard's descendant was read, at a time when no gap was due
        yet."""
        if first_read is None or shard.first_read is not None:
            return False
        before = self.unread_until(shard, first_read)
        return before is not None and arrival <= before

    def _decided_at(self, stream: StreamId) -> datetime:
        """The true time of Kinesis's answer by which the origin was decided."""
        origin = self.decided[stream]
        return self.world.source.answers.get(stream, {}).get(origin.decided, origin.decided)

    def _starts_at_the_horizon(self, shard: ShardTruth) -> bool:
        """Whether the shard's first record is the oldest that Kinesis still has. That holds for a root shard, and
        for a shard whose parents left the stream unread, were read to their end by KCL, or ended without a record
        after starting the same way."""
        stream, world = shard.key.stream, self.world
        if (
            not self.is_first_with_an_origin(stream)
            or self._named_moment_within_retention(stream) is not None
        ):
            return False
        parents = (world.truth.shards[ShardKey(stream, name)] for name in shard.parents)
        return all(
            (parent.token is None and world.is_unlisted(parent.key))
            or _was_read_by_kcl(parent)
            or (parent.token is not None and parent.token[0] is None and self._starts_at_the_horizon(parent))
            for parent in parents
        )

    def is_first_with_an_origin(self, stream: StreamId) -> bool:
        """Whether this is the first life of the stream that has an origin. KCL alone may have read earlier lives."""
        return next((each for each in self.decided if each.arn == stream.arn), stream) == stream

    def _named_moment_within_retention(self, stream: StreamId) -> datetime | None:
        origin = self.decided[stream]
        named = origin.start.at
        return None if named is None or named < origin.decided - self.retention else named

    # -- gaps ----------------------------------------------------------------------------------------------------

    def judged_gap(
        self, shard: ShardTruth, each: Range, made: datetime, planned: float
    ) -> tuple[datetime, datetime]:
        """The bounds of a gap, after judging it. `made`: when its commit was made; `planned`: when its run had last
        loaded the table."""
        since, until = each.first_arrival, each.last_arrival
        about = each.key.shard_id
        if since is None or until is None:
            raise Violation("I13", f"a gap of {each.key} has no bounds", about)
        if until > made + _SECOND - self.retention:
            raise Violation(
                "I13",
                f"{each.key}: a gap up to {until} was reported at {made}, but Kinesis still held its end then",
                about,
            )
        whole = self.whole_until(shard, planned) if self.sure and not self.world.plan.adopted else None
        if whole is not None and (
            since < self._oldest_wanted(shard.key.stream, whole) - _SECOND
            or made + _SECOND - whole <= self.retention
        ):
            raise Violation(
                "I13",
                f"{each.key}: a gap from {since} to {until} was reported at {made}, though nothing was lost up to {whole}",
                about,
            )
        return since, until

    def _oldest_wanted(self, stream: StreamId, whole: datetime) -> datetime:
        """When the oldest record may have arrived that a gap has to allow for. `whole`: up to when no record was lost unseen. Where that
        isn't after the origin's decision, the stream had the records of a retention by then, of which none may have been read."""
        decided = self.decided[stream].decided
        if whole > decided or self._named_moment_within_retention(stream) is not None:
            return whole
        return min(whole, max(datetime.fromtimestamp(stream.epoch, UTC), decided - self.retention))

    def whole_until(self, shard: ShardTruth, at: float) -> datetime:
        """The latest time up to which the commits before `at` prove that no record of the shard was lost."""
        proven = self._proven_until(shard, at)
        return self._beginning_of(shard.key.stream) if proven is None else proven

    def _proven_until(self, shard: ShardTruth, at: float) -> datetime | None:
        """The same, by reading alone; None where only the stream's beginning tells. The beginning proves nothing of a child of
        which another parent was read: it may be later than the child's first record."""
        own = _proof(shard, at)
        if own is not None:
            return own
        # An END without a record tells what was known when its wave was planned, and says no more for what has landed since: the shard
        # is closed, and an ancestor that went unread had nothing to lose that could have been read then.
        at = min(at, shard.end_planned)
        stream = shard.key.stream
        parents = [self.world.truth.shards[ShardKey(stream, name)] for name in shard.parents]
        went_unread = any(each.token is None and self.world.is_unlisted(each.key) for each in parents)
        if went_unread or self._may_lack_a_parent(shard, parents):
            # From which shard the unread parent descends can't be known any more, so any shard may be its ancestor but one that is still
            # open, and listed as such.
            every = (each for each in self.world.truth.shards.values() if each.key.stream == stream)
            above = (each for each in every if each.closed is not None or self.world.is_unlisted(each.key))
            proofs = (_proof(each, at) for each in above if each.token is not None)
            earliest = min((proof for proof in proofs if proof is not None), default=None)
            return earliest if earliest is not None and earliest < self._beginning_of(stream) else None
        proofs = (self._proof_of_parent(parent, at) for parent in parents)
        return max((proof for proof in proofs if proof is not None), default=None)

    def _proof_of_parent(self, parent: ShardTruth, at: float) -> datetime | None:
        """What a parent proves for its children. An END without a record that hands on the very moment of the origin's decision
        can't be told from one that knows no other moment."""
        if parent.token is None:
            return None
        proof, decided = self._proven_until(parent, at), self.decided[parent.key.stream].decided
        return None if parent.token[0] is None and proof == decided else proof

    def _may_lack_a_parent(self, shard: ShardTruth, parents: Iterable[ShardTruth]) -> bool:
        """Whether another parent of the shard may be unknown: no listing shows the shard, and a parent's END names only
        this one child, as after a merge."""
        alone = (shard.key.shard_id,)
        return self.world.is_unlisted(shard.key) and any(parent.named == alone for parent in parents)

    def _beginning_of(self, stream: StreamId) -> datetime:
        if stream not in self.decided or not self.is_first_with_an_origin(stream):
            return datetime.fromtimestamp(stream.epoch, UTC)
        origin, named = self.decided[stream], self._named_moment_within_retention(stream)
        return origin.decided if named is None or named > origin.decided else named

    def add_proof(self, shard: ShardTruth, each: Range, stop: int) -> None:
        """Add what a landed range proves. `stop`: how many of the shard's records the position has passed with that
        range."""
        seen, known = each.upto.seen, [proof for _, proof in shard.proofs[-1:]]
        if seen is not None and stop < len(shard.arrivals) and shard.arrivals[stop] < seen:
            self._judge_seen(shard, each, stop, seen)
        if each.rows and stop:
            known.append(shard.arrivals[stop - 1])
            self.landed_by[each.claim, each.key] = shard.arrivals[stop - 1]
        if seen is not None and not each.upto.ended:
            # An END only repeats what earlier commits or the shard's parents have told: a closed shard has no tip.
            known.append(seen)
        if known:
            shard.proofs = (*shard.proofs[1 - _PROOFS :], (self.world.sim.now, max(known)))

    def _judge_seen(self, shard: ShardTruth, each: Range, stop: int, seen: datetime) -> None:
        """No record that had arrived by `seen` lies after the position, except records before the stream's start or
        in a gap."""
        origin, read_at = self.decided[shard.key.stream].start.at, self.read_at(each)
        for arrival in shard.arrivals[stop:]:
            if arrival >= seen:
                return
            if (origin is None or arrival >= origin) and not self.is_reported(shard, arrival, read_at):
                raise Violation(
                    "I13",
                    f"{each.key} counts as seen to its tip at {seen}, but a record of {arrival} comes after {each.upto}",
                    each.key.shard_id,
                )

    def judge_looked(self, shard: ShardTruth, looked: datetime, *, planned: float) -> None:
        """Where a row says that its shard was looked at to the tip, the table must have a proof that isn't much
        older. `planned`: when the run had last loaded the table."""
        if shard.ended or not self.sure or shard.key.stream not in self.decided:
            return
        # What other shards land meanwhile may tell that an unread parent could have lost more. The next wave heeds that.
        whole = max(self.whole_until(shard, at) for at in (self.world.sim.now, planned))
        if looked - whole > self.retention / 4 + 2 * _SECOND:
            raise Violation(
                "I13",
                f"{shard.key}: its row says that it was read to its tip at {looked}, but the table proves only that nothing was lost up to {whole}",
                shard.key.shard_id,
            )

    # -- at the end of a seed ----------------------------------------------------------------------------------------

    def unaccounted(self, shard: ShardTruth, landed: dict[int, int]) -> Iterator[str]:
        """Which of the shard's records are missing or doubled at the end. `landed`: how often each record is in the
        table."""
        now = self.world.clock.now()
        first = self.world.truth.first(shard, self.decided[shard.key.stream].start.at)
        for at, sequence in enumerate(shard.sequences):
            times = landed.get(sequence, 0)
            if times > 1 or (times and at < first):
                yield f"record {sequence} is in the table {times} times; it is number {at} of the shard, which begins at number {first}"
            elif not times and at >= first and not self._is_accounted_for(shard, at, now):
                yield f"record {sequence} of {shard.arrivals[at]} is neither in the table nor in a gap"

    def _is_accounted_for(self, shard: ShardTruth, at: int, now: datetime) -> bool:
        """Whether the record was trimmed and reported before its shard was read, or has been by now."""
        arrival = shard.arrivals[at]
        if shard.sequences[at] in shard.left_out or self.is_reported(shard, arrival, now):
            return True
        return any(self._descendants_report(shard, arrival))

    def _descendants_report(self, shard: ShardTruth, arrival: datetime) -> Iterator[bool]:
        """Whether the shard's descendants report the loss. They do so for a shard that left the stream before any
        run knew it."""
        if shard.token is None and arrival < self.world.clock.now() - self.retention:
            for name in shard.children:
                child = self.world.truth.shards[ShardKey(shard.key.stream, name)]
                yield any(since <= arrival <= until for since, until in child.gaps)
                yield self._was_trimmed_before(shard, arrival, child.first_read)
                yield from self._descendants_report(child, arrival)


def _proof(shard: ShardTruth, at: float) -> datetime | None:
    return next((proof for when, proof in reversed(shard.proofs) if when <= at), None)


def _was_read_by_kcl(shard: ShardTruth) -> bool:
    """Whether KCL read the shard to its end. Headrace doesn't know when KCL did so."""
    return shard.ended and shard.begins == len(shard.sequences)
