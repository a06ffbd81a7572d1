"""The name of a shard in Dagster, as a partition, and on the command line.

    lease key                                            name
    shardId-000000000001                                 shardId-000000000001               an application with one stream
    123456789012:orders:1764160000:shardId-000000000001  orders@123456789012:1764160000/1   one with several

Each lease key has one name and each name one lease key, whatever other streams come later. The stream is at the front
and the shard at the end, because Dagster's UI cuts a long name in its middle.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace

from headrace.pipeline.core.shards.stream import ShardKey

_DOTS = "..."
"""Dagster refuses a partition with these characters, which stand for a range there. The name of a stream may have
them."""
# Only the last dot of three is escaped, which keeps the name readable. No stream's name has a `%`.
_ESCAPED = "..%2E"
_LEASE_KEY = re.compile(
    r"(?P<account>[0-9]+):(?P<stream>[A-Za-z0-9_.-]+):(?P<epoch>[0-9]{1,19}):(?P<shard>[A-Za-z0-9_.-]+)"
)
_NAME = re.compile(
    r"(?P<stream>[A-Za-z0-9_.-]+)@(?P<account>[0-9]+):(?P<epoch>[0-9]{1,19})/(?P<shard>=?[A-Za-z0-9_.-]+)"
)
_SHARD_ID = re.compile(r"shardId-([0-9]{12})")
_NUMBER = re.compile(r"0|[1-9][0-9]{0,11}")


def partition_of(lease_key: str) -> str:
    """The name of a shard's partition in Dagster, from its lease key. A text of another form is its own name: a row
    that another program has written may have one."""
    match = _LEASE_KEY.fullmatch(lease_key)
    if match is None:
        return lease_key
    name = f"{match['stream']}@{match['account']}:{match['epoch']}/{_short(match['shard'])}"
    return name.replace(_DOTS, _ESCAPED)


def lease_key_of(partition: str) -> str:
    """The lease key that `partition_of` makes this name of; a text of another form stays as it is."""
    match = _NAME.fullmatch(partition.replace("%2E", "."))
    if match is None:
        return partition
    lease_key = f"{match['account']}:{match['stream']}:{match['epoch']}:{_long(match['shard'])}"
    # A text that only looks like a name, such as one with `%2E` elsewhere, must not reach another shard.
    return lease_key if partition_of(lease_key) == partition else partition


@dataclass(frozen=True, slots=True)
class ShardName:
    """How a person names a shard. A part that is None wasn't given, and any value fits."""

    shard_id: str
    stream: str | None = None
    account: str | None = None
    epoch: int | None = None

    def fits(self, key: ShardKey) -> bool:
        stream = key.stream
        return self.is_part_of(ShardName(key.shard_id, stream.name, stream.account, stream.epoch))

    def is_part_of(self, full_name: ShardName) -> bool:
        said = (
            (self.stream, full_name.stream),
            (self.account, full_name.account),
            (self.epoch, full_name.epoch),
        )
        return self.shard_id == full_name.shard_id and all(mine in (None, theirs) for mine, theirs in said)


def read_name(text: str) -> ShardName:
    """The shard that a person names by a lease key, by a name in Dagster, by the stream with the shard (`orders/1`,
    `orders/shardId-000000000001`), or by a shard id alone.
    """
    match = _LEASE_KEY.fullmatch(lease_key_of(text))
    if match is not None:
        return ShardName(match["shard"], match["stream"], match["account"], int(match["epoch"]))
    stream, slash, shard = text.rpartition("/")
    return ShardName(_long(shard), stream) if stream and slash else ShardName(text)


def meant_by(text: str, lease_keys: Iterable[str], *, only_stream: str | None) -> tuple[str, ...]:
    """Those of the lease keys that a person may mean by the text. `only_stream`: the stream of an application that
    reads one, whose lease keys are shard ids."""
    lease_keys, name = tuple(lease_keys), read_name(text)
    exact = lease_key_of(text)
    if exact in lease_keys:
        return (exact,)
    names = {key: read_name(key) for key in lease_keys}
    return tuple(
        key
        for key, full_name in names.items()
        if name.is_part_of(
            full_name if full_name.stream is not None else replace(full_name, stream=only_stream)
        )
    )


def _short(shard_id: str) -> str:
    """Kinesis numbers the shards of a stream. An id of another form stays, with a mark before it where it could be
    taken for a number."""
    number = _SHARD_ID.fullmatch(shard_id)
    if number is not None:
        return str(int(number[1]))
    # An id of digits alone would be read back as the number of a shard.
    return f"={shard_id}" if shard_id.isdigit() else shard_id


def _long(shard: str) -> str:
    return f"shardId-{int(shard):012d}" if _NUMBER.fullmatch(shard) else shard.removeprefix("=")
