"""Aggregates of the Kinesis Producer Library are unpacked as KCL for Java does it."""

from hashlib import md5

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.pipeline.core.shards.shard import MAX_HASH_KEY, HashRange
from headrace.pipeline.kcl.deaggregate import UserRecord, unpack
from tests.kcl.kpl import MAGIC, entry, group, message, number, sealed, text, varint

A, B = UserRecord("k", None, b"a", 0, aggregated=True), UserRecord("k", None, b"b", 1, aggregated=True)


def passed_through(data):
    return unpack(data, "outer").records == (UserRecord("outer", None, data),)


USERS = st.lists(
    st.tuples(
        st.text(min_size=1, max_size=20), st.none() | st.integers(0, MAX_HASH_KEY), st.binary(max_size=50)
    ),
    max_size=12,
)


@given(USERS)
def test_user_records_come_out_of_an_aggregate_in_order(users):
    keys = tuple(key.encode() for key, _, _ in users)
    hash_keys = tuple(str(explicit or 0).encode() for _, explicit, _ in users)
    entries = [
        entry(n, data, hash_key=None if explicit is None else n)
        for n, (_, explicit, data) in enumerate(users)
    ]
    data = sealed(message(*entries, keys=keys, hash_keys=hash_keys))
    if not keys:
        return
    assert unpack(data, "outer").records == tuple(
        UserRecord(key, None if explicit is None else str(explicit), payload, n, aggregated=True)
        for n, (key, explicit, payload) in enumerate(users)
    )


@given(st.binary(max_size=80), st.booleans())
def test_any_bytes_are_handled_and_records_that_are_no_aggregates_stay_as_they_are(data, marked):
    assert passed_through(MAGIC + data if marked else data)


@given(st.binary(max_size=60))
def test_a_message_of_any_bytes_with_a_valid_digest_is_either_read_or_passed_through(body):
    found = unpack(sealed(body), "outer")
    assert found.broken or all(r.aggregated or r.data == sealed(body) for r in found.records)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        MAGIC[:3],
        MAGIC,
        MAGIC + bytes(16),
        sealed(message(entry(0, b"a")))[:-1] + b"\0",
        b"\0" + sealed(message(entry(0, b"a"))),
        sealed(message(text(3, text(3, b"a")))),
        sealed(message(text(3, number(1, 0)))),
        sealed(message(entry(0, b"a", more=text(4, text(2, b"value"))))),
        sealed(message(entry(0, b"a")) + varint(9 << 3 | 6)),
        sealed(message(entry(0, b"a")) + varint(0)),
        sealed(message(entry(0, b"a")) + varint(9 << 3 | 4)),
        sealed(message(entry(0, b"a")) + varint(9 << 3 | 3)),
        sealed(message(entry(0, b"a")) + varint(9 << 3 | 3) + varint(8 << 3 | 4)),
        sealed(message(entry(0, b"a")) + varint(9 << 3 | 2) + varint(5) + b"abcd"),
        sealed(message(entry(0, b"a")) + varint(9 << 3 | 2) + varint(2**31)),
        sealed(message(entry(0, b"a")) + varint(9 << 3) + b"\xff" * 10 + b"\x01"),
        sealed(
            message(entry(0, b"a"))
            + b"".join(varint(9 << 3 | 3) for _ in range(101))
            + varint(9 << 3 | 4) * 101
        ),
    ],
    ids=[
        "empty",
        "too short for the mark",
        "nothing but the mark",
        "no room for a message",
        "another digest",
        "the mark not in front",
        "no key",
        "no data",
        "a tag without key",
        "wire type 6",
        "field 0",
        "an end without a group",
        "a group without an end",
        "a group that ends as another",
        "cut off",
        "a negative length",
        "a number of eleven bytes",
        "101 groups deep",
    ],
)
def test_a_record_that_isnt_exactly_an_aggregate_is_passed_through(data):
    assert passed_through(data)


