"""Payloads through a decoder, as the writing tasks see them."""

from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
from pyiceberg.io.pyarrow import schema_to_pyarrow
from pyiceberg.schema import Schema, assign_fresh_schema_ids
from pyiceberg.types import NestedField

from headrace.pipeline.typed.columns.spark_types import iceberg_type
from headrace.pipeline.typed.formats.decoder import Decoder
from headrace.pipeline.typed.tasks.decode import rows_of_payloads


def arrow_of(decoder: Decoder) -> pa.Schema:
    """The decoder's columns as those of a table's files."""
    fields = [
        NestedField(number, name, iceberg_type(spark))
        for number, (name, spark) in enumerate(decoder.columns(), start=1)
    ]
    return schema_to_pyarrow(assign_fresh_schema_ids(Schema(*fields)))


def parts_of(decoder: Decoder, payloads: Sequence[bytes | None]) -> Iterator[pa.RecordBatch]:
    """What is decoded at once, one after the other."""
    return rows_of_payloads([landed(payloads)], decoder, arrow_of(decoder), keeps_payloads=False)


def landed(payloads: Sequence[bytes | None]) -> pa.RecordBatch:
    """As the tasks read the lake table."""
    nothing: list[str | None] = [None] * len(payloads)
    columns: dict[str, pa.Array[Any]] = {
        "record": pa.array(range(len(payloads))),
        "data": pa.array(payloads, pa.binary()),
        "decode_error": pa.array(nothing, pa.string()),
        "landed": pa.array(nothing, pa.binary()),
    }
    return pa.record_batch(columns)


def reasons_of(decoder: Decoder, payloads: Sequence[bytes | None]) -> list[str | None]:
    """Why payloads aren't rows. The rows don't become Python's values."""
    return [reason for part in parts_of(decoder, payloads) for reason in part["reason"].to_pylist()]


def rows_of(decoder: Decoder, payloads: Sequence[bytes | None]) -> list[dict[str, Any]]:
    """`row`, `reason` and `data` of each payload."""
    found = [row for part in parts_of(decoder, payloads) for row in part.to_pylist()]
    assert [row["record"] for row in found] == list(range(len(payloads)))
    assert all((row["row"] is None) == (row["reason"] is not None) for row in found)
    assert [row["data"] for row in found if row["reason"]] == [
        payload for row, payload in zip(found, payloads, strict=True) if row["reason"]
    ]
    return found
