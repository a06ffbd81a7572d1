"""An answer gives the same rows in JSON and in CBOR, read in bulk or one by one, as in a plain loop."""

import json
from base64 import b64encode
from datetime import UTC, datetime
from typing import Any

import msgspec
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.pipeline.aws.reading import pages_decode
from headrace.pipeline.aws.reading.cbor_records import records_in_bulk
from headrace.pipeline.aws.reading.pages_check import Absurd
from headrace.pipeline.aws.reading.pages_decode import PageAnswer, decode_answer, decode_cbor_answer
from headrace.pipeline.core.shards.stream import ShardKey, StreamId
from headrace.pipeline.encoding.cbor import NotCborError, Raw, encoded
from tests.aws.plain_decode import plain_rows
from tests.aws.spelled_cbor import Spelling, cbor_answer

KEY = ShardKey(
    StreamId("arn:aws:kinesis:eu-west-1:123456789012:stream/orders", 1_769_000_000), "shardId-000000000007"
)
NOW = datetime(2026, 6, 1, tzinfo=UTC)
FIELDS = ("SequenceNumber", "PartitionKey", "Data", "ApproximateArrivalTimestamp", "EncryptionType")

_payloads = st.one_of(
    st.binary(max_size=40),
    st.sampled_from([0, 1, 23, 24, 255, 256, 70_000]).map(bytes),
    # Bytes with which a record begins, within a payload.
    st.just(b"\xa4" + encoded("SequenceNumber") + b"\xbf" + encoded("Data")),
)
_keys = st.one_of(st.text(st.characters(exclude_categories=["Cs"]), max_size=8), st.just("k" * 256))
_millis = st.integers(1_500_000_000_000, 1_780_000_000_000)
_orders = st.permutations(FIELDS).map(tuple)
_spellings = st.builds(
    Spelling,
    endless_maps=st.booleans(),
    endless_list=st.booleans(),
    float_moments=st.booleans(),
    long_heads=st.booleans(),
    order=_orders,
)


@st.composite
def _records(draw: st.DrawFn) -> list[dict[str, Any]]:
    """Records that Kinesis could give. The fields that Headrace doesn't know are in all of them or in some."""
    number = draw(st.integers(0, 10**56))
    everywhere = draw(st.booleans())
    found = []
    for _ in range(draw(st.integers(0, 6))):
        number += draw(st.one_of(st.integers(1, 100), st.integers(1, 10**57)))
        record: dict[str, Any] = {
            "SequenceNumber": str(number),
            "PartitionKey": draw(_keys),
            "Data": draw(_payloads),
            "ApproximateArrivalTimestamp": draw(_millis) / 1000,
        }
        if everywhere or draw(st.integers(0, 9)) == 0:
            record["EncryptionType"] = "KMS"
        if draw(st.integers(0, 9)) == 0:
            record["New"] = draw(st.sampled_from([None, True, 7, [1, {"a": "b"}], {"Data": "x"}]))
        found.append(record)
    return found


def rows(answer: PageAnswer) -> list[dict[str, Any]]:
    return [] if answer.records is None else answer.records.to_pylist()


def in_json(records: list[dict[str, Any]], *, ascii_only: bool = True, **around: Any) -> bytes:
    spelled = [{**record, "Data": b64encode(record["Data"]).decode()} for record in records]
    return json.dumps({"Records": spelled, **around}, ensure_ascii=ascii_only).encode()


@given(records=_records(), ascii_only=st.booleans())
def test_an_answer_in_json_gives_the_rows_of_a_plain_loop(records: list[dict[str, Any]], *, ascii_only: bool):
    answer = decode_answer(
        in_json(records, ascii_only=ascii_only, MillisBehindLatest=5, NextShardIterator="n"), KEY, NOW
    )

    _equals_the_plain_rows(answer, records)


@given(_records(), _spellings)
def test_an_answer_in_cbor_gives_the_rows_of_a_plain_loop(records: list[dict[str, Any]], spelling: Spelling):
    answer = decode_cbor_answer(
        cbor_answer(records, spelling, MillisBehindLatest=5, NextShardIterator="n"), KEY, NOW
    )

    _equals_the_plain_rows(answer, records)


def _equals_the_plain_rows(answer: PageAnswer, records: list[dict[str, Any]]) -> None:
    expected = plain_rows(records, KEY, NOW)
    assert rows(answer) == expected
    assert (answer.rows, answer.bytes) == (len(records), sum(len(r["Data"]) for r in records))
    assert (answer.behind.total_seconds(), answer.next_iterator) == (0.005, "n")
    ends = [expected[0], expected[-1]] if expected else []
    assert [answer.first_sequence, answer.last_sequence] == [
        int(each["sequence_number"]) for each in ends
    ] or not ends
    assert [answer.first_arrival, answer.last_arrival] == ([e["arrival_ts"] for e in ends] or [None, None])


@given(_records(), _spellings)
def test_reading_in_bulk_gives_what_reading_one_by_one_gives(
    records: list[dict[str, Any]], spelling: Spelling
):
    body = cbor_answer(records, spelling, MillisBehindLatest=5, NextShardIterator="n")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pages_decode, "records_in_bulk", lambda *_: None)
        one_by_one = decode_cbor_answer(body, KEY, NOW)
    assert rows(decode_cbor_answer(body, KEY, NOW)) == rows(one_by_one)


