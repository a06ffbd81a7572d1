"""The documents that the Spark driver and its tasks exchange: JSON with a version number.

Not pickle, so that an executor with another version of Headrace gets a clear error instead of a broken object. Not
MessagePack, because sequence numbers have 186 bits and its integers at most 64.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TypeVar

import msgspec

from headrace.pipeline.errors import WrongShape

_VERSION = 1
_MOST_BYTES = 512 * 1024 * 1024
"""The most bytes of one task's manifest. Thousands of shards with their files' footers take a few MB."""

_T = TypeVar("_T")


def encode(content: object) -> bytes:
    return msgspec.json.encode({"version": _VERSION, "content": content})


def decode_all(texts: Iterable[bytes], what: type[_T]) -> Iterator[_T]:
    """The values in documents that `encode` wrote. Raises WrongShape for a document of another version."""
    return (decode(text, what) for text in texts)


class _Envelope(msgspec.Struct):
    version: int
    content: msgspec.Raw


def decode(text: bytes, what: type[_T]) -> _T:
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
