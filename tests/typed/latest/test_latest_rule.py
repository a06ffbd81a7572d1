"""Which rows leave a table of the latest rows: the rule is the same as that of a person who goes through the records one
by one, wherever waves are cut, and however shards are split and merged."""

from dataclasses import dataclass
from typing import Any

import hypothesis.strategies as st
import pyarrow as pa
import pytest
from hypothesis import given

from headrace.pipeline.core.shards.position import Position
from headrace.pipeline.core.shards.sort_texts import sort_key_of
from headrace.pipeline.typed.latest.rule import KEY_ROWS, LeavesBecause, leaving
from headrace.pipeline.typed.latest.task import joined_key
from tests.typed.latest.beds import decided


@dataclass(frozen=True)
class Change:
    key: str
    number: int
    """The record's sequence number."""
    deletes: bool
    epoch: int = 1


changes = st.lists(
    st.builds(
        Change,
        st.sampled_from("abcd"),
        st.integers(1, 10**21),
        st.booleans(),
    ),
    unique_by=lambda change: change.number,
    max_size=40,
)


def row_of(change: Change, place: int, *, fresh: bool, record_key: str | None = None) -> dict[str, Any]:
    return {
        "key": change.key.encode(),
        "epoch": change.epoch,
        "sort_key": sort_key_of(Position(change.number)),
        "fresh": fresh,
        "deletes": fresh and change.deletes,
        "record_key": record_key,
        "file": int(fresh),
        "row": place,
    }


def wave(there: dict[str, Change], records: list[Change], at_once: int) -> dict[str, Change]:
    """The table after a wave: what the rule leaves of the table's rows and of the wave's."""
    of_table = list(there.values())
    rows = [row_of(change, n, fresh=False) for n, change in enumerate(of_table)]
    rows += [row_of(change, n, fresh=True) for n, change in enumerate(records)]
    gone = {(row["file"], row["row"]) for row in decided(rows, at_once=at_once).to_pylist()}
    stay = [change for n, change in enumerate(of_table) if (0, n) not in gone]
    stay += [change for n, change in enumerate(records) if (1, n) not in gone]
    assert len({change.key for change in stay}) == len(stay), "a key has two rows"
    return {change.key: change for change in stay}


def one_by_one(records: list[Change]) -> dict[str, Change]:
    rows: dict[str, Change] = {}
    for change in records:
        rows.pop(change.key, None)
        if not change.deletes:
            rows[change.key] = change
    return rows


@given(changes, st.lists(st.integers(0, 40), max_size=5), st.integers(1, 7), st.randoms())
def test_waves_leave_what_going_through_the_records_one_by_one_does(
    records: list[Change], cuts: list[int], at_once: int, dice: Any
):
    # The numbers of a shard's children are greater than its own: so the order of a key's records is that of the numbers.
    in_order = sorted(records, key=lambda change: change.number)
    table: dict[str, Change] = {}
    for first, last in zip([0, *sorted(cuts)], [*sorted(cuts), len(in_order)], strict=True):
        part = in_order[first:last]
        # Tasks bring the rows of a wave in any order.
        dice.shuffle(part)
        table = wave(table, part, at_once)
    assert table == one_by_one(in_order)


@given(changes, st.integers(1, 7), st.data())
def test_an_older_record_that_comes_again_replaces_nothing_newer(
    records: list[Change], at_once: int, data: st.DataObject
):
    in_order = sorted(records, key=lambda change: change.number)
    table = wave({}, in_order, at_once)
    # Of keys that have a row: that a deleted key stays deleted rests on the positions, which no wave goes behind.
    again = [change for change in in_order if change.key in table and data.draw(st.booleans())]
    assert wave(table, again, at_once) == table


def test_each_row_that_isnt_in_the_table_has_its_reason():
    rows = [
        row_of(Change("a", 1, deletes=False), 0, fresh=False),
        row_of(Change("b", 9, deletes=False), 1, fresh=False),
        row_of(Change("a", 2, deletes=True), 0, fresh=True),
        row_of(Change("a", 3, deletes=True), 1, fresh=True),
        row_of(Change("b", 8, deletes=True), 2, fresh=True),
        row_of(Change("b", 9, deletes=False), 3, fresh=True),
        row_of(Change("c", 4, deletes=False), 4, fresh=True),
        # The stream was made again since, and its numbers may begin anywhere.
        row_of(Change("c", 2, deletes=False, epoch=2), 5, fresh=True),
    ]
    told = {(row["file"], row["row"]): LeavesBecause(row["why"]) for row in decided(rows).to_pylist()}
    assert told == {
        (0, 0): LeavesBecause.REPLACED,
        (1, 0): LeavesBecause.SUPERSEDED,
        (1, 1): LeavesBecause.DELETION,
        (1, 2): LeavesBecause.SUPERSEDED,
        (1, 3): LeavesBecause.SUPERSEDED,
        (1, 4): LeavesBecause.SUPERSEDED,
    }


def test_records_of_a_key_with_other_partition_keys_are_told():
    first, second = Change("a", 1, deletes=False), Change("a", 2, deletes=True)
    same = [row_of(change, n, fresh=True, record_key="p") for n, change in enumerate((first, second))]
    assert LeavesBecause.MIXED not in decided(same)["why"].to_pylist()
    other = [same[0], {**same[1], "record_key": "q"}]
    assert decided(other)["why"].to_pylist().count(LeavesBecause.MIXED) == 1


@pytest.mark.parametrize(
    ("one", "other", "count"), [("p", None, 1), (None, "p", 1), (None, None, 0), ("p", "p", 0)]
)
def test_a_partition_key_that_isnt_there_is_another_one_than_any_that_is(
    one: str | None, other: str | None, count: int
):
    rows = [
        row_of(Change("a", number, deletes=False), number, fresh=True, record_key=key)
        for number, key in enumerate((one, other), start=1)
    ]
    assert decided(rows)["why"].to_pylist().count(LeavesBecause.MIXED) == count


def test_a_batch_without_rows_ends_nothing():
    rows = [row_of(Change("a", number, deletes=False), number, fresh=True) for number in (1, 2)]
    first, second = pa.Table.from_pylist(rows, schema=KEY_ROWS).to_batches(max_chunksize=1)
    batches = [first.slice(0, 0), first, second.slice(0, 0), second, second.slice(0, 0)]
    assert [row for batch in leaving(batches) for row in batch.to_pylist()] == [
        {"file": 1, "row": 1, "why": LeavesBecause.SUPERSEDED}
    ]


@pytest.mark.parametrize(
    ("one", "other"), [(("a", "bc"), ("ab", "c")), (("1:a", ""), ("1", ":a")), ((None, "x"), ("-", "x"))]
)
def test_keys_of_several_columns_are_equal_only_where_each_column_is(
    one: tuple[str | None, str], other: tuple[str | None, str]
):
    rows = pa.table({"x": [one[0], other[0], one[0]], "y": [one[1], other[1], one[1]]})
    keys = joined_key(rows, ("x", "y")).to_pylist()
    assert keys[0] == keys[2] != keys[1]
    assert None not in keys
