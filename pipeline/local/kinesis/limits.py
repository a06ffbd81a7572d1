"""Kinesis's limits on requests and bytes a second. They are enforced with `--throttle` only, so that other
tests don't meet them."""

from __future__ import annotations

from dataclasses import dataclass, field

from headrace.pipeline.local.errors import AwsError, over_limit, too_fast

MIB = 1024 * 1024
# These four are for each shard and second.
READ_BYTES = 2 * MIB
WRITE_BYTES = MIB
WRITE_RECORDS = 1000
READ_CALLS = 5

# Calls a second: for one shard, for one stream or for the account. By AWS's documentation none of these grows
# with the number of shards.
_PER_SHARD = {"GetShardIterator": 5}
_PER_STREAM = {
    "ListShards": 1000,
    "DescribeStreamConsumer": 20,
    "ListStreamConsumers": 5,
    "DeregisterStreamConsumer": 5,
}
_PER_ACCOUNT = {
    "CreateStream": 5,
    "DeleteStream": 5,
    "DescribeLimits": 1,
    "DescribeStream": 10,
    "DescribeStreamSummary": 20,
    "ListStreams": 5,
    "SplitShard": 5,
    "MergeShards": 5,
    "IncreaseStreamRetentionPeriod": 5,
    "DecreaseStreamRetentionPeriod": 5,
    "AddTagsToStream": 5,
    "RemoveTagsFromStream": 5,
    "ListTagsForStream": 5,
    "RegisterStreamConsumer": 5,
    "DescribeAccountSettings": 5,
    "UpdateAccountSettings": 5,
}
MOST_CREATING = 5


@dataclass(slots=True)
class _Bucket:
    """A token bucket that refills up to one second's amount. One call may take more than is left; later calls
    are then refused for a while."""

    rate: float
    filled_at: float
    tokens: float

    def holds(self, now: float, amount: float) -> bool:
        elapsed = max(0.0, now - self.filled_at)
        self.tokens, self.filled_at = (
            min(self.rate, self.tokens + elapsed * self.rate),
            max(now, self.filled_at),
        )
        # A request for more than a second's amount passes when the bucket is full.
        return self.tokens >= min(amount, self.rate)


@dataclass(slots=True)
class Reads:
    """What all readers of a shard together have asked for and got. It is counted with and without `--throttle`."""

    iterators: int = 0
    """GetShardIterator calls that were answered."""
    calls: int = 0
    """GetRecords calls that were answered."""
    refused: int = 0
    """Calls of both kinds that were refused because of a limit."""
    bytes: int = 0


@dataclass(slots=True)
class RegionLimits:
    """The limits of requests in a region, as token buckets."""

    enforced: bool
    reads: dict[tuple[str, str], Reads] = field(default_factory=dict)
    """What was read of each shard, by the names of its stream and of the shard."""
    _buckets: dict[tuple[str, ...], _Bucket] = field(default_factory=dict)

    def call(self, operation: str, scope: str, now: float) -> None:
        """Count a control-plane call; refuse it where its rate is used up."""
        if not self.enforced:
            return
        for rates, key in ((_PER_STREAM, (operation, scope)), (_PER_ACCOUNT, (operation,))):
            rate = rates.get(operation)
            if rate is not None and not self._take(key, rate, now, amount=1):
                raise over_limit(f"Rate exceeded for {operation}: {rate} calls a second.")

    def iterator(self, stream: str, shard: str, now: float) -> None:
        """Count a GetShardIterator call."""
        rate, reads = _PER_SHARD["GetShardIterator"], self._reads(stream, shard)
        if self.enforced and not self._take(("iterator", stream, shard), rate, now, amount=1):
            reads.refused += 1
            raise _exceeded(stream, shard)
        reads.iterators += 1

    def before_read(self, stream: str, shard: str, now: float) -> None:
        """Refuse a GetRecords call beyond 5 a second, or while earlier pages have used up more than 2 MiB a second."""
        reads = self._reads(stream, shard)
        if self.enforced:
            # Nothing is taken here: the bytes of a page are known, and counted, only after the read.
            paid = self._bucket(("read", stream, shard), READ_BYTES, now).holds(now, 1)
            if not paid or not self._take(("reads", stream, shard), READ_CALLS, now, amount=1):
                reads.refused += 1
                raise _exceeded(stream, shard)
        reads.calls += 1

    def after_read(self, stream: str, shard: str, now: float, *, size: int) -> None:
        """Count a page's bytes in full: after a page of 10 MiB, reads are refused for 5 seconds."""
        self._reads(stream, shard).bytes += size
        if self.enforced and size:
            bucket = self._bucket(("read", stream, shard), READ_BYTES, now)
            bucket.tokens = -size if size > READ_BYTES else bucket.tokens - size

    def may_push(self, subscriber: tuple[str, str], now: float) -> bool:
        """Whether a consumer may be given more of a shard. Each has 2 MiB a second of its own."""
        return not self.enforced or self._bucket(("push", *subscriber), READ_BYTES, now).holds(now, 1)

    def pushed(self, subscriber: tuple[str, str], now: float, *, size: int) -> None:
        """Count the bytes of an event."""
        if self.enforced:
            self._bucket(("push", *subscriber), READ_BYTES, now).tokens -= size

    def write(self, stream: str, shard: str, now: float, *, size: int) -> bool:
        """Count a record, or say that the shard has no allowance left for it."""
        if not self.enforced:
            return True
        records = self._bucket(("records", stream, shard), WRITE_RECORDS, now)
        volume = self._bucket(("bytes", stream, shard), WRITE_BYTES, now)
        if not records.holds(now, 1) or not volume.holds(now, size):
            return False
        records.tokens -= 1
        volume.tokens -= size
        return True

    def _reads(self, stream: str, shard: str) -> Reads:
        return self.reads.setdefault((stream, shard), Reads())

    def _take(self, key: tuple[str, ...], rate: float, now: float, *, amount: float) -> bool:
        bucket = self._bucket(key, rate, now)
        held = bucket.holds(now, amount)
        bucket.tokens -= amount if held else 0
        return held

    def _bucket(self, key: tuple[str, ...], rate: float, now: float) -> _Bucket:
        return self._buckets.setdefault(key, _Bucket(rate, now, rate))


def _exceeded(stream: str, shard: str) -> AwsError:
    return too_fast(exceeded(stream, shard))


def exceeded(stream: str, shard: str) -> str:
    """The error for refused reads or writes of a shard."""
    return f"Rate exceeded for shard {shard} in stream {stream} under account 123456789012."
