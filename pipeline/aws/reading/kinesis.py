"""Kinesis for sensors and drivers: streams, shards, and whether an idle shard has new records."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

from botocore.exceptions import ClientError

from headrace.pipeline.aws.clients.clients import asking_aws, place_of_client
from headrace.pipeline.aws.clients.error_codes import code_of
from headrace.pipeline.aws.reading.finding import Finder
from headrace.pipeline.aws.reading.pages_check import Absurd, check_range
from headrace.pipeline.aws.reading.pages_client import request_id_of
from headrace.pipeline.aws.reading.quick_peek import QuickPeek
from headrace.pipeline.aws.reading.stream_source import AT_ONCE, MISSING, StreamSource, numbers_told
from headrace.pipeline.core.shards.position import Start
from headrace.pipeline.core.shards.shard import Shard
from headrace.pipeline.core.shards.stream import ShardKey, StreamId, arn_of_serialized, is_stream_arn
from headrace.pipeline.errors import BadAnswer, Unknown, Unreachable
from headrace.pipeline.ports.reading import StreamFacts

if TYPE_CHECKING:
    from mypy_boto3_kinesis import KinesisClient

_STALE_PAGE: Final = "ExpiredNextTokenException"
_STALE_ITERATOR: Final = "ExpiredIteratorException"
# Tries of one listing. A page token is valid for 300 s; a listing that takes longer three times won't
# succeed.
_LISTINGS: Final = 3


class KinesisSource(StreamSource):
    ITERATOR_LIVES = 300.0

    def __init__(self, client: KinesisClient) -> None:
        super().__init__()
        self._client = client
        self._finder = Finder(client)
        self._quick = QuickPeek(client)

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
            self._note_date(answer, self._client),
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

    def ended_before(self, key: ShardKey, moment: datetime) -> bool:
        iterator: str | None = self._iterator(key, Start(moment))
        while iterator:
            answer = self._first_record(key, iterator)
            iterator = answer.get("NextShardIterator")
            if answer["Records"] or (iterator and not answer.get("MillisBehindLatest")):
                # There is a record, or the shard is open and this is its newest position.
                return False
        return True

    def arrivals(self, positions: Mapping[ShardKey, int]) -> Mapping[ShardKey, datetime]:
        if not positions:
            return {}
        with ThreadPoolExecutor(min(AT_ONCE, len(positions))) as pool:
            arrival_times = pool.map(lambda shard: self._arrival(*shard), positions.items())
            return {key: when for key, when in zip(positions, arrival_times, strict=True) if when is not None}

    def _arrival(self, key: ShardKey, sequence: int) -> datetime | None:
        """The arrival of the record with this number. If it left the stream, Kinesis answers with a later
        record instead."""
        try:
            with asking_aws(str(key), passing={MISSING}):
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

    def _kept_look(self, key: ShardKey, iterator: str, position: Start | int) -> Any:
        answer = self._quick.first_record(iterator, key.stream.arn)
        if answer is not None:
            return answer
        # boto3's ordinary client, whose errors say what is wrong.
        try:
            return self._first_record(key, iterator)
        except ClientError:
            # The iterator had expired.
            return self._first_record(key, self._iterator(key, position))

    def _oldest_iterator(self, key: ShardKey) -> object:
        return self._client.get_shard_iterator(
            StreamARN=key.stream.arn, ShardId=key.shard_id, ShardIteratorType="TRIM_HORIZON"
        )

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
            with asking_aws(f"stream {stream}", passing=passing | {MISSING}):
                return getattr(self._client, operation)(**request)
        except ClientError as error:
            if code_of(error) == MISSING:
                raise Unknown(
                    f"there is no stream {stream} in {place_of_client(self._client)}. Nothing was read or written; "
                    "check the stream's name, aws.region and aws.endpoint in the settings"
                ) from error
            raise


def _shard(shard: Any) -> Shard:
    parents = (shard.get("ParentShardId"), shard.get("AdjacentParentShardId"))
    hashes = shard["HashKeyRange"]
    return Shard(
        shard["ShardId"],
        tuple(parent for parent in parents if parent),
        check_range(shard["ShardId"], hashes["StartingHashKey"], hashes["EndingHashKey"]),
        closed="EndingSequenceNumber" in shard["SequenceNumberRange"],
        numbers=numbers_told(shard["SequenceNumberRange"]),
    )
