"""The exceptions that say that a value of a JSON payload doesn't fit its column."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import msgspec

NO_PAYLOAD_FITS = (msgspec.MsgspecError, RecursionError, UnicodeDecodeError)
"""What msgspec raises for a payload that isn't JSON, or hasn't the types that it was told."""
OUTSIDE_YEARS = "has a time before the year 1 or after the year 9999; a number is read as seconds since 1970"
"""Why a time doesn't fit that its column could hold: readers of Iceberg tables end there."""
Values = Any
"""An array of Arrow's. Its stubs know no types of which only the run tells."""
_T = TypeVar("_T")


class Unfit(ValueError):
    """One value doesn't fit its column. The argument, if there is one, is the reason, as words that follow the
    name of the column.
    """


class UnfitValues(Exception):
    """Some of a column's values don't fit; `places` has which ones, each with its reason."""

    def __init__(self, places: Mapping[int, str | None]) -> None:
        super().__init__(places)
        self.places = places
        """The place of each of these values, and why it doesn't fit where there is more to say."""


def converted(values: Sequence[Any], convert: Callable[[Any], _T]) -> list[_T | None]:
    """The values, each converted by itself. Raises UnfitValues with all that don't fit, so that the caller
    needn't try the column again for each of them.
    """
    results: list[_T | None] = []
    places: dict[int, str | None] = {}
    for place, value in enumerate(values):
        try:
            results.append(None if value is None else convert(value))
        except (ArithmeticError, ValueError, RecursionError) as error:
            places[place] = str(error) if isinstance(error, Unfit) and error.args else None
    if places:
        raise UnfitValues(places)
    return results
