"""The work of the Spark tasks that look at JSON payloads for columns that a typed table lacks, as a plain function."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

import pyarrow as pa
import pyarrow.compute as pc

from headrace.pipeline.typed.json.columns import Limits, Struct
from headrace.pipeline.typed.json.facts import Fact, counted_facts, facts_of
from headrace.pipeline.typed.json.rules import object_in


def facts_in(batches: Iterable[pa.RecordBatch], columns: Struct, limits: Limits) -> Counter[Fact]:
    """What the payloads have and the columns lack. `batches`: as `parse_read.read_units` gives them."""
    return counted_facts(facts_of(payload, columns, limits) for payload in _payloads(batches))


def _payloads(batches: Iterable[pa.RecordBatch]) -> Iterator[dict[str, object]]:
    for batch in batches:
        errors = pc.coalesce(batch["decode_error"], batch["json_error"])
        for data, error in zip(batch["data"], errors, strict=True):
            found = object_in(data.as_py()) if error.as_py() is None else None
            if found is not None:
                yield found
