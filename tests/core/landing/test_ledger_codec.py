"""Positions and ledger as text: no value is lost, and a broken text is always the same error."""

import base64
import json
import zlib
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.pipeline.core.landing.ledger_codec import (
    DELTA_VERSION,
    VERSION,
    read_delta,
    read_full,
    read_ledger,
    read_positions,
    write_delta,
    write_full,
    write_ledger,
    write_positions,
)
from headrace.pipeline.core.landing.state_delta import Delta
from headrace.pipeline.core.ledger.ledger import LedgerPage
from headrace.pipeline.core.shards.position import Origin, Position, Positions, Start
from headrace.pipeline.core.shards.stream import ShardKey, StreamId
from headrace.pipeline.errors import WrongShape
from tests.core.strategies import ANY_JSON, KEYS, PAGES, table_positions

STREAM = StreamId("arn:aws:kinesis:eu-west-1:123456789012:stream/orders", 1_700_000_000)
NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
FIRST = datetime(1970, 1, 1, tzinfo=UTC)
READERS = [read_positions, read_ledger, read_full, read_delta]


def packed(body: Any) -> str:
    return f"{VERSION}:{base64.b85encode(zlib.compress(json.dumps(body).encode())).decode()}"


def body_of(text: str) -> Any:
    return json.loads(zlib.decompress(base64.b85decode(text.partition(":")[2])))


def some_positions(shards: int) -> Positions:
    """Positions of a busy stream: sequence numbers far apart, arrivals close together."""
    at = {
        ShardKey(STREAM, f"shardId-{i:012d}"): Position(
            49_590_338_271_490_256_608_559_692_538_361_571_095_921_575_989_136_588_898 + i * 7_919**13,
            arrival=NOON + timedelta(milliseconds=i * 37 % 1_000),
        )
        for i in range(shards)
    }
    return Positions({STREAM: Origin(Start(), NOON)}, at)


@given(table_positions())
def test_positions_come_back_as_they_were(book: Positions):
    text = write_positions(book)
    assert read_positions(text) == book
    assert text.isascii()


@given(table_positions())
def test_positions_in_a_file_come_back_as_they_were(book: Positions):
    assert read_full(write_full(book)) == book


@given(table_positions(), st.frozensets(KEYS, max_size=3), st.integers(0, 10**9))
def test_changes_of_positions_come_back_as_they_were(
    book: Positions, dropped: frozenset[ShardKey], spent: int
):
    delta = Delta(book.origins, book.shards, dropped, spent)
    assert read_delta(write_delta(delta)) == delta
    assert write_delta(delta).startswith(f"{DELTA_VERSION}:")


@given(table_positions(), st.integers(0, 10**6), st.sampled_from("0aZ~:{ é"))
def test_damaged_changes_are_either_read_or_refused_as_having_the_wrong_shape(
    book: Positions, where: int, letter: str
):
    text = write_full(book)
    where %= len(text)
    for damaged in (text[:where], text[:where] + letter + text[where + 1 :], text + letter):
        assert_read_or_refused(damaged)


@given(ANY_JSON)
def test_changes_with_other_contents_are_either_read_or_refused_as_having_the_wrong_shape(body: Any):
    body = {"positions": [], "streams": [], "dropped": [], "spent": 0} | (
        body if isinstance(body, dict) else {"spent": body}
    )
    assert_read_or_refused(
        f"{DELTA_VERSION}:{base64.b64encode(zlib.compress(json.dumps(body).encode())).decode()}"
    )


@given(PAGES)
def test_a_ledger_comes_back_as_it_was(page: LedgerPage):
    text = write_ledger(page)
    assert read_ledger(text) == page
    assert text.isascii()


@given(table_positions())
def test_equal_positions_give_the_same_text(book: Positions):
    shuffled = Positions(
        dict(reversed(list(book.origins.items()))), dict(reversed(list(book.shards.items())))
    )
    assert write_positions(shuffled) == write_positions(book)


def test_a_shard_takes_few_bytes():
    assert len(write_positions(some_positions(1_000))) / 1_000 < 50


@given(st.text(max_size=40))
def test_a_random_text_is_refused_as_having_the_wrong_shape(text: str):
    for read in READERS:
        with pytest.raises(WrongShape):
            read(text)


