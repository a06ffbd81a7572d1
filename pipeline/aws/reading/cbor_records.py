"""The records of a GetRecords answer in CBOR, read in bulk: Arrow columns without a Python object for each record.

AWS writes all records of an answer in one form: the same keys in the same order. So the first record gives
the form, the places where the others begin are guessed, and numpy then proves the guess for all records at
once:

    first record ──> form ──> guessed starts ──> each key is where the form says, and each record ends where
    the next one begins

What is proven this way is what a reader of one item after the other would have read. Where the proof fails,
`records_in_bulk` returns None, and the answer is read item by item, which is slower and gives the same
records.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from headrace.pipeline.aws.reading.marks import places_of
from headrace.pipeline.encoding.cbor import BYTES, LIST, MAP, TEXT, Body, CborReader, NotCborError
from headrace.pipeline.encoding.plain_arrow import of_numpy, views

if TYPE_CHECKING:
    import pyarrow as pa

_MOMENT, _SAME = -1, -2
_ARRIVAL: Final = "ApproximateArrivalTimestamp"
_NEEDED: Final = {"SequenceNumber": TEXT, "PartitionKey": TEXT, "Data": BYTES, _ARRIVAL: _MOMENT}
# How a moment may begin: tag 1 and a whole number or a float, in eight bytes, which count milliseconds.
_TIMES: Final = {b"\xc1\x1b": ">u8", b"\xc1\xfb": ">f8"}
# Bytes of a length that doesn't fit into the head's first byte.
_WIDTHS: Final = {24: 1, 25: 2, 26: 4}
_ENDLESS, _BREAK = 0xBF, 0xFF
"""The first byte of a map whose length isn't given, and the byte that ends it."""
_BYTES_8, _BYTES_16, _BYTES_32 = BYTES << 5 | 24, BYTES << 5 | 25, BYTES << 5 | 26
"""The first byte of a byte string whose length follows in one, two or four bytes."""
_OF_ANY_LENGTH: Final = frozenset({"Data", "PartitionKey"})
# The most bytes between a payload and the next record. A partition key has at most 1,024 bytes.
_AFTER_PAYLOAD: Final = 2000
# Records below this size are found faster by a look at every second word than by jumps.
_DENSE: Final = 2000
# Arrow's offsets have 32 bits.
_MOST: Final = 2**31 - 1

_Positions = np.ndarray[Any, np.dtype[np.int64]]


@dataclass(frozen=True, slots=True)
class Columns:
    """The fields of all records of an answer."""

    numbers: pa.StringArray
    keys: pa.StringArray
    data: Any
    """Views of the payloads, where they can stay in the answer's body: copying them into other memory took a
    third of a page's time."""
    arrivals: np.ndarray[Any, np.dtype[np.float64]]
    """When each record arrived, in seconds since 1970."""


@dataclass(frozen=True, slots=True)
class _Field:
    name: str
    spelled: bytes
    """The bytes that are the same in all records: the key, of a moment also the tag and the first byte of the
    number. Of a field that Headrace doesn't need, all bytes: where it differs, its bytes would have to be
    read to know whether they are right."""
    kind: int
    """Text, bytes, a moment, or the same in all records."""


@dataclass(frozen=True, slots=True)
class _Form:
    fields: tuple[_Field, ...]
    beginning: bytes
    """The first byte of a record and its first key."""
    endless: bool
    mark: bytes
    """The longest of the bytes that are the same in all records and have the same offset there."""
    mark_at: int
    data_at: int
    """The offset of the payload's head in the first record."""
    size: int
    """Bytes of the first record."""


def records_in_bulk(body: Body, offset: int) -> tuple[Columns, int] | None:
    """The records of the list at `offset`, and the offset after the list; None if they have to be read one by one."""
    try:
        count, first = _list_head(body, offset)
        form = None if count == 0 or len(body) > _MOST else _form(body, first)
        if form is None:
            return None
        for starts in _guesses(body, first, form, count):
            proof = _proven(body, starts, form)
            if proof is not None and count in (None, len(starts)):
                break
        else:
            return None
        places, arrivals, end = proof
        if count is None:
            if body[end] != _BREAK:
                return None
            end += 1
        return _columns(body, places, arrivals), end
    except (NotCborError, IndexError, ValueError):
        # Bytes that aren't what the form promises; ValueError is also Arrow's error for text that isn't UTF-8.
        return None


def _list_head(body: Body, offset: int) -> tuple[int | None, int]:
    """The count of items, None where the list doesn't give it, and the offset of the first item."""
    if body[offset] == LIST << 5 | 31:
        return None, offset + 1
    if body[offset] >> 5 != LIST:
        raise NotCborError("Records isn't a list")
    width = _WIDTHS.get(body[offset] & 31, 0)
    if width == 0 and body[offset] & 31 > 23:
        raise NotCborError("a list of this length can't be the records of an answer")
    after = offset + 1 + width
    return (int.from_bytes(body[offset + 1 : after]) if width else body[offset] & 31), after


