"""Where the user records and keys of a page's aggregates are, found for all aggregates of the page at once.

The Kinesis Producer Library (KPL) writes one form: tables of keys and user records whose fields come in order, without tags. A loop
walks over the lengths of their parts, and numpy proves that each user record has that form:

    0A n key ... 12 n hash key ... 1A n [ 08 index of key, 10 index of hash key if it has one, 1A n data ] ...

An aggregate is `good` if it has this form, its digest is right, and `pipeline.kcl.deaggregate` would deliver all its user records.
Nothing is concluded about other records here.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial
from hashlib import md5
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pipeline.core.shard import HashRange
from pipeline.kcl.aggregate import MOST_USER_RECORDS
from pipeline.kcl.deaggregate import (
    DIGEST,
    EVERYTHING,
    MAGIC,
    MOST_BYTES,
    hash_of_explicit,
    text_of,
)

try:
    # Python's own MD5 takes half the time of OpenSSL's for a text as short as a key. Some distributions leave it out.
    from _md5 import md5 as short_md5  # type: ignore[import-not-found] # typeshed doesn't know it
except ImportError:
    short_md5 = partial(md5, usedforsecurity=False)

_KEY, _HASH_KEY, _RECORD = 0x0A, 0x12, 0x1A
"""The first bytes of a message's parts: number and wire type of the field."""
_INDEX, _HASH_INDEX, _DATA = 0x08, 0x10, 0x1A
"""The first bytes of a user record's fields."""

_Numbers = np.ndarray[Any, np.dtype[np.int64]]
_Bytes = np.ndarray[Any, np.dtype[np.uint8]]
_Flags = np.ndarray[Any, np.dtype[np.bool_]]


@dataclass(frozen=True, slots=True)
class Texts:
    """The keys of all tables, one table after the other."""

    values: Any
    """In Arrow, as text."""
    sizes: _Numbers
    """Bytes of each, and a 0 at the end: the size of no key."""

    def each(self, chosen: _Numbers) -> list[bytes]:
        found: list[bytes] = self.values.take(pa.array(chosen)).cast(pa.binary()).to_pylist()
        return found


@dataclass(frozen=True, slots=True)
class UserRecords:
    """The user records of good aggregates, in their order: each field has a value for each user record."""

    record: _Numbers
    """The place of its Kinesis record in the page."""
    begin: _Numbers
    """Where its data begin, and where they end, among the data of the page."""
    end: _Numbers
    key: _Numbers
    """The place of its partition key in `keys`."""
    hash_key: _Numbers
    """The place of its explicit hash key in `hash_keys`; -1 where it has none."""
    keys: Texts
    hash_keys: Texts

    def of(self, first: int, end: int) -> UserRecords:
        """Those of the Kinesis records from `first` to before `end`."""
        first, end = np.searchsorted(self.record, [first, end]).tolist()
        at = slice(first, end)
        return UserRecords(
            self.record[at],
            self.begin[at],
            self.end[at],
            self.key[at],
            self.hash_key[at],
            self.keys,
            self.hash_keys,
        )

    def bytes_of_keys(self) -> _Numbers:
        """For each user record, the bytes of both its keys."""
        sizes: _Numbers = self.keys.sizes[self.key] + self.hash_keys.sizes[self.hash_key]
        return sizes


@dataclass(slots=True)
class _Parts:
    """Parts of one kind of the messages of several aggregates."""

    heads: list[int]
    """Where each part's field number is, before its length and its bytes."""
    counts: list[int]
    """How many of the parts each aggregate has."""

    def places(self, body: _Bytes) -> tuple[_Numbers, _Numbers, _Numbers]:
        """Where the parts' bytes begin and end, and how many each aggregate has."""
        sizes, begins, _ = _number(body, np.array(self.heads, np.int64) + 1)
        return begins, begins + sizes, np.array(self.counts, np.int64)


