"""Texts with a time of day and no date, such as `10:00`, where the column is a timestamp. Spark takes the day on which it reads them, so that the
same payload would become another row tomorrow.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from headrace.pipeline.typed.json.walk import has_value, kinds_with

NO_DATE = "a text for a timestamp column has a time of day without a date"
_NO_DATE = re.compile(r"[\x00-\x20]*(?:T[0-9]|[0-9]{1,2}:)")
_MAYBE = re.compile(rb'"[\x00-\x20]*(?:T[0-9]|[0-9]{1,2}:|\\)|\\u00(?:3|54)')
"""In the payload. Each character of a text may be written as an escape."""


@dataclass(frozen=True, slots=True)
class JsonTimes:
    """The timestamp columns of a table. It can be pickled."""

    columns: tuple[tuple[str, Any], ...]
    """Names, and types as Spark writes them in JSON."""
    _kinds: Mapping[str, Any] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        # A timestamp_ntz column takes no such text.
        object.__setattr__(self, "_kinds", kinds_with(_is_timestamp, self.columns))

    def have_no_date(self, payload: bytes) -> bool:
        """`payload`: one JSON value."""
        return bool(self._kinds and _MAYBE.search(payload)) and has_value(payload, self._kinds, _lacks_date)


def _is_timestamp(kind: str) -> bool:
    return kind == "timestamp"


def _lacks_date(value: Any, kind: str) -> bool:
    # Numbers are texts here, and none of them has a colon.
    return _is_timestamp(kind) and isinstance(value, str) and _NO_DATE.match(value) is not None
