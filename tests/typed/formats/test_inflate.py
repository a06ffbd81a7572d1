"""Compressed payloads: inflated where they are whole, and refused with a reason within limits of memory where they aren't."""

import gzip
from collections.abc import Callable
from subprocess import run
from sys import executable
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.pipeline.settings.choices import Compression
from headrace.pipeline.typed.formats.inflate import CantInflate, Inflation, inflate, inflated

MEGABYTE = 1024 * 1024
AUTO = Inflation(Compression.AUTO, 16 * MEGABYTE, 200)
TEXT = b'{"id": 1, "name": "one"}' * 20


def zstd(data: bytes) -> bytes:
    return bytes(pa.compress(data, codec="zstd", asbytes=True))


def zstd_of_unknown_size(data: bytes) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.CompressedOutputStream(sink, "zstd") as stream:
        stream.write(data)
    return bytes(sink.getvalue().to_pybytes())


ALL: list[Callable[[bytes], bytes]] = [gzip.compress, zstd, zstd_of_unknown_size]


@pytest.mark.parametrize("compress", ALL)
@pytest.mark.parametrize("text", [b"", b"x", TEXT, bytes(range(256)) * 300])
def test_a_payload_is_as_it_was_before_it_was_compressed(compress: Callable[[bytes], bytes], text: bytes):
    assert inflate(compress(text), AUTO) == text
    assert inflate(compress(text) + compress(b"more"), AUTO) == text + b"more"


@pytest.mark.parametrize("compress", ALL)
def test_a_payload_that_is_cut_off_or_has_bytes_after_its_end_is_damaged(compress: Callable[[bytes], bytes]):
    whole = compress(TEXT)
    for end in range(4, len(whole)):
        with pytest.raises(CantInflate, match="damaged"):
            inflate(whole[:end], AUTO)
    with pytest.raises(CantInflate, match="damaged"):
        inflate(whole + b"xx", AUTO)


@given(st.binary(max_size=200), st.sampled_from([b"\x1f\x8b\x08", b"\x28\xb5\x2f\xfd", b""]))
def test_any_bytes_are_inflated_or_refused_with_a_reason(data: bytes, magic: bytes):
    try:
        assert len(inflate(magic + data, AUTO)) <= MEGABYTE
    except CantInflate:
        assert magic


@given(st.sampled_from(ALL), st.integers(0, 10_000), st.integers(1, 255))
def test_a_changed_byte_never_costs_more_than_the_limit(
    compress: Callable[[bytes], bytes], place: int, change: int
):
    data = bytearray(compress(TEXT))
    data[place % len(data)] ^= change
    try:
        assert len(inflate(bytes(data), AUTO)) <= MEGABYTE
    except CantInflate:
        return


@pytest.mark.parametrize("compress", ALL)
def test_the_limit_of_bytes_and_the_ratio_are_exact(compress: Callable[[bytes], bytes]):
    text = bytes(2 * MEGABYTE)
    packed = compress(text)
    assert inflate(packed, Inflation(Compression.AUTO, 2 * MEGABYTE, 1_000_000)) == text
    with pytest.raises(CantInflate, match=r"more than 2097151 bytes \(inflated.bytes\)"):
        inflate(packed, Inflation(Compression.AUTO, 2 * MEGABYTE - 1, 1_000_000))
    with pytest.raises(CantInflate, match=r"more than 2 times its size"):
        inflate(packed, Inflation(Compression.AUTO, 100 * MEGABYTE, 2))
    # A high ratio of a few bytes does no harm.
    assert inflate(compress(bytes(MEGABYTE)), Inflation(Compression.AUTO, 2 * MEGABYTE, 1)) == bytes(MEGABYTE)


def test_auto_leaves_other_payloads_alone_and_a_named_compression_refuses_them():
    assert inflate(TEXT, AUTO) is TEXT
    assert inflate(b"", AUTO) == b""
    for how, payload in (
        (Compression.GZIP, TEXT),
        (Compression.GZIP, zstd(TEXT)),
        (Compression.ZSTD, gzip.compress(TEXT)),
    ):
        with pytest.raises(CantInflate, match=f"isn't compressed by {how}"):
            inflate(payload, Inflation(how, MEGABYTE, 200))
    assert inflate(gzip.compress(TEXT), Inflation(Compression.GZIP, MEGABYTE, 200)) == TEXT


def test_rows_keep_the_landed_payload_beside_the_inflated_one_and_a_bomb_costs_itself_only():
    payloads = [
        TEXT,
        gzip.compress(TEXT),
        gzip.compress(TEXT)[:-1],
        None,
        zstd(bytes(64 * MEGABYTE)),
        b"\x1f\x8b",
    ]
    rows = pa.table(
        {
            "data": pa.array(payloads, pa.binary()),
            "decode_error": pa.array([None] * 5 + ["cut off"], pa.string()),
        }
    )
    (found,) = inflated(rows, AUTO)
    assert found["data"].to_pylist() == [TEXT, TEXT, *payloads[2:]]
    assert found["landed"].to_pylist() == [None, payloads[1], None, None, None, None]
    reasons: list[Any] = found["decode_error"].to_pylist()
    assert reasons[:2] == [None, None]
    assert "its end is missing" in reasons[2]
    assert "more than 200 times" in reasons[4]
    assert reasons[5] == "cut off"
    (same,) = inflated(rows, None)
    assert same["landed"].null_count == len(payloads)


def test_many_payloads_of_a_high_ratio_are_never_held_all_at_once():
    payload = zstd(bytes(MEGABYTE))
    rows = pa.table({"data": pa.array([payload] * 50), "decode_error": pa.nulls(50, pa.string())})
    parts = list(inflated(rows, AUTO))
    assert sum(part.num_rows for part in parts) == 50
    assert max(part.num_rows for part in parts) == 16


BOMB = """
import resource, zlib, pyarrow as pa
from headrace.pipeline.typed.formats.inflate import CantInflate, Inflation, inflate
from headrace.pipeline.settings.choices import Compression

packer, zeros = zlib.compressobj(9, zlib.DEFLATED, 31), bytes(2**20)
gzip = b"".join([*(packer.compress(zeros) for _ in range(1024)), packer.flush()])
sink = pa.BufferOutputStream()
with pa.CompressedOutputStream(sink, "zstd") as stream:
    for _ in range(1024):
        stream.write(zeros)
zstd = sink.getvalue().to_pybytes()
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
for bomb in (gzip, zstd):
    for how in (Inflation(Compression.AUTO, 16 * 2**20, 10**6), Inflation(Compression.AUTO, 2**30, 10)):
        try:
            inflate(bomb, how)
            raise SystemExit("a bomb was inflated")
        except CantInflate:
            pass
print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) // 1024)
"""


@pytest.mark.slow
def test_a_bomb_of_a_gigabyte_of_zeros_takes_no_more_memory_than_its_limit():
    told = run([executable, "-c", BOMB], capture_output=True, text=True, check=True)
    assert int(told.stdout) < 100