def user_records(body: bytes, bounds: _Numbers, marked: Iterable[int], shard: HashRange) -> UserRecords:
    """The user records of the good aggregates among the records `marked`.

    `body`: the data of all records. `bounds`: where each record begins, and where the last one ends.
    """
    records: list[int] = []
    kinds = tuple(_Parts([], []) for _ in (_KEY, _HASH_KEY, _RECORD))
    view, places = memoryview(body), bounds.tolist()
    for record in marked:
        message, digest, end = places[record] + len(MAGIC), places[record + 1] - DIGEST, places[record + 1]
        # An MD5 for security is refused on hosts in FIPS mode.
        if digest <= message or md5(view[message:digest], usedforsecurity=False).digest() != body[digest:end]:
            continue
        if heads := _heads(body, message, digest):
            records.append(record)
            for parts, found in zip(kinds, heads, strict=True):
                parts.heads += found
                parts.counts.append(len(found))
    return _good(body, np.array(records, np.int64), kinds, shard)


def _heads(body: bytes, at: int, end: int) -> tuple[list[int], ...] | None:
    """Where the keys, the hash keys and the user records of a message are; None if it has other parts, or none of the last kind."""
    heads = []
    for kind in (_KEY, _HASH_KEY, _RECORD):
        found: list[int] = []
        # This loop is most of the work: one turn for each key and each user record. The digest follows the message, so that the
        # bytes of a length never lie outside of `body`.
        while at < end and body[at] == kind:
            found.append(at)
            size = body[at + 1]
            if size < 128:
                at += 2 + size
                continue
            more = body[at + 2]
            size += (more - 1) << 7
            if more < 128:
                at += 3 + size
                continue
            more = body[at + 3]
            if more > 127:
                return None
            at += 4 + size + ((more - 1) << 14)
        if len(found) > MOST_USER_RECORDS:
            return None
        heads.append(found)
    return tuple(heads) if at == end and heads[-1] else None


def _good(body: bytes, records: _Numbers, kinds: tuple[_Parts, ...], shard: HashRange) -> UserRecords:
    """The user records of those aggregates in which nothing is wrong."""
    numbers = np.frombuffer(body, np.uint8)
    (key_at, key_end, key_counts), (hash_at, hash_end, hash_counts), (at, end, counts) = (
        parts.places(numbers) for parts in kinds
    )
    of = np.repeat(np.arange(len(records)), counts)
    key, hash_key, data, right = _fields(numbers, at, end)
    right &= (key < key_counts[of]) & (hash_key < hash_counts[of])
    # From places in the aggregate's own table to places in the table of all.
    key = np.where(right, key + _befores(key_counts)[of], 0)
    hash_key = np.where(right & (hash_key >= 0), hash_key + _befores(hash_counts)[of], -1)
    keys, hash_keys = _texts(body, key_at, key_end), _texts(body, hash_at, hash_end)
    right &= _inside(keys, hash_keys, np.where(right, key, -1), hash_key, shard)
    sizes = end - data + keys.sizes[key] + hash_keys.sizes[hash_key]
    firsts = _befores(counts)
    good = np.ones(0, np.bool_)
    if len(records):
        good = np.logical_and.reduceat(right, firsts) & (np.add.reduceat(sizes, firsts) <= MOST_BYTES)
    chosen = good[of]
    return UserRecords(
        records[of[chosen]], data[chosen], end[chosen], key[chosen], hash_key[chosen], keys, hash_keys
    )


def _befores(counts: _Numbers) -> _Numbers:
    """For each aggregate, how many there are in the aggregates before it."""
    before: _Numbers = np.cumsum(counts) - counts
    return before


def _fields(body: _Bytes, at: _Numbers, end: _Numbers) -> tuple[_Numbers, _Numbers, _Numbers, _Flags]:
    """For each user record its index of a key, its index of a hash key or -1, where its data begin, and whether it has these fields
    and no others."""
    right = body[at] == _INDEX
    key, at, short = _number(body, at + 1)
    right &= short
    hashed = body[at] == _HASH_INDEX
    hash_key, after, short = _number(body, at + 1)
    right &= short | ~hashed
    at = np.where(hashed, after, at)
    right &= body[at] == _DATA
    size, at, short = _number(body, at + 1)
    right &= short & (at + size == end)
    return key, np.where(hashed, hash_key, -1), at, right


