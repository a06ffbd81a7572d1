"""The documents that driver and executors exchange when payloads are parsed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from headrace.pipeline.lake.staging.stage_codec import decode, encode
from headrace.pipeline.typed.json.facts import Fact
from headrace.pipeline.typed.values import Parsed, Survey


def encode_survey(survey: Survey) -> bytes:
    return encode(survey)


def decode_survey(text: bytes) -> Survey:
    return decode(text, Survey)


def encode_parsed(parsed: Parsed) -> bytes:
    return encode(parsed)


def decode_parsed(text: bytes) -> Parsed:
    return decode(text, Parsed)


def encode_facts(facts: Mapping[Fact, int]) -> bytes:
    return encode([(path, kind, count) for (path, kind), count in facts.items()])


def decode_facts(text: bytes) -> Counter[Fact]:
    decoded = decode(text, list[tuple[tuple[str | None, ...], str, int]])
    return Counter({(path, kind): count for path, kind, count in decoded})
