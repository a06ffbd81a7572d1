"""Payloads that producers compressed are decompressed. That stops at a limit, so that no payload takes more
memory than the limit.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from headrace.pipeline.settings.choices import Compression

_GZIP, _ZSTD = b"\x1f\x8b", b"\x28\xb5\x2f\xfd"
_AS_GZIP, _AS_ZLIB = 31, 15
"""zlib's numbers for: this kind of header and nothing else, with the largest window."""
_ALWAYS_ALLOWED = 1024 * 1024
"""Bytes. A smaller payload is small enough at any ratio: a short text of equal characters has a high one."""
_AT_ONCE = 1024 * 1024
_FEW = 1000
"""Payloads that are copied out of Arrow at once."""
_FIRST_PIECE = 4 * 1024
"""Bytes of a stream of zlib that are given to it first. It copies what follows its end, so that a payload of very many
streams would be copied as often. Each further piece of the same stream is twice as long."""
_BATCH = 16 * 1024 * 1024
"""Inflated bytes that are held at once, with one payload more."""


@dataclass(frozen=True, slots=True)
class Inflation:
    """By which method payloads are decompressed, and up to which size. It can be pickled."""

    compression: Compression
    most_bytes: int
    most_ratio: int


class CantInflate(Exception):
    """A payload can't be decompressed. The argument is the reason, in words for the quarantine table."""


def inflated(rows: pa.Table, how: Inflation | None) -> Iterator[pa.Table]:
    """The rows with decompressed payloads in `data`; `landed` has the payload as it is in the lake table, where
    the two differ.

    A payload that can't be decompressed stays as it is, and `decode_error` has the reason.
    """
    if how is None or not rows.num_rows:
        yield rows.append_column("landed", pa.nulls(rows.num_rows, pa.binary()))
        return
    start, size, made, reasons = 0, 0, [], []
    errors = rows["decode_error"].to_pylist()
    for payload, error in zip(_payloads(rows), errors, strict=True):
        data, reason = (payload, error) if error or payload is None else _tried(payload, how)
        made.append(data)
        reasons.append(reason)
        size += len(data or b"")
        if size >= _BATCH:
            yield _with(rows.slice(start, len(made)), made, reasons)
            start, size, made, reasons = start + len(made), 0, [], []
    if made:
        yield _with(rows.slice(start), made, reasons)


def _payloads(rows: pa.Table) -> Iterator[bytes | None]:
    for start in range(0, rows.num_rows, _FEW):
        yield from rows["data"].slice(start, _FEW).to_pylist()


def _tried(payload: bytes, how: Inflation) -> tuple[bytes, str | None]:
    try:
        return inflate(payload, how), None
    except CantInflate as error:
        return payload, str(error)


def _with(rows: pa.Table, made: list[bytes | None], reasons: list[str | None]) -> pa.Table:
    data, landed = pa.array(made, pa.binary()), rows["data"]
    is_same: Any = pc.fill_null(pc.equal(data, landed), pa.scalar(value=True))
    names = rows.column_names
    rows = rows.set_column(names.index("data"), "data", data)
    rows = rows.set_column(names.index("decode_error"), "decode_error", pa.array(reasons, pa.string()))
    return rows.append_column("landed", pc.if_else(is_same, pa.scalar(None, pa.binary()), landed))


def inflate(payload: bytes, how: Inflation) -> bytes:
    """The payload as it was before its producer compressed it. Raises CantInflate."""
    limit = _limit(payload, how)
    is_gzip, is_zstd = payload.startswith(_GZIP), payload.startswith(_ZSTD)
    if how.compression is not Compression.ZSTD and is_gzip:
        inflated_payload = _unzipped(payload, limit, _AS_GZIP)
    elif how.compression is not Compression.GZIP and is_zstd:
        inflated_payload = _unzstd(payload, limit)
    elif how.compression is Compression.AUTO:
        return payload
    else:
        raise CantInflate(f"the payload isn't compressed by {how.compression}")
    return _within(inflated_payload, limit, how)


def unzipped(payload: bytes, how: Inflation) -> bytes:
    """A payload in zlib's form as it was before, whatever `how.compression` is. Raises CantInflate."""
    limit = _limit(payload, how)
    return _within(_unzipped(payload, limit, _AS_ZLIB), limit, how)


def _limit(payload: bytes, how: Inflation) -> int:
    return min(how.most_bytes, max(_ALWAYS_ALLOWED, how.most_ratio * len(payload)))


def _within(inflated_payload: bytes | None, limit: int, how: Inflation) -> bytes:
    if inflated_payload is None and limit == how.most_bytes:
        raise CantInflate(f"the payload inflates to more than {limit} bytes (inflated.bytes)")
    if inflated_payload is None:
        raise CantInflate(
            f"the payload inflates to more than {how.most_ratio} times its size, and to more than a megabyte (inflated.ratio)"
        )
    return inflated_payload


def _unzipped(payload: bytes, limit: int, form: int) -> bytes | None:
    """None where there is more than the limit. A payload may be several streams, one after the other."""
    name = "gzip" if form == _AS_GZIP else "zlib"
    parts, size, place = list[bytes](), 0, 0
    while place < len(payload):
        stream, piece = zlib.decompressobj(form), _FIRST_PIECE
        while not stream.eof:
            if place == len(payload):
                raise CantInflate(f"the payload is damaged {name}: its end is missing")
            piece_of_payload = payload[place : place + piece]
            try:
                # One byte more than allowed is enough to know that there is too much, whatever the
                # bomb would become.
                parts.append(stream.decompress(piece_of_payload, limit - size + 1))
            except zlib.error as error:
                raise CantInflate(f"the payload is damaged {name}: {error}") from None
            size += len(parts[-1])
            if size > limit:
                return None
            place, piece = place + len(piece_of_payload) - len(stream.unused_data), 2 * piece
    return b"".join(parts)


def _unzstd(payload: bytes, limit: int) -> bytes | None:
    stated_size = _told_size(payload)
    # The header alone refuses a bomb that is honest about its size. One that isn't meets the limit
    # below.
    if stated_size is not None and stated_size > limit:
        return None
    try:
        if stated_size:
            try:
                return bytes(pa.Codec("zstd").decompress(payload, stated_size, asbytes=True))
            except OSError:
                # The size is that of the first frame, and there are several frames, or one is damaged: the stream below
                # reads all of them, and names the damage.
                pass
        return _streamed(payload, limit)
    except OSError as error:
        raise CantInflate(f"the payload is damaged zstd: {error}") from None


def _streamed(payload: bytes, limit: int) -> bytes | None:
    parts, size = [], 0
    with pa.CompressedInputStream(pa.BufferReader(payload), "zstd") as stream:
        while part := stream.read(min(_AT_ONCE, limit - size + 1)):
            parts.append(part)
            size += len(part)
            if size > limit:
                return None
    return b"".join(parts)


def _told_size(payload: bytes) -> int | None:
    """The size that the header of the first frame of zstd tells (RFC 8878, 3.1.1.1). None where it tells none.

    With the size known, zstd needs a tenth of the time: it sets up no stream.
    """
    if len(payload) < len(_ZSTD) + 1:
        return None
    about = payload[4]
    is_single, flag = bool(about & 0x20), about >> 6
    start = 5 + (not is_single) + (0, 1, 2, 4)[about & 3]
    length = (1 if is_single else 0, 2, 4, 8)[flag]
    part = payload[start : start + length]
    if not length or len(part) < length:
        return None
    return int.from_bytes(part, "little") + (256 if flag == 1 else 0)
