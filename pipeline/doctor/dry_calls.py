"""Calls to AWS that show whether an action is allowed, and change nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Final
from urllib.parse import urlsplit

from headrace.pipeline.aws.clients.clients import (
    dynamodb_client,
    dynamodb_streams_client,
    kinesis_client,
    kinesis_client_at,
)
from headrace.pipeline.aws.leases import lease_item
from headrace.pipeline.aws.leases.tables import names_of
from headrace.pipeline.settings.model import Settings
from headrace.pipeline.settings.stream_names import is_dynamodb, name_in

NOBODY: Final = "headrace-doctor"
"""A key that no row and no object has."""


class NotTried(Exception):
    """A call couldn't be made, because AWS refused another call whose answer it needs."""


@dataclass(frozen=True, slots=True)
class DryCall:
    action: str
    place: str
    make: Callable[[], Any]


def dry_calls_of(settings: Settings) -> Iterator[DryCall]:
    """One call for each action that the settings need, made so that it changes nothing. The answer that a table
    or stream doesn't exist also shows that the call is allowed.
    """
    yield from _of_kinesis(settings)
    client = dynamodb_client(settings.aws)
    for table, key in names_of(settings).items():
        yield from _of_table(client, table, key)
    # A role may read a table and not its index: IAM names the two apart.
    index = partial(
        client.query,
        TableName=settings.lease_table,
        IndexName=lease_item.OWNER_INDEX,
        KeyConditionExpression="#owner = :nobody",
        ExpressionAttributeNames={"#owner": lease_item.OWNER},
        ExpressionAttributeValues={":nobody": {"S": NOBODY}},
        Limit=1,
    )
    yield DryCall("dynamodb:Query", f"{settings.lease_table}/index/{lease_item.OWNER_INDEX}", index)
    yield from _of_lake(settings)


def _of_table(client: Any, table: str, key: str) -> Iterator[DryCall]:
    item = {key: {"S": NOBODY}}
    # The row isn't there, so that the condition never holds.
    never: Mapping[str, Any] = {
        "TableName": table,
        "ConditionExpression": "attribute_exists(#key)",
        "ExpressionAttributeNames": {"#key": key},
    }
    calls: Mapping[str, Callable[[], Any]] = {
        "DescribeTable": partial(client.describe_table, TableName=table),
        "GetItem": partial(client.get_item, TableName=table, Key=item),
        "BatchGetItem": partial(client.batch_get_item, RequestItems={table: {"Keys": [item]}}),
        "Scan": partial(client.scan, TableName=table, Limit=1),
        "PutItem": partial(client.put_item, Item=item, **never),
        "DeleteItem": partial(client.delete_item, Key=item, **never),
        "UpdateItem": partial(
            client.update_item,
            Key=item,
            UpdateExpression="SET headraceDoctor = :one",
            ExpressionAttributeValues={":one": {"N": "1"}},
            **never,
        ),
    }
    for operation, make in calls.items():
        yield DryCall(f"dynamodb:{operation}", table, make)


def _of_kinesis(settings: Settings) -> Iterator[DryCall]:
    kinesis = settings.aws.of("kinesis")
    for stream in settings.streams:
        if is_dynamodb(stream.name):
            yield from _of_table_stream(settings, stream.name)
            continue
        client: Any = kinesis_client_at(kinesis.by(stream.role, stream.external_id))
        is_arn = stream.name.startswith("arn:")
        named = {"StreamARN" if is_arn else "StreamName": stream.name}
        name = name_in(stream.name)
        yield DryCall("kinesis:DescribeStreamSummary", name, partial(client.describe_stream_summary, **named))
        yield DryCall("kinesis:ListShards", name, partial(client.list_shards, MaxResults=1, **named))
        reading = _Reading(client, named)
        yield DryCall("kinesis:GetShardIterator", name, reading.iterator)
        yield DryCall("kinesis:GetRecords", name, reading.records)
    if settings.discovery.searches:
        whole: Any = kinesis_client(settings.aws)
        yield DryCall("kinesis:ListStreams", "*", partial(whole.list_streams, Limit=1))


def _of_table_stream(settings: Settings, arn: str) -> Iterator[DryCall]:
    client, place = dynamodb_streams_client(settings.aws), name_in(arn)
    yield DryCall("dynamodb:DescribeStream", place, partial(client.describe_stream, StreamArn=arn, Limit=1))

    def iterator() -> str:
        shards = client.describe_stream(StreamArn=arn, Limit=1)["StreamDescription"]["Shards"]
        shard = shards[0]["ShardId"] if shards else "shardId-00000000000000000000-00000000"
        answer = client.get_shard_iterator(StreamArn=arn, ShardId=shard, ShardIteratorType="LATEST")
        return str(answer["ShardIterator"])

    def records() -> None:
        from botocore.exceptions import ClientError

        try:
            position = iterator()
        except ClientError as error:
            # GetRecords needs an iterator. Refused for lack of one, it would look as if its own
            # right was missing.
            raise NotTried from error
        client.get_records(ShardIterator=position, Limit=1)

    yield DryCall("dynamodb:GetShardIterator", place, iterator)
    yield DryCall("dynamodb:GetRecords", place, records)


@dataclass(frozen=True, slots=True)
class _Reading:
    """At most one record of the stream's first shard, behind its newest one."""

    client: Any
    named: Mapping[str, str]

    def iterator(self) -> str:
        # An id that is never listed is answered as not found, but only to somebody who is allowed to ask.
        answer = self.client.get_shard_iterator(
            ShardId=self._shard(), ShardIteratorType="LATEST", **self.named
        )
        return str(answer["ShardIterator"])

    def records(self) -> None:
        from botocore.exceptions import ClientError

        try:
            iterator = self.iterator()
        except ClientError as error:
            raise NotTried from error
        self.client.get_records(ShardIterator=iterator, Limit=1)

    def _shard(self) -> str:
        from botocore.exceptions import ClientError

        try:
            shards = self.client.list_shards(MaxResults=1, **self.named)["Shards"]
        except ClientError:
            shards = []
        return str(shards[0]["ShardId"]) if shards else "shardId-000000000000"


def _of_lake(settings: Settings) -> Iterator[DryCall]:
    landing = settings.landing
    if landing.catalog.get("type") == "glue":
        glue = _client("glue", settings, landing.catalog.get("glue.endpoint"))
        database, _, table = landing.table.partition(".")
        yield DryCall("glue:GetDatabase", database, partial(glue.get_database, Name=database))
        yield DryCall(
            "glue:GetTable", landing.table, partial(glue.get_table, DatabaseName=database, Name=table)
        )
    folders = [
        uri for uri in (landing.catalog.get("warehouse"), landing.state) if uri and uri.startswith("s3")
    ]
    if folders:
        s3 = _client("s3", settings, landing.catalog.get("s3.endpoint"))
        for uri in folders:
            parts = urlsplit(uri)
            key = f"{parts.path.strip('/')}/{NOBODY}"
            yield DryCall(
                "s3:ListBucket",
                parts.netloc,
                partial(s3.list_objects_v2, Bucket=parts.netloc, Prefix=key, MaxKeys=1),
            )
            yield DryCall("s3:GetObject", uri, partial(s3.head_object, Bucket=parts.netloc, Key=key))


def _client(service: str, settings: Settings, endpoint: str | None) -> Any:
    import boto3

    aws = settings.aws
    session = boto3.Session(profile_name=aws.profile, region_name=aws.region)
    make: Any = session.client
    return make(service, endpoint_url=endpoint or aws.endpoint)
