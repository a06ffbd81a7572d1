"""Where the user records and keys of a page's aggregates are, found for all aggregates of the page at once.

The Kinesis Producer Library (KPL) writes one form: tables of keys and user records whose fields come in order,
without tags. A loop walks over the lengths of their parts, and numpy proves that each user record has that form:

    0A n key ... 12 n hash key ... 1A n [ 08 index of key, 10 index of hash key if it has one, 1A n data ] ...

An aggregate is `good` if it has this form, its digest is right, and `headrace.pipeline.kcl.deaggregate` would
deliver all its user records. About other records this module says nothing.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from hashlib import md5
from typing import Any

import numpy as np

from headrace.pipeline.core.shards.shard import HashRange
from headrace.pipeline.kcl.aggregate import MOST_USER_RECORDS
from headrace.pipeline.kcl.deaggregate import DIGEST, MAGIC, MOST_BYTES
from headrace.pipeline.lake.staging.aggregate_keys import Texts, inside, texts_of

_KEY, _HASH_KEY, _RECORD = 0x0A, 0x12, 0x1A
"""The first bytes of a message's parts: number and wire type of the field."""
_INDEX, _HASH_INDEX, _DATA = 0x08, 0x10, 0x1A
"""The first bytes of a user record's fields."""

_Numbers = np.ndarray[Any, np.dtype[np.int64]]
_Bytes = np.ndarray[Any, np.dtype[np.uint8]]
_Flags = np.ndarray[Any, np.dtype[np.bool_]]


@dataclass(frozen=True, slots=True)
class UserRecords:
    """The user records of good aggregates, in their order: each field is an array with a value for each user record."""

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
        """The user records of the Kinesis records from `first` to before `end`."""
        first, end = np.searchsorted(self.record, [first, end]).tolist()
        places = slice(first, end)
        return UserRecords(
            self.record[places],
            self.begin[places],
            self.end[places],
            self.key[places],
            self.hash_key[places],
            self.keys,
            self.hash_keys,
        )

    def bytes_of_keys(self) -> _Numbers:
        """For each user record, the bytes of its partition key and its explicit hash key together."""
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
        # An aggregate ends in a digest of its message: a payload that only begins like one is left as it is.
        message, digest, end = places[record] + len(MAGIC), places[record + 1] - DIGEST, places[record + 1]
        # An MD5 for security is refused on hosts in FIPS mode.
        if digest <= message or md5(view[message:digest], usedforsecurity=False).digest() != body[digest:end]:
            continue
        if heads := _heads(body, message, digest):
            records.append(record)
            for kind, kind_heads in zip(kinds, heads, strict=True):
                kind.heads += kind_heads
                kind.counts.append(len(kind_heads))
    return _good(body, np.array(records, np.int64), kinds, shard)


def _heads(body: bytes, place: int, end: int) -> tuple[list[int], ...] | None:
    """Where the keys, the hash keys and the user records of a message are; None if it has other parts, or none of the
    last kind."""
    heads = []
    for kind in (_KEY, _HASH_KEY, _RECORD):
        places: list[int] = []
        # This loop is most of the work: one turn for each key and each user record. The digest follows the message, so
        # that the bytes of a length never lie outside of `body`.
        while place < end and body[place] == kind:
            places.append(place)
            size = body[place + 1]
            if size < 128:
                place += 2 + size
                continue
            more = body[place + 2]
            size += (more - 1) << 7
            if more < 128:
                place += 3 + size
                continue
            more = body[place + 3]
            if more > 127:
                return None
            place += 4 + size + ((more - 1) << 14)
        if len(places) > MOST_USER_RECORDS:
            return None
        heads.append(places)
    return tuple(heads) if place == end and heads[-1] else None


def _good(body: bytes, records: _Numbers, kinds: tuple[_Parts, ...], shard: HashRange) -> UserRecords:
    """The user records of those aggregates in which nothing is wrong."""
    numbers = np.frombuffer(body, np.uint8)
    (key_at, key_end, key_counts), (hash_at, hash_end, hash_counts), (begin, end, counts) = (
        kind.places(numbers) for kind in kinds
    )
    of = np.repeat(np.arange(len(records)), counts)
    key, hash_key, data, right = _fields(numbers, begin, end)
    right &= (key < key_counts[of]) & (hash_key < hash_counts[of])
    # From places in the aggregate's own table to places in the table of all.
    key = np.where(right, key + _befores(key_counts)[of], 0)
    hash_key = np.where(right & (hash_key >= 0), hash_key + _befores(hash_counts)[of], -1)
    keys, hash_keys = texts_of(body, key_at, key_end), texts_of(body, hash_at, hash_end)
    right &= inside(keys, hash_keys, np.where(right, key, -1), hash_key, shard)
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


def _fields(body: _Bytes, place: _Numbers, end: _Numbers) -> tuple[_Numbers, _Numbers, _Numbers, _Flags]:
    """For each user record its index of a key, its index of a hash key or -1, where its data begin, and whether it has
    these fields and no others."""
    right = body[place] == _INDEX
    key, place, short = _number(body, place + 1)
    right &= short
    hashed = body[place] == _HASH_INDEX
    hash_key, after, short = _number(body, place + 1)
    right &= short | ~hashed
    place = np.where(hashed, after, place)
    right &= body[place] == _DATA
    size, place, short = _number(body, place + 1)
    right &= short & (place + size == end)
    return key, np.where(hashed, hash_key, -1), place, right


def _number(body: _Bytes, place: _Numbers) -> tuple[_Numbers, _Numbers, _Flags]:
    """The numbers at these places, the places after them, and whether each number has at most three bytes."""
    # Three such numbers take no more than 12 bytes, and at least the 16 bytes of a digest follow the beginning of each
    # user record.
    value, size = body[place].astype(np.int64), np.ones(len(place), np.int64)
    for byte in (1, 2):
        longer = value >= 1 << 7 * byte
        if not longer.any():
            break
        more = body[place + byte].astype(np.int64)
        value = np.where(longer, value + ((more - 1) << 7 * byte), value)
        size += longer
    return value, place + size, value < 1 << 21
