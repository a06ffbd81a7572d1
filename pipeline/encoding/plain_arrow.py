"""Makes Arrow arrays directly from buffers, for the work that every staging task does.

`pa.array` and `pa.scalar` convert Python values, and import pandas for it where pandas is installed: a third of a
CPU second in each new Spark worker. Arrays of numpy and columns of equal values need no conversion.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

if TYPE_CHECKING:
    import pyarrow as pa

_VIEW: Final = 16
"""Bytes of a view in Arrow's columns of views: the item's length and first four bytes, the number of a buffer, and the
place there."""
_WITHIN: Final = 12
"""An item of up to so many bytes is within its view."""


def of_numpy(values: np.ndarray[Any, Any], type_: pa.DataType) -> Any:
    """These numbers as an Arrow array, without a copy. `type_`: an Arrow type whose values have the same bytes in
    memory as numpy's.
    """
    import pyarrow as pa

    # Arrow takes memory as it is, so that numbers of another width would be read as others.
    if values.dtype.itemsize * 8 != type_.bit_width or not values.flags.c_contiguous:
        raise TypeError(f"{values.dtype} doesn't lie in memory as {type_} does")
    memory: Any = values  # stubs of pyarrow do not know that it takes arrays of numpy
    return pa.Array.from_buffers(type_, len(memory), [None, pa.py_buffer(memory)])


def same_text(text: str, count: int) -> Any:
    """A column with the same text in each row."""
    import pyarrow as pa

    encoded = text.encode()
    offsets = (
        np.arange(0, (count + 1) * len(encoded), len(encoded), dtype=np.int32)
        if encoded
        else np.zeros(count + 1, np.int32)
    )
    memory: Any = offsets
    buffers = [None, pa.py_buffer(memory), pa.py_buffer(encoded * count)]
    return pa.Array.from_buffers(pa.string(), count, buffers)


def views(memory: bytes | bytearray, begin: np.ndarray[Any, Any], end: np.ndarray[Any, Any]) -> Any:
    """A column of the bytes that `memory` has from each place in `begin` to before the one in `end`. They stay where
    they are: the column has only views of them."""
    import pyarrow as pa

    lengths = end - begin
    table: Any = np.zeros((len(lengths), _VIEW // 4), np.int32)
    table[:, 0] = lengths
    is_long = lengths > _WITHIN
    starts = begin[is_long]
    # Overlapping words, one at each byte: so the first four bytes of all items are taken in one step.
    words: Any = np.ndarray((max(0, len(memory) - 3),), np.int32, memory, strides=(1,))
    table[is_long, 1] = words[starts]
    table[is_long, 3] = starts
    if memory and not is_long.all():
        short, size = begin[~is_long, np.newaxis], lengths[~is_long, np.newaxis]
        places, letters = np.arange(_WITHIN), np.frombuffer(memory, np.uint8)
        # What is beyond an item is made zero: Arrow compares short items with all their bytes.
        taken = letters[np.minimum(short + places, len(memory) - 1)] * (places < size)
        table[~is_long, 1:] = np.ascontiguousarray(taken).view(np.int32)
    return pa.Array.from_buffers(
        pa.binary_view(), len(table), [None, pa.py_buffer(table), pa.py_buffer(memory)]
    )


def bytes_of(column: Any) -> int:
    """The number of bytes of all items in a column of views."""
    return int(_views_of(column)[:, 0].sum(dtype=np.int64))


def begin_with(column: Any, mark: bytes) -> Any:
    """Whether each item in a column of views begins with these four bytes, as a column of booleans."""
    view = _views_of(column)
    begins: Any = (view[:, 0] >= len(mark)) & (view[:, 1] == np.frombuffer(mark, np.int32)[0])
    return begins


def _views_of(column: Any) -> Any:
    """For each item its length, its first four bytes, and where it is."""
    every: Any = np.frombuffer(column.buffers()[1], np.int32).reshape(-1, _VIEW // 4)
    return every[column.offset : column.offset + len(column)]


def one_item(item: bytes) -> Any:
    """A binary Arrow column with one row."""
    import pyarrow as pa

    bounds: Any = np.array([0, len(item)], np.int32)
    return pa.Array.from_buffers(pa.binary(), 1, [None, pa.py_buffer(bounds), pa.py_buffer(item)])


def one_text(text: str) -> Any:
    """This text as an Arrow scalar."""
    return same_text(text, 1)[0]
