# ruff: noqa: N803 -- operations and arguments have AWS's names
"""Streams of DynamoDB tables in this process, behind boto3's own client: shards that roll over, listings that lag, records
that are trimmed. The contract suite holds it to AWS's DynamoDB Local."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import Any

from botocore.awsrequest import AWSResponse, HTTPHeaders
from botocore.session import get_session

from headrace.pipeline.aws.dynamodb_streams.client import tapped

_BEGAN = datetime(2026, 11, 27, 5, 0, tzinfo=UTC)
_KEPT = timedelta(hours=24)


class _Refused(Exception):
    """AWS's code of an error."""


@dataclass
class MemoryShard:
    shard_id: str
    parent: str | None
    first: int
    last: int | None = None
    """Not None once the shard is closed."""
    records: list[dict[str, Any]] = field(default_factory=list)
    trimmed: int = 0
    """The highest number that was trimmed."""


@dataclass
class _Raw:
    content: bytes

    def stream(self, **_: object) -> Any:
        yield self.content


class MemoryTableStreams:
    """One table with its stream. `hidden`: shards that listings don't show yet."""

    def __init__(self, table: str = "orders") -> None:
        self.now = _BEGAN
        self.arn = (
            f"arn:aws:dynamodb:us-east-1:123456789012:table/{table}/stream/{_BEGAN:%Y-%m-%dT%H:%M:%S}.000"
        )
        self.table = table
        self.status = "ENABLED"
        self.shards: list[MemoryShard] = []
        self.hidden: set[str] = set()
        self.page = 100
        """Records in one answer."""
        self.calls: list[str] = []
        self._number = 10**20
        self._open(None)

    # -- what happens to the table -----------------------------------------------------------------------------

    def put(self, item: str, value: int, *, shard: int = -1) -> int:
        self._number += 2
        self.shards[shard].records.append(
            {
                "eventID": f"{self._number:032x}",
                "eventName": "MODIFY",
                "eventVersion": "1.1",
                "eventSource": "aws:dynamodb",
                "awsRegion": "us-east-1",
                "dynamodb": {
                    "ApproximateCreationDateTime": self.now.replace(microsecond=0).timestamp(),
                    "Keys": {"id": {"S": item}},
                    "NewImage": {"id": {"S": item}, "value": {"N": str(value)}},
                    "SequenceNumber": str(self._number),
                    "SizeBytes": 20,
                    "StreamViewType": "NEW_AND_OLD_IMAGES",
                },
            }
        )
        return self._number

    def roll_over(self) -> None:
        """Each open shard is closed, and gets one child."""
        for shard in [shard for shard in self.shards if shard.last is None]:
            self._number += 1
            shard.last = self._number
            self._open(shard.shard_id)

    def switch_off(self) -> None:
        self.status = "DISABLED"
        for shard in self.shards:
            shard.last = shard.last if shard.last is not None else self._number

    def advance(self, by: timedelta) -> None:
        self.now += by
        for shard in self.shards:
            gone = [
                r
                for r in shard.records
                if self.now.timestamp() - r["dynamodb"]["ApproximateCreationDateTime"] > _KEPT.total_seconds()
            ]
            if gone:
                shard.trimmed = int(gone[-1]["dynamodb"]["SequenceNumber"])
                shard.records = shard.records[len(gone) :]

    def drop(self) -> None:
        """Trim all records at once, before their time, as no AWS should."""
        for shard in self.shards:
            shard.trimmed, shard.records = self._number, []

    def _open(self, parent: str | None) -> None:
        self._number += 1
        name = f"shardId-{len(self.shards):020d}-{self._number % 16**8:08x}"
        self.shards.append(MemoryShard(name, parent, self._number))

    # -- the client --------------------------------------------------------------------------------------------

    def client(self, *, is_tapped: bool = False) -> Any:
        """boto3's client, or as `is_tapped` that of a reading task."""
        client: Any = get_session().create_client(
            "dynamodbstreams",
            region_name="us-east-1",
            endpoint_url="http://in-process.invalid",
            aws_access_key_id="key",
            aws_secret_access_key="secret",
        )
        client.meta.events.register("before-send.dynamodb-streams.*", self._send)
        return tapped(client) if is_tapped else client

    def _send(self, request: Any, **_: object) -> AWSResponse:
        target = request.headers["X-Amz-Target"]
        operation = (target.decode() if isinstance(target, bytes) else target).rpartition(".")[2]
        self.calls.append(operation)
        status = 200
        try:
            answer = getattr(self, operation)(**json.loads(request.body))
        except _Refused as refused:
            status, answer = 400, {"__type": f"com.amazonaws.dynamodb.v20120810#{refused}", "message": "no"}
        body = json.dumps(answer).encode()
        headers: Any = HTTPHeaders.from_dict({"Date": format_datetime(self.now, usegmt=True)})
        return AWSResponse("http://in-process.invalid", status, headers, _Raw(body))

    def ListStreams(self, **_: Any) -> Any:
        label = self.arn.rpartition("/")[2]
        return {"Streams": [{"StreamArn": self.arn, "TableName": self.table, "StreamLabel": label}]}

    def DescribeStream(
        self,
        StreamArn: str,
        Limit: int = 100,
        **asked: Any,
    ) -> Any:
        if StreamArn != self.arn:
            raise _Refused("ResourceNotFoundException")
        shards = [shard for shard in self.shards if shard.shard_id not in self.hidden]
        if "ShardFilter" in asked:
            shards = [shard for shard in shards if shard.parent == asked["ShardFilter"]["ShardId"]]
        if after := asked.get("ExclusiveStartShardId"):
            shards = [shard for shard in shards if shard.shard_id > after]
        more = {"LastEvaluatedShardId": shards[Limit - 1].shard_id} if len(shards) > Limit else {}
        listed = [_listed(shard) for shard in shards[:Limit]]
        about = {
            "StreamArn": self.arn,
            "StreamStatus": self.status,
            "StreamViewType": "NEW_AND_OLD_IMAGES",
            "Shards": listed,
            **more,
        }
        return {"StreamDescription": about}

    def GetShardIterator(
        self,
        StreamArn: str,
        ShardId: str,
        ShardIteratorType: str,
        SequenceNumber: str = "0",
    ) -> Any:
        number = next((n for n, shard in enumerate(self.shards) if shard.shard_id == ShardId), None)
        if StreamArn != self.arn or number is None:
            raise _Refused("ResourceNotFoundException")
        after = int(SequenceNumber) - (ShardIteratorType == "AT_SEQUENCE_NUMBER")
        if ShardIteratorType.endswith("NUMBER") and after + 1 <= self.shards[number].trimmed:
            raise _Refused("TrimmedDataAccessException")
        return {"ShardIterator": f"{number}/{after}/{self.now.timestamp()}"}

    def GetRecords(self, ShardIterator: str, Limit: int = 1000) -> Any:
        number, after, given = ShardIterator.split("/")
        if self.now.timestamp() - float(given) > 900:
            raise _Refused("ExpiredIteratorException")
        shard = self.shards[int(number)]
        left = [r for r in shard.records if int(r["dynamodb"]["SequenceNumber"]) > int(after)]
        page = left[: min(Limit, self.page)]
        last = page[-1]["dynamodb"]["SequenceNumber"] if page else after
        is_over = shard.last is not None and len(page) == len(left)
        following = {} if is_over else {"NextShardIterator": f"{number}/{last}/{self.now.timestamp()}"}
        return {"Records": page, **following}


def _listed(shard: MemoryShard) -> dict[str, Any]:
    numbers = {"StartingSequenceNumber": str(shard.first)}
    if shard.last is not None:
        numbers["EndingSequenceNumber"] = str(shard.last)
    parent = {} if shard.parent is None else {"ParentShardId": shard.parent}
    return {"ShardId": shard.shard_id, "SequenceNumberRange": numbers, **parent}
