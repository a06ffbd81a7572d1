"""The places of a text in many bytes."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.pipeline.aws.reading.marks import places_of

LONG, SHORT = b"xApproximateArrivalTimestamp", b"nSequenceNumber"


@given(st.sampled_from([LONG, SHORT]), st.lists(st.binary(max_size=40), max_size=9), st.binary(max_size=30))
def test_all_places_of_a_text_are_found_wherever_they_lie(text: bytes, between: list[bytes], last: bytes):
    body = text.join(between) + last
    expected = {at for at in range(len(body)) if body.startswith(text, at)}
    found = places_of(text, body)
    assert found is not None
    assert expected <= set(found.tolist())


def test_bytes_without_the_text_have_no_place():
    found = places_of(LONG, bytes(range(256)) * 40)
    assert found is not None
    assert found.tolist() == []


@pytest.mark.parametrize("text", [b"DData", b"an-an-an-an-an-an-an-an-an-an"])
def test_a_text_that_is_short_or_repeats_itself_cant_be_looked_for(text: bytes):
    assert places_of(text, text * 9) is None
