"""Which part of a row's checkpoint is another reader's work."""

from __future__ import annotations

from dataclasses import replace

import pytest

from headrace.pipeline.beside_kcl.foreign_ranges import (
    ahead_of_table,
    plan_ends,
    plan_foreign,
    unfinished_parents,
)
from headrace.pipeline.core.leases.lease import Lease
from headrace.pipeline.core.shards.checkpoint import LATEST, SHARD_END, Checkpoint
from headrace.pipeline.core.shards.position import Position, Positions
from headrace.pipeline.core.shards.stream import ShardKey, StreamId

STREAM = StreamId("arn:aws:kinesis:us-east-1:123456789012:stream/orders", 1)
KEY = ShardKey(STREAM, "shardId-1")
ROW = Lease("shardId-1", 5, Checkpoint("20"), owner="me", parents=frozenset({"shardId-0"}))


def at(position: Position | None) -> Positions:
    """The positions of a table in which the shard has this position."""
    return Positions(shards={} if position is None else {KEY: position})


@pytest.mark.parametrize(
    ("row", "position"),
    [
        (ROW, Position(20)),
        (ROW, Position(100)),
        (ROW, Position(3, ended=True)),
        (replace(ROW, landed=Checkpoint("20")), Position(10)),
        (replace(ROW, landed=Checkpoint("20")), None),
        (replace(ROW, checkpoint=LATEST), None),
        (replace(ROW, checkpoint=SHARD_END), Position(10)),
    ],
)
def test_a_checkpoint_that_isnt_ahead_or_is_headraces_own_is_not_foreign(
    row: Lease, position: Position | None
) -> None:
    assert ahead_of_table({KEY: row}, at(position)) == {}


@pytest.mark.parametrize("position", [None, Position(10), Position()])
def test_a_sequence_number_ahead_of_the_table_is_foreign(position: Position | None) -> None:
    assert ahead_of_table({KEY: replace(ROW, landed=Checkpoint("9"))}, at(position)) == (
        {KEY: 20} if position and position.sequence else {}
    )
    assert ahead_of_table({KEY: ROW}, at(position)) == {KEY: 20}


def test_a_foreign_position_may_be_inside_an_aggregate_even_at_its_first_user_record() -> None:
    """KCL checkpoints the first user record of an aggregate as 0, which a record without an aggregate has as well."""
    (found,) = plan_foreign({KEY: ROW}, at(None), arrivals={}, run="r", claim="r/1")
    assert (found.upto.sub, found.upto.inside, found.upto.reads_again) == (0, True, True)


def test_the_first_foreign_range_of_a_shard_names_all_its_parents_and_later_ones_none() -> None:
    first = plan_foreign({KEY: ROW}, at(None), arrivals={}, run="r", claim="r/1")[0]
    later = plan_foreign({KEY: ROW}, at(Position(10)), arrivals={}, run="r", claim="r/1")[0]
    assert [parent.shard_id for parent in first.parents] == ["shardId-0"]
    assert later.parents == ()
    assert later.after == Position(10)


def test_a_parent_is_ended_by_its_row_at_shard_end_or_by_a_child_that_was_begun_after_the_row_was_deleted() -> (
    None
):
    asked = unfinished_parents(STREAM, [ROW], at(None))
    assert asked == {"shardId-0": (ROW,)}
    ended, open_row = Lease("shardId-0", 9, SHARD_END), Lease("shardId-0", 9, Checkpoint("7"))

    def number_of_ends(*rows: Lease, child: Lease = ROW) -> int:
        return len(plan_ends(STREAM, {"shardId-0": (child,)}, rows, at(None), run="r", claim="r/1"))

    assert number_of_ends(ended) == 1
    assert number_of_ends(open_row) == 0
    assert number_of_ends() == 1
    assert number_of_ends(child=replace(ROW, checkpoint=LATEST)) == 0
    ours = replace(ROW, landed=Checkpoint("20"))
    assert number_of_ends(child=ours) == 0, (
        "Headrace began the child after an END of its own, which the table has lost"
    )


def test_a_parent_whose_end_was_removed_needs_no_new_end_once_its_child_has_a_position() -> None:
    assert unfinished_parents(STREAM, [ROW], at(Position(10))) == {}


def test_a_parent_that_has_ended_in_the_table_needs_no_other_end() -> None:
    over = Positions(shards={ShardKey(STREAM, "shardId-0"): Position(3, ended=True)})
    assert unfinished_parents(STREAM, [ROW], over) == {}
