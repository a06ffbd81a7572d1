"""A small encoder of aggregates as the Kinesis Producer Library writes them."""

from hashlib import md5

MAGIC = bytes.fromhex("f3899ac2")


def varint(value: int) -> bytes:
    """A number in the encoding of protocol buffers."""
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


def number(field: int, value: int) -> bytes:
    """A field with a number."""
    return varint(field << 3) + varint(value)


def text(field: int, value: bytes) -> bytes:
    """A field with bytes."""
    return varint(field << 3 | 2) + varint(len(value)) + value


def group(field: int, inside: bytes) -> bytes:
    """A field of the outdated kind `group`, which Java skips."""
    return varint(field << 3 | 3) + inside + varint(field << 3 | 4)


def entry(key: int, data: bytes, *, hash_key: int | None = None, more: bytes = b"") -> bytes:
    """One user record, which names its keys by their index."""
    hashed = b"" if hash_key is None else number(2, hash_key)
    return text(3, number(1, key) + hashed + text(3, data) + more)


def message(*entries: bytes, keys: tuple[bytes, ...] = (b"k",), hash_keys: tuple[bytes, ...] = ()) -> bytes:
    """The message of an aggregate: the tables of keys, and the user records."""
    tables = b"".join(text(1, key) for key in keys) + b"".join(text(2, key) for key in hash_keys)
    return tables + b"".join(entries)


def sealed(body: bytes) -> bytes:
    """The bytes of an aggregate: the magic number, the message and its digest."""
    return MAGIC + body + md5(body, usedforsecurity=False).digest()
