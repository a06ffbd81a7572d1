"""A stream and the names that a shard of it goes by."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

from pipeline.errors import WrongShape

_ARN = re.compile(r"arn:aws[^:]*:kinesis:(?P<region>[-a-z0-9]+):(?P<account>\d{12}):stream/(?P<name>.+)")
_SERIALIZED = re.compile(r"(?P<account>[0-9]+):(?P<name>[^:]+):(?P<epoch>[0-9]{1,19})")
_LAST_EPOCH = 2**63 - 1
"""KCL reads it as a Java long."""


@lru_cache
def _named(arn: str) -> re.Match[str]:
    """Its parts; asked for with every lease key."""
    match = _ARN.fullmatch(arn)
    if match is None:
        raise WrongShape(f"{arn!r} is not the ARN of a Kinesis stream")
    return match


@dataclass(frozen=True, slots=True, order=True)
class StreamId:
    """One life of a stream: a stream that is deleted and made again under its name is another one."""

    arn: str
    epoch: int
    """When it was created, in whole seconds since 1970, as KCL's lease keys have it."""

    @property
    def name(self) -> str:
        return _named(self.arn)["name"]

    @property
    def account(self) -> str:
        return _named(self.arn)["account"]

    @property
    def region(self) -> str:
        return _named(self.arn)["region"]

    @property
    def serialized(self) -> str:
        """KCL's stream identifier in multi-stream mode: `account:name:epoch`."""
        return f"{self.account}:{self.name}:{self.epoch}"

    def __str__(self) -> str:
        return f"{self.name} (created {self.epoch})"


@dataclass(frozen=True, slots=True, order=True)
class ShardKey:
    """What a position in the lake table belongs to: shard ids repeat between streams and between lives."""

    stream: StreamId
    shard_id: str

    def __hash__(self) -> int:
        return hash(self.stream.arn) ^ hash(self.shard_id)  # shards of all streams are numbered from 0

    def __str__(self) -> str:
        return f"{self.stream.name}/{self.shard_id}"


def is_stream_arn(text: str) -> bool:
    return _ARN.fullmatch(text) is not None


def lease_key(key: ShardKey, *, multi: bool) -> str:
    """KCL's key of a lease row, and Dagster's partition key: the bare shard id with a single stream."""
    return f"{key.stream.serialized}:{key.shard_id}" if multi else key.shard_id


def shard_of_lease_key(text: str) -> str:
    """The shard id in a lease key of either form."""
    return text.rsplit(":", 1)[-1]


def epoch_of_serialized(text: str) -> int | None:
    """The creation epoch in KCL's `account:name:epoch`, None where the text isn't of that form."""
    match = _SERIALIZED.fullmatch(text)
    if match is None or not 0 < int(match["epoch"]) <= _LAST_EPOCH:
        return None
    return int(match["epoch"])


def name_of_serialized(text: str) -> str:
    """The stream's name in KCL's `account:name:epoch`; the text itself where it isn't of that form."""
    match = _SERIALIZED.fullmatch(text)
    return text if match is None else match["name"]


def arn_of_serialized(text: str, *, partition: str, region: str) -> str | None:
    """The ARN that a stream named by KCL's `account:name:epoch` has in a region, as KCL puts it together."""
    match = _SERIALIZED.fullmatch(text)
    if match is None:
        return None
    return f"arn:{partition}:kinesis:{region}:{match['account']}:stream/{match['name']}"
