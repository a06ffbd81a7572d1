"""The documents that driver and executors exchange: JSON with a version number.

Not pickle, so that an executor with another version of Headrace gets a clear error instead of a broken object. Not
MessagePack, because sequence numbers have 186 bits and its integers at most 64.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TypeVar

import msgspec

from headrace.pipeline.core.batch import Batch, Manifest
from headrace.pipeline.core.json_facts import Fact
from headrace.pipeline.core.parse_values import Parsed, Survey
from headrace.pipeline.core.proof_rows import Doubled, FileCount
from headrace.pipeline.core.rewriting import Rewritten
from headrace.pipeline.core.row_patterns import Pattern
from headrace.pipeline.errors import WrongShape

_VERSION = 1
_MOST_BYTES = 512 * 1024 * 1024
"""The most bytes of one task's manifest. Thousands of shards with their files' footers take a few MB."""

_T = TypeVar("_T")


def encode_batches(batches: Sequence[Batch]) -> bytes:
    return _encode(tuple(batches))


def decode_batches(text: bytes) -> tuple[Batch, ...]:
    return _decode(text, tuple[Batch, ...])


def encode_manifest(manifest: Manifest) -> bytes:
    return _encode(manifest)


def decode_manifest(text: bytes) -> Manifest:
    return _decode(text, Manifest)


def encode_rewritten(rewritten: Rewritten) -> bytes:
    return _encode(rewritten)


def decode_rewritten(text: bytes) -> Rewritten:
    return _decode(text, Rewritten)


def encode_counts(counts: Sequence[FileCount]) -> bytes:
    return _encode(tuple(counts))


def decode_counts(text: bytes) -> tuple[FileCount, ...]:
    return _decode(text, tuple[FileCount, ...])


def encode_doubled(doubled: Doubled) -> bytes:
    return _encode(doubled)


def decode_doubled(text: bytes) -> Doubled:
    return _decode(text, Doubled)


def encode_patterns(patterns: Sequence[Pattern]) -> bytes:
    return _encode(tuple(patterns))


def decode_patterns(text: bytes) -> tuple[Pattern, ...]:
    return _decode(text, tuple[Pattern, ...])


def encode_survey(survey: Survey) -> bytes:
    return _encode(survey)


def decode_survey(text: bytes) -> Survey:
    return _decode(text, Survey)


def encode_parsed(parsed: Parsed) -> bytes:
    return _encode(parsed)


def decode_parsed(text: bytes) -> Parsed:
    return _decode(text, Parsed)


def encode_facts(facts: Mapping[Fact, int]) -> bytes:
    return _encode([(path, kind, count) for (path, kind), count in facts.items()])


def decode_facts(text: bytes) -> Counter[Fact]:
    found = _decode(text, list[tuple[tuple[str | None, ...], str, int]])
    return Counter({(path, kind): count for path, kind, count in found})


def _encode(content: object) -> bytes:
    return msgspec.json.encode({"version": _VERSION, "content": content})


class _Envelope(msgspec.Struct):
    version: int
    content: msgspec.Raw


def _decode(text: bytes, what: type[_T]) -> _T:
    if len(text) > _MOST_BYTES:
        raise WrongShape(
            f"a staging task sent a document of {len(text):,} bytes, far larger than a real one. Nothing was committed"
        )
    try:
        # The content stays raw until the version is known: a newer version may have another form.
        envelope = msgspec.json.decode(text, type=_Envelope)
        if envelope.version == _VERSION:
            return msgspec.json.decode(envelope.content, type=what)
    except msgspec.DecodeError as error:
        raise WrongShape(
            f"the document that a staging task sent can't be read ({error}). Nothing was committed"
        ) from None
    raise WrongShape(
        f"driver and Spark worker run different versions of Headrace (document versions {_VERSION} and {envelope.version}). "
        "Nothing was committed. Use the same version on both"
    )
