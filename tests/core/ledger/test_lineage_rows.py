"""A ledger becomes rows of the lineage table, and the rows the same ledger again."""

import random
from datetime import UTC, datetime

from hypothesis import given
from hypothesis import strategies as st

from headrace.pipeline.core.ledger.ledger import LedgerEntry, LedgerPage, Lost
from headrace.pipeline.core.ledger.rows import lineage_rows_of
from headrace.pipeline.core.shards.position import Position, is_forward
from headrace.pipeline.core.shards.sort_texts import order_text
from tests.core.strategies import MOMENTS, PAGES, POSITIONS
from tests.memory.ledger_rows import ledgers_in

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


def an_entry(number: int, page: LedgerPage) -> LedgerEntry:
    return LedgerEntry(number * 7 % 5, number, NOON, page, writer="orders-1")


@given(st.lists(PAGES, max_size=2), st.randoms(use_true_random=False))
def test_ledgers_come_back_from_their_rows_in_any_order(pages: list[LedgerPage], dice: random.Random):
    entries = [an_entry(number, page) for number, page in enumerate(pages, start=1)]
    rows = [row for entry in entries for row in lineage_rows_of(entry)]
    dice.shuffle(rows)
    assert list(ledgers_in(rows)) == entries


@given(MOMENTS, st.text(max_size=20), PAGES)
def test_a_lost_part_comes_back_before_the_ledger_of_its_snapshot(at: datetime, why: str, page: LedgerPage):
    entry = LedgerEntry(5, 3, at, page)
    lost = Lost(5, 3, at, why)
    assert list(ledgers_in([*lineage_rows_of(entry), *lineage_rows_of(lost)])) == [lost, entry]


def test_each_ledger_has_at_least_one_row():
    (row,) = lineage_rows_of(an_entry(1, LedgerPage()))
    assert row["entry"] == "empty"


@given(POSITIONS, POSITIONS)
def test_the_sort_key_of_a_position_sorts_as_text_as_positions_do(one: Position, other: Position):
    if is_forward(one, other):
        assert order_text(one) <= order_text(other)
    assert (order_text(one) == order_text(other)) == (one.token == other.token)
