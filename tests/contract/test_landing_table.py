"""What every implementation of the lake table promises."""

from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from headrace.pipeline.core.landing.landing import Proposal
from headrace.pipeline.core.ledger import generation as redrive_chain
from headrace.pipeline.core.ledger.ledger import Kind, ParentIs, ParentReason
from headrace.pipeline.core.shards.position import Origin, Position, Start
from headrace.pipeline.errors import Transient
from tests.contract.lakes import LAKES, a_lake, chain_of, land
from tests.lake.samples import NOON, ORIGIN, STREAM, a_file, a_key, a_landing, a_range, at, with_origin
from tests.lake.tables import Lake

A, B, C, D = (a_key(i) for i in range(4))


@pytest.fixture(params=LAKES)
def lake(request: pytest.FixtureRequest, tmp_path: Path) -> Lake:
    return a_lake(request, tmp_path)


# --- the origin ---------------------------------------------------------------------------------------------


def test_a_new_table_has_no_positions_and_accepts_an_origin(lake: Lake):
    state = lake.table.load()
    assert (state.positions.origins, state.positions.shards, state.snapshot) == ({}, {}, None)
    assert state.origin_allowed


def test_an_origin_is_set_once_and_a_second_one_is_answered_with_the_first(lake: Lake):
    first = lake.table.commit(ORIGIN)
    other = Origin(Start(NOON), NOON)
    second = lake.handle().commit(Proposal(origins=((STREAM, other),)))
    assert first.landing.page.origins == ORIGIN.origins
    assert second.landing.is_empty
    assert second.snapshot is None
    assert lake.table.load().positions.origins[STREAM] == ORIGIN.origins[0][1]
    assert not lake.table.load().origin_allowed


def test_no_range_lands_before_the_origin_is_set(lake: Lake):
    assert not land(lake, A, None, [1])
    assert lake.numbers() == {}
    assert lake.table.load().origin_allowed


def test_an_origin_and_the_first_range_may_land_in_one_commit(lake: Lake):
    committed = lake.table.commit(
        with_origin(a_landing(lake.table.staging_spec(), A, after=None, numbers=[1]))
    )
    assert committed.landing.refused == ()
    assert lake.numbers() == {A.shard_id: [1]}


# --- compare and swap ---------------------------------------------------------------------------------------


def test_rows_and_position_land_together(landed: Lake):
    assert landed.numbers() == {A.shard_id: [1, 2, 3]}
    assert landed.table.load().positions.of(A) == at(3)


def test_a_range_from_an_old_position_is_refused_and_leaves_no_row(landed: Lake):
    assert land(landed, A, 3, [4])
    before = landed.table.load()
    assert not land(landed, A, 3, [4, 5])
    assert landed.table.load() == before
    assert landed.numbers() == {A.shard_id: [1, 2, 3, 4]}


def test_a_range_from_a_position_ahead_of_the_table_is_refused(landed: Lake):
    assert not land(landed, A, 7, [8])
    assert landed.numbers() == {A.shard_id: [1, 2, 3]}


def test_a_table_is_of_the_window_that_committed_first_and_of_no_other(lake: Lake):
    first = replace(ORIGIN, window="first")
    lake.lose("answer")
    lake.table.commit(first)
    assert lake.table.load().window == "first"
    rows = a_landing(lake.table.staging_spec(), A, after=None, numbers=[1])
    assert lake.handle().commit(replace(rows, window="other")).landing.refused
    assert lake.numbers() == {}
    assert not lake.table.commit(replace(rows, window="first")).landing.refused
    assert land(lake, A, 1, [2])
    assert lake.handle().load().window == "first"


def test_a_table_that_has_a_commit_of_no_window_becomes_no_windows(landed: Lake):
    rows = a_landing(landed.table.staging_spec(), A, after=3, numbers=[4])
    assert landed.table.commit(replace(rows, window="late")).landing.refused
    assert landed.table.load().window == ""
    assert landed.numbers() == {A.shard_id: [1, 2, 3]}


