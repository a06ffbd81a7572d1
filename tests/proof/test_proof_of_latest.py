"""The proof of a table of the latest rows notices each kind of wrong row, by rows that are sorted by their keys."""

from collections.abc import Sequence
from typing import Any

import hypothesis.strategies as st
import pyarrow as pa
from hypothesis import given

from headrace.pipeline.core.shards.position import Position
from headrace.pipeline.core.shards.sort_texts import sort_key_of
from headrace.pipeline.proof.latest.checks import latest_checks
from headrace.pipeline.proof.latest.facts import LatestCounts, LatestFacts
from headrace.pipeline.proof.latest.rule import ROWS, RowKind, latest_counts


def row(key: str, number: int, kind: RowKind, *, deletes: bool = False) -> dict[str, Any]:
    return {
        "key": key.encode(),
        "epoch": 1,
        "sort_key": sort_key_of(Position(number)),
        "kind": int(kind),
        "deletes": deletes,
    }


def counted(rows: Sequence[dict[str, Any]], at_once: int = 2) -> LatestCounts:
    order = sorted(rows, key=lambda row: (row["key"], row["epoch"], row["sort_key"], row["kind"]))
    return latest_counts(
        pa.RecordBatch.from_pylist(order[n : n + at_once], ROWS) for n in range(0, len(order), at_once)
    )


def landed(key: str, number: int, **more: bool) -> dict[str, Any]:
    return row(key, number, RowKind.LANDED, **more)


def latest(key: str, number: int) -> dict[str, Any]:
    return row(key, number, RowKind.LATEST)


@given(
    st.lists(
        st.tuples(st.sampled_from("abc"), st.integers(1, 99), st.booleans(), st.booleans()),
        unique_by=lambda record: record[1],
    ),
    st.integers(1, 5),
)
def test_a_table_with_the_latest_rows_is_right(records: list[tuple[str, int, bool, bool]], at_once: int):
    rows = [landed(key, number, deletes=deletes) for key, number, deletes, _ in records]
    rows += [row(key, number, RowKind.ASIDE) for key, number, _, is_aside in records if is_aside]
    there: dict[str, int] = {}
    for key, number, deletes, is_aside in sorted(records, key=lambda record: record[1]):
        if not is_aside:
            there.pop(key, None)
            if not deletes:
                there[key] = number
    rows += [latest(key, number) for key, number in there.items()]
    assert counted(rows, at_once) == LatestCounts(keys=len(there))


def test_a_row_that_a_later_record_has_replaced_is_noticed():
    rows = [landed("a", 1), landed("a", 2), latest("a", 1)]
    assert counted(rows) == LatestCounts(keys=1, stale=1, first=("2",))
    # Also a deletion replaces it, and a record in quarantine doesn't.
    assert counted([landed("a", 1), landed("a", 2, deletes=True), latest("a", 1)]).stale == 1
    assert counted([*rows, row("a", 2, RowKind.ASIDE)]).stale == 0


def test_a_key_that_lacks_its_row_is_noticed():
    assert counted([landed("a", 1), landed("b", 2), latest("a", 1)]) == LatestCounts(
        keys=1, missing=1, first=("2",)
    )


def test_a_key_with_two_rows_is_noticed():
    assert counted([latest("a", 1), latest("a", 2)]) == LatestCounts(keys=1, doubled=1, first=("2",))


def test_the_checks_tell_what_is_wrong_and_what_cant_be_told():
    wrong = latest_checks(LatestFacts(LatestCounts(3, 1, 2, 1, ("7",))), "lake.now")
    assert [check.count for check in wrong] == [1, 2]
    whole = list(latest_checks(LatestFacts(LatestCounts(keys=3)), "lake.now"))
    assert [(check.wrong, check.unproved) for check in whole] == [((), ()), ((), ())]
    partly = list(latest_checks(LatestFacts(LatestCounts(keys=3), "nobody knows"), "lake.now"))
    assert [(check.wrong, check.unproved) for check in partly] == [((), ()), ((), ("nobody knows",))]
