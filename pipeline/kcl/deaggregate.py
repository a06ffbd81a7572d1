"""From a Kinesis record to user records, as KCL unpacks what the Kinesis Producer Library packed.

    F3 89 9A C2 | protobuf (see aggregate.py) | MD5 of the protobuf, 16 bytes

Whatever isn't exactly that is a plain record and is passed through as it came.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from hashlib import md5

from pipeline.core.shard import MAX_HASH_KEY, HashRange
from pipeline.kcl.aggregate import Aggregate, Entry, Malformed, parse

MAGIC = bytes.fromhex("f3899ac2")
_DIGEST = 16
_EVERYTHING = HashRange(0, MAX_HASH_KEY)
_INTEGER = re.compile(r"[+-]?\d+")
_SURROGATE = re.compile(b"\xed[\xa0-\xbf][\x80-\xbf]?")
_OUTSIDE = -1
_MOST_DIGITS = 39


@dataclass(frozen=True, slots=True)
class UserRecord:
    partition_key: str
    explicit_hash_key: str | None
    data: bytes
    sub: int = 0
    """Number within the Kinesis record."""
    aggregated: bool = False


@dataclass(frozen=True, slots=True)
class Unpacked:
    records: tuple[UserRecord, ...]
    """What KCL delivers."""
    broken: str | None = None
    """Why the rest is missing, which KCL only logs. Who must not lose records lands the Kinesis record as it came."""


def unpack(data: bytes, partition_key: str, shard: HashRange = _EVERYTHING) -> Unpacked:
    """`shard`: its hash range. An aggregate with one user record outside of it is not this shard's, all of it."""
    plain = Unpacked((UserRecord(partition_key, None, data),))
    message = _message(data)
    if message is None:
        return plain
    try:
        return _user_records(parse(message), shard)
    except Malformed:
        return plain  # by chance a plain record looks like an aggregate up to here


def _message(data: bytes) -> bytes | None:
    if not data.startswith(MAGIC) or len(data) <= len(MAGIC) + _DIGEST:
        return None
    message, digest = data[len(MAGIC) : -_DIGEST], data[-_DIGEST:]
    return message if md5(message, usedforsecurity=False).digest() == digest else None


def _user_records(aggregate: Aggregate, shard: HashRange) -> Unpacked:
    out: list[UserRecord] = []
    for entry in aggregate.entries:
        try:
            record = _user_record(aggregate, entry, len(out))
            inside = shard.start <= _hash(record) <= shard.end
        except (IndexError, ValueError) as error:
            return Unpacked(tuple(out), f"user record {len(out)} of {len(aggregate.entries)}: {error}")
        if not inside:
            return Unpacked(())
        out.append(record)
    return Unpacked(tuple(out))


def _user_record(aggregate: Aggregate, entry: Entry, sub: int) -> UserRecord:
    key = _text(_at(aggregate.keys, entry.key_index, "partition key"))
    explicit = None
    if entry.hash_key_index is not None:
        explicit = _text(_at(aggregate.hash_keys, entry.hash_key_index, "explicit hash key"))
    return UserRecord(key, explicit, entry.data, sub, aggregated=True)


def _at(table: tuple[bytes, ...], index: int, what: str) -> bytes:
    index &= 0xFFFF_FFFF  # Java's int: an index of 2^32 is 0 again
    if index >= len(table):
        raise IndexError(f"its {what} is number {index} of {len(table)}")
    return table[index]


def _text(utf8: bytes) -> str:
    """As Java decodes: U+FFFD for each malformed part, where a coded surrogate is one part, not three."""
    return _SURROGATE.sub("\ufffd".encode(), utf8).decode(errors="replace")


def _hash(record: UserRecord) -> int:
    explicit = record.explicit_hash_key
    if explicit is None:
        return int.from_bytes(md5(record.partition_key.encode(), usedforsecurity=False).digest())
    if _INTEGER.fullmatch(explicit) is None:
        raise ValueError(f"its explicit hash key {explicit[:50]!r} is no number")
    # Longer than any hash key: not even read, for thousands of digits would stop whoever does.
    return int(explicit) if len(explicit.lstrip("+-0")) <= _MOST_DIGITS else _OUTSIDE
