"""What is raised where a value of a JSON payload doesn't fit its column, and what else says so."""

from __future__ import annotations

import msgspec
import pyarrow as pa


class Unfit(ValueError):
    """A value doesn't fit its column."""


class OutsideYears(Unfit):
    """A time before the year 1 or after the year 9999: readers of Iceberg tables end there."""


NO_PAYLOAD_FITS = (msgspec.MsgspecError, RecursionError, UnicodeDecodeError)
"""What msgspec raises for a payload that isn't JSON, or doesn't have the types that it was told."""
NO_VALUE_FITS = (pa.ArrowException, OverflowError, RecursionError, TypeError, ValueError)
"""What the columns of `json_kinds` raise."""
