"""Chooses the requests that read many rows of a table for the fewest read units.

DynamoDB charges each row of a BatchGetItem by itself, at least one unit, and the rows of a Scan by their bytes
together: eight lease rows make one unit. But a Scan reads all rows, also those of other workers.
"""

from __future__ import annotations

from math import ceil
from typing import Final

_ROWS_A_UNIT: Final = 4
"""Rows that one unit of a consistent scan reads at least: a lease row has about half a KB, and up to one where it has a
failure's text."""
_ENOUGH: Final = 16
"""So many keys are worth a scan of a table of which nothing tells the size: a new one. The scan then tells it."""


def is_scan_cheaper(keys: int, rows: int | None) -> bool:
    """Whether a consistent scan of the table costs less than reading this number of keys.

    `rows`: how many the table has, about; None where nothing tells.
    """
    if rows is None:
        return keys >= _ENOUGH
    return max(1, ceil(rows / _ROWS_A_UNIT)) < keys
