"""The proof of a typed table after windows have replaced rows: one generation of each row is there, and another one is found and named.

Version 1 of the parser sets some payloads aside that version 2 reads.
"""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from headrace.pipeline.core.ledger.accounting import read_accounting
from headrace.pipeline.core.ledger.arrivals import ALL, Window
from headrace.pipeline.core.ledger.generation import chain_of
from headrace.pipeline.core.ledger.ledger import Kind, LedgerEntry
from headrace.pipeline.proof.verdict import TableProof
from headrace.pipeline.typed.quarantine.redrive_plan import Selection
from headrace.pipeline.typed.values import WaveLimits
from headrace.pipeline.windows.make import Numbers
from tests.proof import target_proofs as proofs
from tests.proof.target_proofs import Rows, beside, changed, changed_ledgers, removed, unproved, wrong
from tests.typed.parsings import BAD, A, B, Killed, good
from tests.windows.replacements import ReplaceBed

LATE = b'{"id": 3'
"""Only version 2 reads it."""
TWO_TO_FOUR = Numbers(A.shard_id, 2, 4)


def made(folder: Path) -> ReplaceBed:
    """Shard A in two ranges, (start, 3] and (3, 6]; of its records 3 and 5 are in quarantine, and 3 can be read now."""
    bed = ReplaceBed(folder)
    bed.land(A, {1: good(1), 2: good(2), 3: LATE})
    bed.land(B, {10: good(10), 11: BAD})
    bed.parsing().wave()
    bed.land(A, {4: good(4), 5: BAD, 6: good(6)})
    bed.parsing().wave()
    bed.parser.fixes = {LATE: good(3)}
    bed.settings = replace(bed.settings, version="2")
    return bed


@pytest.fixture
def bed(tmp_path: Path) -> ReplaceBed:
    return made(tmp_path)


@pytest.fixture(scope="module")
def cut(tmp_path_factory: pytest.TempPathFactory) -> ReplaceBed:
    """For tests that leave it as they have found it: a window that cuts both ranges was replaced, and its rows once more."""
    bed = made(tmp_path_factory.mktemp("cut"))
    bed.replace(bed.window(TWO_TO_FOUR))
    bed.replace(bed.window(TWO_TO_FOUR))
    return bed


def prove(bed: ReplaceBed, *asked: Window, **how: Any) -> TableProof:
    return proofs.prove(bed, partial(proofs.typed_ports, bed), *asked, **how)[1]


def check(bed: ReplaceBed, counts: str) -> None:
    """What is new since the last proof, nothing more after it, and all rows anew."""
    for how, rows in (({}, 16), ({}, 0), ({"anew": True}, 16)):
        told = prove(bed, **how)
        assert (wrong(told), unproved(told), told.counts, told.rows) == ([], [], counts, rows)


REPLACED = "6 rows parsed, 2 in quarantine, 0 dropped"


@pytest.mark.parametrize(
    ("asked", "left_out", "fewer"),
    [
        pytest.param(TWO_TO_FOUR, 3, "5 rows parsed, 2 in quarantine, 1 dropped", id="cuts ranges"),
        pytest.param(
            ALL, 11, "6 rows parsed, 1 in quarantine, 1 dropped", id="whole ranges", marks=pytest.mark.slow
        ),
    ],
)
def test_replaced_rows_are_proved_with_and_without_the_memory_of_an_earlier_proof(
    bed: ReplaceBed, asked: Any, left_out: int, fewer: str
):
    prove(bed)
    bed.replace(bed.window(asked), limits=WaveLimits(2, 2**30))
    check(bed, REPLACED)
    # The same rows once more, and some of them are dropped.
    bed.dropped_as, bed.parser.leaves_out = "filter", frozenset({left_out})
    bed.replace(bed.window(asked))
    told = prove(bed)
    assert (wrong(told), told.counts) == ([], fewer)
    # They come back, by the next one.
    bed.dropped_as, bed.parser.leaves_out = "", frozenset()
    bed.replace(bed.window(asked))
    check(bed, REPLACED)


@pytest.mark.slow
def test_redrives_before_and_after_a_replacement_are_proved(bed: ReplaceBed):
    prove(bed)
    list(bed.redriving().portions(Selection(shard=A.shard_id)))
    bed.replace(bed.window(TWO_TO_FOUR))
    check(bed, REPLACED)
    # A parser that reads less sets a row aside that was parsed, and a redrive brings it back.
    bed.parser.fixes = {good(2): BAD, good(4): BAD}
    bed.replace(bed.window(TWO_TO_FOUR))
    check(bed, "3 rows parsed, 5 in quarantine, 0 dropped")
    bed.parser.fixes = {LATE: good(3), BAD: good(5)}
    list(bed.redriving().portions(Selection(shard=A.shard_id)))
    check(bed, "7 rows parsed, 1 in quarantine, 0 dropped")
    with changed(bed.quarantine(), 11, beside(2, A.shard_id)):
        named = wrong(prove(bed, anew=True))
    assert any(text.startswith(f"{A} 2: both in lake.orders and in") for text in named)
    with removed(bed.typed(), 3):
        assert any(
            "the ledger states 6 rows in the typed table" in text for text in wrong(prove(bed, anew=True))
        )


