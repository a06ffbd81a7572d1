"""The work of the Spark tasks that search JSON payloads for fields which a typed table has no columns for, as
plain functions.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from headrace.pipeline.typed.json.column_types import struct_of_fields
from headrace.pipeline.typed.json.columns import Limits
from headrace.pipeline.typed.json.facts import OBJECT, Fact, counted_facts, facts_of
from headrace.pipeline.typed.json.kinds import columns_kind
from headrace.pipeline.typed.json.text import object_in
from headrace.pipeline.typed.json.unfit import NO_PAYLOAD_FITS
from headrace.pipeline.typed.json.values import JsonValues

_FEW = 1000
"""Payloads that are copied out of Arrow at once."""
_NOTHING_NEW = frozenset({OBJECT})


@dataclass(frozen=True, slots=True)
class Looking:
    """The columns with which tasks compare payloads, to find fields that the columns lack. It can be pickled."""

    fields: tuple[Mapping[str, Any], ...]
    """The columns, as fields of a struct, as Spark writes them in JSON."""
    columns: pa.Schema
    """The columns as Arrow has them."""
    limits: Limits
    most_values: int

    def facts(self) -> Callable[[bytes], frozenset[Fact]]:
        """A function that gives what a payload has and the columns lack; empty for a payload that can't become a
        row.
        """
        values = JsonValues(
            tuple((column["name"], column["type"]) for column in self.fields), self.most_values
        )
        known, exact = struct_of_fields(self.fields), self._exact()

        def facts(payload: bytes) -> frozenset[Fact]:
            if values.are_too_many(payload):
                return frozenset()
            if exact is not None:
                try:
                    # The strict decoder refuses each payload with a field that is no column. Where
                    # it takes a payload there is nothing new in it, and nearly all payloads end
                    # here, without a search through their fields.
                    exact(payload)
                except NO_PAYLOAD_FITS:
                    pass
                else:
                    return _NOTHING_NEW
            content = object_in(payload)
            return frozenset() if content is None else facts_of(content, known, self.limits)

        return facts

    def _exact(self) -> Callable[[bytes], Any] | None:
        kind = columns_kind(self.fields, list(self.columns), is_whole=True)
        return kind.decoding_exactly() if kind.tells_all else None


def facts_in(batches: Iterable[pa.RecordBatch], looking: Looking) -> Counter[Fact]:
    """What the payloads have and the columns lack, each with its number of payloads. `batches`: as
    `parse_read.read_units` gives them.
    """
    return counted_facts(map(looking.facts(), _payloads(batches)))


def _payloads(batches: Iterable[pa.RecordBatch]) -> Iterator[bytes]:
    for batch in batches:
        for start in range(0, batch.num_rows, _FEW):
            few = batch.slice(start, _FEW)
            for payload, error in zip(few["data"].to_pylist(), few["decode_error"].to_pylist(), strict=True):
                if payload is not None and error is None:
                    yield payload
