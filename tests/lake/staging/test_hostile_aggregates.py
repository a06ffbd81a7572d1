"""A hostile aggregate costs itself only: its neighbours are taken apart, and it takes about as much CPU time and memory as a harmless one of its size.

What is quadratic in the size of an aggregate takes hundreds of times as much as the harmless one.
"""

from collections.abc import Callable, Sequence
from functools import cache
from time import thread_time

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from headrace.pipeline.core.shards.shard import MAX_HASH_KEY, HashRange
from headrace.pipeline.kcl.deaggregate import MAGIC
from headrace.pipeline.lake.staging.aggregates import taken_apart
from tests.kcl.kpl import entry, message, number, sealed, text, varint
from tests.lake.kpl_pages import a_batch_of, aggregate, rows_in
from tests.typed.formats.costs import cpu_of, peak_of

SIZE = 128 * 1024
"""Bytes of each aggregate. `test_aggregates.py` has those that are as large as Kinesis takes, and would become gigabytes."""
TIMES = 10
"""How much more CPU time than the harmless aggregate a hostile one may take."""
MEMORY = 100 * 1024**2
"""Bytes that a page with one hostile aggregate may take. An aggregate whose user records take more than 64 MiB stays whole."""
SHARD = HashRange(0, MAX_HASH_KEY)


def filled(piece: bytes, *, begin: bytes = b"", size: int = SIZE) -> bytes:
    """A message of about so many bytes."""
    return begin + piece * ((size - len(begin)) // len(piece))


def harmless(size: int = SIZE) -> bytes:
    """User records of 10 bytes with a tag each: no form of KPL's own, so that this one, too, is read part by part."""
    return sealed(filled(entry(0, b"k" * 10, more=text(4, text(1, b"t"))), begin=text(1, b"user"), size=size))


def take_apart(datas: Sequence[bytes]) -> None:
    for _ in taken_apart(a_batch_of(datas), SHARD):
        pass


@cache
def cpu_of_harmless() -> float:
    return cpu_of(lambda: take_apart([harmless()]))


def costs_itself_only(hostile: bytes) -> None:
    page = [aggregate(b"a", b"b"), hostile, aggregate(b"c"), b"plain"]
    # This is also the first call, which may import and compile.
    assert peak_of(lambda: take_apart(page)) < MEMORY
    began = thread_time()
    taken = list(taken_apart(a_batch_of(page), SHARD))
    assert thread_time() - began < TIMES * cpu_of_harmless()
    rows = rows_in(taken)
    neighbours = [row for row in rows if row[0] != "2"]
    assert [(row[0], row[1], row[4], row[5]) for row in neighbours] == [
        ("1", 0, b"a", None),
        ("1", 1, b"b", None),
        ("3", 0, b"c", None),
        ("4", 0, b"plain", None),
    ]


def test_a_harmless_aggregate_costs_in_proportion_to_its_size():
    small = harmless(SIZE // 16)
    assert cpu_of_harmless() < 16 * 4 * cpu_of(lambda: take_apart([small]))


def _many_keys(more: bytes = b"") -> bytes:
    """Each user record has a key and an explicit hash key of its own."""
    many = range(SIZE // 40)
    keys, hash_keys = (
        b"".join(text(1, b"%d" % n) for n in many),
        b"".join(text(2, b"%d" % n) for n in many),
    )
    return keys + hash_keys + b"".join(entry(n, b"", hash_key=n, more=more) for n in many)


MESSAGES: dict[str, Callable[[], bytes]] = {
    "user records without a byte": lambda: filled(entry(0, b""), begin=text(1, b"k")),
    "user records without anything": lambda: filled(text(3, b""), begin=text(1, b"k")),
    "one large key for all user records": lambda: filled(entry(0, b""), begin=text(1, b"k" * (SIZE // 2))),
    "empty keys and no user record": lambda: filled(text(1, b"")),
    "many keys and no user record": lambda: b"".join(text(1, b"%d" % n) for n in range(SIZE // 8)),
    "a key for each user record": _many_keys,
    "a key for each user record, which has a tag": lambda: _many_keys(text(4, text(1, b"t"))),
    "explicit hash keys with very many digits": lambda: message(
        entry(0, b"a", hash_key=0), hash_keys=(b"9" * (SIZE - 100),)
    ),
    "explicit hash keys of many zeros and signs": lambda: message(
        *(entry(0, b"a", hash_key=n) for n in range(2)),
        hash_keys=(b"-" + b"0" * (SIZE // 2), b"+-" * (SIZE // 4)),
    ),
    "many explicit hash keys with many digits": lambda: message(
        *(entry(0, b"a", hash_key=n) for n in range(SIZE // 4096)),
        hash_keys=tuple(b"1" * 4000 for _ in range(SIZE // 4096)),
    ),
    "indexes that lead nowhere": lambda: filled(entry(2**63, b""), begin=text(1, b"k")),
    "numbers of ten bytes in fields that nobody knows": lambda: filled(number(9, 2**63)),
    "texts in fields that nobody knows": lambda: filled(text(9, b"")),
    "groups inside of groups": lambda: filled(varint(9 << 3 | 3)),
    "groups one after the other": lambda: filled(varint(9 << 3 | 3) + varint(9 << 3 | 4)),
    "tags of each user record": lambda: filled(
        entry(0, b"", more=text(4, text(1, b"t")) * 20), begin=text(1, b"k")
    ),
    "one user record with very many tags": lambda: message(
        entry(0, b"", more=text(4, text(1, b"t")) * (SIZE // 8))
    ),
    "one user record whose fields come again and again": lambda: message(
        entry(0, b"", more=number(1, 0) * (SIZE // 4))
    ),
    "keys that aren't UTF-8": lambda: filled(entry(0, b""), begin=text(1, b"\xed\xa0\x80" * (SIZE // 8))),
    "the marks of aggregates": lambda: filled(MAGIC),
    "aggregates inside": lambda: message(*(entry(0, aggregate(b"a", b"b")) for _ in range(SIZE // 64))),
}


@pytest.mark.parametrize("make", MESSAGES.values(), ids=MESSAGES.keys())
def test_a_hostile_aggregate_costs_about_as_much_as_a_harmless_one(make: Callable[[], bytes]):
    costs_itself_only(sealed(make()))


def test_a_record_that_only_begins_as_an_aggregate_costs_about_as_much_as_a_harmless_one():
    costs_itself_only(filled(MAGIC))
    costs_itself_only(sealed(filled(b"\xff")))


FIELDS = st.one_of(
    st.builds(text, st.integers(1, 9), st.binary(max_size=40)),
    st.builds(number, st.integers(1, 9), st.sampled_from([0, 1, 300, 2**32, 2**63])),
    st.builds(entry, st.sampled_from([0, 1, 300]), st.binary(max_size=12)),
    st.binary(min_size=1, max_size=6),
)


@settings(max_examples=8, phases=[Phase.generate])
@given(st.lists(FIELDS, min_size=1, max_size=4), st.lists(FIELDS, min_size=1, max_size=3))
def test_whatever_is_repeated_in_an_aggregate_costs_about_as_much_as_a_harmless_one(
    once: list[bytes], again: list[bytes]
):
    costs_itself_only(sealed(filled(b"".join(again), begin=b"".join(once))))
