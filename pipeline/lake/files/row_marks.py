"""Computes a number for each row from its sequence number and other columns. If the sums of these numbers are
equal, two sets of rows are the same.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

_CHUNK = 18
"""Digits of a sequence number that fit into 64 bits."""
_ODD = 0x9E3779B97F4A7C15
"""An odd number near 2^64 divided by the golden ratio: multiplied by it, neighbouring numbers get bits that differ
everywhere."""


def marks(sequence: Any, *columns: Any) -> Any:
    """A number for each row, a hash of these columns, so that sets of rows are compared without comparing texts.

    `sequence`: texts of digits. `columns`: columns of whole numbers. Leading zeros don't change a row's number.
    """
    number: Any = pc.fill_null(sequence, "")
    length: Any = pc.max(pc.binary_length(number))
    chunks = -(-(length.as_py() or 1) // _CHUNK)
    number = pc.utf8_lpad(number, chunks * _CHUNK, padding="0")
    mark: Any = pa.scalar(0, pa.uint64())
    for start in range(0, chunks * _CHUNK, _CHUNK):
        digits = pc.utf8_slice_codeunits(number, start, start + _CHUNK)
        mark = _mixed(mark, pc.cast(digits, pa.uint64()))
    filler: Any = -1
    for column in columns:
        mark = _mixed(mark, pc.cast(pc.fill_null(column, filler), pa.uint64(), safe=False))
    return mark


def _mixed(mark: Any, value: Any) -> Any:
    # Without checks for overflow, pyarrow's product wraps around at 2^64.
    product = pc.multiply(pc.bit_wise_xor(mark, value), pa.scalar(_ODD, pa.uint64()))
    return pc.bit_wise_xor(product, pc.shift_right(product, pa.scalar(29, pa.uint64())))
