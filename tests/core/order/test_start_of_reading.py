"""Where a wave begins to read a shard, and when it must not read."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

from headrace.pipeline.core.ledger.batch import Batch
from headrace.pipeline.core.ledger.ledger import ParentIs, ParentReason
from headrace.pipeline.core.order.parents import InTheWay
from headrace.pipeline.core.order.start_of_reading import (
    Finish,
    Passed,
    Read,
    Stop,
    Wait,
    is_rolled_back,
    plan_begin,
)
from headrace.pipeline.core.shards.checkpoint import SHARD_END, Checkpoint
from headrace.pipeline.core.shards.position import TRIM, Position, Positions, Start
from headrace.pipeline.core.shards.shard import HashRange
from headrace.pipeline.core.shards.stream import ShardKey
from tests.core.order.beginnings import DAY, KEY, MOMENT, ORIGINS, PARENT, STREAM, begin, row


def test_the_first_read_of_a_shard_without_parents_begins_at_the_origin() -> None:
    plan = begin(row())
    assert isinstance(plan, Read)
    assert plan.batch.start == Start(MOMENT)
    assert plan.batch.after is None
    assert plan.batch.witness == MOMENT


def test_the_first_read_of_a_shard_knows_the_shards_below_by_which_the_commit_sees_that_others_have_read_it() -> (
    None
):
    below = frozenset({"shardId-000000000002"})
    known = below | {"shardId-000000000001"}
    first, later = (begin(row(), at, below=below, known=known) for at in (None, Position(5)))
    assert isinstance(first, Read)
    assert isinstance(later, Read)
    assert (first.below, later.below) == (below, frozenset())
    assert (first.known, later.known) == (known, frozenset())


def test_a_read_knows_the_hash_keys_of_its_shard_by_which_foreign_user_records_of_aggregates_are_told() -> (
    None
):
    keys = HashRange(0, 2**127 - 1)
    plan = begin(replace(row(), hash_range=keys))
    assert isinstance(plan, Read)
    assert plan.batch.hash_range == keys


def test_a_child_of_a_parent_closed_before_the_start_begins_at_the_origin() -> None:
    plan = begin(row(), parents=(ParentReason(PARENT.shard_id, ParentIs.BEFORE_START),))
    assert isinstance(plan, Read)
    assert plan.batch.start == Start(MOMENT)


def test_a_shard_waits_for_parents_in_the_way() -> None:
    plan = begin(row(), waiting=(InTheWay(PARENT.shard_id, "it stands at 7"),))
    assert plan == Wait("it stands at 7")


def test_reading_goes_on_from_the_tables_position_and_a_row_behind_it_is_brought_forward() -> None:
    plan = begin(row(Checkpoint("5"), Checkpoint("5")), Position(9))
    assert isinstance(plan, Read)
    assert plan.batch.after == Position(9)
    assert plan.repair == Checkpoint("9")


def test_sequence_numbers_compare_as_numbers() -> None:
    plan = begin(row(Checkpoint("9")), Position(10))
    assert isinstance(plan, Read)
    assert plan.repair == Checkpoint("10")


def test_a_row_at_the_tables_position_needs_no_repair() -> None:
    plan = begin(row(Checkpoint("9"), Checkpoint("9")), Position(9))
    assert isinstance(plan, Read)
    assert plan.repair is None


def test_a_shard_that_ended_in_the_table_is_only_finished() -> None:
    ended = Position(9, ended=True, children=("shardId-000000000002",))
    assert begin(row(), ended) == Finish(ended)
    assert begin(row(SHARD_END, SHARD_END), ended) == Finish(ended)


def test_headraces_own_checkpoint_ahead_of_the_table_means_a_rollback() -> None:
    plan = begin(row(Checkpoint("9"), Checkpoint("9")), Position(5))
    assert isinstance(plan, Stop)
    assert "rolled back" in plan.why


def test_a_foreign_checkpoint_ahead_of_the_table_means_another_reader() -> None:
    plan = begin(row(Checkpoint("9"), Checkpoint("5")), Position(5))
    assert isinstance(plan, Stop)
    assert "other than Headrace" in plan.why


def test_shard_end_in_the_row_alone_means_another_reader() -> None:
    plan = begin(row(SHARD_END), Position(5))
    assert isinstance(plan, Stop)
    assert "other than Headrace" in plan.why


def test_a_sequence_number_in_the_row_of_a_shard_without_a_position_stops_the_shard() -> None:
    plan = begin(row(Checkpoint("5")))
    assert isinstance(plan, Stop)
    assert "no position" in plan.why


def test_without_an_origin_no_shard_is_read() -> None:
    plan = plan_begin(row(), KEY, Positions(), retention=DAY)
    assert isinstance(plan, Wait)


def test_a_shard_that_was_read_and_found_empty_still_begins_at_its_start() -> None:
    seen = MOMENT + timedelta(hours=9)
    plan = begin(row(), Position(seen=seen))
    assert isinstance(plan, Read)
    assert plan.batch.start == Start(MOMENT)
    assert plan.batch.witness == seen


def test_reading_begins_at_the_start_that_the_position_names() -> None:
    plan = begin(row(), Position(start=TRIM))
    assert isinstance(plan, Read)
    assert plan.batch.start == TRIM


NOTHING_DONE = "nothing was read or changed; `headrace reposition` decides which of the two is right"


def test_each_disagreement_of_row_and_table_is_reported_with_both_values() -> None:
    nine, five = Checkpoint("9"), Checkpoint("5")
    assert begin(row(nine, nine), Position(5)) == Stop(
        f"the lake table's position of {KEY} is 5, but Headrace landed the shard up to 9 before: the table was "
        f"rolled back or restored; {NOTHING_DONE}"
    )
    assert begin(row(nine, nine)) == Stop(
        f"the lake table's position of {KEY} is none, but Headrace landed the shard up to 9 before: the table was "
        f"rolled back or restored; {NOTHING_DONE}"
    )
    for said in (five, SHARD_END):
        assert begin(row(said)) == Stop(
            f"the lease row of {KEY} has the checkpoint {said}, but the lake table has no position of the shard: another "
            f"program wrote the row, or the table was replaced; {NOTHING_DONE}"
        )
    assert begin(row(nine, five), Position(5)) == Stop(
        f"the lease row of {KEY} has the checkpoint 9, ahead of the lake table's position 5: a program other than "
        f"Headrace wrote the checkpoint; {NOTHING_DONE}"
    )


def test_a_row_ahead_counts_as_a_rollback_only_if_the_table_has_less_than_was_landed() -> None:
    five = Checkpoint("5")
    assert not is_rolled_back(None, Position(5))
    assert not is_rolled_back(row(five), Position(4))
    assert not is_rolled_back(row(five, five), Position(5))
    assert not is_rolled_back(row(five, five), Position(6))
    assert is_rolled_back(row(five, five), Position(4))
    assert is_rolled_back(row(five, five), Position())
    assert is_rolled_back(row(five, five), None)


def test_a_shard_whose_descendant_has_a_position_is_not_read_unless_it_has_a_position_itself() -> None:
    assert begin(row(Checkpoint("5")), passed_by="child") == Passed("child")
    assert isinstance(begin(row(), Position(5), passed_by="child"), Read)
    ended = Position(9, ended=True)
    assert begin(row(), ended, passed_by="child") == Finish(ended)


def test_only_a_shard_without_a_landed_record_waits_and_names_all_parents_in_the_way() -> None:
    waiting = (InTheWay("p", "p stands at 7"), InTheWay("q", "q stands at 8"))
    assert begin(row(), waiting=waiting) == Wait("p stands at 7; q stands at 8")
    assert begin(row(), Position(seen=MOMENT), waiting=waiting) == Wait("p stands at 7; q stands at 8")
    assert isinstance(begin(row(), Position(5), waiting=waiting), Read)


def test_the_wait_for_an_origin_names_the_stream() -> None:
    assert plan_begin(row(), KEY, Positions(), retention=DAY) == Wait(
        f"no origin is decided yet for {STREAM}"
    )


def test_the_batch_of_a_first_read_begins_at_the_origin_and_names_the_parents() -> None:
    reasons = (ParentReason(PARENT.shard_id, ParentIs.BEFORE_START),)
    assert begin(row(), parents=reasons) == Read(
        Batch(
            KEY,
            after=None,
            start=Start(MOMENT),
            witness=MOMENT,
            retention=DAY,
            parents=reasons,
            weight=1.0,
            goes_on=False,
        ),
        origin=ORIGINS[STREAM],
        unread_at_origin=MOMENT,
    )


def test_the_batch_of_a_later_read_begins_at_the_position_and_names_no_parents() -> None:
    at = Position(9, arrival=MOMENT + timedelta(hours=1))
    busy = replace(row(Checkpoint("9")), throughput_kbps=7.5)
    reasons = (ParentReason(PARENT.shard_id, ParentIs.GONE),)
    assert begin(busy, at, parents=reasons) == Read(
        Batch(
            KEY,
            after=at,
            start=Start(MOMENT),
            witness=MOMENT + timedelta(hours=1),
            retention=DAY,
            parents=(),
            weight=7.5,
            goes_on=False,
        ),
        origin=ORIGINS[STREAM],
    )


def test_a_child_begins_at_the_origin_while_no_parent_has_a_record_and_at_trim_horizon_otherwise() -> None:
    other = ShardKey(STREAM, "shardId-000000000009")
    reasons = tuple(ParentReason(key.shard_id, ParentIs.ENDED) for key in (PARENT, other))
    for first, second, start in (
        (None, None, Start(MOMENT)),
        (None, 7, TRIM),
        (7, None, TRIM),
        (7, 7, TRIM),
    ):
        parents = {PARENT: Position(first, ended=True), other: Position(second, ended=True)}
        plan = begin(row(), others=parents, parents=reasons)
        assert isinstance(plan, Read)
        assert plan.batch.start == start


def test_without_a_table_a_row_that_has_moved_on_waits_for_the_next_wave_and_no_person_is_asked() -> None:
    moved = row(Checkpoint("9"), landed=Checkpoint("9"))
    for position, stood in ((None, "none"), (Position(5), "5")):
        assert isinstance(begin(moved, position), Stop)
        assert begin(moved, position, by_rows=True) == Wait(
            f"the lease row of {KEY} has the checkpoint 9, and had {stood} when this wave looked: another process is writing "
            "it. Nothing was read, and the next wave begins at the row"
        )
