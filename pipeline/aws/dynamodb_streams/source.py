"""DynamoDB Streams for sensors and drivers: a table's stream, its shards, and whether an idle shard has new records."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from functools import cached_property
from itertools import chain
from typing import Any, Final

from botocore.exceptions import ClientError

from headrace.pipeline.aws.clients.clients import asking_aws, code_of, place_of_client
from headrace.pipeline.aws.dynamodb_streams.decode import in_request
from headrace.pipeline.aws.dynamodb_streams.listing import listed_shards
from headrace.pipeline.aws.reading.pages_client import date_of
from headrace.pipeline.core.shards.position import Start
from headrace.pipeline.core.shards.shard import Shard
from headrace.pipeline.core.shards.stream import ShardKey, StreamId, name_of_serialized
from headrace.pipeline.errors import HeadraceError, Unknown, WrongShape
from headrace.pipeline.ports.reading import StreamFacts
from headrace.pipeline.settings.stream_names import DYNAMODB_ARN, table_and_label

_MISSING: Final = "ResourceNotFoundException"
_EXPIRED: Final = "ExpiredIteratorException"
RETENTION: Final = timedelta(hours=24)
"""DynamoDB keeps a stream's records for 24 hours, which can't be changed."""
_ITERATOR_LIVES: Final = 800.0
"""Seconds. DynamoDB accepts a shard iterator for fifteen minutes."""
_AT_ONCE: Final = 8


class DynamoDbSource:
    def __init__(self, connect: Callable[[], Any]) -> None:
        """`connect`: makes boto3's client of the service dynamodbstreams, for the first question: most applications read no
        table's stream."""
        self._connect = connect
        self._newest_date: tuple[datetime, float] | None = None
        """The newest Date of an answer, and this host's monotonic time when it came."""
        self._gone: set[ShardKey] = set()
        self._iterators: dict[ShardKey, tuple[Start | int, str, float]] = {}
        """Idle shard -> its position, the iterator for the next look, and the monotonic time when that was given."""

    @cached_property
    def _client(self) -> Any:
        return self._connect()

    def aws_now(self) -> datetime | None:
        if self._newest_date is None:
            return None
        date, looked = self._newest_date
        return date + timedelta(seconds=time.monotonic() - looked)

    def describe(self, name: str) -> StreamFacts:
        arn = name if DYNAMODB_ARN.fullmatch(name) else self._arn_of(name_of_serialized(name))
        answer = self._ask("describe_stream", arn, StreamArn=arn, Limit=1)
        return StreamFacts(life_of(arn), RETENTION, self._date_of(answer))

    def find_streams(self, prefix: str | None, tags: Mapping[str, str]) -> tuple[StreamId, ...]:
        """None: streams of tables are named by the settings and not searched for."""
        return ()

    def list_shards(self, stream: StreamId, since: Start | None = None) -> tuple[Shard, ...]:
        """All shards, whatever `since` says: DynamoDB knows no filter by time. The records of shards from before a start are read
        and left out."""

        def describe(**request: Any) -> Any:
            return self._ask("describe_stream", stream.arn, **request)

        return listed_shards(describe, stream.arn)

    def is_gone(self, key: ShardKey) -> bool:
        if key in self._gone:
            return True
        try:
            with asking_aws(str(key), passing={_MISSING}):
                self._client.get_shard_iterator(
                    StreamArn=key.stream.arn, ShardId=key.shard_id, ShardIteratorType="TRIM_HORIZON"
                )
        except ClientError:
            # The same error as where the whole stream is missing: this raises then.
            self.describe(key.stream.arn)
            self._gone.add(key)
            return True
        return False

    def ended_before(self, key: ShardKey, moment: datetime) -> bool:
        iterator: str | None = self._iterator(key, Start())
        while iterator:
            answer = self._records(key, iterator, limit=1000)
            if any(_arrival(record) >= moment.replace(microsecond=0) for record in answer["Records"]):
                return False
            iterator = answer.get("NextShardIterator")
            if iterator and not answer["Records"]:
                # The shard is open, or DynamoDB needs more requests to come to its records.
                return False
        return True

    def has_news(self, keys: Mapping[ShardKey, Start | int]) -> frozenset[ShardKey]:
        oldest = time.monotonic() - _ITERATOR_LIVES
        self._iterators = {key: lookup for key, lookup in self._iterators.items() if lookup[2] > oldest}
        if not keys:
            return frozenset()

        def look(shards: Iterable[tuple[ShardKey, Start | int]]) -> list[ShardKey]:
            return [key for key, position in shards if self._has_news(key, position)]

        threads = min(_AT_ONCE, len(keys))
        with ThreadPoolExecutor(threads) as pool:
            lists_with_news = pool.map(look, [tuple(keys.items())[n::threads] for n in range(threads)])
            return frozenset(chain.from_iterable(lists_with_news))

    def arrivals(self, positions: Mapping[ShardKey, int]) -> Mapping[ShardKey, datetime]:
        arrival_times = {key: self._arrival_of(key, number) for key, number in positions.items()}
        return {key: when for key, when in arrival_times.items() if when is not None}

    def _arrival_of(self, key: ShardKey, sequence: int) -> datetime | None:
        try:
            with asking_aws(
                str(key), passing={_MISSING, "TrimmedDataAccessException", "ValidationException"}
            ):
                iterator = self._client.get_shard_iterator(
                    StreamArn=key.stream.arn,
                    ShardId=key.shard_id,
                    ShardIteratorType="AT_SEQUENCE_NUMBER",
                    SequenceNumber=in_request(sequence),
                )["ShardIterator"]
                records = self._client.get_records(ShardIterator=iterator, Limit=1)["Records"]
        except ClientError:
            self.describe(key.stream.arn)
            return None
        is_it = bool(records) and int(records[0]["dynamodb"]["SequenceNumber"]) == sequence
        return _arrival(records[0]) if is_it else None

    def _has_news(self, key: ShardKey, position: Start | int) -> bool:
        """Whether the shard has news. After an error: yes, so that a run reads the shard and reports what is wrong."""
        lookup = self._iterators.pop(key, None)
        try:
            if lookup is not None and lookup[0] == position:
                iterator = lookup[1]
            else:
                iterator = self._iterator(key, position)
            answer = self._records(key, iterator, limit=1)
        except (HeadraceError, ClientError):
            return True
        following = answer.get("NextShardIterator")
        if answer["Records"] or not following:
            return True
        self._iterators[key] = (position, following, time.monotonic())
        return False

    def _iterator(self, key: ShardKey, position: Start | int) -> str:
        place: dict[str, Any] = {"ShardIteratorType": "TRIM_HORIZON"}
        if isinstance(position, int):
            place = {"ShardIteratorType": "AFTER_SEQUENCE_NUMBER", "SequenceNumber": in_request(position)}
        with asking_aws(str(key)):
            answer = self._client.get_shard_iterator(StreamArn=key.stream.arn, ShardId=key.shard_id, **place)
        iterator: str = answer["ShardIterator"]
        return iterator

    def _records(self, key: ShardKey, iterator: str, *, limit: int) -> Any:
        with asking_aws(str(key), passing={_EXPIRED}):
            return self._client.get_records(ShardIterator=iterator, Limit=limit)

    def _arn_of(self, name: str) -> str:
        """The ARN of a stream that a lease row or a person names without its account and region."""
        parts = table_and_label(name)
        table, label = parts if parts is not None else (name, "")
        request: dict[str, Any] = {"TableName": table}
        while True:
            answer = self._ask("list_streams", name, **request)
            arns = [s["StreamArn"] for s in answer["Streams"] if s["StreamLabel"] == label]
            if arns:
                return str(arns[0])
            if "LastEvaluatedStreamArn" not in answer:
                raise self._missing(name)
            request["ExclusiveStartStreamArn"] = answer["LastEvaluatedStreamArn"]

    def _ask(self, operation: str, name: str, **request: Any) -> Any:
        try:
            with asking_aws(f"stream {name}", passing={_MISSING}):
                return getattr(self._client, operation)(**request)
        except ClientError as error:
            if code_of(error) == _MISSING:
                raise self._missing(name) from error
            raise

    def _missing(self, name: str) -> Unknown:
        return Unknown(
            f"there is no stream {name} in {place_of_client(self._client)}. Nothing was read or written; check the ARN in the "
            "settings (aws dynamodb describe-table tells a table's LatestStreamArn), aws.region and aws.endpoint"
        )

    def _date_of(self, answer: Any) -> datetime:
        moment = date_of(answer)
        if moment is None:
            raise WrongShape(
                f"the answer of {place_of_client(self._client)} has no Date header, by which a stream's start is chosen. "
                "Nothing was changed; if there is a proxy before DynamoDB, let it pass the header on"
            )
        moment = moment.astimezone(UTC)
        self._newest_date = (moment, time.monotonic())
        return moment


def life_of(arn: str) -> StreamId:
    """The stream with this ARN, whose label is the time of its creation: a stream of DynamoDB has one life."""
    match = DYNAMODB_ARN.fullmatch(arn)
    if match is None:
        raise WrongShape(f"{arn!r} is not the ARN of a DynamoDB table's stream")
    created = datetime.fromisoformat(match["label"]).replace(tzinfo=UTC)
    return StreamId(arn, int(created.timestamp() // 1))


def _arrival(record: Mapping[str, Any]) -> datetime:
    when: datetime = record["dynamodb"]["ApproximateCreationDateTime"]
    return when.astimezone(UTC)
