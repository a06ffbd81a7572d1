"""Opaque tokens (shard iterators, NextTokens): base64 of text with a checksum, so that made-up tokens are
recognized."""

from __future__ import annotations

import base64
import binascii
from hashlib import blake2b

_DIGEST = 8
# Not a secret: the key only makes these tokens different from other base64 text.
_KEY = b"headrace stand-in"
_SEPARATOR = "|"


class NotSealedError(ValueError):
    """The text isn't a token of the wanted kind, or was changed."""


def seal(kind: str, *values: str | int) -> str:
    """Make a token of some parts; no part may contain the separator, which no AWS name does."""
    payload = _SEPARATOR.join((kind, *map(str, values))).encode()
    return base64.b64encode(blake2b(payload, digest_size=_DIGEST, key=_KEY).digest() + payload).decode()


def unseal(kind: str, token: str) -> list[str]:
    """Give a token's parts back."""
    try:
        # Without `validate`, Python skips foreign characters, and a token that holds some would pass.
        raw = base64.b64decode(token, validate=True)
    except (binascii.Error, ValueError) as error:
        raise NotSealedError from error
    digest, payload = raw[:_DIGEST], raw[_DIGEST:]
    if blake2b(payload, digest_size=_DIGEST, key=_KEY).digest() != digest:
        raise NotSealedError
    sealed_kind, *values = payload.decode().split(_SEPARATOR)
    if sealed_kind != kind:
        raise NotSealedError
    return values
