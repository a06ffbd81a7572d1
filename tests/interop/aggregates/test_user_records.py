"""The judge of user records finds each fault that a landing could have."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from headrace.pipeline.kcl.deaggregate import MAGIC, OUTSIDE
from tests.interop.aggregates.user_records import Put, Raw, Row, Seen, faults, only_whole

SHARD = "shardId-000000000000"
AB, CD = MAGIC + b"a,b", MAGIC + b"c,d"
STREAM = {
    SHARD: [Raw("7", "outer", AB), Raw("8", "outer", CD), Raw("9", "outer", CD), Raw("10", "key", b"plain")]
}
"""The stand-in for aggregates here: payloads with commas between them. KPL put the second aggregate again, as the third."""
PUTS = [
    Put(SHARD, number, "key", None, data)
    for number, data in (("7", b"a"), ("7", b"b"), ("9", b"c"), ("9", b"d"))
]
PUTS.append(Put(SHARD, "10", "key", "12", b"plain"))
SOUND = [
    Row(SHARD, "7", 0, "key", None, b"a"),
    Row(SHARD, "7", 1, "key", None, b"b"),
    Row(SHARD, "8", 0, "outer", None, CD, OUTSIDE),
    Row(SHARD, "9", 0, "key", None, b"c"),
    Row(SHARD, "9", 1, "key", None, b"d"),
    Row(SHARD, "10", 0, "key", None, b"plain"),
]
TWICE = [*SOUND[:2], *(row._replace(sequence="8") for row in SOUND[3:5]), *SOUND[3:]]
"""The second aggregate isn't outside of the shard: its user records are in the stream twice."""


def _taken_apart(shard: str, record: Raw) -> Iterator[Seen]:
    for sub, data in enumerate(record.data.removeprefix(MAGIC).split(b",")):
        yield Seen(shard, record.sequence, sub, "key", data)


def _faults(rows: list[Row], puts: list[Put] = PUTS) -> list[str]:
    return faults(puts, {b"c", b"d"}, STREAM, {SHARD: rows}, _taken_apart)


@pytest.mark.parametrize("rows", [SOUND, TWICE])
def test_rows_that_are_the_streams_user_records_have_no_fault(rows):
    assert _faults(rows) == []


@pytest.mark.parametrize(("rows", "says"), [
    (SOUND[:-1], "5 rows, and the stream has 6"),
    ([*SOUND, SOUND[-1]], "7 rows, and the stream has 6"),
    ([SOUND[1], SOUND[0], *SOUND[2:]], "row 0 is"),
    ([*SOUND[:3], *SOUND[4:]], "row 3 is"),
    ([*SOUND[:1], SOUND[1]._replace(sub=2), *SOUND[2:]], "row 1 is"),
    ([*SOUND[:1], SOUND[1]._replace(hash_key="12"), *SOUND[2:]], "no producer put it"),
    ([SOUND[0]._replace(data=b"A"), *SOUND[1:]], "row 0 is"),
    ([SOUND[0]._replace(error="damaged"), *SOUND[1:]], "row 0 is"),
    ([*SOUND[:2], SOUND[2]._replace(data=b"c"), *SOUND[3:]], "row 2 is"),
    ([*SOUND[:2], *SOUND[3:]], "row 2 is"),
    ([], "0 rows, and the stream has 7"),
])  # fmt: skip
def test_a_fault_is_found(rows: list[Row], says: Any):
    assert any(says in fault for fault in _faults(rows))


def test_a_user_record_of_a_whole_aggregate_is_not_missing_but_counted():
    counted = Put(SHARD, "8", "key", None, b"c")
    assert _faults(SOUND, [counted, *PUTS]) == []
    assert only_whole([counted, *PUTS], {SHARD: SOUND}, _taken_apart) == [counted]
    elsewhere = counted._replace(payload=b"x")
    assert any("landed 0 times" in fault for fault in _faults(SOUND, [elsewhere, *PUTS]))


def test_a_row_that_nobody_put_is_found():
    assert any("no producer put it" in fault for fault in _faults(TWICE, PUTS[1:]))
