"""Rows are the same if each is there as often, in whatever order."""

from __future__ import annotations

import pytest

from headrace.pipeline.core.shards.stream import ShardKey, StreamId
from tests.memory.parse import TypedRow
from tests.simulation.watch.typed_watch import are_same_rows

_ONE, _OTHER = (ShardKey(StreamId("arn:orders", 1), name) for name in ("shard-1", "shard-2"))
_ROW, _NEXT = TypedRow(_ONE, 1, "", "3"), TypedRow(_ONE, 2, "", "3")
_OF_OTHER_SHARD, _OF_OTHER_VERSION = TypedRow(_OTHER, 1, "", "3"), TypedRow(_ONE, 1, "", "4")


@pytest.mark.parametrize(
    ("rows", "others"),
    [([], []), ([_ROW, _NEXT], [_NEXT, _ROW]), ([_ROW, _OF_OTHER_SHARD], [_OF_OTHER_SHARD, _ROW])],
)
def test_rows_in_another_order_are_the_same(rows: list[TypedRow], others: list[TypedRow]):
    assert are_same_rows(rows, others)


@pytest.mark.parametrize(
    ("rows", "others"),
    [
        ([_ROW], []),
        ([_ROW, _NEXT], [_ROW, _ROW]),
        ([_ROW, _ROW], [_ROW, _NEXT]),
        ([_ROW, _ROW], [_ROW]),
        ([_ROW], [_OF_OTHER_SHARD]),
        ([_ROW], [_OF_OTHER_VERSION]),
        ([_ROW, _OF_OTHER_SHARD], [_ROW, _ROW]),
    ],
)
def test_rows_of_which_one_differs_or_is_there_more_often_are_not(
    rows: list[TypedRow], others: list[TypedRow]
):
    assert not are_same_rows(rows, others)
    assert not are_same_rows(others, rows)
