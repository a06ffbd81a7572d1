"""The documents that driver and executors exchange when tables are proved and compared."""

from __future__ import annotations

from collections.abc import Sequence

from headrace.pipeline.lake.staging.stage_codec import decode, encode
from headrace.pipeline.proof.patterns import Pattern
from headrace.pipeline.proof.spans import Doubled, FileCount


def encode_counts(counts: Sequence[FileCount]) -> bytes:
    return encode(tuple(counts))


def decode_counts(text: bytes) -> tuple[FileCount, ...]:
    return decode(text, tuple[FileCount, ...])


def encode_doubled(doubled: Doubled) -> bytes:
    return encode(doubled)


def decode_doubled(text: bytes) -> Doubled:
    return decode(text, Doubled)


def encode_patterns(patterns: Sequence[Pattern]) -> bytes:
    return encode(tuple(patterns))


def decode_patterns(text: bytes) -> tuple[Pattern, ...]:
    return decode(text, tuple[Pattern, ...])
