"""Decodes many payloads of Avro or Protobuf side by side: each payload is a lane, and one step reads the same
field in all lanes.

A lane whose payload isn't as the schema says, or has a value that the columns can't hold, is marked as left: its
further values are never used, and the library decodes its payload.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

_PADDING = bytes(16)
"""So that no step reads beyond the last payload."""
_LONGEST = 10
"""The most bytes of a number: the last one has a single bit."""

FEWEST = 256
"""Lanes that are worth a step of their own: fewer, such as those with more items in a list than others, are left to the
library."""
_LAST_SHIFT = 63
Lanes = Any
"""Places of lanes, as an array of numpy's."""
Values = Any
"""An array of Arrow's. Its stubs know no types of which only the run tells."""


class NotInLanes(Exception):
    """The schema has a part that only Avro's or Protobuf's own library reads, one payload at a time."""


class Payloads:
    def __init__(self, payloads: Sequence[bytes], header: bytes) -> None:
        content = b"".join([*payloads, _PADDING])
        self.data = np.frombuffer(content, np.uint8)
        self.end = np.cumsum([len(payload) for payload in payloads])
        self.place = np.concatenate([[0], self.end[:-1]]) + len(header)
        self.is_left = self.place > self.end
        if header:
            self.is_left |= [not payload.startswith(header) for payload in payloads]
        # A payload that is shorter than the header has nothing to read, and none of its neighbour's bytes.
        np.minimum(self.place, self.end, out=self.place)

    def leave(self, lanes: Lanes, are_wrong: Any) -> None:
        self.is_left[lanes[are_wrong]] = True

    def step(self, lanes: Lanes, sizes: Any) -> Any:
        """Move each payload's place (its lane) forward by a size in bytes, and return the places before. A lane whose size
        is impossible is marked as left and doesn't move.
        """
        place = self.place[lanes]
        are_wrong = (sizes < 0) | (sizes > self.end[lanes] - place)
        if are_wrong.any():
            self.leave(lanes, are_wrong)
            # The lane stands still from here on, so that a hostile size leads nowhere.
            sizes[are_wrong] = 0
        self.place[lanes] = place + sizes
        return place

    def signed(self, lanes: Lanes) -> Any:
        """Read a signed number in each payload (lane): the zigzag form of Avro and Protobuf, whose lowest bit is the sign."""
        numbers = self.numbers(lanes)
        return (numbers >> np.uint64(1)).astype(np.int64) ^ -(numbers & np.uint64(1)).astype(np.int64)

    def numbers(self, lanes: Lanes, longest: int = _LONGEST) -> Any:
        """Read a number in each payload (lane) that is written in one to `longest` bytes with seven bits each (varint), and
        move the lanes past it.
        """
        place = self.place[lanes]
        byte = self.data[place]
        numbers = (byte & 0x7F).astype(np.uint64)
        sizes = np.ones(len(lanes), np.int64)
        longer = np.flatnonzero(byte >= 0x80)
        for shift in range(7, 7 * longest, 7):
            if not len(longer):
                break
            byte = self.data[place[longer] + shift // 7]
            # The tenth byte has room for one bit of 64: more of them would be lost silently.
            if shift == _LAST_SHIFT:
                self.leave(lanes, longer[byte > 1])
            numbers[longer] |= (byte & 0x7F).astype(np.uint64) << np.uint64(shift)
            sizes[longer] += 1
            longer = longer[byte >= 0x80]
        # No number is this long, so that the payload is damaged or of another format.
        if len(longer):
            self.is_left[lanes[longer]] = True
        self.step(lanes, sizes)
        return numbers

    def pieces(self, lanes: Lanes, sizes: Any) -> tuple[Any, Any]:
        """Read `sizes` bytes in each payload (lane): returns the bytes of all lanes joined, and where the bytes of each
        lane end.
        """
        starts = self.step(lanes, sizes)
        ends = np.concatenate([[0], np.cumsum(sizes)])
        bytes_of = np.arange(ends[-1]) + np.repeat(starts - ends[:-1], sizes)
        return self.data[bytes_of], ends

    def blocks(self, lanes: Lanes, size: int) -> Any:
        """Read `size` bytes in each payload: returns an array with a row of bytes for each of them."""
        starts = self.step(lanes, np.full(len(lanes), size, np.int64))
        # A lane at the end of the last payload has no bytes left; its row is never used.
        starts = np.minimum(starts, len(self.data) - size)
        return np.ascontiguousarray(self.data[starts[:, None] + np.arange(size)])


SchemaPart = Callable[[Payloads, Lanes], Values]
"""Reads one part of a schema: as many values as lanes."""


@dataclass(frozen=True, slots=True)
class FixedNumbers:
    """Numbers of a fixed width, in the byte order of the format."""

    arrow: pa.DataType
    form: str
    """The type of the numbers, as numpy names it."""

    def __call__(self, payloads: Payloads, lanes: Lanes) -> Values:
        numbers = payloads.blocks(lanes, int(self.form[-1])).view(self.form)[:, 0]
        return pa.array(numbers).cast(self.arrow)


def names_at(payloads: Payloads, lanes: Lanes, numbers: Any, are_wrong: Any, names: Values) -> Values:
    """The enum names with these numbers, one for each payload (lane). `are_wrong`: the lanes whose number has no name; they
    are marked as left.
    """
    payloads.leave(lanes, are_wrong)
    numbers[are_wrong] = 0
    return names.take(pa.array(numbers))


def texts_or_bytes(payloads: Payloads, lanes: Lanes, sizes: Any, arrow: pa.DataType) -> Values:
    """Read `sizes` bytes in each payload (lane) as values of the type `arrow`. A lane whose bytes aren't UTF-8, where the
    column is of texts, is marked as left.
    """
    values: Any = _binary(*payloads.pieces(lanes, sizes))
    try:
        return values.cast(arrow)
    except pa.ArrowInvalid:
        are_text = np.array([_is_text(value) for value in values.to_pylist()])
    payloads.leave(lanes, ~are_text)
    return pc.if_else(pa.array(are_text), values, None).cast(arrow)


def _is_text(value: bytes) -> bool:
    try:
        value.decode()
    except UnicodeDecodeError:
        return False
    return True


def _binary(content: Any, ends: Any) -> Values:
    buffers = [None, pa.py_buffer(ends.astype(np.int64)), pa.py_buffer(content)]
    return pa.Array.from_buffers(pa.large_binary(), len(ends) - 1, buffers)


def entries_type(arrow: Any) -> Any:
    """The Arrow type of a map as the type of lists of its entries."""
    return pa.list_(pa.struct([pa.field("key", arrow.key_type), pa.field("value", arrow.item_type)]))


def as_map(payloads: Payloads, lanes: Lanes, entries: Any, arrow: Any) -> Values:
    """Convert lists of entries to maps. A payload (lane) that has a key twice is marked as left to the library."""
    keys, values = entries.flatten().flatten()
    codes = keys.dictionary_encode().indices.to_numpy(zero_copy_only=False)
    owners = np.repeat(np.arange(len(lanes)), np.diff(entries.offsets.to_numpy()))
    pairs = owners * (len(codes) + 1) + np.nan_to_num(codes).astype(np.int64)
    _, first = np.unique(pairs, return_index=True)
    is_again = np.ones(len(pairs), dtype=bool)
    is_again[first] = False
    payloads.is_left[lanes[owners[is_again]]] = True
    if keys.null_count:
        # Of lanes that are left: the key isn't UTF-8.
        keys = keys.fill_null("")
    arrays: Any = pa.MapArray
    return arrays.from_arrays(entries.offsets, keys, values, arrow)
