"""Whether an application may begin anew, decided from its lease rows alone."""

from headrace.pipeline.core.leases.lease import Lease
from headrace.pipeline.core.order.first_start import why_no_origin, why_not_make_table
from headrace.pipeline.core.shards.checkpoint import SHARD_END, Checkpoint
from headrace.pipeline.core.shards.stream import StreamId

STREAM = StreamId("arn:aws:kinesis:eu-west-1:123456789012:stream/orders", 100)
KCLS = Lease("shard-1", checkpoint=Checkpoint("7"))
MADE = Lease("shard-2", stream_epoch=100)
LANDED = Lease("shard-3", checkpoint=SHARD_END, landed=SHARD_END, stream_epoch=100)


def test_an_application_without_rows_or_with_rows_of_kcl_alone_may_make_its_table():
    assert why_not_make_table("lake.records", []) is None
    assert why_not_make_table("lake.records", [KCLS]) is None


def test_rows_that_headrace_made_or_wrote_had_a_table_before():
    for row in (MADE, LANDED):
        why = why_not_make_table("lake.records", [KCLS, row])
        assert why is not None
        assert f"1 lease row ({row.key}, ...) shows" in why
        for way in ("Rename the table back", "restore it", "correct the setting", "headrace tables delete"):
            assert way in why


def test_a_stream_of_which_headrace_has_landed_gets_no_start_anew():
    assert why_no_origin(STREAM, [KCLS, MADE], others_have_positions=False) is None
    assert why_no_origin(STREAM, [LANDED], others_have_positions=False) is not None
    assert why_no_origin(STREAM, [LANDED], others_have_positions=True) is not None


def test_rows_of_an_earlier_life_tell_of_this_life_only_where_the_table_has_no_positions_at_all():
    later = StreamId(STREAM.arn, 200)
    assert why_no_origin(later, [LANDED], others_have_positions=True) is None
    assert why_no_origin(later, [LANDED], others_have_positions=False) is not None
