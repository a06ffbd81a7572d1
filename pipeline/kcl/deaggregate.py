"""Unpacks a Kinesis record into the user records that the Kinesis Producer Library (KPL) packed into it, as KCL does.

    F3 89 9A C2 | protobuf (see aggregate.py) | MD5 of the protobuf, 16 bytes

A record whose bytes don't have exactly this form is a plain record, and is delivered as it came.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from hashlib import md5

from pipeline.core.shard import MAX_HASH_KEY, HashRange
from pipeline.kcl.aggregate import Aggregate, Entry, Malformed, parse

MAGIC = bytes.fromhex("f3899ac2")
_DIGEST = 16
"""Bytes of an MD5."""
_EVERYTHING = HashRange(0, MAX_HASH_KEY)
_JAVA_INTEGER = re.compile(r"[+-]?\d+")
"""What Java's BigInteger reads. Python's int() also reads blanks and underscores, which fail in KCL."""
_SURROGATE = re.compile(b"\xed[\xa0-\xbf][\x80-\xbf]?")
_OUTSIDE = -1
"""A hash key that lies in no shard's range."""
_LONGEST_HASH_KEY = 39
"""Digits of the largest hash key, 2^128 - 1."""


@dataclass(frozen=True, slots=True)
class UserRecord:
    partition_key: str
    explicit_hash_key: str | None
    data: bytes
    sub: int = 0
    """The sub-sequence number: which of the user records in its Kinesis record this is, from 0."""
    aggregated: bool = False


@dataclass(frozen=True, slots=True)
class Unpacked:
    records: tuple[UserRecord, ...]
    """The user records that KCL delivers."""
    broken: str | None = None
    """Why user records are missing from `records`. KCL only logs this and loses them; a caller that must not lose records
    lands the whole Kinesis record instead."""


def unpack(data: bytes, partition_key: str, shard: HashRange = _EVERYTHING) -> Unpacked:
    """The user records of one Kinesis record. As in KCL, an aggregate delivers nothing if the hash key of one of its user
    records lies outside of `shard`, the hash range of the shard that was read."""
    plain = Unpacked((UserRecord(partition_key, None, data),))
    message = _message(data)
    if message is None:
        return plain
    try:
        return _user_records(parse(message), shard)
    except Malformed:
        # The magic bytes and the digest were right, but the message isn't protobuf: it is a plain record.
        return plain


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
            return Unpacked(
                tuple(out), f"user record {len(out)} of {len(aggregate.entries)} is broken: {error}"
            )
        if not inside:
            # As in KCL, also the user records before this one are dropped: the aggregate belongs to another shard.
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
    # Java casts the index to an int of 32 bits, so that an index of 2^32 means 0.
    index &= 0xFFFF_FFFF
    if index >= len(table):
        raise IndexError(f"its {what} has the index {index} in a table of {len(table)}")
    return table[index]


def _text(utf8: bytes) -> str:
    """Decodes UTF-8 as Java does, with U+FFFD for each malformed part. Java makes one U+FFFD of the three bytes of an
    encoded surrogate; Python would make three, and the partition key would get another hash key."""
    return _SURROGATE.sub("\ufffd".encode(), utf8).decode(errors="replace")


def _hash(record: UserRecord) -> int:
    explicit = record.explicit_hash_key
    if explicit is None:
        # Kinesis defines the hash key by MD5. Without `usedforsecurity=False` Python refuses MD5 on hosts in FIPS mode.
        return int.from_bytes(md5(record.partition_key.encode(), usedforsecurity=False).digest())
    if _JAVA_INTEGER.fullmatch(explicit) is None:
        raise ValueError(f"its explicit hash key {explicit[:50]!r} isn't a number")
    # A longer number lies outside of every range, and Python's int() refuses more than 4,300 digits.
    return int(explicit) if len(explicit.lstrip("+-0")) <= _LONGEST_HASH_KEY else _OUTSIDE