def _form(body: Body, offset: int) -> _Form | None:
    reader, fields, data_at = CborReader(body, offset), [], 0
    mark, mark_at, is_fixed = b"", 0, True
    for _ in reader.items(MAP):
        begin = reader.at
        name = reader.key()
        value_at = reader.at
        reader.value()
        if name == "Data":
            data_at = value_at - offset
        if name not in _NEEDED:
            fields.append(_Field(name, bytes(body[begin : reader.at]), _SAME))
        elif name != _ARRIVAL:
            fields.append(_Field(name, bytes(body[begin:value_at]), _NEEDED[name]))
        elif bytes(body[value_at : value_at + 2]) in _TIMES:
            fields.append(_Field(name, bytes(body[begin : value_at + 2]), _MOMENT))
        else:
            return None
        if is_fixed and len(fields[-1].spelled) > len(mark):
            mark, mark_at = fields[-1].spelled, begin - offset
        # Sequence numbers have as many digits as their neighbours. Where they haven't, the guess fails.
        is_fixed = is_fixed and name not in _OF_ANY_LENGTH
    names = {field.name for field in fields}
    if len(names) != len(fields) or not names >= _NEEDED.keys():
        return None
    # A head of one byte: a map of up to 23 fields, or an endless one.
    beginning = bytes(body[offset : offset + 1]) + fields[0].spelled
    is_endless = body[offset] == _ENDLESS
    return _Form(tuple(fields), beginning, is_endless, mark, mark_at, data_at, size=reader.at - offset)


def _guesses(body: Body, offset: int, form: _Form, count: int | None) -> Iterator[_Positions]:
    """The guesses where the records begin, the cheapest first."""
    marks = places_of(form.mark, body) if form.size < _DENSE else None
    if marks is not None:
        # As far before each mark as in the first record. For 1 KB, 0.2 us a record.
        starts = marks - form.mark_at
        yield starts[starts >= offset]
    yield _jumped(body, offset, form, count)


def _jumped(body: Body, offset: int, form: _Form, count: int | None) -> _Positions:
    """Where the records begin if each begins soon after the payload of the one before it: 0.5 us a record,
    however large it is."""
    starts, find = [offset], body.find
    beginning, data_at = form.beginning, form.data_at
    for _ in range((count or _MOST) - 1):
        offset += data_at
        head = body[offset]
        if head == _BYTES_16:
            offset += body[offset + 1] << 8 | body[offset + 2]
        elif head == _BYTES_8:
            offset += body[offset + 1]
        elif head == _BYTES_32:
            offset += int.from_bytes(body[offset + 1 : offset + 5])
        offset = find(beginning, offset, offset + _AFTER_PAYLOAD)
        if offset < 0:
            break
        starts.append(offset)
    return np.array(starts, np.int64)


def _proven(
    body: Body, starts: _Positions, form: _Form
) -> tuple[dict[str, tuple[_Positions, _Positions]], Any, int] | None:
    """Where each field's values begin and end, the arrivals, and where the last record ends; None if not all
    records have the form."""
    places: dict[str, tuple[_Positions, _Positions]] = {}
    arrivals: Any = None
    offsets = starts + 1
    if not _have(body, starts, form.beginning[:1]):
        return None
    for field in form.fields:
        if not _have(body, offsets, field.spelled):
            return None
        offsets = offsets + len(field.spelled)
        if field.kind == _MOMENT:
            arrivals = _numbers(body, offsets, _TIMES[field.spelled[-2:]]).astype(np.float64) / 1000
            offsets = offsets + 8
        elif field.kind != _SAME:
            place = _after_heads(body, offsets, field.kind)
            if place is None:
                return None
            places[field.name] = place
            offsets = place[1]
    if form.endless:
        if not _have(body, offsets, bytes((_BREAK,))):
            return None
        offsets = offsets + 1
    if not (offsets[:-1] == starts[1:]).all() or offsets[-1] > len(body):
        return None
    return places, arrivals, int(offsets[-1])


def _after_heads(body: Body, heads: _Positions, major: int) -> tuple[_Positions, _Positions] | None:
    """Where strings begin and end whose heads are at `offsets`; None if one of them isn't a string of this kind
    with a given length."""
    leads = _numbers(body, heads, "u1")
    if not (leads >> 5 == major).all():
        return None
    infos = (leads & 31).astype(np.int64)
    lengths, begin = infos.copy(), heads + 1
    for info in np.unique(infos[infos > 23]).tolist():
        width = _WIDTHS.get(info)
        if width is None:
            return None
        these = infos == info
        lengths[these] = _numbers(body, heads[these] + 1, f">u{width}")
        begin[these] += width
    return begin, begin + lengths


def _numbers(body: Body, offsets: _Positions, kind: str) -> Any:
    """The numbers of this kind at these places, which needn't be aligned."""
    item = np.dtype(kind)
    every: Any = np.ndarray((max(0, len(body) - item.itemsize + 1),), item, body, strides=(1,))
    return every[offsets]


def _have(body: Body, offsets: _Positions, expected: bytes) -> bool:
    """Whether these bytes are at all of these places."""
    return bool((_numbers(body, offsets, f"V{len(expected)}") == np.void(expected)).all())


def _columns(body: Body, places: dict[str, tuple[_Positions, _Positions]], arrivals: Any) -> Columns:
    import pyarrow as pa

    buffer = pa.py_buffer(body)
    count = len(arrivals)
    each_second = of_numpy(np.arange(0, 2 * count, 2, dtype=np.int32), pa.int32())

    def text(name: str) -> Any:
        # An array over the whole body, in which each second item is a value and the others are the bytes
        # between two values. Arrow then copies the values together. The last item is empty.
        bounds: Any = np.empty(2 * count + 1, np.int32)
        bounds[0:-1:2], bounds[1::2] = places[name]
        bounds[-1] = bounds[-2]
        alternating = pa.Array.from_buffers(pa.binary(), 2 * count, [None, pa.py_buffer(bounds), buffer])
        return alternating.take(each_second).cast(pa.string())

    return Columns(text("SequenceNumber"), text("PartitionKey"), views(body, *places["Data"]), arrivals)
