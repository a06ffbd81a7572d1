"""The work of the Spark tasks that decode payloads, as a plain function: payloads become the columns of a typed table.

record, data, decode_error, landed  ──►  record, row, reason, data

Payloads are decoded where the rows are written, so that no column passes through the JVM.
"""

from __future__ import annotations

import gc
from collections.abc import Iterable, Iterator
from typing import Any, TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from headrace.pipeline.typed.formats.decoder import Decoder, Payloads, Reasons
from headrace.pipeline.typed.formats.value_limit import BYTES_AT_ONCE
from headrace.pipeline.typed.tasks.write import IS_LEFT_OUT, own_columns

_ROWS = 4000
"""Payloads that are copied out of Arrow at once. Their bytes are limited, too."""
_NO_PAYLOAD = "the record has no payload"

_T = TypeVar("_T")


def rows_of_payloads(
    batches: Iterable[pa.RecordBatch], decoder: Decoder, columns: pa.Schema, *, keeps_payloads: bool
) -> Iterator[pa.RecordBatch]:
    """The records as rows of the typed table, or with the reason for which they go to quarantine.

    `columns`: those of the typed table's files. Records that a filter leaves out aren't decoded. `keeps_payloads`: rows
    without a reason have their payloads, too, because some may get a reason afterwards.
    """
    read = decoder.reading(own_columns(columns))
    for batch in batches:
        start = 0
        for part in _parts(batch):
            payloads, known = _known(part)
            for rows, reasons in _without_collections(read(payloads)):
                earlier, known = known[: len(reasons)], known[len(reasons) :]
                whole = [why or reason for why, reason in zip(earlier, reasons, strict=True)]
                yield _with_rows(batch.slice(start, len(reasons)), rows, whole, keeps_payloads=keeps_payloads)
                start += len(reasons)


def _without_collections(parts: Iterator[_T]) -> Iterator[_T]:
    """These parts, made while Python doesn't look for cycles: values of payloads have none, and looking takes as long
    as decoding."""
    while True:
        was_on = gc.isenabled()
        gc.disable()
        try:
            # Only one part's values of Python are there at a time: none is kept while the next part is decoded.
            part = next(parts, None)
        finally:
            if was_on:
                gc.enable()
        if part is None:
            return
        yield part


def _parts(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    # Bounded by bytes as well as by rows: values of Python take many times the bytes of their
    # payloads.
    at_once = max(1, min(_ROWS, batch.num_rows * BYTES_AT_ONCE // max(1, batch["data"].nbytes)))
    for start in range(0, batch.num_rows, at_once):
        yield batch.slice(start, at_once)


def _known(batch: pa.RecordBatch) -> tuple[Payloads, Reasons]:
    """The payloads, and the reasons that are known without decoding them."""
    payloads, reasons = batch["data"].to_pylist(), batch["decode_error"].to_pylist()
    left_out = batch[IS_LEFT_OUT].to_pylist() if IS_LEFT_OUT in batch.schema.names else None
    if (
        left_out is None
        and not batch["data"].null_count
        and batch["decode_error"].null_count == batch.num_rows
    ):
        return payloads, reasons
    for place, payload in enumerate(payloads):
        if left_out and left_out[place]:
            payloads[place] = reasons[place] = None
        # A record that couldn't be taken apart or inflated keeps that reason. Its bytes aren't the
        # payload that the schema speaks of.
        elif reasons[place] is not None:
            payloads[place] = None
        elif payload is None:
            reasons[place] = _NO_PAYLOAD
    return payloads, reasons


def _with_rows(
    batch: pa.RecordBatch, rows: pa.Array[Any], reasons: Reasons, *, keeps_payloads: bool
) -> pa.RecordBatch:
    why: Any = pa.array(reasons, pa.string())
    aside: Any
    if keeps_payloads:
        aside = pc.coalesce(batch["landed"], batch["data"])
    elif why.null_count == len(why):
        aside = pa.nulls(len(why), pa.binary())
    else:
        numbered = enumerate(reasons)
        aside = pa.array(
            [None if reason is None else _as_landed(batch, place) for place, reason in numbered], pa.binary()
        )
    columns = [batch["record"], rows, why, aside]
    names = ["record", "row", "reason", "data"]
    if IS_LEFT_OUT in batch.schema.names:
        columns.append(batch[IS_LEFT_OUT])
        names.append(IS_LEFT_OUT)
    return pa.RecordBatch.from_arrays(columns, names=names)


def _as_landed(batch: pa.RecordBatch, place: int) -> bytes | None:
    landed: bytes | None = batch["landed"][place].as_py()
    payload: bytes | None = batch["data"][place].as_py()
    return payload if landed is None else landed