@given(table_positions(), st.integers(0, 10**6), st.sampled_from("0aZ~:{ é"))
def test_a_damaged_text_is_either_read_or_refused_as_having_the_wrong_shape(
    book: Positions, where: int, letter: str
):
    text = write_positions(book)
    where %= len(text)
    for damaged in (text[:where], text[:where] + letter + text[where + 1 :], text + letter):
        assert_read_or_refused(damaged)


@given(ANY_JSON)
def test_a_text_with_other_contents_is_either_read_or_refused_as_having_the_wrong_shape(body: Any):
    assert_read_or_refused(packed(body))


@given(st.data())
def test_a_text_with_one_odd_value_is_either_read_or_refused_as_having_the_wrong_shape(data: st.DataObject):
    positions, ledger = (
        body_of(write_positions(data.draw(table_positions()))),
        body_of(write_ledger(data.draw(PAGES))),
    )
    odd = data.draw(ANY_JSON)
    for body in (positions, ledger):
        places = list(places_in(body))
        if places:
            holder, key = data.draw(st.sampled_from(places))
            holder[key] = odd
        assert_read_or_refused(packed(body))


def places_in(body: Any) -> Any:
    """Each place in a JSON value: the list or dictionary, and the index or key."""
    for key, value in body.items() if isinstance(body, dict) else enumerate(body):
        yield body, key
        if isinstance(value, (dict, list)):
            yield from places_in(value)


def assert_read_or_refused(text: str) -> None:
    for read in READERS:
        try:
            found = read(text)
        except WrongShape:
            continue
        assert isinstance(found, (Positions, LedgerPage, Delta))


@pytest.mark.parametrize(
    "row", [[10**17, 1], [-(10**17), 1], [None, 10**30], [None, float("inf")], [None, float("nan")]]
)
def test_a_time_out_of_range_is_refused_as_having_the_wrong_shape(row: list[Any]):
    body = [[STREAM.arn, STREAM.epoch, [row[0], 0], [[0, "1", row[1], row[0]]]]]
    with pytest.raises(WrongShape, match="positions"):
        read_positions(packed(body))


def test_a_deeply_nested_text_is_refused_as_having_the_wrong_shape():
    deep = "[" * 200_000 + "]" * 200_000
    text = f"{VERSION}:{base64.b85encode(zlib.compress(deep.encode())).decode()}"
    with pytest.raises(WrongShape):
        read_positions(text)


@pytest.mark.parametrize("version", ["0", "2", "10", "", "x" * 1_000])
def test_the_error_for_an_unknown_version_says_what_to_do(version: str):
    text = write_positions(some_positions(1)).partition(":")[2]
    with pytest.raises(WrongShape, match="upgrade Headrace") as error:
        read_positions(f"{version}:{text}")
    assert len(str(error.value)) < 300


def test_a_compressed_text_that_would_become_huge_is_not_unpacked():
    bomb = zlib.compress(b"[" + b" " * (65 * 1024 * 1024) + b"]", 9)
    with pytest.raises(WrongShape, match="larger than any"):
        read_positions(f"{VERSION}:{base64.b85encode(bomb).decode()}")


def test_a_shard_id_with_digits_outside_of_ascii_comes_back_as_it_was():
    key = ShardKey(STREAM, "shardId-" + "\u0660" * 11 + "\u0661")
    book = Positions({}, {key: Position(1)})
    assert read_positions(write_positions(book)) == book


@pytest.mark.parametrize("at", [{"arrival": FIRST}, {"seen": FIRST}, {"arrival": FIRST, "seen": FIRST}])
def test_the_first_moment_of_1970_comes_back_and_doesnt_become_no_time(at: dict[str, Any]):
    """Adopting gives it to a position whose record Kinesis has trimmed: without a time, the loss would go unnoticed."""
    key = ShardKey(STREAM, "shardId-000000000001")
    for position in (Position(**at), Position(1, **at), Position(1, ended=True, **at)):
        book = Positions({}, {key: position})
        assert read_positions(write_positions(book)) == book


def test_a_time_is_cut_to_milliseconds_and_not_rounded_up():
    key = ShardKey(STREAM, "shardId-000000000001")
    at = Position(1, arrival=NOON + timedelta(microseconds=999))
    found = read_positions(write_positions(Positions({}, {key: at})))
    assert found.shards[key] == replace(at, arrival=NOON)
