"""Identities of streams and shards, and the texts by which KCL and Dagster name them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import lru_cache

from headrace.pipeline.errors import WrongShape
from headrace.pipeline.settings.stream_names import DYNAMODB_ARN, KINESIS_ARN, name_in

_SERIALIZED = re.compile(r"(?P<account>[0-9]+):(?P<name>[^:]+):(?P<epoch>[0-9]{1,19})")
_LAST_EPOCH = 2**63 - 1
"""The largest epoch in a lease key: KCL reads the epoch as a Java long."""

_LAST_SECOND = 253_402_300_799
"""The last second of the year 9999, after which Python has no time."""


@lru_cache
def _parts_of_arn(arn: str) -> re.Match[str]:
    """Region and account. Kept in a cache, because each lease key that is built needs them."""
    match = KINESIS_ARN.fullmatch(arn) or DYNAMODB_ARN.fullmatch(arn)
    if match is None:
        raise WrongShape(f"{arn!r} is not the ARN of a Kinesis stream, nor of a DynamoDB table's stream")
    return match


_name_of_arn = lru_cache(name_in)


@dataclass(frozen=True, slots=True, order=True)
class StreamId:
    """One life of a stream. A stream that is deleted and created again under its name begins another life."""

    arn: str
    epoch: int
    """The time of the stream's creation in whole seconds since 1970, as in KCL's lease keys."""

    @property
    def name(self) -> str:
        _parts_of_arn(self.arn)
        return _name_of_arn(self.arn)

    @property
    def is_dynamodb(self) -> bool:
        """Whether this is the stream of a DynamoDB table. Its shards have no hash keys and one parent at most, and are
        never merged."""
        return ":dynamodb:" in self.arn

    @property
    def account(self) -> str:
        return _parts_of_arn(self.arn)["account"]

    @property
    def region(self) -> str:
        return _parts_of_arn(self.arn)["region"]

    @property
    def created(self) -> datetime:
        return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(seconds=self.epoch)

    @property
    def created_text(self) -> str:
        return epoch_text(self.epoch)

    @property
    def serialized(self) -> str:
        """KCL's stream identifier in multi-stream mode: `account:name:epoch`."""
        return f"{self.account}:{self.name}:{self.epoch}"

    def __str__(self) -> str:
        return f"{self.name} (created {self.created_text})"


def epoch_text(epoch: int) -> str:
    """When a stream was created, for people: 2026-01-31 12:00:00Z. A number that is no time of a calendar stays as it
    is."""
    if not 0 <= epoch <= _LAST_SECOND:
        return str(epoch)
    return f"{datetime.fromtimestamp(epoch, UTC):%Y-%m-%d %H:%M:%S}Z"


@dataclass(frozen=True, slots=True, order=True)
class ShardKey:
    """Names one shard of one life of a stream. Positions are kept by it, because each stream and each life has the same
    shard ids."""

    stream: StreamId
    shard_id: str

    def __hash__(self) -> int:
        # Positions are looked up very often, and the hash that dataclass makes would build two tuples each time. The
        # shard id alone would collide: each stream numbers its shards from 0.
        return hash(self.stream.arn) ^ hash(self.shard_id)

    def __str__(self) -> str:
        return f"{self.stream.name}/{self.shard_id}"


def is_stream_arn(text: str) -> bool:
    return KINESIS_ARN.fullmatch(text) is not None


def lease_key(key: ShardKey, *, multi: bool) -> str:
    """KCL's key of a lease row. With a single stream it is the shard id alone."""
    return f"{key.stream.serialized}:{key.shard_id}" if multi else key.shard_id


def shard_of_lease_key(text: str) -> str:
    """The shard id in a lease key of either form."""
    return text.rsplit(":", 1)[-1]


def epoch_of_serialized(text: str) -> int | None:
    """The epoch in KCL's `account:name:epoch`; None where the text has another form."""
    match = _SERIALIZED.fullmatch(text)
    if match is None or not 0 < int(match["epoch"]) <= _LAST_EPOCH:
        return None
    return int(match["epoch"])


def name_of_serialized(text: str) -> str:
    """The stream's name in KCL's `account:name:epoch`; the text itself where it has another form."""
    match = _SERIALIZED.fullmatch(text)
    return text if match is None else match["name"]


def arn_of_serialized(text: str, *, partition: str, region: str) -> str | None:
    """The ARN of a stream that KCL names `account:name:epoch`, built as KCL builds it; None where the text has another
    form."""
    match = _SERIALIZED.fullmatch(text)
    if match is None:
        return None
    return f"arn:{partition}:kinesis:{region}:{match['account']}:stream/{match['name']}"
