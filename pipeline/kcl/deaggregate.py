"""Unpacks a Kinesis record into the user records that the Kinesis Producer Library (KPL) packed into it, as KCL does.

    F3 89 9A C2 | protobuf (see aggregate.py) | MD5 of the protobuf, 16 bytes

A record whose bytes don't have exactly this form is a plain record, and is delivered as it came. Unlike KCL,
`unpack` also tells where a record begins as an aggregate and KCL doesn't deliver all of its user records, so
that a caller can keep the record whole.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from hashlib import md5

from headrace.pipeline.core.shards.shard import MAX_HASH_KEY, HashRange
from headrace.pipeline.kcl.aggregate import Aggregate, Malformed, TooLarge, parse

MAGIC = bytes.fromhex("f3899ac2")
DIGEST = 16
"""The number of bytes of an MD5."""
MOST_BYTES = 64 * 1024 * 1024
"""The most bytes that keys and data of one aggregate's user records may have together. Each of 170,000 user
records may name the same key of half a megabyte, so that 1 MiB would become 80 GiB.
"""
NOT_AN_AGGREGATE = (
    "it begins as an aggregate, but isn't one: its digest or its message isn't right. KCL hands it on whole"
)
OUTSIDE = "it is an aggregate with a user record whose hash key is outside of the shard's range. KCL drops all of it"
EMPTY = "it is an aggregate without a user record. KCL hands on nothing of it"
TOO_LARGE = f"it is an aggregate whose user records would take more than {MOST_BYTES // 1024**2} MiB"
EVERYTHING = HashRange(0, MAX_HASH_KEY)
# What Java's BigInteger reads. Python's int() also reads blanks and underscores, which fail in KCL.
_JAVA_INTEGER = re.compile(r"[+-]?\d+")
# The first two of the three bytes, or all three, of a surrogate that was encoded as if it were a letter.
_SURROGATE = re.compile(b"\xed[\xa0-\xbf][\x80-\xbf]?")
# A hash key that lies in no shard's range.
_OUTSIDE = -1
# Digits of the largest hash key, 2^128 - 1.
_LONGEST_HASH_KEY = 39


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
    """Why `records` isn't each user record of a record that begins as an aggregate. KCL delivers it whole or
    loses user records of it, and at most logs that; a caller that must not lose records keeps the whole
    Kinesis record with this reason."""


def unpack(data: bytes, partition_key: str, shard: HashRange = EVERYTHING) -> Unpacked:
    """The user records of one Kinesis record. As in KCL, an aggregate delivers nothing if the hash key of one
    of its user records lies outside of `shard`, the hash range of the shard that was read. Unlike KCL, one
    that is too large delivers nothing."""
    undivided = (UserRecord(partition_key, None, data),)
    if not data.startswith(MAGIC):
        return Unpacked(undivided)
    message = _message(data)
    if message is None:
        return Unpacked(undivided, NOT_AN_AGGREGATE)
    try:
        return _user_records(parse(message), shard)
    except Malformed:
        # The magic bytes and the digest were right, but the message isn't protobuf: it is a plain record.
        return Unpacked(undivided, NOT_AN_AGGREGATE)
    except TooLarge as error:
        return Unpacked((), f"it is an aggregate that isn't taken apart: {error}")


def _message(data: bytes) -> bytes | None:
    if len(data) <= len(MAGIC) + DIGEST:
        return None
    message, digest = data[len(MAGIC) : -DIGEST], data[-DIGEST:]
    return message if md5(message, usedforsecurity=False).digest() == digest else None


def _user_records(aggregate: Aggregate, shard: HashRange) -> Unpacked:
    out: list[UserRecord] = []
    keys, hash_keys = (
        _Table(aggregate.keys, "partition key"),
        _Table(aggregate.hash_keys, "explicit hash key"),
    )
    size = 0
    for entry in aggregate.entries:
        try:
            key, inside = keys.at(entry.key_index, hash_of_key, shard)
            explicit = None
            if entry.hash_key_index is not None:
                explicit, inside = hash_keys.at(entry.hash_key_index, hash_of_explicit, shard)
        except (IndexError, ValueError) as error:
            return Unpacked(
                tuple(out), f"user record {len(out)} of {len(aggregate.entries)} is broken: {error}"
            )
        if not inside:
            # As in KCL, also the user records before this one are dropped: the aggregate belongs to another shard.
            return Unpacked((), OUTSIDE)
        size += keys.size(entry.key_index) + len(explicit or "") + len(entry.data)
        if size > MOST_BYTES:
            return Unpacked((), TOO_LARGE)
        out.append(UserRecord(key, explicit, entry.data, len(out), aggregated=True))
    return Unpacked(tuple(out), None if out else EMPTY)


class _Table:
    """A table of keys. Each key is decoded and hashed once, however many user records name it."""

    def __init__(self, keys: tuple[bytes, ...], what: str) -> None:
        self._keys = keys
        self._what = what
        self._known: dict[int, tuple[str, bool]] = {}

    def at(self, index: int, hash_of: Callable[[str], int], shard: HashRange) -> tuple[str, bool]:
        """The key as text, and whether its hash key is in the range."""
        # Java casts the index to an int of 32 bits, so that an index of 2^32 means 0.
        index &= 0xFFFF_FFFF
        if index >= len(self._keys):
            raise IndexError(
                f"the user record's {self._what} has the index {index} in a table of {len(self._keys)}"
            )
        if index not in self._known:
            text = java_text(self._keys[index])
            self._known[index] = text, shard.start <= hash_of(text) <= shard.end
        return self._known[index]

    def size(self, index: int) -> int:
        return len(self._keys[index & 0xFFFF_FFFF])


def java_text(utf8: bytes) -> str:
    """Decodes UTF-8 as Java does, with U+FFFD for each malformed part. Java makes one U+FFFD of the three bytes of an
    encoded surrogate; Python would make three, and the partition key would get another hash key."""
    return _SURROGATE.sub("\ufffd".encode(), utf8).decode(errors="replace")


def hash_of_key(key: str) -> int:
    """The hash key that Kinesis computes from a partition key, for a user record without an explicit one."""
    # Kinesis defines the hash key by MD5. Without `usedforsecurity=False` Python refuses MD5 on hosts in FIPS mode.
    return int.from_bytes(md5(key.encode(), usedforsecurity=False).digest())


def hash_of_explicit(explicit: str) -> int:
    if _JAVA_INTEGER.fullmatch(explicit) is None:
        raise ValueError(f"the user record's explicit hash key {explicit[:50]!r} isn't a number")
    # A longer number lies outside of every range, and Python's int() refuses more than 4,300 digits.
    return int(explicit) if len(explicit.lstrip("+-0")) <= _LONGEST_HASH_KEY else _OUTSIDE
