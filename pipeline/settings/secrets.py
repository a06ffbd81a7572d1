"""Recognizes names and values that look like secrets. Secrets are never settings, so such settings are refused."""

import re
from base64 import b64decode
from binascii import Error
from collections.abc import Iterator
from itertools import pairwise

_SECRET_WORDS = frozenset(
    {
        "apikey",
        "authorization",
        "bearer",
        "credential",
        "credentials",
        "passphrase",
        "passwd",
        "password",
        "pwd",
        "sas",
        "secret",
        "token",
    }
)
_SECRET_PAIRS = frozenset({("access", "key"), ("account", "key"), ("api", "key"), ("private", "key")})
# A name that ends in one of these tells how a secret is found (`credentials.provider`), not the secret.
_ABOUT_SECRETS = frozenset(
    {
        "class",
        "enabled",
        "endpoint",
        "expiry",
        "file",
        "location",
        "path",
        "plugin",
        "provider",
        "scope",
        "server",
        "type",
        "uri",
        "url",
    }
)

_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z0-9]+")
_ASSIGNED = re.compile(r"([A-Za-z][\w.-]*)=[^\s;&]")
_SHAPES = tuple(
    re.compile(shape)
    for shape in (
        # user:password@ in an address, but not host:port/ with an @ later on; in http addresses also token@ alone.
        r"://[^\s/@:]*:(?![0-9]+[/;?])[^\s@]*@|https?://[^\s/@]+@",
        # The id of an AWS access key: AKIA for a permanent key, ASIA for the key of a session.
        r"(?<![A-Za-z0-9])(?:AKIA|ASIA)[A-Z0-9]{16}(?![A-Za-z0-9])",
        # How the session tokens of AWS's token service begin.
        r"(?<![A-Za-z0-9])(?:FwoGZXIvYXdz|FQoGZXIvYXdz|IQoJb3JpZ2lu)[A-Za-z0-9+/]{20}",
        r"-----BEGIN [A-Z0-9 ]*PRIVATE KEY",
        # A JSON Web Token: two or three parts in base64, the first of which begins with {".
        r"(?<![A-Za-z0-9])eyJ[\w-]{8,}\.[\w-]{8,}",
        # With a digit in the token: words such as "bearer authentication" are none.
        r"(?i:\bbearer)\s+(?=[^\s\"']*[0-9])[\w.~+/=-]{16,}",
        # A signature in an address that grants access to whoever has the address (Azure's SAS).
        r"[?&]sig=[^&\s]",
    )
)
_BASIC = re.compile(r"(?i:\bbasic)\s+([A-Za-z0-9+/]{6,}={0,2})")
_QUOTED = re.compile(r"%([0-9A-Fa-f]{2})")
_RUN = re.compile(r"[A-Za-z0-9/+]+")
# Characters of an AWS secret access key, each of base64's alphabet of 64.
_KEY_LENGTH = 40
_MOST_SLASHES = 4
"""The most slashes that a text may have to count as a key.

One of three thousand random keys has more; most file paths of forty characters have more.
"""
_TOKEN_LENGTH, _TOKEN_PART = 100, 32
"""Characters. A text of at least the first length is a token if a part of it between slashes is random, and
at least as long as the second length.
"""
# Different characters as a fraction of forty. Random texts have 30 on average, and hardly ever fewer than
# 22.
_LEAST_DISTINCT = 0.5
_LEAST_CHANGES = 0.33
"""The fraction of neighbouring characters of which one is a small letter, capital or digit and the other is
of another kind.

Random text has 0.6. Paths made of words, even of CamelCased and numbered words, are mostly below 0.3.
"""


def names_secret(name: str) -> bool:
    """Whether a setting with this name would hold a secret: password, s3.secret-access-key,
    fs.s3a.access.key, oauthToken."""
    words = [word.lower() for word in _WORD.findall(name)]
    if not words or words[-1] in _ABOUT_SECRETS:
        return False
    return not _SECRET_WORDS.isdisjoint(words) or not _SECRET_PAIRS.isdisjoint(pairwise(words))


def holds_secret(text: str) -> bool:
    """Whether some part of a value has the shape of a secret, as it stands or after URL decoding (%2F for a slash)."""
    unquoted = _QUOTED.sub(lambda match: chr(int(match[1], 16)), text)
    return any(_holds_secret(variant) for variant in {text, unquoted})


def _holds_secret(text: str) -> bool:
    return (
        any(shape.search(text) for shape in _SHAPES)
        or any(names_secret(match[1]) for match in _ASSIGNED.finditer(text))
        or any(_is_login(match[1]) for match in _BASIC.finditer(text))
        or any(_is_random(candidate) for run in _RUN.findall(text) for candidate in _candidates(run))
    )


def _is_login(encoded: str) -> bool:
    """`user:password` in base64, as the header `Authorization: Basic ...` has it."""
    try:
        return b":" in b64decode(encoded, validate=True)
    except (Error, ValueError):
        return False


def _candidates(run: str) -> Iterator[str]:
    """Parts of a run of base64 characters that are as long as a key or a token. A key may be a part of a path."""
    if len(run) >= _TOKEN_LENGTH:
        yield from (piece for piece in re.split("[/+]", run) if len(piece) >= _TOKEN_PART)
    for start in (0, *(n + 1 for n, character in enumerate(run) if character == "/")):
        end = start + _KEY_LENGTH
        ends_here = end == len(run) or run[end : end + 1] == "/"
        if ends_here and run.count("/", start, end) <= _MOST_SLASHES:
            yield run[start:end]


def _is_random(text: str) -> bool:
    """Whether a text looks random: neither words nor a hash in hexadecimal digits."""
    # A hash in hexadecimal digits has letters of one case only.
    if not (re.search("[a-z]", text) and re.search("[A-Z]", text)):
        return False
    pairs = [(first, second) for first, second in pairwise(text) if first.isalnum() and second.isalnum()]
    changes = sum(_kind(first) != _kind(second) for first, second in pairs)
    least = _LEAST_DISTINCT * min(len(text), _KEY_LENGTH)
    return len(set(text)) >= least and changes >= _LEAST_CHANGES * len(pairs)


def _kind(character: str) -> str:
    if character.isdigit():
        return "digit"
    return "capital" if character.isupper() else "small"
