"""Sequence numbers: the properties that readers rely on."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from headrace.pipeline.local.kinesis.sequence import (
    END_ORDINAL,
    number_at,
    ordinal_of,
    second_of,
    sequence_base,
)

seconds = st.integers(1_300_000_000, 16_000_000_000)
indexes = st.integers(0, 2**31 - 1)
ordinals = st.integers(0, END_ORDINAL)


@given(seconds, indexes, ordinals, seconds)
def test_a_sequence_number_has_56_digits_and_its_parts_can_be_read_back(created, index, ordinal, second):
    base = sequence_base(created, index)
    number = number_at(base, ordinal, second)
    assert (len(str(number)), ordinal_of(base, number), second_of(number)) == (56, ordinal, second)


@given(seconds, indexes, ordinals, seconds, seconds)
def test_sequence_numbers_of_a_shard_grow_whatever_the_clock_did(created, index, ordinal, one, other):
    base = sequence_base(created, index)
    assert number_at(base, ordinal, one) < number_at(base, ordinal + 1, other)


@given(seconds, indexes, indexes, ordinals, seconds)
def test_a_later_shard_begins_above_all_sequence_numbers_that_an_earlier_one_can_give(
    created, one, other, ordinal, second
):
    last_of_parent = number_at(sequence_base(created, one), END_ORDINAL, second)
    assert last_of_parent < number_at(sequence_base(created + 1, other), 0, created + 1)


@given(seconds, indexes, indexes, ordinals, seconds)
def test_a_sequence_number_is_understood_only_by_its_own_shard(created, one, other, ordinal, second):
    number = number_at(sequence_base(created, one), ordinal, second)
    assert (ordinal_of(sequence_base(created, other), number) == ordinal) == (one == other)


@given(seconds, indexes, st.integers(0, 10**129))
def test_an_invalid_sequence_number_is_recognized_without_an_error(created, index, number):
    base = sequence_base(created, index)
    ordinal = ordinal_of(base, number)
    assert ordinal is None or number_at(base, ordinal, second_of(number)) == number