def test_a_commit_may_remove_files_and_lands_nothing_where_one_is_not_there(lake: Lake):
    lake.table.commit(ORIGIN)
    spec = lake.table.staging_spec()
    first = a_landing(spec, A, after=None, numbers=[1, 2])
    lake.table.commit(first)
    second = replace(a_landing(spec, A, after=2, numbers=[3]), whole=True, gone=(first.files[0].path,))
    lake.lose("answer")
    assert lake.table.commit(second).landing.page.ranges == second.ranges
    assert lake.numbers() == {A.shard_id: [3]}
    third = replace(a_landing(spec, A, after=3, numbers=[4]), whole=True, gone=second.gone)
    committed = lake.table.commit(third)
    assert [each.range for each in committed.landing.refused] == list(third.ranges)
    assert "another commit has removed a file" in committed.landing.refused[0].why
    assert lake.numbers() == {A.shard_id: [3]}
    assert lake.handle().load().positions == lake.table.load().positions
    assert len(chain_of(lake, A)) == 2


def test_a_refused_commit_that_lands_as_a_whole_removes_no_file_although_it_has_an_origin(lake: Lake):
    """The origin is that of the stream's next life, which the table doesn't know yet."""
    lake.table.commit(ORIGIN)
    spec = lake.table.staging_spec()
    first = a_landing(spec, A, after=None, numbers=[1, 2])
    lake.table.commit(first)
    before = lake.table.load()
    next_life = replace(STREAM, epoch=STREAM.epoch + 1)
    late = replace(
        a_landing(spec, A, after=1, numbers=[2]),
        origins=((next_life, ORIGIN.origins[0][1]),),
        whole=True,
        gone=(first.files[0].path,),
    )
    committed = lake.table.commit(late)
    assert [each.range for each in committed.landing.refused] == list(late.ranges)
    assert committed.snapshot is None
    assert lake.table.load() == before
    assert lake.numbers() == {A.shard_id: [1, 2]}


def test_a_shard_that_was_refused_doesnt_keep_other_shards_from_landing(landed: Lake):
    spec = landed.table.staging_spec()
    stale, fresh = a_file(spec, {A: [1]}), a_file(spec, {B: [1]})
    proposal = Proposal(
        (a_range(A, None, 1, files=[stale]), a_range(B, None, 1, files=[fresh])), (stale, fresh)
    )
    committed = landed.table.commit(proposal)
    assert [refused.range.key for refused in committed.landing.refused] == [A]
    assert landed.numbers() == {A.shard_id: [1, 2, 3], B.shard_id: [1]}


def test_all_shards_that_share_files_with_a_refused_shard_are_refused_and_none_lands_in_part(landed: Lake):
    """D10. The refused shard's rows are in two files, and a third file holds rows of a shard that shares one of
    these."""
    spec = landed.table.staging_spec()
    own = a_file(spec, {A: [1]}, arrival=NOON - timedelta(days=1))
    shared = a_file(spec, {A: [2], B: [1]})
    further = a_file(spec, {B: [2], C: [1]})
    free = a_file(spec, {D: [1]})
    files = (own, shared, further, free)
    ranges = (a_range(A, None, 2), a_range(B, None, 2), a_range(C, None, 1), a_range(D, None, 1))
    committed = landed.table.commit(Proposal(ranges, files))
    assert {refused.range.key for refused in committed.landing.refused} == {A, B, C}
    assert landed.numbers() == {A.shard_id: [1, 2, 3], D.shard_id: [1]}
    assert landed.table.load().positions.shards.keys() == {A, D}


# --- the order of families ----------------------------------------------------------------------------------


def test_no_row_of_a_child_lands_before_its_parent_has_ended(landed: Lake):
    spec = landed.table.staging_spec()
    file = a_file(spec, {B: [10]})
    parents = (ParentReason(A.shard_id, ParentIs.ENDED),)
    child = Proposal((a_range(B, None, 10, files=[file], parents=parents),), (file,))
    assert landed.table.commit(child).landing.refused
    assert landed.numbers() == {A.shard_id: [1, 2, 3]}
    landed.table.commit(Proposal((a_range(A, 3, Position(3, ended=True, children=(B.shard_id,))),)))
    assert not landed.table.commit(child).landing.refused
    assert landed.numbers() == {A.shard_id: [1, 2, 3], B.shard_id: [10]}


def test_the_end_of_a_shard_keeps_its_children_and_its_last_record(landed: Lake):
    ended = Position(3, ended=True, children=(B.shard_id, C.shard_id))
    landed.table.commit(Proposal((a_range(A, 3, ended),)))
    land(landed, D, None, [1])
    assert landed.handle().load().positions.of(A) == replace(ended, arrival=NOON)


def test_an_end_can_be_removed_and_the_ledger_names_it(landed: Lake):
    landed.table.commit(Proposal((a_range(A, 3, Position(3, ended=True, children=(B.shard_id,))),)))
    land(landed, B, None, [10])
    committed = landed.table.commit(Proposal(drop=(A, C)))
    assert committed.landing.page.dropped == (A,)
    assert A not in landed.handle().load().positions.shards
    assert landed.pages()[-1].dropped == (A,)


