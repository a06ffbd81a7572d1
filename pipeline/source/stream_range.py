"""Finds the shards of a stream that have records of a range, and the records of the range that Kinesis no longer
has.

This runs on the driver, once for each data frame or micro-batch; each part is then read by a task of its own
(`headrace.pipeline.source.shard_read`).
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from headrace.pipeline.core.ledger.arrivals import APPROXIMATE
from headrace.pipeline.core.ledger.batch import WITHIN_THE_SECOND, Batch
from headrace.pipeline.core.order.cover import is_whole
from headrace.pipeline.core.shards.position import TRIM, Position, Start
from headrace.pipeline.core.shards.shard import Shard
from headrace.pipeline.core.shards.stream import ShardKey
from headrace.pipeline.core.words.words import no_such_shard, time_in_words
from headrace.pipeline.errors import BadSetting, DataLoss, Transient, Unknown
from headrace.pipeline.ports.reading import ShardSource, StreamFacts
from headrace.pipeline.settings.choices import OnDataLoss
from headrace.pipeline.source.columns import Loss
from headrace.pipeline.source.generations import generations
from headrace.pipeline.source.options import RangeOptions
from headrace.pipeline.source.shard_read import ShardPart


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamRange:
    """A range of one stream, as the options of a query describe it."""

    source: ShardSource
    stream: str
    """Name or ARN."""
    options: RangeOptions
    unpack: bool
    """Whether aggregates are taken apart."""

    def facts(self) -> StreamFacts:
        return self.source.describe(self.stream)

    def parts(self, since: datetime | None, until: datetime | None, facts: StreamFacts) -> list[ShardPart]:
        """The shards to read, a part for each.

        `since`, `until`: the times of the range, which may be a part of those in the options. Raises DataLoss
        where Kinesis has lost records of the range, unless the options say to go on.
        """
        end = _end(until, facts)
        oldest = oldest_kept(facts)
        goes_on = self.options.on_data_loss is OnDataLoss.CONTINUE
        if since is not None and since < oldest and not goes_on and facts.stream.created < oldest:
            raise DataLoss(_loss_sentence(facts, since, oldest))
        shards = self._shards(since, facts)
        order = generations(shards, _parents(shards))
        arrivals = self._arrival_of_after(facts)
        return [
            ShardPart(
                batch=self._batch(shard, since, facts, arrivals, goes_on=goes_on),
                since=since,
                until=end,
                children=self._children(shard, shards),
                unpack=self.unpack,
                generation=order[shard.shard_id],
            )
            # Parents first: Spark starts tasks in this order, where it has too few cores for all.
            for shard in sorted(shards.values(), key=lambda shard: (order[shard.shard_id], shard.shard_id))
        ]

    def losses(self) -> list[Loss]:
        """The records of the range that Kinesis no longer has."""
        facts, options = self.facts(), self.options
        oldest = oldest_kept(facts)
        if options.after is not None:
            return self._losses_after(options.after, facts, oldest)
        if options.since is None or options.since >= oldest or facts.stream.created >= oldest:
            return []
        listed = self._shards(None, facts)
        still_open = {shard.shard_id for shard in self.source.list_shards(facts.stream, Start(oldest))}
        # Children of a shard that was open then were made later, so that they have lost nothing.
        younger = {name for name, shard in listed.items() if still_open & set(shard.parents)}
        named = listed.keys() | {parent for shard in listed.values() for parent in shard.parents}
        since = max(options.since, facts.stream.created)
        until = oldest if options.until is None else min(oldest, options.until)
        why = "records that arrived between these times may have left the stream unread"
        return [_loss(facts, name, since, until, why=why) for name in sorted(named - younger)]

    def _losses_after(self, after: int, facts: StreamFacts, oldest: datetime) -> list[Loss]:
        if self._arrival_of_after(facts):
            return []
        why = "the record with this sequence number has left the stream, and records after it may have left it too"
        shard_id = self.options.shard
        return [_loss(facts, shard_id, facts.stream.created, oldest, why=why, after=str(after))]

    def _shards(self, since: datetime | None, facts: StreamFacts) -> dict[str, Shard]:
        """The shards that may have records of the range. Arrival times are approximate."""
        start = None if since is None else Start(since - APPROXIMATE)
        shards = {shard.shard_id: shard for shard in self.source.list_shards(facts.stream, start)}
        name = self.options.shard
        if name is None:
            _check_cover(facts, shards)
            return shards
        if name not in shards and start is not None:
            # A shard that was closed before the range has no record of it.
            shards = {shard.shard_id: shard for shard in self.source.list_shards(facts.stream)}
        if name not in shards:
            raise Unknown(no_such_shard(name, shards))
        return {name: shards[name]}

    def _children(self, shard: Shard, shards: dict[str, Shard]) -> frozenset[str] | None:
        if self.options.shard is not None:
            return None
        return frozenset(name for name, child in shards.items() if shard.shard_id in child.parents)

    def _batch(
        self,
        shard: Shard,
        since: datetime | None,
        facts: StreamFacts,
        arrivals: dict[ShardKey, datetime],
        *,
        goes_on: bool,
    ) -> Batch:
        options, key = self.options, ShardKey(facts.stream, shard.shard_id)
        # Without a beginning the range begins with the oldest record that Kinesis has: none of it is lost by now.
        witness = facts.asked if since is None else max(since, facts.stream.created)
        if options.after is not None:
            witness = arrivals.get(key, facts.stream.created)
        return Batch(
            key,
            after=None if options.after is None else Position(options.after, arrival=arrivals.get(key)),
            start=TRIM if since is None else Start(since - APPROXIMATE),
            witness=witness,
            retention=facts.retention,
            goes_on=goes_on,
            hash_range=shard.hash_range,
            numbers=shard.numbers,
            until=None if options.upto is None else Position(options.upto),
        )

    def _arrival_of_after(self, facts: StreamFacts) -> dict[ShardKey, datetime]:
        """When the record arrived after which the range begins; nothing where it has left the stream, or where the range
        begins otherwise."""
        options = self.options
        if options.after is None or options.shard is None:
            return {}
        return dict(self.source.arrivals({ShardKey(facts.stream, options.shard): options.after}))


def oldest_kept(facts: StreamFacts) -> datetime:
    """The time before which records may have arrived that Kinesis has deleted meanwhile."""
    return facts.asked + WITHIN_THE_SECOND - facts.retention


def _end(until: datetime | None, facts: StreamFacts) -> datetime:
    if until is not None and until > facts.asked + WITHIN_THE_SECOND:
        raise BadSetting(
            f"the option `to` is {until.isoformat()}, which is still to come: by Kinesis's clock it is {facts.asked.isoformat()}. "
            "Nothing was read; leave the option out, or choose an earlier time"
        )
    return facts.asked + WITHIN_THE_SECOND if until is None else until


def _check_cover(facts: StreamFacts, shards: dict[str, Shard]) -> None:
    """A list of shards that is late hides some, but then it leaves hash keys out."""
    if not is_whole(shards.values()):
        raise Transient(
            f"Kinesis's list of the shards of {facts.stream} leaves hash keys out, as it does for a moment after a reshard. Nothing was "
            "read; run the query again"
        )


def _parents(shards: dict[str, Shard]) -> dict[str, frozenset[str]]:
    return {name: frozenset(shard.parents) for name, shard in shards.items()}


def _loss(
    facts: StreamFacts,
    shard_id: str | None,
    since: datetime,
    until: datetime,
    *,
    why: str,
    after: str | None = None,
) -> Loss:
    return Loss(
        stream=facts.stream.name,
        stream_epoch=facts.stream.epoch,
        shard_id=shard_id,
        kind="retention",
        since=since,
        until=until,
        after_sequence=after,
        why=why,
    )


def _loss_sentence(facts: StreamFacts, since: datetime, oldest: datetime) -> str:
    return (
        f"records of {facts.stream} that arrived between {since.isoformat()} and {oldest.isoformat()} may have left the "
        f"stream, which keeps records for {time_in_words(facts.retention)}. Nothing was read. Choose a later `from`, read them from the "
        "lake table, or set the option `on_data_loss` to `continue`: the view `losses` then names what is missing"
    )
