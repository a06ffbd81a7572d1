"""The JSON document by which a Spark task reports the values that it has seen in payloads, for a table whose
columns evolve.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from headrace.pipeline.lake.staging.stage_codec import decode, encode
from headrace.pipeline.typed.json.facts import Fact


def encode_facts(facts: Mapping[Fact, int]) -> bytes:
    return encode([(path, kind, count) for (path, kind), count in facts.items()])


def decode_facts(text: bytes) -> Counter[Fact]:
    decoded = decode(text, list[tuple[tuple[str | None, ...], str, int]])
    return Counter({(path, kind): count for path, kind, count in decoded})
