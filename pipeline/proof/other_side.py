"""What a person has said about the output of another consumer of the same stream, with which the lake table is
compared.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from headrace.pipeline.core.shards.stream import StreamId


class PayloadForm(StrEnum):
    """In which form a column of the other consumer's output holds a record's payload."""

    BINARY = "binary"
    """The bytes themselves; in a column of text, its bytes in UTF-8."""
    BASE64 = "base64"
    HEX = "hex"
    SHA256 = "sha256"
    """The SHA-256 of the bytes, as hexadecimal digits."""


@dataclass(frozen=True, slots=True)
class OtherColumns:
    """The columns of the other consumer's output that identify the record of a row."""

    shard: str
    number: str
    sub: str | None = None
    data: str | None = None
    """The column with the payload. None: payloads aren't compared."""
    form: PayloadForm = PayloadForm.BINARY

    @property
    def named(self) -> tuple[tuple[str, str], ...]:
        """For each column that was given: the option by which it was named, and its name."""
        options = (
            ("--shard", self.shard),
            ("--number", self.number),
            ("--sub", self.sub),
            ("--data", self.data),
        )
        return tuple((option, name) for option, name in options if name is not None)


@dataclass(frozen=True, slots=True)
class ConsumerRows:
    """What is known of the rows of the other consumer: all are of one stream."""

    stream: StreamId
    columns: OtherColumns
