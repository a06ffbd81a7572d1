"""DynamoDB Streams for sensors and drivers: a table's stream, its shards, and whether an idle shard has new records."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from functools import cached_property
from typing import Any, Final

from botocore.exceptions import ClientError

from headrace.pipeline.aws.clients.clients import asking_aws, place_of_client
from headrace.pipeline.aws.clients.error_codes import code_of
from headrace.pipeline.aws.dynamodb_streams.decode import in_request
from headrace.pipeline.aws.dynamodb_streams.listing import listed_shards
from headrace.pipeline.aws.reading.stream_source import MISSING, StreamSource
from headrace.pipeline.core.shards.position import Start
from headrace.pipeline.core.shards.shard import Shard
from headrace.pipeline.core.shards.stream import ShardKey, StreamId, name_of_serialized
from headrace.pipeline.errors import Unknown, WrongShape
from headrace.pipeline.ports.reading import StreamFacts
from headrace.pipeline.settings.stream_names import DYNAMODB_ARN, table_and_label

_EXPIRED: Final = "ExpiredIteratorException"
RETENTION: Final = timedelta(hours=24)
"""DynamoDB keeps a stream's records for 24 hours, which can't be changed."""


class DynamoDbSource(StreamSource):
    ITERATOR_LIVES = 800.0
    """DynamoDB accepts a shard iterator for fifteen minutes."""

    def __init__(self, connect: Callable[[], Any]) -> None:
        """`connect`: makes boto3's client of the service dynamodbstreams, for the first question: most applications read no
        table's stream."""
        super().__init__()
        self._connect = connect

    @cached_property
    def _client(self) -> Any:
        return self._connect()

    def describe(self, name: str) -> StreamFacts:
        arn = name if DYNAMODB_ARN.fullmatch(name) else self._arn_of(name_of_serialized(name))
        answer = self._ask("describe_stream", arn, StreamArn=arn, Limit=1)
        view = answer["StreamDescription"].get("StreamViewType")
        return StreamFacts(life_of(arn), RETENTION, self._note_date(answer, self._client), view)

    def find_streams(self, prefix: str | None, tags: Mapping[str, str]) -> tuple[StreamId, ...]:
        """Always empty: the streams of DynamoDB tables are named in the settings, and aren't searched for."""
        return ()

    def list_shards(self, stream: StreamId, since: Start | None = None) -> tuple[Shard, ...]:
        """All shards, whatever `since` says: DynamoDB knows no filter by time. The records of shards from before a start are read
        and left out."""

        def describe(**request: Any) -> Any:
            return self._ask("describe_stream", stream.arn, **request)

        return listed_shards(describe, stream.arn)

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

    def arrivals(self, positions: Mapping[ShardKey, int]) -> Mapping[ShardKey, datetime]:
        arrival_times = {key: self._arrival_of(key, number) for key, number in positions.items()}
        return {key: when for key, when in arrival_times.items() if when is not None}

    def _arrival_of(self, key: ShardKey, sequence: int) -> datetime | None:
        try:
            with asking_aws(str(key), passing={MISSING, "TrimmedDataAccessException", "ValidationException"}):
                iterator = self._client.get_shard_iterator(
                    StreamArn=key.stream.arn,
                    ShardId=key.shard_id,
                    ShardIteratorType="AT_SEQUENCE_NUMBER",
                    SequenceNumber=in_request(sequence),
                )["ShardIterator"]
                records = self._client.get_records(ShardIterator=iterator, Limit=1)["Records"]
        except ClientError:
            self._require_stream(key.stream)
            return None
        # What comes may be a later record. Its time would make an old position look fresh.
        is_it = bool(records) and int(records[0]["dynamodb"]["SequenceNumber"]) == sequence
        return _arrival(records[0]) if is_it else None

    def _iterator(self, key: ShardKey, position: Start | int) -> str:
        place: dict[str, Any] = {"ShardIteratorType": "TRIM_HORIZON"}
        if isinstance(position, int):
            place = {"ShardIteratorType": "AFTER_SEQUENCE_NUMBER", "SequenceNumber": in_request(position)}
        with asking_aws(str(key)):
            answer = self._client.get_shard_iterator(StreamArn=key.stream.arn, ShardId=key.shard_id, **place)
        iterator: str = answer["ShardIterator"]
        return iterator

    def _oldest_iterator(self, key: ShardKey) -> object:
        return self._client.get_shard_iterator(
            StreamArn=key.stream.arn, ShardId=key.shard_id, ShardIteratorType="TRIM_HORIZON"
        )

    def _first_record(self, key: ShardKey, iterator: str) -> Any:
        return self._records(key, iterator, limit=1)

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
            with asking_aws(f"stream {name}", passing={MISSING}):
                return getattr(self._client, operation)(**request)
        except ClientError as error:
            if code_of(error) == MISSING:
                raise self._missing(name) from error
            raise

    def _missing(self, name: str) -> Unknown:
        return Unknown(
            f"there is no stream {name} in {place_of_client(self._client)}. Nothing was read or written; check the ARN in the "
            "settings (aws dynamodb describe-table tells a table's LatestStreamArn), aws.region and aws.endpoint"
        )


def life_of(arn: str) -> StreamId:
    """The identity of the stream with this ARN. The label in the ARN is the time of its creation; such a stream
    has only one life.
    """
    match = DYNAMODB_ARN.fullmatch(arn)
    if match is None:
        raise WrongShape(f"{arn!r} is not the ARN of a DynamoDB table's stream")
    created = datetime.fromisoformat(match["label"]).replace(tzinfo=UTC)
    return StreamId(arn, int(created.timestamp() // 1))


def _arrival(record: Mapping[str, Any]) -> datetime:
    when: datetime = record["dynamodb"]["ApproximateCreationDateTime"]
    return when.astimezone(UTC)
