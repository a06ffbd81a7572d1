"""Times that a typed table can hold: those of the years 1 to 9999.

Spark makes times up to the year 294247. The bounds in Iceberg's metadata, and every reader in Python, end with the year
9999. So a row with a time beyond these years must never get into a file: no commit could name the file.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from headrace.pipeline.errors import WrongShape

DAYS = (-719_162, 2_932_896)
"""The first and the last day of the years 1 to 9999, counted from 1970-01-01."""
MICROS = (DAYS[0] * 86_400_000_000, (DAYS[1] + 1) * 86_400_000_000 - 1)


def check_times(names: Sequence[str], columns: Sequence[pa.Array[Any]]) -> None:
    """Raises an error where a row of these columns has a time outside of the years 1 to 9999, before the row is
    written. Headrace's own formats set such rows aside, so that this happens with a function of the user's own
    only.
    """
    for name, column in zip(names, columns, strict=True):
        for times in _times_in(column):
            first, last = DAYS if pa.types.is_date(times.type) else MICROS
            ends: Any = pc.min_max(times.cast(pa.int32() if pa.types.is_date(times.type) else pa.int64()))
            low, high = ends["min"].as_py(), ends["max"].as_py()
            if low is not None and not first <= low <= high <= last:
                raise WrongShape(
                    f"a row came back with a time in the column {name} that is before the year 1 or after the year "
                    "9999. Nothing was committed; give such rows a quarantine_reason, or correct their times"
                )


def _times_in(column: Any) -> Iterator[pa.Array[Any]]:
    """All arrays of times within a column."""
    kind = column.type
    if pa.types.is_date32(kind) or pa.types.is_timestamp(kind):
        yield column
    elif pa.types.is_struct(kind):
        for child in column.flatten():
            yield from _times_in(child)
    elif pa.types.is_map(kind):
        # Arrow keeps keys and items also behind a null map, and what lies there is nobody's value.
        entries = column.filter(column.is_valid())
        yield from _times_in(entries.keys)
        yield from _times_in(entries.items)
    elif pa.types.is_list(kind) or pa.types.is_large_list(kind):
        yield from _times_in(column.flatten())
