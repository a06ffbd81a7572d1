"""Kinesis as coordinators and drivers see it: streams, shards, and whether an idle shard has news."""

from __future__ import annotations

import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from threading import Event
from typing import TYPE_CHECKING, Any, Final

from botocore.exceptions import ClientError

from pipeline.aws.clients import asking, code_of, where
from pipeline.aws.finding import Finder
from pipeline.core.position import Start
from pipeline.core.shard import HashRange, Shard
from pipeline.core.stream import ShardKey, StreamId, arn_of_serialized, is_stream_arn
from pipeline.errors import HeadraceError, Unknown, Unreachable, WrongShape
from pipeline.ports import StreamFacts

if TYPE_CHECKING:
    from mypy_boto3_kinesis import KinesisClient

_MISSING: Final = "ResourceNotFoundException"
_STALE_PAGE: Final = "ExpiredNextTokenException"
_STALE_ITERATOR: Final = "ExpiredIteratorException"
_LISTINGS: Final = 3
"""A page's token lives for 300 s: a listing that outlives it three times never ends."""
_LATELY: Final = 60.0
"""Seconds."""
_ITERATOR_LIVES: Final = 300.0
"""Seconds."""
_AT_ONCE: Final = 8
"""Shards asked side by side: a hundred idle ones in a second or two of a tick."""


