"""Payloads as views into the bytes of an answer: the same bytes, wherever they lie, and through each operation on rows."""

from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import example, given
from hypothesis import strategies as st

from headrace.pipeline.encoding.plain_arrow import begin_with, bytes_of, one_item, views
from headrace.pipeline.lake.files.binary_views import filtered, with_views, without_views

MARK = b"\xf3\x89\x9a\xc2"
# Arrow keeps an item of up to twelve bytes within its view.
ITEMS = st.lists(st.binary(max_size=30) | st.binary(max_size=4).map(MARK.__add__), max_size=8)
GAPS = st.binary(max_size=5)


def laid_out(items: list[bytes], gap: bytes) -> tuple[bytes, Any]:
    """The items one after the other in one piece of memory, and their views."""
    ends = np.cumsum([len(gap) + len(item) for item in items], dtype=np.int64)
    begins = ends - np.array([len(item) for item in items], np.int64)
    memory = b"".join(gap + item for item in items) + gap
    return memory, views(memory, begins, ends)


@given(ITEMS, GAPS)
@example([b"", b"x" * 12, b"y" * 13], b"")
def test_views_show_the_bytes_between_their_places(items: list[bytes], gap: bytes):
    _, column = laid_out(items, gap)
    column.validate(full=True)
    assert column.to_pylist() == items
    assert column.cast(pa.binary()).to_pylist() == items


@given(ITEMS, GAPS, st.integers(0, 8), st.integers(0, 8))
def test_sizes_and_beginnings_are_those_of_the_items(items: list[bytes], gap: bytes, first: int, count: int):
    _, column = laid_out(items, gap)
    part, expected = column.slice(first, count), items[first : first + count]
    assert bytes_of(part) == sum(map(len, expected))
    assert begin_with(part, MARK).tolist() == [item.startswith(MARK) for item in expected]


def test_a_long_payload_stays_where_it_is():
    memory, column = laid_out([b"x" * 100], b"")
    assert column.buffers()[2].address == pa.py_buffer(memory).address


@given(ITEMS, st.data())
def test_rows_with_views_are_filtered_as_rows_without(items: list[bytes], data: st.DataObject):
    wanted = pa.array(
        data.draw(st.lists(st.booleans(), min_size=len(items), max_size=len(items))), pa.bool_()
    )
    plain = pa.RecordBatch.from_pydict({"number": [*range(len(items))], "data": pa.array(items, pa.binary())})
    found = filtered(with_views(plain), wanted)
    assert found.schema.field("data").type == pa.binary_view()
    assert without_views(found) == plain.filter(wanted) == filtered(plain, wanted)


def test_rows_of_typed_tables_are_filtered_as_they_are():
    """A typed table may have a column `data` of any type, or none."""
    rows = pa.RecordBatch.from_pydict({"data": ["a", "b"]})
    assert filtered(rows, pa.array([False, True])).to_pylist() == [{"data": "b"}]
    assert filtered(rows.rename_columns(["other"]), pa.array([True, False])).to_pylist() == [{"other": "a"}]


@given(st.binary(max_size=50))
def test_one_item_is_a_column_of_one_row(item: bytes):
    assert one_item(item).to_pylist() == [item]
