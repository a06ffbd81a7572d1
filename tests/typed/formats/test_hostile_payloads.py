"""A hostile payload costs itself only: its neighbours become rows, and it takes about as much CPU time as a harmless payload of its size.

CPU time is that of this thread, so that other work of the machine counts as little as it can. What is quadratic in the size of a payload takes
hundreds of times as much as the harmless payload.
"""

import gzip
import json
import zlib
from collections.abc import Callable
from decimal import Decimal
from functools import cache, partial
from typing import Any, Literal

import pyarrow as pa
import pytest

from headrace.pipeline.settings.blocks.parse import MOST_VALUES
from headrace.pipeline.settings.choices import Compression
from headrace.pipeline.typed.formats.avro import AvroDecoder
from headrace.pipeline.typed.formats.inflate import CantInflate, Inflation, inflate, unzipped
from headrace.pipeline.typed.formats.lanes import FEWEST
from headrace.pipeline.typed.json.column_types import struct_of_fields
from headrace.pipeline.typed.json.columns import Limits
from headrace.pipeline.typed.json.decode import JsonDecoder
from headrace.pipeline.typed.json.fit import Judge
from headrace.pipeline.typed.json.task_facts import Looking, facts_in
from tests.typed.formats.costs import costs_less, peak_of
from tests.typed.formats.decodings import arrow_of, landed, reasons_of, rows_of
from tests.typed.formats.test_decode_avro import written
from tests.typed.formats.test_decode_protobuf import DECODER, an_order
from tests.typed.formats.test_value_limit import integer, record

SIZE = 256 * 1024
"""Bytes of each payload; of JSON a quarter."""
TIMES = 20
"""How much more CPU time than the harmless payload a hostile one may take."""


MEMORY = 100 * 2**20
"""Bytes that a hostile payload may take."""