def test_the_end_of_a_shard_is_kept_while_a_child_has_no_position(landed: Lake):
    """Otherwise the shard would count as unread if a listing showed it again."""
    landed.table.commit(
        Proposal((a_range(A, 3, Position(3, ended=True, children=(B.shard_id, C.shard_id))),))
    )
    land(landed, B, None, [10])
    assert landed.table.commit(Proposal(drop=(A,))).landing.is_empty
    assert landed.handle().load().positions.has_ended(A)


# --- what commits carry -------------------------------------------------------------------------------------


def test_every_commit_carries_all_positions_forward(landed: Lake):
    land(landed, B, None, [1])
    land(landed, C, None, [1])
    positions = landed.handle().load().positions
    assert {key: p.sequence for key, p in positions.shards.items()} == {A: 3, B: 1, C: 1}
    assert STREAM in positions.origins


def test_an_empty_range_carries_the_time_at_which_the_tip_was_seen(landed: Lake):
    seen = NOON + timedelta(hours=6)
    committed = landed.table.commit(Proposal((a_range(A, 3, Position(3, seen=seen)),)))
    assert committed.snapshot is not None
    assert landed.handle().load().positions.of(A) == Position(3, arrival=NOON, seen=seen)
    assert landed.numbers() == {A.shard_id: [1, 2, 3]}


def test_a_range_never_moves_a_position_back(landed: Lake):
    assert landed.table.commit(Proposal((a_range(A, 3, 2),))).landing.refused
    assert landed.table.load().positions.of(A) == at(3)


def test_a_reposition_by_a_person_may_move_a_position_back(landed: Lake):
    landed.table.commit(Proposal((a_range(A, 3, 1, kind=Kind.REPOSITION),)))
    assert landed.handle().load().positions.of(A) == at(1)
    assert [r.kind for r in chain_of(landed, A)] == [Kind.LANDED, Kind.REPOSITION]


def test_a_replay_lands_rows_and_moves_no_position(landed: Lake):
    """I15 of docs/reference/protocol.md. A replay also doesn't have to begin at the table's position."""
    land(landed, A, 3, [4])
    file = a_file(landed.table.staging_spec(), {A: [2]})
    raised = a_range(redrive_chain.chain_of(A), None, Position(1), kind=Kind.GENERATION)
    landed.table.commit(Proposal((a_range(A, 1, 2, kind=Kind.REPLAY, files=[file]), raised), (file,)))
    assert landed.table.load().positions.of(A) == at(4)
    assert landed.numbers() == {A.shard_id: [1, 2, 2, 3, 4]}


def test_the_ledger_names_every_landed_range_in_order(landed: Lake):
    land(landed, A, 3, [4, 5])
    assert [(r.after, r.upto, r.rows, r.run) for r in chain_of(landed, A)] == [
        (None, at(3), 3, "run-1"),
        (at(3), at(5), 2, "run-1"),
    ]
    assert landed.pages()[0].origins == ORIGIN.origins


def test_the_answer_to_a_commit_is_the_table_after_it(landed: Lake):
    committed = landed.table.commit(a_landing(landed.table.staging_spec(), A, after=3, numbers=[4]))
    assert committed.state == landed.handle().load()
    assert committed.snapshot == committed.state.snapshot


def test_an_empty_proposal_commits_nothing(landed: Lake):
    before = landed.table.load()
    committed = landed.table.commit(Proposal())
    assert (committed.snapshot, committed.state) == (None, before)
    assert len(landed.pages()) == 2


def test_two_ranges_of_one_shard_in_one_proposal_are_an_error_and_neither_lands(landed: Lake):
    with pytest.raises(ValueError, match="at most one range"):
        landed.table.commit(Proposal((a_range(A, 3, 4), a_range(A, 4, 5))))
    assert landed.table.load().positions.of(A) == at(3)


def test_files_that_were_staged_half_a_day_ago_are_refused(landed: Lake):
    proposal = a_landing(landed.table.staging_spec(), A, after=3, numbers=[4])
    landed.clock.at = NOON + timedelta(hours=12, seconds=1)
    with pytest.raises(Transient, match="Nothing was committed"):
        landed.table.commit(proposal)
    assert landed.numbers() == {A.shard_id: [1, 2, 3]}
