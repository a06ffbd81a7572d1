"""Checkpoints have KCL's total order, by number and never as text."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.pipeline.core.shards.checkpoint import AT_TIMESTAMP, LATEST, SHARD_END, TRIM_HORIZON, Checkpoint
from headrace.pipeline.errors import WrongShape
from tests.core.strategies import CHECKPOINTS, DIGITS, SEQUENCES, SUB_SEQUENCE_NUMBERS

WORD_CHECKPOINTS = {"AT_TIMESTAMP", "TRIM_HORIZON", "LATEST", "SHARD_END"}
RANKS = {"AT_TIMESTAMP": -3, "TRIM_HORIZON": -2, "LATEST": -1}


def rank(at: Checkpoint) -> tuple[float, int]:
    """KCL's order, computed in another way."""
    if at.sequence == "SHARD_END":
        return (float("inf"), 0)
    return (RANKS[at.sequence] if at.sequence in RANKS else int(at.sequence), at.sub)


@given(CHECKPOINTS, CHECKPOINTS)
def test_the_order_is_kcls(a: Checkpoint, b: Checkpoint):
    assert (a < b) == (rank(a) < rank(b))
    assert (a > b) == (rank(a) > rank(b))
    assert (a <= b) == (rank(a) <= rank(b))
    assert (a >= b) == (rank(a) >= rank(b))


@given(CHECKPOINTS, CHECKPOINTS)
def test_of_two_checkpoints_at_most_one_is_greater(a: Checkpoint, b: Checkpoint):
    assert [a < b, b < a].count(True) <= 1
    assert [a > b, b > a].count(True) <= 1
    assert a <= b or b <= a


@given(st.lists(CHECKPOINTS, min_size=3, max_size=3))
def test_the_order_is_transitive(found: list[Checkpoint]):
    for a, b, c in itertools.permutations(found):
        assert a <= c or not a <= b <= c


@given(SEQUENCES, SEQUENCES)
def test_numbers_compare_as_numbers(a: int, b: int):
    assert (Checkpoint(str(a)) < Checkpoint(str(b))) == (a < b)


def test_a_shorter_number_is_not_greater_for_its_first_digit():
    assert Checkpoint("9") < Checkpoint("10")
    assert Checkpoint("49" + "0" * 54) > Checkpoint("9" * 20)


@given(SUB_SEQUENCE_NUMBERS, SUB_SEQUENCE_NUMBERS, DIGITS)
def test_trim_horizon_and_latest_come_before_and_shard_end_after_all_numbers_as_in_kcl(
    a: int, b: int, digits: str
):
    assert AT_TIMESTAMP < TRIM_HORIZON < LATEST < Checkpoint(digits, a) < SHARD_END
    assert Checkpoint("LATEST", b) < Checkpoint(digits, a) < Checkpoint("SHARD_END", b)


@given(DIGITS, SUB_SEQUENCE_NUMBERS, SUB_SEQUENCE_NUMBERS)
def test_checkpoints_of_one_record_are_ordered_by_the_sub_sequence_number(digits: str, a: int, b: int):
    assert (Checkpoint(digits, a) < Checkpoint(digits, b)) == (a < b)


@given(SUB_SEQUENCE_NUMBERS, SUB_SEQUENCE_NUMBERS)
def test_shard_end_is_the_end_whatever_its_sub_sequence_number(a: int, b: int):
    one, other = Checkpoint("SHARD_END", a), Checkpoint("SHARD_END", b)
    assert one <= other <= one
    assert one.is_end


def test_equality_compares_texts_and_order_compares_values():
    assert Checkpoint("007") != Checkpoint("7")
    assert Checkpoint("007") <= Checkpoint("7") <= Checkpoint("007")
    assert not Checkpoint("007") > Checkpoint("7")


@given(st.text(max_size=12).filter(lambda t: t not in WORD_CHECKPOINTS and not (t.isascii() and t.isdigit())))
def test_any_other_text_is_refused(text: str):
    with pytest.raises(WrongShape):
        Checkpoint(text)


@pytest.mark.parametrize("text", ["", "-1", "+1", " 1", "1.0", "1e3", "٣", "²", "shard_end", "9" * 130])
def test_a_text_that_looks_like_a_number_but_isnt_one_of_kinesis_is_refused(text: str):
    with pytest.raises(WrongShape):
        Checkpoint(text)


def test_the_longest_sequence_number_of_kinesis_can_be_compared():
    assert Checkpoint("9" * 129) < SHARD_END