def filled(piece: bytes, *, begin: bytes = b"", end: bytes = b"", size: int = SIZE) -> bytes:
    """A payload of about so many bytes."""
    return begin + piece * ((size - len(begin) - len(end)) // len(piece)) + end


@cache
def costs_itself_only(rows: Callable[[bytes], list[str | None]], hostile: bytes, harmless: bytes) -> None:
    """`rows`: parses a payload between two good ones, and returns the reason of each of the three; None of one that became a row."""
    assert abs(len(hostile) - len(harmless)) < SIZE / 10
    reasons: list[list[str | None]] = []
    assert peak_of(lambda: reasons.append(rows(hostile))) < MEMORY
    ((first, _, last),) = reasons
    assert (first, last) == (None, None)
    _judge_harmless(rows, harmless)
    assert costs_less(lambda: rows(hostile), TIMES, lambda: rows(harmless))


@cache
def _judge_harmless(rows: Callable[[bytes], list[str | None]], harmless: bytes) -> None:
    assert rows(harmless) == [None] * 3


# --- Avro -------------------------------------------------------------------------------------------------------

AVRO = record(
    {"name": "amount", "type": {"type": "bytes", "logicalType": "decimal", "precision": 10, "scale": 2}},
    {"name": "text", "type": "string"},
    {"name": "numbers", "type": {"type": "array", "items": "long"}},
    {"name": "tags", "type": {"type": "map", "values": ["null", "string"]}},
)
AVRO_DECODER = AvroDecoder("orders", json.dumps(AVRO), is_single_object=False)
GOOD_AVRO: dict[str, Any] = {
    "amount": Decimal("0.00"),
    "text": "t",
    "numbers": [1, 2],
    "tags": {"a": None, "b": "c"},
}
_NO_AMOUNT, _NO_TEXT = b"\2\0", b"\0"
_SMALLEST, _MINUS_ONE = b"\xff" * 9 + b"\1", b"\1"
"""Numbers of items, as Avro has them."""


def avro_reasons(payload: bytes) -> list[str | None]:
    good = written(GOOD_AVRO, AVRO)
    return [row["reason"] for row in rows_of(AVRO_DECODER, [good, payload, good])]


@pytest.mark.parametrize(
    "hostile",
    [
        integer(SIZE) + b"\x11" * SIZE,
        integer(SIZE) + b"\xff" * SIZE + _NO_TEXT + b"\0\0",
        _NO_AMOUNT + integer(2**62) + b"a" * SIZE,
        _NO_AMOUNT + _NO_TEXT + integer(2**62) + b"\2" * SIZE,
        _NO_AMOUNT + _NO_TEXT + _SMALLEST + b"\2" * SIZE,
        filled(integer(1) + b"\2", begin=_NO_AMOUNT + _NO_TEXT, end=b"\0\0"),
        filled(_MINUS_ONE + b"\2\2", begin=_NO_AMOUNT + _NO_TEXT, end=b"\0\0"),
        filled(b"\xff" * 9 + b"\x01", begin=_NO_AMOUNT + _NO_TEXT + integer(SIZE)),
        filled(integer(1) + b"\0\0", begin=_NO_AMOUNT + _NO_TEXT + b"\0", end=b"\0"),
        filled(integer(1) + b"\0\x09", begin=_NO_AMOUNT + _NO_TEXT + b"\0", end=b"\0"),
    ],
    ids=[
        "a decimal of very many digits",
        "a decimal of very many bytes and one digit",
        "a text that claims to be longer",
        "a list that claims to be longer",
        "a list that claims to have the smallest number of items",
        "a list in blocks of one item",
        "a list in blocks of one item that tell their bytes",
        "a list of the longest numbers",
        "a map in blocks of one item with the same name",
        "a union that has no such type",
    ],
)
def test_a_hostile_avro_payload_costs_itself_only(hostile: bytes):
    numbers = [7] * (SIZE - 20)
    costs_itself_only(avro_reasons, hostile, written({**GOOD_AVRO, "numbers": numbers}, AVRO))


def test_a_decimal_has_as_many_digits_as_its_type():
    fits, sign = 10**10 - 1, b"\xff" * 9
    least = integer(14) + sign + (-fits).to_bytes(5, "big", signed=True) + b"\0\0\0"
    most = integer(5) + fits.to_bytes(5, "big") + b"\0\0\0"
    more = integer(5) + (fits + 1).to_bytes(5, "big") + b"\0\0\0"
    rows = rows_of(AVRO_DECODER, [least, most, more])
    assert [str(row["row"]["amount"]) for row in rows[:2]] == ["-99999999.99", "99999999.99"]
    assert rows[2]["reason"] == "a decimal of the payload doesn't fit its type: it has more than 10 digits"


# --- Protobuf ---------------------------------------------------------------------------------------------------

_ITEMS, _CODES, _UNKNOWN, _UNKNOWN_END, _OTHER = b"\x2a", b"\x42", b"\x9b\x06", b"\x9c\x06", b"\x98\x06"


def protobuf_reasons(payload: bytes) -> list[str | None]:
    return [row["reason"] for row in rows_of(DECODER, [an_order(), payload, an_order()])]


@pytest.mark.parametrize(
    "hostile",
    [
        filled(_CODES + b"\0"),
        filled(_CODES + b"\1\1"),
        filled(_CODES + b"\x0a" + b"\xff" * 9 + b"\1"),
        filled(_ITEMS + b"\0"),
        filled(_UNKNOWN + _UNKNOWN_END),
        filled(_UNKNOWN),
        _UNKNOWN * (SIZE // 4) + _UNKNOWN_END * (SIZE // 4),
        filled(_OTHER + b"\1"),
        filled(b"\x3a\0"),
        _ITEMS + b"\xff\xff\xff\xff\7" + bytes(SIZE),
        filled(b"\xff"),
        b"\x12\x80\x80\x10" + b"\xff" * SIZE,
    ],
    ids=[
        "lists of no number",
        "lists of one number",
        "lists of the longest number",
        "empty messages",
        "groups that nobody knows",
        "groups within groups that don't end",
        "groups within groups",
        "fields that nobody knows",
        "empty entries of a map",
        "a message that claims to be longer",
        "a field number without an end",
        "a text that isn't UTF-8",
    ],
)
def test_a_hostile_protobuf_payload_costs_itself_only(hostile: bytes):
    item = _ITEMS + b"\3\x0a\1a"
    costs_itself_only(protobuf_reasons, hostile, filled(item))


# --- many of them at once ---------------------------------------------------------------------------------------

MANY = 2 * FEWEST
"""Payloads that are decoded side by side."""
brief = partial(filled, size=512)


@pytest.mark.parametrize(
    "hostile",
    [
        integer(500) + b"\x11" * 500,
        _NO_AMOUNT + integer(2**62) + b"a" * 500,
        _NO_AMOUNT + _NO_TEXT + integer(2**62) + b"\2" * 500,
        _NO_AMOUNT + _NO_TEXT + _SMALLEST + b"\2" * 500,
        brief(integer(1) + b"\2", begin=_NO_AMOUNT + _NO_TEXT, end=b"\0\0"),
        brief(_MINUS_ONE + b"\2\2", begin=_NO_AMOUNT + _NO_TEXT, end=b"\0\0"),
        brief(b"\xff" * 9 + b"\x01", begin=_NO_AMOUNT + _NO_TEXT + integer(500)),
        brief(integer(1) + b"\0\0", begin=_NO_AMOUNT + _NO_TEXT + b"\0", end=b"\0"),
        brief(integer(1) + b"\0\x09", begin=_NO_AMOUNT + _NO_TEXT + b"\0", end=b"\0"),
    ],
)
def test_many_hostile_avro_payloads_cost_about_as_much_as_harmless_ones(hostile: bytes):
    harmless = written({**GOOD_AVRO, "numbers": [7] * 490}, AVRO)
    hostile_wave, harmless_wave = (
        partial(reasons_of, AVRO_DECODER, [payload] * MANY) for payload in (hostile, harmless)
    )
    assert costs_less(hostile_wave, TIMES, harmless_wave)


@pytest.mark.parametrize(
    "hostile",
    [
        brief(_CODES + b"\0"),
        brief(_CODES + b"\1\1"),
        brief(_CODES + b"\x0a" + b"\xff" * 9 + b"\1"),
        brief(_ITEMS + b"\0"),
        brief(_UNKNOWN + _UNKNOWN_END),
        brief(_OTHER + b"\1"),
        brief(b"\x3a\0"),
        brief(b"\xff"),
        b"".join(integer(number * 8)[:2] + b"\1" for number in range(200, 370)),
    ],
)
def test_many_hostile_protobuf_payloads_cost_about_as_much_as_harmless_ones(hostile: bytes):
    harmless = brief(_ITEMS + b"\3\x0a\1a")
    hostile_wave, harmless_wave = (
        partial(reasons_of, DECODER, [payload] * MANY) for payload in (hostile, harmless)
    )
    assert costs_less(hostile_wave, TIMES, harmless_wave)


def test_a_hostile_payload_among_thousands_costs_itself_only():
    good = written(GOOD_AVRO, AVRO)
    hostile = written(
        {**GOOD_AVRO, "numbers": [7] * 300, "tags": {str(number): "x" for number in range(100)}}, AVRO
    )
    alone = partial(reasons_of, AVRO_DECODER, [good] * 4000)
    assert costs_less(partial(reasons_of, AVRO_DECODER, [*[good] * 3999, hostile]), 2, alone)


# --- JSON -------------------------------------------------------------------------------------------------------

LISTS = {"type": "array", "elementType": {"type": "array", "elementType": "long"}}
PART = {"type": "struct", "fields": [{"name": "x", "type": "double"}, {"name": "y", "type": "date"}]}
FIELDS: tuple[dict[str, Any], ...] = tuple(
    {"name": name, "type": kind}
    for name, kind in (
        ("n", "long"),
        ("text", "string"),
        ("lists", LISTS),
        ("amount", "decimal(10,2)"),
        ("at", "timestamp"),
        ("real", "double"),
        ("raw", "binary"),
        ("tags", {"type": "map", "keyType": "string", "valueType": "string"}),
        ("parts", {"type": "array", "elementType": PART}),
    )
)
COLUMNS, LIMITS = struct_of_fields(FIELDS), Limits(50)
GIVEN = JsonDecoder(FIELDS, MOST_VALUES)
EVOLVING = JsonDecoder(FIELDS, MOST_VALUES, Judge(COLUMNS, LIMITS, is_whole=True))
LOOKING = Looking(FIELDS, arrow_of(GIVEN), LIMITS, MOST_VALUES)


def json_reasons(payload: bytes, decoder: JsonDecoder = EVOLVING) -> list[str | None]:
    """As the tasks look at payloads for columns, and then decode them."""
    good = b'{"n": 1, "text": "t", "amount": 1.5, "at": "2026-01-31T12:00:00Z"}'
    facts_in([landed([good, payload, good])], LOOKING)
    return reasons_of(decoder, [good, payload, good])


small = partial(filled, size=SIZE // 4)


def _many_names() -> bytes:
    names = ",".join(f'"k{number}":1' for number in range(SIZE // 44))
    return f'{{"new": {{{names}}}}}'.encode()


@pytest.mark.parametrize("decoder", [GIVEN, EVOLVING], ids=["given", "evolving"])
@pytest.mark.parametrize(
    "hostile",
    [
        small(b"9", begin=b'{"n": ', end=b"}"),
        small(b"9", begin=b'{"n": 0.', end=b"}"),
        small(b"9", begin=b'{"n": 1e', end=b"}"),
        small(b"9", begin=b'{"real": ', end=b"}"),
        small(b"9", begin=b'{"real": 0.', end=b"}"),
        small(b"9", begin=b'{"real": "', end=b'"}'),
        small(b"9", begin=b'{"amount": ', end=b"}"),
        small(b"9", begin=b'{"amount": 0.', end=b"}"),
        small(b"9", begin=b'{"amount": 1e', end=b"}"),
        small(b"9", begin=b'{"amount": "', end=b'"}'),
        small(b" ", begin=b'{"amount": 1e999999999', end=b"}"),
        small(b" ", begin=b'{"amount": "1e-999999999"', end=b"}"),
        small(b"9", begin=b'{"at": ', end=b"}"),
        small(b"9", begin=b'{"at": "2026-01-31T12:00:00.', end=b'Z"}'),
        small(b" ", begin=b'{"at": "', end=b'x"}'),
        small(b" ", begin=b'{"at": "2026-01-31', end=b'x"}'),
        small(b"A", begin=b'{"raw": "', end=b'="}'),
        small(b"9", begin=b'{"new": ', end=b"}"),
        small(b"\\u0041", begin=b'{"text": "', end=b'"}'),
        small(b'\\"', begin=b'{"text": "', end=b'"}'),
        small(b"\\", begin=b'{"text": "'),
        small(b"[", begin=b'{"new": '),
        small(b"[", begin=b'{"text": '),
        small(b"[", begin=b'{"lists": '),
        small(b'{"a":', begin=b'{"new": '),
        small(b'{"a":', begin=b'{"text": '),
        small(b"{},", begin=b'{"new": [', end=b"{}]}"),
        small(b"[],", begin=b'{"new": [', end=b"[]]}"),
        small(b"[1],", begin=b'{"text": [', end=b"[1]]}"),
        small(b"{},", begin=b'{"parts": [', end=b"{}]}"),
        small(b'{"y":"x"},', begin=b'{"parts": [', end=b"{}]}"),
        small(b'"n":1,', begin=b"{", end=b'"n":1}'),
        small(b'"n":"",', begin=b"{", end=b'"n":1}'),
        small(b'"":"",', begin=b'{"tags": {', end=b'"":""}}'),
        small(b"[1],", begin=b'{"new": [', end=b"[1]]}"),
        _many_names(),
        small(b'"', begin=b"{"),
        small(b" ", begin=b"{", end=b"}"),
        small(b"\xff", begin=b'{"text": "', end=b'"}'),
        small(b"\xff", begin=b'{"new": "', end=b'"}'),
    ],
    ids=[
        "an integer of very many digits",
        "very many digits after the point",
        "an exponent of very many digits",
        "a double of very many digits",
        "a double of very many digits after the point",
        "a text of very many digits for a double",
        "a decimal of very many digits",
        "a decimal of very many digits after the point",
        "a decimal with an exponent of very many digits",
        "a decimal that is a text of very many digits",
        "a decimal of very many zeros",
        "a decimal of very many zeros after the point",
        "a time that is a number of very many digits",
        "a time with very many digits of a second",
        "a time after very much space",
        "very much space after a time",
        "bytes that aren't whole",
        "an integer of very many digits without a column",
        "a text of escapes",
        "a text of quotes",
        "a text that doesn't end",
        "lists within lists",
        "lists within lists for a text",
        "lists within lists that don't fit",
        "objects within objects",
        "objects within objects for a text",
        "empty objects",
        "empty lists",
        "lists for a text",
        "empty objects with columns",
        "parts that don't fit",
        "the same field again and again",
        "the same field, which doesn't fit, again and again",
        "the same entry of a map again and again",
        "lists of one number",
        "an object of very many fields",
        "quotes",
        "nothing but space",
        "a text that isn't UTF-8",
        "a text that isn't UTF-8 without a column",
    ],
)
def test_a_hostile_json_payload_costs_itself_only(hostile: bytes, decoder: JsonDecoder):
    harmless = small(b"[1],", begin=b'{"lists": [', end=b"[1]]}")
    costs_itself_only(partial(json_reasons, decoder=decoder), hostile, harmless)


def test_a_json_payload_that_doesnt_fit_costs_its_neighbours_nothing():
    """One payload in a thousand doesn't fit: none of the others is read again for it."""
    good = b'{"n": 1, "text": "t", "amount": 1.5, "at": "2026-01-31T12:00:00Z", "parts": [{"x": 1, "y": "2026-01-31"}]}'
    bad = [
        b'{"n": "x"}',
        b'{"at": "x"}',
        b'{"amount": "x"}',
        b'{"at": "2026-02-30T12:00:00Z"}',
        b'{"parts": [{"y": "x"}]}',
        b'{"text": "\xff"}',
        b"{",
    ]
    for decoder in (GIVEN, EVOLVING):
        harmless = partial(reasons_of, decoder, [good] * 4000)
        for payload in bad:
            mixed = [payload if place % 1000 == 0 else good for place in range(4000)]
            assert costs_less(partial(reasons_of, decoder, mixed), 2, harmless)


# --- compressed payloads ----------------------------------------------------------------------------------------

AUTO = Inflation(Compression.AUTO, 64 * 2**20, 200)


def inflated_of(payload: bytes, read: Callable[[bytes, Inflation], bytes]) -> None:
    try:
        read(payload, AUTO)
    except CantInflate:
        return


@pytest.mark.parametrize(
    ("pack", "read"),
    [(gzip.compress, inflate), (zlib.compress, unzipped)],
    ids=["gzip", "zlib"],
)
@pytest.mark.parametrize("content", [b"", b"a"], ids=["of nothing", "of one byte"])
def test_a_payload_of_very_many_compressed_streams_costs_itself_only(
    pack: Callable[[bytes], bytes], read: Callable[[bytes, Inflation], bytes], content: bytes
):
    """Each stream needs to be set up, so that four times the streams may take eight times as long, and not sixteen times."""
    stream = pack(content)
    some, many = (stream * (times * SIZE // len(stream)) for times in (2, 8))
    assert read(many, AUTO) == content * (8 * SIZE // len(stream))
    assert costs_less(lambda: inflated_of(many, read), 8, lambda: inflated_of(some, read))


@pytest.mark.parametrize("is_told", [True, False], ids=["with its size", "in a stream"])
@pytest.mark.parametrize("kind", ["gzip", "zstd"])
def test_a_bomb_takes_no_more_memory_than_the_limit(kind: Literal["gzip", "zstd"], *, is_told: bool):
    content, how = bytes(256 * 2**20), Inflation(Compression.AUTO, 16 * 2**20, 1_000_000)
    packed = pa.Codec(kind).compress(content, asbytes=True)
    bomb = packed if is_told else pa.Codec(kind).compress(b"a", asbytes=True) + packed
    assert peak_of(lambda: inflated_of(bomb, lambda payload, _: inflate(payload, how))) < 3 * how.most_bytes
    with pytest.raises(CantInflate, match="inflates to more than"):
        inflate(bomb, how)


@pytest.mark.parametrize("level", [1, 9])
def test_streams_that_are_longer_than_a_piece_inflate_as_a_whole(level: int):
    texts = [b"%d" % number * length for number, length in enumerate((0, 1, 4_000, 90_000, 700_000, 3))]
    packed = b"".join(gzip.compress(text, level) for text in texts)
    assert inflate(packed, Inflation(Compression.AUTO, 2**20, 1_000)) == b"".join(texts)
    for end in range(1, len(packed), 997):
        try:
            found = inflate(packed[:end], Inflation(Compression.GZIP, 2**20, 1_000))
        except CantInflate:
            continue
        assert b"".join(texts).startswith(found)