class KinesisSource:
    def __init__(self, client: KinesisClient) -> None:
        self._client = client
        self._told: tuple[datetime, float] | None = None
        """The newest Date, and when it was told by this host's steady clock."""
        self._there: dict[str, float] = {}
        """When a stream was last found to exist, by its ARN."""
        self._gone: set[ShardKey] = set()
        self._iterators: dict[ShardKey, tuple[Start | int, str, float]] = {}
        """Where each idle shard is looked at next, of what position that is, and when it was told."""
        self._finder = Finder(client)

    def aws_now(self) -> datetime | None:
        if self._told is None:
            return None
        told, then = self._told
        return told + timedelta(seconds=time.monotonic() - then)

    def describe(self, name: str) -> StreamFacts:
        meta = self._client.meta
        name = arn_of_serialized(name, partition=meta.partition, region=meta.region_name) or name
        which: dict[str, Any] = {"StreamARN" if is_stream_arn(name) else "StreamName": name}
        answer = self._ask("describe_stream_summary", name, **which)
        summary = answer["StreamDescriptionSummary"]
        return StreamFacts(
            StreamId(summary["StreamARN"], int(summary["StreamCreationTimestamp"].timestamp() // 1)),
            timedelta(hours=summary["RetentionPeriodHours"]),
            self._date_of(answer),
        )

    def find_streams(self, prefix: str | None, tags: Mapping[str, str]) -> tuple[StreamId, ...]:
        return self._finder.find(prefix, tags)

    def list_shards(self, stream: StreamId, since: Start | None = None) -> tuple[Shard, ...]:
        for _ in range(_LISTINGS):
            try:
                return self._listed(stream, since)
            except ClientError as error:
                stale = error
        raise Unreachable(
            f"the list of {stream}'s shards took longer than its pages' tokens live, {_LISTINGS} times ({stale}). "
            "Nothing was changed; the next sync asks again"
        ) from stale

    def is_gone(self, key: ShardKey) -> bool:
        if key in self._gone:
            return True  # for ever: shard ids aren't used again in a stream's life
        try:
            with asking(str(key), passing={_MISSING}):
                self._client.get_shard_iterator(
                    StreamARN=key.stream.arn, ShardId=key.shard_id, ShardIteratorType="TRIM_HORIZON"
                )
        except ClientError:
            # The same answer is given for a stream that is missing altogether: that one is no word about a shard.
            self._require_stream(key.stream)
            self._gone.add(key)
            return True
        return False

    def ended_before(self, key: ShardKey, at: datetime) -> bool:
        iterator: str | None = self._iterator(key, Start(at))
        while iterator:
            answer = self._first_record(key, iterator)
            iterator = answer.get("NextShardIterator")
            if answer["Records"] or (iterator and not answer.get("MillisBehindLatest")):
                return False  # it has more to tell, or is open and has been read to its tip
        return True

    def has_news(self, keys: Mapping[ShardKey, Start | int]) -> frozenset[ShardKey]:
        # Not those that aren't asked for now: many idle shards are asked in turns.
        oldest = time.monotonic() - _ITERATOR_LIVES
        self._iterators = {key: kept for key, kept in self._iterators.items() if kept[2] > oldest}
        if not keys:
            return frozenset()
        silent = Event()
        with ThreadPoolExecutor(min(_AT_ONCE, len(keys))) as pool:
            news = pool.map(lambda each: self._has_news(each[0], each[1], silent), keys.items())
            return frozenset(key for key, has in zip(keys, news, strict=True) if has)

    def arrivals(self, at: Mapping[ShardKey, int]) -> Mapping[ShardKey, datetime]:
        if not at:
            return {}
        with ThreadPoolExecutor(min(_AT_ONCE, len(at))) as pool:
            found = pool.map(lambda each: self._arrival(*each), at.items())
            return {key: when for key, when in zip(at, found, strict=True) if when is not None}

    def _arrival(self, key: ShardKey, sequence: int) -> datetime | None:
        """A trimmed position reads on at what is left: then the first record is another one."""
        try:
            with asking(str(key), passing={_MISSING}):
                iterator: str | None = self._client.get_shard_iterator(
                    StreamARN=key.stream.arn,
                    ShardId=key.shard_id,
                    ShardIteratorType="AT_SEQUENCE_NUMBER",
                    StartingSequenceNumber=str(sequence),
                ).get("ShardIterator")
        except ClientError:
            self._require_stream(key.stream)
            return None
        while iterator:
            answer = self._first_record(key, iterator)
            if answer["Records"]:
                first = answer["Records"][0]
                is_it = int(first["SequenceNumber"]) == sequence
                return first["ApproximateArrivalTimestamp"].astimezone(UTC) if is_it else None
            # An answer may be empty though records follow.
            iterator = answer.get("NextShardIterator") if answer.get("MillisBehindLatest", 0) > 0 else None
        return None

    def _require_stream(self, stream: StreamId) -> None:
        """Once in a while is enough: asking for each of hundreds of trimmed parents would be throttled."""
        then = self._there.get(stream.arn)
        if then is None or time.monotonic() - then > _LATELY:
            self.describe(stream.arn)
            self._there[stream.arn] = time.monotonic()

    def _listed(self, stream: StreamId, since: Start | None) -> tuple[Shard, ...]:
        """By hand: boto3's paginator repeats the stream beside the token, which Kinesis refuses."""
        request: dict[str, Any] = {"StreamARN": stream.arn}
        # A start before the stream's first whole second is its beginning, and the beginning is all shards.
        if since is not None and since.at is not None and since.at.timestamp() > stream.epoch + 1:
            request["ShardFilter"] = {"Type": "FROM_TIMESTAMP", "Timestamp": since.at}
        shards: dict[str, Shard] = {}
        while True:
            answer = self._ask("list_shards", stream.arn, passing=frozenset({_STALE_PAGE}), **request)
            shards |= {each["ShardId"]: _shard(each) for each in answer["Shards"]}
            if not answer.get("NextToken"):
                return tuple(shards.values())
            request = {"NextToken": answer["NextToken"]}

    def _has_news(self, key: ShardKey, at: Start | int, silent: Event) -> bool:
        """A shard that can't be asked counts as one with news: a reader finds out and says what is wrong."""
        if silent.is_set():
            return True
        try:
            return self._peek(key, at)
        except (HeadraceError, ClientError) as error:
            self._iterators.pop(key, None)
            if isinstance(error, Unreachable):
                silent.set()  # don't wait for each of the others too
            return True

    def _peek(self, key: ShardKey, at: Start | int) -> bool:
        kept = self._iterators.pop(key, None)
        if kept is not None and kept[0] == at:
            try:
                answer = self._first_record(key, kept[1])
            except ClientError:  # five minutes old
                answer = self._first_record(key, self._iterator(key, at))
        else:
            answer = self._first_record(key, self._iterator(key, at))
        following = answer.get("NextShardIterator")
        if answer["Records"] or answer.get("MillisBehindLatest", 0) > 0 or not following:
            return True
        self._iterators[key] = (at, following, time.monotonic())
        return False

    def _first_record(self, key: ShardKey, iterator: str) -> Any:
        with asking(str(key), passing={_STALE_ITERATOR}):
            return self._client.get_records(ShardIterator=iterator, StreamARN=key.stream.arn, Limit=1)

    def _iterator(self, key: ShardKey, at: Start | int) -> str:
        where_to: dict[str, Any]
        if isinstance(at, int):
            where_to = {"ShardIteratorType": "AFTER_SEQUENCE_NUMBER", "StartingSequenceNumber": str(at)}
        elif at.at is None:
            where_to = {"ShardIteratorType": "TRIM_HORIZON"}
        else:
            where_to = {"ShardIteratorType": "AT_TIMESTAMP", "Timestamp": at.at}
        with asking(str(key)):
            answer = self._client.get_shard_iterator(
                StreamARN=key.stream.arn, ShardId=key.shard_id, **where_to
            )
        return answer["ShardIterator"]

    def _ask(
        self, operation: str, stream: str, *, passing: frozenset[str] = frozenset(), **request: Any
    ) -> Any:
        try:
            with asking(f"stream {stream}", passing=passing | {_MISSING}):
                return getattr(self._client, operation)(**request)
        except ClientError as error:
            if code_of(error) == _MISSING:
                raise Unknown(
                    f"there is no stream {stream} in {where(self._client)}. Nothing was read or written; check the stream's "
                    "name, aws.region and aws.endpoint in the settings"
                ) from error
            raise

    def _date_of(self, answer: Any) -> datetime:
        """Kinesis's clock, which alone judges origins and losses: this host's is no substitute."""
        date = answer["ResponseMetadata"].get("HTTPHeaders", {}).get("date")
        if date is None:
            raise WrongShape(
                f"the answer of {where(self._client)} has no Date: no origin can be decided by it. Nothing was changed; if "
                "a proxy stands before Kinesis, let it pass the header on"
            )
        told = parsedate_to_datetime(date).astimezone(UTC)
        self._told = (told, time.monotonic())
        return told


def _shard(found: Any) -> Shard:
    parents = (found.get("ParentShardId"), found.get("AdjacentParentShardId"))
    hashes = found["HashKeyRange"]
    return Shard(
        found["ShardId"],
        tuple(parent for parent in parents if parent),
        HashRange(int(hashes["StartingHashKey"]), int(hashes["EndingHashKey"])),
        closed="EndingSequenceNumber" in found["SequenceNumberRange"],
    )