def _number(body: _Bytes, at: _Numbers) -> tuple[_Numbers, _Numbers, _Flags]:
    """The numbers at these places, the places after them, and whether each number has at most three bytes."""
    # Three such numbers take no more than 12 bytes, and at least the 16 bytes of a digest follow the beginning of each user record.
    value, size = body[at].astype(np.int64), np.ones(len(at), np.int64)
    for byte in (1, 2):
        longer = value >= 1 << 7 * byte
        if not longer.any():
            break
        more = body[at + byte].astype(np.int64)
        value = np.where(longer, value + ((more - 1) << 7 * byte), value)
        size += longer
    return value, at + size, value < 1 << 21


def _texts(body: bytes, begins: _Numbers, ends: _Numbers) -> Texts:
    raw = cut(pa.py_buffer(body), begins, ends)
    try:
        values = raw.cast(pa.string())
    except pa.ArrowInvalid:
        # A key that isn't UTF-8 reads as KCL reads it.
        values = pa.array([text_of(each) for each in raw.to_pylist()], pa.string())
    return Texts(
        values, np.append(pc.binary_length(values).to_numpy(zero_copy_only=False), 0).astype(np.int64)
    )


def cut(data: pa.Buffer, begins: _Numbers, ends: _Numbers) -> Any:
    """These parts of the bytes as values of a column. The parts are in order and don't overlap."""
    if not len(begins):
        return pa.array([], pa.binary())
    # An array over all bytes, in which each second item is a part and the others are the bytes between two parts. Arrow then copies
    # the parts together.
    bounds: Any = np.empty(2 * len(begins), np.int32)
    bounds[0::2], bounds[1::2] = begins, ends
    both = pa.Array.from_buffers(pa.binary(), len(bounds) - 1, [None, pa.py_buffer(bounds), data])
    return both.take(np.arange(0, len(bounds), 2, dtype=np.int32))


def _inside(keys: Texts, hash_keys: Texts, key: _Numbers, hash_key: _Numbers, shard: HashRange) -> _Flags:
    """Whether the hash key of each user record is a number and inside of the shard. A hash key counts before a key."""
    by_hash, by_key = (np.ones(len(each.sizes), np.bool_) for each in (hash_keys, keys))
    used = _distinct(hash_key, len(by_hash))
    by_hash[used] = [_is_inside(text, shard) for text in hash_keys.each(used)] if len(used) else True
    used = _distinct(np.where(hash_key < 0, key, -1), len(by_key))
    if shard != EVERYTHING and len(used):
        by_key[used] = _between([short_md5(key).digest() for key in keys.each(used)], shard)
    inside: _Flags = np.where(hash_key < 0, by_key[key], by_hash[hash_key])
    return inside


def _between(digests: list[bytes], shard: HashRange) -> _Flags:
    """Whether the hash keys that these digests stand for are inside of the shard."""
    high, low = np.frombuffer(b"".join(digests), ">u8").reshape(-1, 2).T
    (first_high, first_low), (last_high, last_low) = (divmod(end, 2**64) for end in (shard.start, shard.end))
    after = (high > first_high) | ((high == first_high) & (low >= first_low))
    before = (high < last_high) | ((high == last_high) & (low <= last_low))
    inside: _Flags = after & before
    return inside


def _distinct(places: _Numbers, most: int) -> _Numbers:
    """The places that occur, except -1."""
    occurs = np.zeros(most, np.bool_)
    occurs[places[places >= 0]] = True
    return np.flatnonzero(occurs)


def _is_inside(explicit: bytes, shard: HashRange) -> bool:
    try:
        return shard.start <= hash_of_explicit(explicit.decode()) <= shard.end
    except ValueError:
        return False