@pytest.mark.parametrize(
    "body",
    [
        message(entry(0, b"a"), entry(0, b"b")),
        message(entry(0, b"a", more=text(4, text(1, b"name") + text(2, b"value"))), entry(0, b"b")),
        message(entry(0, b"a"), entry(0, b"b"))
        + number(9, 1)
        + text(9, b"x")
        + group(9, number(1, 1) + group(2, b"")),
        message(entry(0, b"a"), entry(0, b"b"))
        + number(3, 7)
        + varint(9 << 3 | 1)
        + bytes(8)
        + varint(9 << 3 | 5)
        + bytes(4),
        entry(0, b"a") + entry(0, b"b") + message(),
        message(entry(0, b"a", more=number(1, 0) + text(3, b"a")), entry(2**32, b"b")),
        message(entry(0, b"a"), entry(0, b"b")) + varint(9 << 3 | 3) * 100 + varint(9 << 3 | 4) * 100,
    ],
    ids=[
        "plain",
        "tags",
        "unknown fields",
        "another wire type",
        "tables last",
        "Java's integers",
        "100 groups deep",
    ],
)
def test_every_form_of_aggregate_that_java_reads_is_read(body):
    assert unpack(sealed(body), "outer").records == (A, B)


def test_an_aggregate_without_user_records_gives_none():
    assert unpack(sealed(message()), "outer") == unpack(sealed(message(keys=(b"x", b"y"))), "outer")
    assert unpack(sealed(message()), "outer").records == ()


def test_one_user_record_outside_of_the_shard_discards_the_whole_aggregate():
    data = sealed(message(entry(0, b"a", hash_key=0), entry(0, b"b", hash_key=1), hash_keys=(b"10", b"21")))
    assert len(unpack(data, "outer", HashRange(10, 21)).records) == 2
    assert unpack(data, "outer", HashRange(10, 20)).records == ()
    assert unpack(data, "outer", HashRange(11, 21)).records == ()
    assert unpack(b"plain", "outer", HashRange(0, 0)).records == (UserRecord("outer", None, b"plain"),)


def test_without_an_explicit_hash_key_the_md5_of_the_partition_key_decides():
    hashed = int.from_bytes(md5(b"k", usedforsecurity=False).digest())
    data = sealed(message(entry(0, b"a")))
    assert unpack(data, "outer", HashRange(hashed, hashed)).records == (A,)
    assert unpack(data, "outer", HashRange(hashed + 1, MAX_HASH_KEY)).records == ()


@pytest.mark.parametrize("odd", [b"-1", str(2**128).encode(), b"9" * 10_000])
def test_an_invalid_hash_key_lies_outside_of_every_range(odd):
    assert unpack(sealed(message(entry(0, b"a", hash_key=0), hash_keys=(odd,))), "outer").records == ()


@pytest.mark.parametrize(
    ("second", "hash_keys"),
    [
        (entry(1, b"b"), ()),
        (entry(2**31, b"b"), ()),
        (entry(0, b"b", hash_key=0), ()),
        (entry(0, b"b", hash_key=0), (b"seven",)),
        (entry(0, b"b", hash_key=0), (b" 7",)),
        (entry(0, b"b", hash_key=0), (b"",)),
    ],
)
def test_user_records_before_a_broken_one_are_kept_and_the_reason_is_given(second, hash_keys):
    found = unpack(sealed(message(entry(0, b"a"), second, entry(0, b"c"), hash_keys=hash_keys)), "outer")
    assert found.records == (A,)
    assert found.broken is not None
    assert "user record 1 of 3" in found.broken


@pytest.mark.parametrize(
    ("key", "seen"),
    [
        (b"\xff\xfe", "\ufffd\ufffd"),
        (b"a\xe2\x82", "a\ufffd"),
        (b"\xed\xa0\x80z", "\ufffdz"),
        (b"\xed\xb0z", "\ufffdz"),
        (b"\xf0\x9f\x98\x80", "😀"),
    ],
)
def test_a_malformed_partition_key_is_decoded_as_java_does(key, seen):
    (record,) = unpack(sealed(message(entry(0, b"a"), keys=(key,))), "outer").records
    assert record.partition_key == seen
