"""What a wave that begins to read a shard knows of records that may have left the stream unread: the witness of its start."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from headrace.pipeline.core.leases.lease import Lease
from headrace.pipeline.core.ledger.ledger import ParentIs, ParentReason
from headrace.pipeline.core.order.start_of_reading import (
    Above,
    Read,
    plan_begin,
)
from headrace.pipeline.core.shards.checkpoint import Checkpoint
from headrace.pipeline.core.shards.position import TRIM, Origin, Position, Positions, Start
from headrace.pipeline.core.shards.stream import ShardKey, StreamId
from tests.core.order.beginnings import DAY, KEY, MOMENT, ORIGINS, PARENT, STREAM, begin, row


def test_a_child_of_a_parent_with_a_position_begins_at_trim_horizon_and_takes_the_parents_witness() -> None:
    seen = MOMENT + timedelta(hours=3)
    parent = Position(7, ended=True, arrival=MOMENT, seen=seen)
    reasons = (ParentReason(PARENT.shard_id, ParentIs.ENDED),)
    plan = begin(row(), others={PARENT: parent}, parents=reasons)
    assert isinstance(plan, Read)
    assert plan.batch.start == TRIM
    assert plan.batch.witness == seen
    assert plan.batch.parents == reasons


def test_a_child_whose_other_parent_left_the_stream_unread_may_have_lost_records_since_the_origin() -> None:
    """That parent's records were trimmed at times that no position shows. The records came after the witness of any shard
    that the parent may descend from.
    """
    read = Position(7, ended=True, arrival=MOMENT + timedelta(hours=2), seen=MOMENT + timedelta(hours=3))
    reasons = (
        ParentReason(PARENT.shard_id, ParentIs.ENDED),
        ParentReason("shardId-000000000009", ParentIs.GONE),
    )
    before, after = MOMENT - timedelta(hours=1), MOMENT + timedelta(hours=1)
    for lost, witness in (((), MOMENT), ((after,), MOMENT), ((after, before), before)):
        plan = begin(row(), others={PARENT: read}, parents=reasons, lost=lost)
        assert isinstance(plan, Read)
        assert plan.batch.witness == witness


def test_the_witness_of_an_unread_shard_without_parents_is_the_timestamp_of_the_settings_if_kinesis_still_had_its_records() -> (
    None
):
    decided = MOMENT
    for before, witness in (
        (timedelta(hours=2), decided - timedelta(hours=2)),
        (timedelta(days=3), decided),
        (timedelta(hours=-2), decided),
    ):
        origins = {KEY.stream: Origin(Start(decided - before), decided)}
        plan = plan_begin(row(), KEY, Positions(origins), retention=DAY)
        assert isinstance(plan, Read)
        assert plan.batch.witness == witness


def test_a_gap_is_passed_over_if_the_caller_or_the_position_allows_it() -> None:
    def goes_on(position: Position | None, **more: Any) -> bool:
        plan = begin(row(), position, **more)
        assert isinstance(plan, Read)
        return plan.batch.goes_on

    accepted = Position(gap_accepted=True)
    assert not goes_on(None)
    assert not goes_on(Position())
    assert goes_on(None, goes_on=True)
    assert goes_on(accepted)
    assert goes_on(accepted, goes_on=True)


def test_the_witness_of_a_child_is_the_latest_of_its_parents_witnesses() -> None:
    other = ShardKey(STREAM, "shardId-000000000009")
    early, late = MOMENT + timedelta(hours=1), MOMENT + timedelta(hours=2)
    reasons = (
        ParentReason(PARENT.shard_id, ParentIs.ENDED),
        ParentReason(other.shard_id, ParentIs.ENDED),
        ParentReason("shardId-000000000008", ParentIs.BEFORE_START),
    )

    def witness(first: datetime | None, second: datetime | None) -> datetime:
        parents = {PARENT: Position(7, arrival=first), other: Position(7, arrival=second)}
        plan = begin(row(), others=parents, parents=reasons)
        assert isinstance(plan, Read)
        return plan.batch.witness

    assert witness(early, late) == witness(late, early) == late
    assert witness(early, None) == early
    assert witness(None, None) == MOMENT


def _witness_below(
    origin: Origin, first: Position, second: Position, lost: tuple[datetime, ...] | None = None
) -> datetime:
    """The witness of a child of two parents."""
    other = ShardKey(STREAM, "shardId-000000000009")
    reasons = tuple(ParentReason(key.shard_id, ParentIs.ENDED) for key in (PARENT, other))
    positions = Positions({STREAM: origin}, {PARENT: first, other: second})
    plan = plan_begin(row(), KEY, positions, retention=DAY, above=Above(reasons, lost=lost))
    assert isinstance(plan, Read)
    return plan.batch.witness


def test_the_origins_date_is_no_witness_of_a_child_of_which_another_parent_was_read_to_an_earlier_time() -> (
    None
):
    """Both parents were closed before the origin was decided. One was read. The other had no record, or left the stream unread,
    and its END tells only the origin's date. The child's first records may be older than that.
    """
    hour = timedelta(hours=1)
    empty = Position(ended=True, seen=MOMENT)
    read = Position(7, ended=True, arrival=MOMENT - 3 * hour)
    for origin in (Origin(TRIM, MOMENT), Origin(Start(MOMENT - 2 * DAY), MOMENT)):
        assert _witness_below(origin, empty, read) == _witness_below(origin, read, empty) == MOMENT - 3 * hour
        assert _witness_below(origin, empty, empty) == MOMENT
        for late in (MOMENT + hour, MOMENT - hour):
            # The empty parent was open and at its tip after the origin; or its own parent was read up to a time before the origin.
            assert _witness_below(origin, replace(empty, seen=late), read) == late


def test_nothing_before_a_named_start_is_wanted_so_its_date_is_a_witness_for_a_child() -> None:
    empty, read = Position(ended=True, seen=MOMENT), Position(7, ended=True, arrival=MOMENT - DAY)
    for named in (MOMENT, MOMENT + DAY):
        assert _witness_below(Origin(Start(named), MOMENT), empty, read) == MOMENT


def test_a_parent_read_to_a_time_before_the_origin_counts_also_beside_a_parent_that_left_the_stream_unread() -> (
    None
):
    read, early = Position(7, ended=True, arrival=MOMENT - 2 * DAY), MOMENT - 3 * DAY
    assert _witness_below(Origin(TRIM, MOMENT), read, read, ()) == MOMENT - 2 * DAY
    assert _witness_below(Origin(TRIM, MOMENT), read, read, (early,)) == early


def test_a_shard_without_parents_has_the_creation_of_a_recreated_stream_as_its_witness() -> None:
    born = datetime.fromtimestamp(STREAM.epoch, UTC)

    def witness(*others: StreamId) -> datetime:
        origins = ORIGINS | {other: Origin(TRIM, MOMENT) for other in others}
        plan = plan_begin(row(), KEY, Positions(origins), retention=DAY)
        assert isinstance(plan, Read)
        return plan.batch.witness

    earlier, later = replace(STREAM, epoch=STREAM.epoch - 1), replace(STREAM, epoch=STREAM.epoch + 1)
    elsewhere = replace(earlier, arn=STREAM.arn + "-other")
    assert witness(earlier) == born
    assert witness(earlier).tzinfo is UTC
    assert witness(later) == witness(elsewhere) == witness() == MOMENT


def test_a_timestamp_of_the_settings_exactly_at_the_edge_of_the_retention_counts_as_within_the_retention() -> (
    None
):
    for named, witness in (
        (MOMENT - DAY, MOMENT - DAY),
        (MOMENT - DAY - timedelta(seconds=1), MOMENT),
        (MOMENT, MOMENT),
    ):
        plan = plan_begin(row(), KEY, Positions({STREAM: Origin(Start(named), MOMENT)}), retention=DAY)
        assert isinstance(plan, Read)
        assert plan.batch.witness == witness
    plan = plan_begin(row(), KEY, Positions({STREAM: Origin(TRIM, MOMENT)}), retention=DAY)
    assert isinstance(plan, Read)
    assert plan.batch.witness == MOMENT


def test_a_gap_that_only_the_origins_date_bounds_begins_with_the_oldest_record_that_the_stream_had_then() -> (
    None
):
    hour, later = timedelta(hours=1), MOMENT + timedelta(hours=5)
    born = datetime.fromtimestamp(STREAM.epoch, UTC)

    def oldest_lost(start: Start, decided: datetime = MOMENT, **how: Any) -> datetime:
        positions = Positions({STREAM: Origin(start, decided)})
        plan = plan_begin(row(), KEY, positions, retention=DAY, **how)
        assert isinstance(plan, Read)
        assert plan.oldest_lost(later) == later, "the shard was read up to then"
        return plan.oldest_lost(plan.batch.witness)

    assert oldest_lost(TRIM) == MOMENT - DAY
    assert oldest_lost(TRIM, decided=born + hour) == born, "no record is older than its stream"
    assert oldest_lost(Start(MOMENT - 2 * DAY)) == MOMENT - DAY
    for named in (MOMENT - hour, MOMENT):
        assert oldest_lost(Start(named)) == named, "nothing before the named moment is wanted"
    assert oldest_lost(Start(MOMENT + hour)) == MOMENT
    # Whichever shard the unread parent descends from: one of which nothing was read may have lost more.
    reasons = (ParentReason(PARENT.shard_id, ParentIs.GONE),)
    assert oldest_lost(TRIM, above=Above(reasons, lost=(MOMENT - hour,))) == MOMENT - DAY
    assert oldest_lost(TRIM, above=Above(reasons, lost=(MOMENT - 2 * DAY,))) == MOMENT - 2 * DAY


def test_a_gap_that_grows_begins_where_it_began_and_a_look_at_the_origins_moment_is_a_look() -> None:
    for at, oldest in (
        (Position(seen=MOMENT, skipped_until=MOMENT + DAY), MOMENT - DAY),
        (Position(seen=MOMENT), MOMENT),
    ):
        plan = plan_begin(row(), KEY, Positions({STREAM: Origin(TRIM, MOMENT)}, {KEY: at}), retention=DAY)
        assert isinstance(plan, Read)
        assert plan.oldest_lost(plan.batch.witness) == oldest


def test_a_gap_of_a_shard_that_was_read_begins_where_it_was_read_to() -> None:
    for at in (Position(7, arrival=MOMENT - DAY), Position(7, arrival=MOMENT + DAY)):
        plan = begin(row(Checkpoint("7")), at)
        assert isinstance(plan, Read)
        assert plan.oldest_lost(plan.batch.witness) == at.arrival


def begin_by_rows(lease: Lease, **how: object) -> Read:
    plan = begin(lease, by_rows=True, **how)  # type: ignore[arg-type]
    assert isinstance(plan, Read)
    return plan


def test_a_shard_of_rows_that_is_gone_may_have_lost_what_came_since_its_stream_was_made() -> None:
    """The origin of rows is decided anew with each plan, and would never be older than the retention."""
    plan = begin_by_rows(row())
    assert plan.batch.witness == ORIGINS[STREAM].decided
    assert plan.lost_since == max(STREAM.created, MOMENT)
    in_table = begin(row())
    assert isinstance(in_table, Read)
    assert in_table.lost_since == in_table.batch.witness


def test_a_shard_of_rows_that_is_gone_may_have_lost_what_came_since_a_wave_found_nothing_more_in_it() -> None:
    looked_at = MOMENT + timedelta(hours=1)
    quiet = replace(row(), looked_at=looked_at, behind_ms=0)
    assert begin_by_rows(quiet).lost_since == looked_at
    assert begin_by_rows(replace(quiet, behind_ms=1)).lost_since == max(STREAM.created, MOMENT)


def test_what_an_ended_parent_tells_of_lost_records_counts_until_the_row_was_looked_at() -> None:
    seen = MOMENT - timedelta(days=3)
    parents = (ParentReason(PARENT.shard_id, ParentIs.ENDED),)
    ended = {PARENT: Position(ended=True, children=(KEY.shard_id,), seen=seen)}
    looked_at = MOMENT - timedelta(days=2)
    quiet = replace(row(), looked_at=looked_at, behind_ms=0)
    unread, looked = (begin_by_rows(r, others=ended, parents=parents) for r in (row(), quiet))
    assert (unread.batch.witness, unread.lost_since) == (seen, seen)
    assert looked.batch.witness == looked_at
