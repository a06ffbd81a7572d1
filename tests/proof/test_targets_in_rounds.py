"""A proof of a typed table says the same whether it compares all days at once or each day by itself."""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from headrace.pipeline.proof.verdict import Proof
from tests.lake.samples import NOON
from tests.proof.proofs import proving_without_kinesis
from tests.proof.target_proofs import (
    beside,
    changed,
    changed_ledgers,
    is_range,
    moved_to,
    removed,
    typed_ports,
    without,
)
from tests.typed.parsings import BAD, A, B, Bed, good

DAY = timedelta(days=1)


@pytest.fixture(scope="module")
def bed(tmp_path_factory: pytest.TempPathFactory) -> Bed:
    """For tests that leave it as they have found it. The second wave parses landings of two days as one range of each shard."""
    made = Bed(tmp_path_factory.mktemp("bed"))
    made.land(A, {1: good(1), 2: BAD, 3: good(3)})
    made.land(B, {10: good(10)})
    made.parsing().wave()
    made.land(A, {4: good(4), 5: BAD}, arrival=NOON + DAY)
    made.land(A, {6: good(6), 7: good(7)}, arrival=NOON + 2 * DAY)
    made.land(B, {11: good(11), 12: good(12)}, arrival=NOON + 2 * DAY)
    made.parsing().wave()
    made.land(B, {13: BAD, 14: good(14)}, arrival=NOON + 4 * DAY)
    made.parsing().wave()
    return made


def proofs_of(bed: Bed) -> tuple[list[str], list[str]]:
    at_once, by_day = (list(_proof(bed, most).lines()) for most in (1_000_000, 1))
    return at_once, by_day


def _proof(bed: Bed, most: int, *, anew: bool = True) -> Proof:
    return replace(
        proving_without_kinesis(bed.lake.handle(), bed.clock),
        target_ports=lambda: [typed_ports(bed)],
        most_ranges=most,
    ).run(anew=anew)


Damage = Callable[[Bed], AbstractContextManager[Any]]


@pytest.mark.parametrize(
    ("damage", "holds"),
    [
        (lambda _: nullcontext(), True),
        (lambda bed: removed(bed.typed(), 1), False),
        (lambda bed: removed(bed.typed(), 4), False),
        (lambda bed: removed(bed.quarantine(), 5), False),
        (lambda bed: changed(bed.typed(), 6, beside(5)), False),
        (lambda bed: changed(bed.typed(), 6, beside(4)), False),
        (lambda bed: changed(bed.typed(), 7, moved_to(1)), False),
        (lambda bed: changed(bed.typed(), 14, beside(99)), False),
        (lambda bed: changed(bed.quarantine(), 13, beside(14)), False),
        (lambda bed: removed(bed.lake.handle(), 11), False),
        (
            lambda bed: changed_ledgers(
                bed.typed(),
                lambda row: (
                    [{**row, "why": without(row["why"], "parsed", 1)}]
                    if is_range(row, A.shard_id, 7)
                    else [row]
                ),
            ),
            False,
        ),
        (
            lambda bed: changed_ledgers(
                bed.quarantine(),
                lambda row: [{**row, "rows": row["rows"] + 1}] if is_range(row, A.shard_id, 7) else [row],
            ),
            False,
        ),
        (
            lambda bed: changed_ledgers(
                bed.typed(), lambda row: [] if is_range(row, A.shard_id, 7) else [row]
            ),
            False,
        ),
    ],
)
def test_a_proof_in_rounds_says_the_same(bed: Bed, damage: Damage, *, holds: bool):
    with damage(bed):
        at_once, by_day = proofs_of(bed)
    assert at_once == by_day
    assert at_once[-1].startswith("proved" if holds else "NOT PROVED")


def test_redrives_and_rows_that_are_not_parsed_yet_are_told_in_the_same_words(tmp_path: Path):
    made = Bed(tmp_path)
    for day in range(3):
        made.land(A, {10 * day + 1: good(1), 10 * day + 2: BAD}, arrival=NOON + day * DAY)
        made.parsing().wave()
    made.parser.fixes = {BAD: good(0)}
    made.settings = replace(made.settings, version="2")
    assert list(made.redriving().portions())
    made.land(A, {41: good(1), 42: good(2), 43: good(3)}, arrival=NOON + 4 * DAY)
    at_once, by_day = proofs_of(made)
    assert at_once == by_day
    assert at_once[-1].startswith("proved")
    assert any("3 rows not parsed yet" in line for line in by_day)
    with removed(made.typed(), 12):
        at_once, by_day = proofs_of(made)
        assert at_once == by_day
        assert at_once[-1].startswith("NOT PROVED")


def test_rows_that_are_not_parsed_yet_are_counted_inside_of_joined_ranges(tmp_path: Path):
    made = Bed(tmp_path)
    for number in range(1, 9):
        made.land(A, {number: good(number)})
        if number == 4:
            made.parsing().wave()
    assert any("4 rows not parsed yet" in line for line in _proof(made, 1).lines())
    assert any("4 rows not parsed yet" in line for line in _proof(made, 1, anew=False).lines())
