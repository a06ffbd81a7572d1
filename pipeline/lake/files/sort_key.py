"""The column `sort_key`: a text by which the records of a shard sort in their order, in every engine.

    003:749:0000000000000000012
    |   |   `-- sub-sequence number, 19 digits
    |   `------ sequence number
    `---------- how many digits the sequence number has

Sequence numbers have up to 56 digits today, and 129 by Kinesis's API: too many for any decimal type, and as texts of
different lengths they sort wrongly. The lineage table's `sort_key` of a position has the same form with an end
(`order_text`), so that `sort_key > after.sort_key AND sort_key <= upto.sort_key` finds the records of a range.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.pipeline.encoding.plain_arrow import one_text

SORT_KEY = "sort_key"
_MOST_DIGITS: Final = 999
_MOST_BYTES: Final = 2**31 - 1
"""Arrow's offsets have 32 bits."""


def with_sort_key_column(read: pa.Schema) -> pa.Schema:
    """The schema `read` with the column `sort_key` added."""
    return read.append(pa.field(SORT_KEY, pa.string()))


def with_sort_key(rows: pa.Table) -> pa.Table:
    """The rows with the column `sort_key` added."""
    return rows.append_column(SORT_KEY, sort_keys(rows["sequence_number"], rows["sub_sequence_number"]))


def sort_keys(sequence: Any, sub: Any) -> Any:
    """The sort keys of rows, made of their columns of sequence numbers and sub-sequence numbers; null where a row
    has no sequence number. Chunked columns give a chunked column.
    """
    keys = _of_equal_lengths(sequence, sub)
    if keys is None:
        return _one_by_one(sequence, sub)
    return pa.chunked_array([keys]) if isinstance(sequence, pa.ChunkedArray) else keys


def _of_equal_lengths(sequence: Any, sub: Any) -> Any:
    """The sort keys of records that aren't user records, and whose numbers have the same count of digits without a zero
    before them, as almost all have: a sixth of the time. None for other records."""
    numbers = sequence.combine_chunks() if isinstance(sequence, pa.ChunkedArray) else sequence
    count = len(numbers)
    # More than 2 GiB of text stay in several pieces.
    if not count or not isinstance(numbers, pa.StringArray) or numbers.null_count or sub.null_count:
        return None
    places: Any = pc.min_max(sub).as_py()
    # User records of aggregates: their numbers within the aggregate differ.
    if places["min"] or places["max"]:
        return None
    memory: Any = numbers.buffers()
    ends = np.frombuffer(memory[1], np.int32)[numbers.offset : numbers.offset + count + 1]
    digits = int(ends[1] - ends[0])
    if not 0 < digits <= _MOST_DIGITS or (np.diff(ends) != digits).any():
        return None
    texts = np.frombuffer(memory[2], np.uint8)[ends[0] : ends[-1]].reshape(-1, digits)
    # Such a number counts fewer digits than it has, which only the slow way finds out.
    if (texts[:, 0] == ord("0")).any():
        return None
    form = f"{digits:03}:{'0' * digits}:{'0' * 19}".encode()
    if count * len(form) > _MOST_BYTES:
        return None
    keys: Any = np.empty((count, len(form)), np.uint8)
    keys[:] = np.frombuffer(form, np.uint8)
    keys[:, 4 : 4 + digits] = texts
    bounds: Any = np.arange(0, keys.size + 1, len(form), dtype=np.int32)
    return pa.Array.from_buffers(pa.string(), count, [None, pa.py_buffer(bounds), pa.py_buffer(keys)])


def _one_by_one(sequence: Any, sub: Any) -> Any:
    # A leading zero would make a number longer than a greater one.
    digits = pc.ascii_ltrim(sequence, "0")
    length = pc.utf8_lpad(pc.cast(pc.binary_length(digits), pa.string()), 3, "0")
    within = pc.fill_null(pc.utf8_lpad(pc.cast(sub, pa.string()), 19, "0"), one_text("0" * 19))
    return pc.binary_join_element_wise(length, digits, within, one_text(":"))
