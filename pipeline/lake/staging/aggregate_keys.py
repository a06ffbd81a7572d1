"""The partition keys and explicit hash keys in a page's aggregates: as texts, and whether the user records with
them belong to the shard.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from hashlib import md5
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.pipeline.core.shards.shard import HashRange
from headrace.pipeline.kcl.deaggregate import EVERYTHING, hash_of_explicit, java_text

try:
    # Python's own MD5 takes half the time of OpenSSL's for a text as short as a key. Some distributions leave it out.
    from _md5 import md5 as short_md5  # type: ignore[import-not-found] # typeshed doesn't know it
except ImportError:
    short_md5 = partial(md5, usedforsecurity=False)

_Numbers = np.ndarray[Any, np.dtype[np.int64]]
_Flags = np.ndarray[Any, np.dtype[np.bool_]]


@dataclass(frozen=True, slots=True)
class Texts:
    """The partition keys or hash keys of many aggregates, one aggregate's table after the other."""

    values: Any
    """In Arrow, as text."""
    sizes: _Numbers
    """Bytes of each, and a 0 at the end: the size of no key."""

    def each(self, chosen: _Numbers) -> list[bytes]:
        return _bytes(self.values.take(pa.array(chosen)))


def texts_of(body: bytes, begins: _Numbers, ends: _Numbers) -> Texts:
    raw = cut_bytes(pa.py_buffer(body), begins, ends)
    try:
        values = raw.cast(pa.string())
    except pa.ArrowInvalid:
        # A key that isn't UTF-8 reads as KCL reads it.
        values = pa.array([java_text(key) for key in raw.to_pylist()], pa.string())
    return Texts(
        values, np.append(pc.binary_length(values).to_numpy(zero_copy_only=False), 0).astype(np.int64)
    )


def _bytes(texts: Any) -> list[bytes]:
    keys: list[bytes] = texts.cast(pa.binary()).to_pylist()
    return keys


def cut_bytes(data: pa.Buffer, begins: _Numbers, ends: _Numbers) -> Any:
    """These parts of the bytes, as the values of an Arrow column. The parts are in order and don't overlap."""
    if not len(begins):
        return pa.array([], pa.binary())
    # An array over all bytes, in which each second item is a part and the others are the bytes between two parts. Arrow
    # then copies the parts together.
    bounds: Any = np.empty(2 * len(begins), np.int32)
    bounds[0::2], bounds[1::2] = begins, ends
    pieces = pa.Array.from_buffers(pa.binary(), len(bounds) - 1, [None, pa.py_buffer(bounds), data])
    return pieces.take(np.arange(0, len(bounds), 2, dtype=np.int32))


def inside(keys: Texts, hash_keys: Texts, key: _Numbers, hash_key: _Numbers, shard: HashRange) -> _Flags:
    """Whether the hash key of each user record is a number within the shard's range. An explicit hash key counts
    before the partition key.
    """
    by_hash, by_key = (np.ones(len(texts.sizes), np.bool_) for texts in (hash_keys, keys))
    used = _distinct(hash_key, len(by_hash))
    by_hash[used] = [_is_inside(text, shard) for text in hash_keys.each(used)] if len(used) else True
    used = _distinct(np.where(hash_key < 0, key, -1), len(by_key))
    if shard != EVERYTHING and len(used):
        by_key[used] = _keys_inside(keys.values.take(pa.array(used)), shard)
    flags: _Flags = np.where(hash_key < 0, by_key[key], by_hash[hash_key])
    return flags


def _keys_inside(keys: Any, shard: HashRange) -> _Flags:
    """Whether the hash keys of these partition keys are inside of the shard."""
    # To find equal keys costs a quarter of hashing each. A part of the keys tells whether that is worth it.
    sample = keys.slice(0, len(keys) // 16)
    if pc.count_distinct(sample).as_py() > len(sample) * 3 // 4:
        return _between([short_md5(key).digest() for key in _bytes(keys)], shard)
    distinct = keys.dictionary_encode()
    inside = _between([short_md5(key).digest() for key in _bytes(distinct.dictionary)], shard)
    chosen: _Flags = inside[distinct.indices.to_numpy()]
    return chosen


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
