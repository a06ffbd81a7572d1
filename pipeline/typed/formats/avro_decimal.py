"""Decimals in Avro payloads: one that has more digits than its type allows is refused before its digits are
computed.

An Avro decimal is a whole number in bytes, of any length. To make decimal digits of it takes Python a time that
grows with the square of the length: two minutes for a megabyte. fastavro does so before it looks at the type's
precision.
"""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from typing import Any

from headrace.pipeline.typed.formats.rows import CantDecode

_DECIMAL, _BOUNDED = "decimal", "headrace-decimal"


def bounded(schema: Any) -> Any:
    """The schema, for fastavro to parse, changed so that this module reads its decimals. Other code that uses
    fastavro in the same process isn't affected.
    """
    from fastavro.read import LOGICAL_READERS

    for kind in ("bytes", "fixed"):
        # fastavro has one table of readers for the whole process, so that the bounded ones get a
        # name of their own.
        LOGICAL_READERS[f"{kind}-{_BOUNDED}"] = _reader_of(LOGICAL_READERS[f"{kind}-{_DECIMAL}"])
    return _renamed(schema)


def _renamed(schema: Any) -> Any:
    if isinstance(schema, list):
        return [_renamed(branch) for branch in schema]
    if not isinstance(schema, dict):
        return schema
    own = {
        name: _renamed(value) if name in ("type", "items", "values", "fields") else value
        for name, value in schema.items()
    }
    return {**own, "logicalType": _BOUNDED} if own.get("logicalType") == _DECIMAL else own


def _reader_of(read: Any) -> Any:
    """The reader of decimals that keeps the limits of a decimal column.

    `read`: fastavro's own reader of such decimals.
    """

    def read_bounded(content: bytes, writer: Mapping[str, Any], reader: Any = None) -> Decimal:
        precision = writer["precision"]
        # Compared as whole numbers: making the decimal digits first is what takes minutes.
        if abs(int.from_bytes(content, "big", signed=True)) >= 10**precision:
            raise CantDecode(
                f"a decimal of the payload doesn't fit its type: it has more than {precision} digits"
            )
        number: Decimal = read(content, writer, reader)
        return number

    return read_bounded
