"""Numbers in sentences."""

import pytest

from headrace.pipeline.core.words.words import counted, records_in


@pytest.mark.parametrize(
    ("count", "told"), [(0, "0 leases"), (1, "1 lease"), (2, "2 leases"), (2_000, "2,000 leases")]
)
def test_a_number_of_things_is_followed_by_the_right_singular_or_plural(count: int, told: str):
    assert counted(count, "lease") == told


def test_a_plural_may_be_an_irregular_word():
    assert (counted(1, "child", "children"), counted(3, "child", "children")) == ("1 child", "3 children")


def test_user_records_are_named_where_they_are_not_the_kinesis_records():
    assert records_in(30, 30) == "30 records"
    assert records_in(1, 1_000) == "1,000 user records in 1 Kinesis record"
