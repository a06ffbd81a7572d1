"""Numbers in sentences."""

import pytest

from pipeline.core.words import counted


@pytest.mark.parametrize(
    ("count", "told"), [(0, "0 leases"), (1, "1 lease"), (2, "2 leases"), (2_000, "2,000 leases")]
)
def test_a_number_of_things_is_followed_by_the_right_singular_or_plural(count: int, told: str):
    assert counted(count, "lease") == told


def test_a_plural_may_be_an_irregular_word():
    assert (counted(1, "child", "children"), counted(3, "child", "children")) == ("1 child", "3 children")