def test_a_replacement_that_the_quarantine_table_hasnt_followed_yet_is_not_proved_and_not_wrong(
    bed: ReplaceBed,
):
    prove(bed)
    with pytest.raises(Killed):
        bed.replace(bed.window(TWO_TO_FOUR), kill="committed")
    for how in ({}, {"anew": True}):
        told = prove(bed, **how)
        assert wrong(told) == []
        assert "hasn't got the rows of 2 ranges yet" in unproved(told)[0]
    bed.parsing().wave()
    check(bed, REPLACED)


# --- damage in replaced ranges ----------------------------------------------------------------------------------


def newest(bed: ReplaceBed) -> int:
    return next(
        each.snapshot
        for each in reversed(list(bed.ports().lineage.entries()))
        if isinstance(each, LedgerEntry) and any(r.kind is Kind.REPLAY for r in each.page.ranges)
    )


def test_an_older_row_beside_the_new_one_is_named_with_its_replacement(cut: ReplaceBed):
    with changed(cut.typed(), 2, lambda row: [row, {**row, "id": 102}]):
        named = wrong(prove(cut, anew=True))
    assert named[-1].startswith(
        f"{A} 2: 2 times in lake.orders; this range was replaced by snapshot {newest(cut)}, snapshot "
    )
    with changed(cut.quarantine(), 5, beside(3)):
        named = wrong(prove(cut, anew=True))
    assert named[-1].startswith(
        f"{A} 3: both in lake.orders and in lake.orders_quarantine; this range was replaced by"
    )


def test_a_new_row_that_is_missing_is_named(cut: ReplaceBed):
    with removed(cut.typed(), 4):
        named = wrong(prove(cut, anew=True))[-1]
    assert named.startswith(f"{A} after the start up to 3 ")
    assert f"and 1 range beside it, with rows replaced by snapshot {newest(cut)}, snapshot " in named
    assert named.endswith(
        "the ledger states 5 rows and 1 set aside, and 4 are in lake.orders and 1 in lake.orders_quarantine; in no table: "
        f"{A} 4"
    )


def replay_changed(change: Callable[[dict[str, Any]], Rows]) -> Callable[[dict[str, Any]], Rows]:
    return lambda row: change(row) if row["entry"] == "range" and row["kind"] == "replay" else [row]


def removes(typed: int, aside: int) -> Callable[[dict[str, Any]], Rows]:
    def change(row: dict[str, Any]) -> Rows:
        told = read_accounting(row["why"])
        before = told.removed
        return [{**row, "why": replace(told, removed=(before[0] + typed, before[1] + aside)).text()}]

    return replay_changed(change)


@pytest.mark.parametrize(
    ("change", "told"),
    [
        pytest.param(
            removes(-1, 0),
            "the ledger states 7 rows and 1 set aside, and 5 are in lake.orders and 1 in",
            id="fewer",
        ),
        pytest.param(
            removes(-1, 1),
            "the ledger states 7 rows and -1 set aside, and 5 are in lake.orders and 1 in",
            id="from another table",
            marks=pytest.mark.slow,
        ),
        pytest.param(
            removes(2, 0),
            "rows left the typed table and 0 the quarantine table, and that the range has 3 rows",
            id="more than the range has",
            marks=pytest.mark.slow,
        ),
        pytest.param(
            replay_changed(lambda _: []),
            "the ledger states 2 rows and 1 set aside, and 3 are in",
            id="no replacement",
            marks=pytest.mark.slow,
        ),
    ],
)
def test_a_ledger_that_was_changed_is_found(
    cut: ReplaceBed, change: Callable[[dict[str, Any]], Rows], told: str
):
    with changed_ledgers(cut.typed(), change):
        named = wrong(prove(cut, anew=True))
    assert any(told in text for text in named), named


def test_a_replacement_without_its_generation_is_found(cut: ReplaceBed):
    generation = chain_of(A).shard_id

    def cut_out(row: dict[str, Any]) -> Rows:
        is_it = row["entry"] == "range" and row["shard_id"] == generation
        return [] if is_it and row["snapshot_id"] == newest(cut) else [row]

    with changed_ledgers(cut.typed(), cut_out):
        named = wrong(prove(cut, anew=True))
    assert any("the same commit hasn't raised the generation of the shard" in text for text in named)
