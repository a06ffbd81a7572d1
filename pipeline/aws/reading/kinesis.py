"""Kinesis for sensors and drivers: streams, shards, and whether an idle shard has new records."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from itertools import chain
from threading import Event
from typing import TYPE_CHECKING, Any, Final

from botocore.exceptions import ClientError

from headrace.pipeline.aws.clients.clients import asking_aws, code_of, place_of_client
from headrace.pipeline.aws.reading.finding import Finder
from headrace.pipeline.aws.reading.pages_check import Absurd, check_range
from headrace.pipeline.aws.reading.pages_client import request_id_of
from headrace.pipeline.aws.reading.quick_peek import QuickPeek
from headrace.pipeline.core.shards.position import Start
from headrace.pipeline.core.shards.shard import NumberRange, Shard
from headrace.pipeline.core.shards.stream import ShardKey, StreamId, arn_of_serialized, is_stream_arn
from headrace.pipeline.errors import BadAnswer, HeadraceError, Unknown, Unreachable, WrongShape
from headrace.pipeline.ports.reading import StreamFacts

if TYPE_CHECKING:
    from mypy_boto3_kinesis import KinesisClient

_MISSING: Final = "ResourceNotFoundException"
_STALE_PAGE: Final = "ExpiredNextTokenException"
_STALE_ITERATOR: Final = "ExpiredIteratorException"
# Tries of one listing. A page token is valid for 300 s; a listing that takes longer three times won't
# succeed.
_LISTINGS: Final = 3
# Seconds for which a stream that was found to exist isn't looked up again.
_EXISTS_HOLDS: Final = 60.0
# Seconds for which Kinesis accepts a shard iterator.
_ITERATOR_LIVES: Final = 300.0
# Requests at the same time. A hundred idle shards then take a second or two of a tick.
_AT_ONCE: Final = 8


class KinesisSource:
    def __init__(self, client: KinesisClient) -> None:
        self._client = client
        self._newest_date: tuple[datetime, float] | None = None
        """The newest Date header of an answer, and this host's monotonic time when it came."""
        self._exists: dict[str, float] = {}
        """ARN of a stream -> monotonic time when it was last found to exist."""
        self._gone: set[ShardKey] = set()
        self._iterators: dict[ShardKey, tuple[Start | int, str, float]] = {}
        """Idle shard -> its position, the iterator for the next look, and the monotonic time when the
        iterator was given."""
        self._finder = Finder(client)
        self._quick = QuickPeek(client)

    def aws_now(self) -> datetime | None:
        if self._newest_date is None:
            return None
        date, looked = self._newest_date
        return date + timedelta(seconds=time.monotonic() - looked)

    def describe(self, name: str) -> StreamFacts:
        meta = self._client.meta
        name = arn_of_serialized(name, partition=meta.partition, region=meta.region_name) or name
        which: dict[str, Any] = {"StreamARN" if is_stream_arn(name) else "StreamName": name}
        answer = self._ask("describe_stream_summary", name, **which)
        summary = answer["StreamDescriptionSummary"]
        # Whole seconds, as KCL writes the creation time into lease keys. Rounded up, a stream would begin
        # after its creation.
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
            f"the list of {stream}'s shards took longer than its page tokens are valid, {_LISTINGS} times ({stale}). "
            "Nothing was changed; the next shard sync tries again"
        ) from stale

    def is_gone(self, key: ShardKey) -> bool:
        if key in self._gone:
            # A stream never uses a shard id again, so this answer stays true.
            return True
        try:
            with asking_aws(str(key), passing={_MISSING}):
                self._client.get_shard_iterator(
                    StreamARN=key.stream.arn, ShardId=key.shard_id, ShardIteratorType="TRIM_HORIZON"
                )
        except ClientError:
            # Kinesis gives the same error where the whole stream is missing, which says nothing about a
            # single shard. So the stream is looked up, which raises if it is missing.
            self._require_stream(key.stream)
            self._gone.add(key)
            return True
        return False

    def ended_before(self, key: ShardKey, moment: datetime) -> bool:
        iterator: str | None = self._iterator(key, Start(moment))
        while iterator:
            answer = self._first_record(key, iterator)
            iterator = answer.get("NextShardIterator")
            if answer["Records"] or (iterator and not answer.get("MillisBehindLatest")):
                # There is a record, or the shard is open and this is its newest position.
                return False
        return True

    def has_news(self, keys: Mapping[ShardKey, Start | int]) -> frozenset[ShardKey]:
        # Only expired iterators are dropped: many idle shards are looked at in turns, and each of them comes again.
        oldest = time.monotonic() - _ITERATOR_LIVES
        self._iterators = {key: lookup for key, lookup in self._iterators.items() if lookup[2] > oldest}
        if not keys:
            return frozenset()
        silent = Event()

        def look(shards: Iterable[tuple[ShardKey, Start | int]]) -> list[ShardKey]:
            return [key for key, position in shards if self._has_news(key, position, silent)]

        threads = min(_AT_ONCE, len(keys))
        with ThreadPoolExecutor(threads) as pool:
            # One task for each thread: handing over each shard by itself costs a third of its look.
            lists_with_news = pool.map(look, [tuple(keys.items())[n::threads] for n in range(threads)])
            return frozenset(chain.from_iterable(lists_with_news))

    def arrivals(self, positions: Mapping[ShardKey, int]) -> Mapping[ShardKey, datetime]:
        if not positions:
            return {}
        with ThreadPoolExecutor(min(_AT_ONCE, len(positions))) as pool:
            arrival_times = pool.map(lambda shard: self._arrival(*shard), positions.items())
            return {key: when for key, when in zip(positions, arrival_times, strict=True) if when is not None}

    def _arrival(self, key: ShardKey, sequence: int) -> datetime | None:
        """The arrival of the record with this number. If it left the stream, Kinesis answers with a later
        record instead."""
        try:
            with asking_aws(str(key), passing={_MISSING}):
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
                is_it = first["SequenceNumber"] == str(sequence)
                return first["ApproximateArrivalTimestamp"].astimezone(UTC) if is_it else None
            # Kinesis may answer without records although some follow: MillisBehindLatest tells whether to go on.
            iterator = answer.get("NextShardIterator") if answer.get("MillisBehindLatest", 0) > 0 else None
        return None

    def _require_stream(self, stream: StreamId) -> None:
        """Raise Unknown if the stream doesn't exist. Looked up at most once a minute: a lookup for each of
        hundreds of deleted parent shards would be throttled.
        """
        looked = self._exists.get(stream.arn)
        if looked is None or time.monotonic() - looked > _EXISTS_HOLDS:
            self.describe(stream.arn)
            self._exists[stream.arn] = time.monotonic()

    def _listed(self, stream: StreamId, since: Start | None) -> tuple[Shard, ...]:
        """All pages of ListShards. boto3's paginator can't be used: it sends the stream beside the page
        token, which Kinesis refuses.
        """
        request: dict[str, Any] = {"StreamARN": stream.arn}
        # A start at or before the stream's creation (known in whole seconds) means all shards: no filter then.
        if since is not None and since.at is not None and since.at.timestamp() > stream.epoch + 1:
            request["ShardFilter"] = {"Type": "FROM_TIMESTAMP", "Timestamp": since.at}
        shards: dict[str, Shard] = {}
        while True:
            answer = self._ask("list_shards", stream.arn, passing=frozenset({_STALE_PAGE}), **request)
            try:
                shards |= {shard["ShardId"]: _shard(shard) for shard in answer["Shards"]}
            except Absurd as error:
                raise BadAnswer(
                    f"Kinesis's list of {stream}'s shards can't be right and wasn't used: {error} (AWS's request id: "
                    f"{request_id_of(answer)}). Nothing was changed; the next shard sync tries again"
                ) from None
            if not answer.get("NextToken"):
                return tuple(shards.values())
            request = {"NextToken": answer["NextToken"]}

    def _has_news(self, key: ShardKey, position: Start | int, silent: Event) -> bool:
        """Whether the shard has new records. After an error: yes, so that a run reads the shard and reports
        what is wrong."""
        if silent.is_set():
            return True
        try:
            return self._peek(key, position)
        except (HeadraceError, ClientError) as error:
            self._iterators.pop(key, None)
            if isinstance(error, Unreachable):
                # The other shards then don't wait for the same timeout.
                silent.set()
            return True

    def _peek(self, key: ShardKey, position: Start | int) -> bool:
        lookup = self._iterators.pop(key, None)
        if lookup is not None and lookup[0] == position:
            answer = self._quick.first_record(lookup[1], key.stream.arn)
            if answer is None:
                answer = self._looked_again(key, lookup[1], position)
        else:
            answer = self._first_record(key, self._iterator(key, position))
        following = answer.get("NextShardIterator")
        if answer["Records"] or answer.get("MillisBehindLatest", 0) > 0 or not following:
            return True
        self._iterators[key] = (position, following, time.monotonic())
        return False

    def _looked_again(self, key: ShardKey, iterator: str, position: Start | int) -> Any:
        """The answer by boto3's ordinary client, whose errors say what is wrong."""
        try:
            return self._first_record(key, iterator)
        except ClientError:
            # The iterator had expired.
            return self._first_record(key, self._iterator(key, position))

    def _first_record(self, key: ShardKey, iterator: str) -> Any:
        with asking_aws(str(key), passing={_STALE_ITERATOR}):
            return self._client.get_records(ShardIterator=iterator, StreamARN=key.stream.arn, Limit=1)

    def _iterator(self, key: ShardKey, position: Start | int) -> str:
        start: dict[str, Any]
        if isinstance(position, int):
            start = {"ShardIteratorType": "AFTER_SEQUENCE_NUMBER", "StartingSequenceNumber": str(position)}
        elif position.at is None:
            start = {"ShardIteratorType": "TRIM_HORIZON"}
        else:
            start = {"ShardIteratorType": "AT_TIMESTAMP", "Timestamp": position.at}
        with asking_aws(str(key)):
            answer = self._client.get_shard_iterator(StreamARN=key.stream.arn, ShardId=key.shard_id, **start)
        return answer["ShardIterator"]

    def _ask(
        self, operation: str, stream: str, *, passing: frozenset[str] = frozenset(), **request: Any
    ) -> Any:
        try:
            with asking_aws(f"stream {stream}", passing=passing | {_MISSING}):
                return getattr(self._client, operation)(**request)
        except ClientError as error:
            if code_of(error) == _MISSING:
                raise Unknown(
                    f"there is no stream {stream} in {place_of_client(self._client)}. Nothing was read or written; "
                    "check the stream's name, aws.region and aws.endpoint in the settings"
                ) from error
            raise

    def _date_of(self, answer: Any) -> datetime:
        """The time of Kinesis's clock. Origins and data loss are judged by it, never by this host's clock,
        which may be wrong."""
        date = answer["ResponseMetadata"].get("HTTPHeaders", {}).get("date")
        if date is None:
            raise WrongShape(
                f"the answer of {place_of_client(self._client)} has no Date header, by which a stream's start is "
                "chosen. Nothing was changed; if there is a proxy before Kinesis, let it pass the header on"
            )
        moment = parsedate_to_datetime(date).astimezone(UTC)
        self._newest_date = (moment, time.monotonic())
        return moment


def _shard(shard: Any) -> Shard:
    parents = (shard.get("ParentShardId"), shard.get("AdjacentParentShardId"))
    hashes = shard["HashKeyRange"]
    return Shard(
        shard["ShardId"],
        tuple(parent for parent in parents if parent),
        check_range(shard["ShardId"], hashes["StartingHashKey"], hashes["EndingHashKey"]),
        closed="EndingSequenceNumber" in shard["SequenceNumberRange"],
        numbers=_numbers(shard["SequenceNumberRange"]),
    )


def _numbers(number_range: Any) -> NumberRange | None:
    """Replacements of Kinesis give a text that is no number, or an end before the start: such a bound counts
    as unknown."""
    first, last = number_range.get("StartingSequenceNumber", ""), number_range.get("EndingSequenceNumber", "")
    if not (first.isascii() and first.isdigit()):
        return None
    is_known = last.isascii() and last.isdigit() and int(last) >= int(first)
    return NumberRange(int(first), int(last) if is_known else None)