@given(_records(), _spellings, st.data())
def test_a_changed_byte_of_a_cbor_answer_never_gives_rows_that_reading_one_by_one_refuses(
    records: list[dict[str, Any]], spelling: Spelling, data: st.DataObject
):
    """What the bulk reader proves has to be what the bytes say: so it accepts no more than the plain reader, and nothing else."""
    body = bytearray(cbor_answer(records, spelling, MillisBehindLatest=5, NextShardIterator="n"))
    body[data.draw(st.integers(0, len(body) - 1))] = data.draw(st.integers(0, 255))
    if data.draw(st.booleans()):
        del body[data.draw(st.integers(0, len(body) - 1)) :]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pages_decode, "records_in_bulk", lambda *_: None)
        one_by_one = _outcome(bytes(body))
    assert _outcome(bytes(body)) == one_by_one


def _outcome(body: bytes) -> object:
    try:
        answer = decode_cbor_answer(body, KEY, NOW)
    except (NotCborError, msgspec.DecodeError, Absurd):
        return "refused"
    return rows(answer), answer.next_iterator, answer.behind


RECORDS = [
    {
        "SequenceNumber": str(100 + n),
        "ApproximateArrivalTimestamp": 1_769_000_000.5 + n,
        "Data": b"x" * (n * 50),
        "PartitionKey": f"customer-{n}",
    }
    for n in range(40)
]


@pytest.mark.parametrize(
    "spelling",
    [
        Spelling(),
        Spelling(endless_maps=True, endless_list=True),
        Spelling(float_moments=True, long_heads=True),
        *(Spelling(order=(name,)) for name in FIELDS),
    ],
)
def test_records_of_one_form_are_read_in_bulk(spelling: Spelling):
    body = cbor_answer(RECORDS, spelling)

    found = records_in_bulk(body, body.index(b"gRecords") + len(b"gRecords"))

    assert found is not None
    assert len(found[0].data) == len(RECORDS)


def test_moments_in_seconds_instead_of_milliseconds_are_refused():
    records = [{**RECORDS[0], "ApproximateArrivalTimestamp": 1_769_000.0}]

    with pytest.raises(Absurd, match="in seconds and not in milliseconds"):
        decode_cbor_answer(cbor_answer(records), KEY, NOW)


@pytest.mark.parametrize("broken", ["Data", "PartitionKey", "SequenceNumber", "ApproximateArrivalTimestamp"])
def test_a_cbor_record_without_a_needed_field_is_refused_by_its_name(broken: str):
    records = [*RECORDS[:3], {name: value for name, value in RECORDS[3].items() if name != broken}]

    with pytest.raises(msgspec.DecodeError, match=broken):
        decode_cbor_answer(cbor_answer(records), KEY, NOW)


def test_a_partition_key_that_isnt_utf_8_is_refused():
    body = cbor_answer(RECORDS[:2]).replace(b"customer-1", b"customer-\xff")

    with pytest.raises(NotCborError, match="UTF-8"):
        decode_cbor_answer(body, KEY, NOW)


def test_bytes_after_a_cbor_answer_are_refused():
    with pytest.raises(NotCborError, match="1 bytes follow"):
        decode_cbor_answer(cbor_answer(RECORDS) + b"\x00", KEY, NOW)


def test_the_children_of_a_cbor_answer_are_those_of_the_json_answer():
    child = {
        "ShardId": "shardId-000000000008",
        "ParentShards": [KEY.shard_id],
        "HashKeyRange": {"StartingHashKey": "0", "EndingHashKey": "5"},
    }
    in_cbor = cbor_answer([], ChildShards=Raw(encoded([child])), MillisBehindLatest=0)

    assert (
        decode_cbor_answer(in_cbor, KEY, NOW).children
        == decode_answer(in_json([], ChildShards=[child], MillisBehindLatest=0), KEY, NOW).children
        != ()
    )


_POOLS: list[pa.ProxyMemoryPool] = []
"""Kept, because memory that Arrow got from a pool must not outlive the pool."""


def _requests_for_memory(payload: int) -> int:
    """How often Arrow asked for memory, or for more of it, while it took the fields of 300 records out of an answer."""
    record = {"SequenceNumber": "1" * 56, "PartitionKey": "k", "ApproximateArrivalTimestamp": 1_700_000_000}
    body = cbor_answer([{**record, "Data": bytes(payload)} for _ in range(300)], Spelling())
    before, pool = pa.default_memory_pool(), pa.proxy_memory_pool(pa.default_memory_pool())
    _POOLS.append(pool)
    pa.set_memory_pool(pool)
    try:
        assert records_in_bulk(body, body.index(b"Records") + len(b"Records")) is not None
        return pool.num_allocations()
    finally:
        pa.set_memory_pool(before)


def test_large_payloads_have_their_room_at_once_and_arent_moved_while_they_are_copied():
    # Without payloads, all fields have room enough from the start.
    assert _requests_for_memory(10_000) == _requests_for_memory(0)
