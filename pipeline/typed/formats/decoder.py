"""What decodes payloads of one format: the form that Avro and Protobuf have in common."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

Decode = Callable[[bytes], tuple[dict[str, Any], float]]
"""From a payload to its row, and to the payload's share of what may be decoded at once."""


class CantDecode(Exception):
    """The reason, in words for the quarantine table."""


class Decoder(Protocol):
    """How payloads of one format are decoded. It can be pickled."""

    @property
    def most_values(self) -> int:
        """The most values that one payload may make."""

    def columns(self) -> list[tuple[str, Any]]:
        """The columns with their types, as Spark writes them in JSON. Raises BadSetting."""

    def reading(self) -> Decode:
        """A function that raises CantDecode, TooManyValues, or any error of the format's library."""
