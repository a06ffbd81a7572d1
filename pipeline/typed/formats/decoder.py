"""The interface of a decoder for payloads of one format, which those of JSON, Avro and Protobuf have in common."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Protocol

import pyarrow as pa

Payloads = Sequence[bytes | None]
"""None where nobody asks for the row."""
Reasons = list[str | None]
"""Why payloads can't be rows, in words for the quarantine table; None where nothing is wrong."""
Read = Callable[[Payloads], Iterator[tuple["pa.Array[Any]", Reasons]]]
"""From payloads to their rows, in their order: arrays that together are as long as the payloads. A row with a reason is
null."""


class Decoder(Protocol):
    """Decodes payloads of one format. An instance can be pickled, because Spark's tasks get it."""

    def columns(self) -> list[tuple[str, Any]]:
        """The columns with their types, as Spark writes them in JSON. Raises BadSetting."""

    def reading(self, columns: Sequence[pa.Field[Any]]) -> Read:
        """The function that reads payloads into these columns.

        `columns`: those of the table's files. A column that the decoder doesn't have is null.
        """
