"""Messages of an event stream are read whole and unchanged, or not at all."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.pipeline.aws.reading.event_frames import BadFrameError, Frame, FrameReader
from headrace.pipeline.local import event_stream

PAYLOADS = st.lists(st.binary(max_size=60), min_size=1, max_size=4)


@given(PAYLOADS, st.data())
def test_messages_are_the_same_wherever_the_network_cuts_them(payloads: list[bytes], data: st.DataObject):
    stream = b"".join(event_stream.event("SubscribeToShardEvent", payload) for payload in payloads)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=6)))
    reader = FrameReader()

    frames = [
        frame
        for start, end in zip([0, *cuts], [*cuts, len(stream)], strict=True)
        for frame in reader.feed(stream[start:end])
    ]

    assert frames == [Frame("event", "SubscribeToShardEvent", payload) for payload in payloads]
    assert reader.is_between


@given(st.binary(max_size=40), st.data())
def test_a_changed_bit_is_never_read_as_a_message(payload: bytes, data: st.DataObject):
    stream = bytearray(event_stream.event("SubscribeToShardEvent", payload))
    stream[data.draw(st.integers(0, len(stream) - 1))] ^= 1 << data.draw(st.integers(0, 7))

    with pytest.raises(BadFrameError):
        list(FrameReader().feed(bytes(stream)))


def test_half_a_message_isnt_a_message():
    reader = FrameReader()

    assert list(reader.feed(event_stream.event("SubscribeToShardEvent", b"{}")[:-1])) == []
    assert not reader.is_between


@pytest.mark.parametrize(
    ("message", "frame"),
    [
        (
            event_stream.exception("InternalFailureException", b"{}"),
            ("exception", "InternalFailureException"),
        ),
        (
            event_stream.message(
                {":message-type": "error", ":error-code": "500", ":error-message": "x"}, b""
            ),
            ("error", "500"),
        ),
        (event_stream.initial_response(), ("event", "initial-response")),
        (event_stream.message({}, b""), ("", "")),
    ],
)
def test_each_kind_of_message_is_told_by_its_headers(message: bytes, frame: tuple[str, str]):
    (read,) = FrameReader().feed(message)

    assert (read.kind, read.name) == frame


def test_headers_of_other_types_are_passed_over():
    # A number of four bytes before the text that tells the kind.
    name = b"\x06length\x04\x00\x00\x00\x07"
    plain = event_stream.message({":message-type": "event", ":event-type": "Known"}, b"x")
    head = plain[12 : -len(b"x") - 4]

    (read,) = FrameReader().feed(_with_headers(name + head, b"x"))

    assert read == Frame("event", "Known", b"x")


def test_headers_that_cant_be_read_are_refused():
    with pytest.raises(BadFrameError):
        list(FrameReader().feed(_with_headers(b"\x7fcut", b"")))


def _with_headers(headers: bytes, payload: bytes) -> bytes:
    import struct
    from zlib import crc32

    lengths = struct.pack(">II", 16 + len(headers) + len(payload), len(headers))
    before = lengths + struct.pack(">I", crc32(lengths)) + headers + payload
    return before + struct.pack(">I", crc32(before))
