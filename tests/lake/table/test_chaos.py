"""Kills, frozen writers that wake late, lost answers and old positions: the product's commit beside a naive one, on real Iceberg."""

from pathlib import Path

import pytest

from tests.lake.table.chaos import Fenced, Naive, chaos

pytestmark = pytest.mark.slow
SEEDS = (1, 2)


@pytest.mark.parametrize("seed", SEEDS)
def test_no_record_is_lost_or_doubled_by_the_products_commit_with_upkeep_at_work(tmp_path: Path, seed: int):
    outcome = chaos(Fenced, tmp_path, seed)
    print(f"\nseed {seed}: {outcome}")
    assert (outcome.lost, outcome.doubled) == (0, 0)
    missing = {"killed", "woken", "lost", "overtaken", "refused", "expired", "deleted"} - {
        what for what, n in outcome.happened.items() if n
    }
    assert not missing, "each of these troubles has to happen, and upkeep has to delete files"


@pytest.mark.parametrize("seed", SEEDS)
def test_the_same_chaos_doubles_thousands_of_records_of_a_naive_commit(tmp_path: Path, seed: int):
    outcome = chaos(Naive, tmp_path, seed)
    print(f"\nseed {seed}: {outcome}")
    assert outcome.doubled > 1_000
