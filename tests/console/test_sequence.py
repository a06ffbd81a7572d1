"""Times are read from sequence numbers of Kinesis's form, and from no others."""

from datetime import UTC, datetime

import pytest

from headrace.pipeline.console.sequence import arrived, shard_created
from headrace.pipeline.local.kinesis.sequence import number_at, sequence_base

CREATED, ARRIVED = datetime(2026, 1, 5, tzinfo=UTC), datetime(2026, 2, 1, 12, 30, 15, tzinfo=UTC)


def test_a_number_tells_when_the_shard_was_made_and_when_the_record_arrived():
    number = number_at(sequence_base(int(CREATED.timestamp()), 17), 123_456, int(ARRIVED.timestamp()))
    assert (shard_created(number), arrived(number)) == (CREATED, ARRIVED)


def test_a_number_of_a_real_stream_tells_its_times():
    number = 49544985256907370027570885864065577703022652638596431874
    assert shard_created(number) == datetime(2014, 11, 11, 1, 40, 39, tzinfo=UTC)
    assert arrived(number) == datetime(2015, 5, 14, 17, 12, 55, tzinfo=UTC)


@pytest.mark.parametrize("number", [0, 1, 21269319989900637946712965403778482177, 10**128, 2**184 * 2 + 2])
def test_a_number_of_another_form_or_with_an_absurd_time_tells_nothing(number: int):
    assert (shard_created(number), arrived(number)) == (None, None)
