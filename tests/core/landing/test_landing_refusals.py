"""The landing decision: the text of each refusal, and the limits of each rule."""

import re
from dataclasses import replace

import pytest

from headrace.pipeline.core.landing.landing import Landing, Proposal, RangeRefused, decide_landing
from headrace.pipeline.core.ledger.generation import chain_of
from headrace.pipeline.core.ledger.ledger import Kind, LedgerPage, ParentIs, ParentReason, Range
from headrace.pipeline.core.shards.position import Origin, Position, Positions, Start
from headrace.pipeline.core.shards.stream import ShardKey
from tests.core.landings import (
    KEYS,
    LATER_LIFE,
    NOON,
    ORIGIN,
    STREAM,
    A,
    B,
    C,
    D,
    a_file,
    base_of,
    landed,
)


def test_in_a_proposal_that_lands_as_a_whole_each_other_range_is_refused_with_the_shard_that_was_refused():
    wrong, right = landed(A, Position(4), Position(6)), landed(B, Position(2), Position(3))
    landing = decide_landing(base_of({A: Position(5), B: Position(2)}), Proposal((right, wrong), whole=True))
    assert landing.page == LedgerPage()
    assert {each.range: (each.position, each.why) for each in landing.refused} == {
        wrong: (Position(5), "the table's position is 5, but this range began at position 4"),
        right: (Position(2), f"the range lands together with {A.shard_id}, which is refused"),
    }


def test_of_a_refused_proposal_that_lands_as_a_whole_nothing_is_left_that_would_be_a_commit():
    """A commit without ranges would still remove the files that the proposal removes."""
    wrong = landed(A, Position(4), Position(6))
    base = base_of({A: Position(5)})
    proofs = ((STREAM, frozenset({A.shard_id})),)
    proposal = Proposal((wrong,), (), ((LATER_LIFE, ORIGIN),), proofs=proofs, whole=True, gone=("f",))
    stated = {STREAM: NOON}
    landing = decide_landing(base, proposal, stated)
    assert landing.is_empty
    assert (landing.positions, landing.through) == (base, stated)
    assert decide_landing(base, replace(proposal, whole=False, gone=())).page.origins == (
        (LATER_LIFE, ORIGIN),
    )


@pytest.mark.parametrize(
    ("window", "owner", "is_refused"),
    [
        ("w", None, False),
        ("w", "w", False),
        ("w", "", True),
        ("w", "another", True),
        # Where a commit isn't for a window, nobody asks whose table it is.
        ("", "another", False),
        ("", None, False),
    ],
)
def test_a_windows_rows_land_only_in_a_table_that_is_its_own_or_nobodys(
    window: str, owner: str | None, *, is_refused: bool
):
    proposed, base = landed(A, Position(5), Position(6)), base_of({A: Position(5)})
    landing = decide_landing(base, Proposal((proposed,), window=window), owner=owner)
    if is_refused:
        why = "the table isn't this window's own"
        assert landing == Landing(LedgerPage(), (), (RangeRefused(proposed, Position(5), why),), base)
    else:
        assert landing.page.ranges == (proposed,)


def test_the_aggregates_of_a_range_are_taken_apart_once():
    apart = replace(landed(A, Position(1), Position(3)), kind=Kind.UNPACKED)
    proposal = Proposal((apart, replace(apart, upto=Position(4))), whole=True, gone=("f",))
    with pytest.raises(ValueError, match=r"^a proposal takes the aggregates of a range apart twice$"):
        decide_landing(base_of({A: Position(5)}), proposal)


def test_files_are_removed_only_by_a_proposal_that_lands_as_a_whole():
    with pytest.raises(ValueError, match=r"^files are removed only by a proposal that lands as a whole"):
        decide_landing(base_of({A: Position(5)}), Proposal(gone=("f",)))


def test_a_range_from_the_start_of_a_shard_is_refused_once_a_descendant_has_a_position():
    """Another run has read the shard to its end since, and the END was removed after Kinesis had forgotten the shard (D19)."""
    first = landed(A, None, Position(6))
    passed = base_of({A: None, C: Position(9)})
    below = {A: frozenset({B.shard_id, C.shard_id})}
    (refused,) = decide_landing(passed, Proposal((first,), below=below)).refused
    assert refused == RangeRefused(
        first,
        None,
        f"another run has read this shard to its end: its descendant {C.shard_id} has a position in the table",
    )
    for base, known in (
        (base_of({A: None}), below),
        (passed, {A: frozenset({B.shard_id})}),
        (passed, {B: below[A]}),
    ):
        assert decide_landing(base, Proposal((first,), below=known)).page.ranges == (first,)
    further = landed(A, Position(6), Position(7))
    at = base_of({A: Position(6), C: Position(9)})
    assert decide_landing(at, Proposal((further,), below=below)).page.ranges == (further,)


def test_a_range_from_the_start_of_a_shard_is_refused_once_a_shard_has_a_position_that_may_be_a_descendant():
    """The shard was open when it was planned, so that nothing told of its children then (D19)."""
    first, base = landed(A, None, Position(6)), base_of({A: None, B: Position(2), C: Position(9)})
    known = {STREAM: frozenset({A.shard_id, B.shard_id})}
    (refused,) = decide_landing(base, Proposal((first,), known=known)).refused
    assert refused == RangeRefused(
        first,
        None,
        f"another run may have read this shard to its end: {C.shard_id} has a position in the table, and whether it is a descendant wasn't "
        "known when the range was read",
    )
    for there, looked in (
        (base, {STREAM: known[STREAM] | {C.shard_id}}),
        (base, {LATER_LIFE: frozenset[str]()}),
        (base_of({A: None, B: Position(2)}), known),
        (
            base_of({A: None, B: Position(2, ended=True, children=(C.shard_id, D.shard_id)), C: Position(9)}),
            known,
        ),
    ):
        assert decide_landing(there, Proposal((first,), known=looked)).page.ranges == (first,)
    further, at = landed(A, Position(6), Position(7)), base_of({A: Position(6), C: Position(9)})
    assert decide_landing(at, Proposal((further,), known=known)).page.ranges == (further,)


@pytest.mark.parametrize(
    "decided",
    [{"skipped_until": NOON}, {"gap_accepted": True}, {"inside": True}, {"start": Start(NOON)}],
    ids=str,
)
def test_a_range_is_refused_where_what_is_decided_about_the_records_after_the_position_has_changed(decided):
    """A gap and a person's skip leave the position where it is. A person who sets the table back undoes them (D20)."""
    plain = Position() if "start" in decided else Position(5)
    marked = replace(plain, **decided)
    for found, began in ((plain, marked), (marked, plain)):
        (refused,) = decide_landing(base_of({A: found}), Proposal((landed(A, began, Position(6)),))).refused
        assert refused.why == (
            f"the table's position is {plain}, but what is decided about the records after it has changed since this range began"
        )
        again = landed(A, found, Position(6))
        assert decide_landing(base_of({A: found}), Proposal((again,))).page.ranges == (again,)


def test_a_range_that_begins_before_any_record_is_refused_where_its_stream_has_another_origin_now():
    """A person has set the table back to before the origin, and the leader has decided it anew."""
    later = Origin(Start(NOON), NOON)
    for after in (None, Position(seen=NOON)):
        first = landed(A, after, Position(6))
        base = base_of({A: after})
        (refused,) = decide_landing(base, Proposal((first,), begun_by={STREAM: later})).refused
        assert refused.why == (
            f"the origin of its stream is TRIM_HORIZON, decided at {NOON}, and this range was read by another one"
        )
        assert decide_landing(base, Proposal((first,), begun_by={STREAM: ORIGIN})).page.ranges == (first,)
    further = landed(A, Position(6), Position(7))
    base = base_of({A: Position(6)})
    assert decide_landing(base, Proposal((further,), begun_by={STREAM: later})).page.ranges == (further,)


def refusal(base: Positions, each: Range) -> str:
    landing = decide_landing(base, Proposal((each,)))
    (refused,) = landing.refused
    assert refused == RangeRefused(each, base.of(each.key), refused.why)
    assert landing.page == LedgerPage()
    assert landing.positions == base
    return refused.why


def test_a_refused_range_says_where_the_table_stands_and_where_the_range_began():
    at = base_of({A: Position(5)})
    assert (
        refusal(at, landed(A, Position(4), Position(6)))
        == "the table's position is 5, but this range began at position 4"
    )
    assert (
        refusal(at, landed(A, None, Position(6)))
        == "the table's position is 5, but this range began at position none"
    )
    assert refusal(at, landed(B, Position(4), Position(6))) == (
        "the table's position is none, but this range began at position 4"
    )
    assert refusal(at, landed(A, Position(5), Position(4))) == (
        "the range would move the position back, from 5 to 4"
    )
    assert refusal(base_of({}, origin=False), landed(A, None, Position(1))) == (
        f"no origin is decided for {STREAM}"
    )


def test_the_refusal_of_a_child_names_its_first_parent_in_the_way():
    def child(*parents: ParentReason) -> Range:
        return landed(C, None, Position(1), parents=parents)

    ended = ParentReason(A.shard_id, ParentIs.ENDED)
    other = ParentReason(B.shard_id, ParentIs.ENDED)
    assert refusal(base_of({A: Position(5)}), child(ended)) == (
        f"the shard's parent {A.shard_id} hasn't ended in the table (the parent's position is 5)"
    )
    assert refusal(base_of({A: Position(5, ended=True)}), child(ended, other)) == (
        f"the shard's parent {B.shard_id} had ended when the run looked, but has no position in the table now"
    )
    for by in (None, D.shard_id):
        assert refusal(base_of({}), child(ParentReason(A.shard_id, ParentIs.PASSED, by))) == (
            f"the shard's parent {A.shard_id} counted as ended because of its descendant {by}, which has no position in the table now"
        )


def test_parents_are_looked_up_in_the_childs_own_stream():
    first = landed(C, None, Position(1), parents=(ParentReason(A.shard_id, ParentIs.ENDED),))
    elsewhere = base_of({ShardKey(LATER_LIFE, A.shard_id): Position(5, ended=True)})
    assert "had ended when the run looked" in refusal(elsewhere, first)
    passed = landed(C, None, Position(1), parents=(ParentReason(A.shard_id, ParentIs.PASSED, D.shard_id),))
    assert "counted as ended because" in refusal(
        base_of({ShardKey(LATER_LIFE, D.shard_id): Position(5)}), passed
    )


def test_parents_matter_only_for_a_shards_first_range():
    base = base_of({A: Position(5), C: Position(1)})
    on = landed(C, Position(1), Position(2), parents=(ParentReason(A.shard_id, ParentIs.ENDED),))
    assert decide_landing(base, Proposal((on,))).page.ranges == (on,)


def test_a_range_may_land_with_the_commit_that_decides_its_streams_origin():
    first = landed(A, None, Position(1))
    landing = decide_landing(Positions(), Proposal((first,), origins=((STREAM, ORIGIN),)))
    assert landing.page == LedgerPage((first,), ((STREAM, ORIGIN),))
    assert landing.positions == base_of({A: Position(1)})
    assert not landing.refused


def test_a_replay_of_a_stream_without_an_origin_or_of_a_child_before_its_parents_is_refused():
    replay = replace(landed(A, Position(1), Position(3)), kind=Kind.REPLAY)
    assert refusal(base_of({}, origin=False), replay) == f"no origin is decided for {STREAM}"
    early = replace(
        landed(C, None, Position(3), parents=(ParentReason(A.shard_id, ParentIs.ENDED),)), kind=Kind.REPLAY
    )
    assert "had ended when the run looked" in refusal(base_of({}), early)


def test_a_shard_refused_for_a_shared_file_names_the_shards_it_shares_with():
    base = base_of({A: Position(5), B: Position(5), C: Position(5)})
    ranges = (
        landed(A, Position(4), Position(6)),
        landed(B, Position(4), Position(6)),
        landed(C, Position(5), Position(6)),
    )
    landing = decide_landing(base, Proposal(ranges, (a_file("abc", A, B, C),)))
    assert landing.refused[2] == RangeRefused(
        ranges[2], Position(5), f"the range shares a file with {A.shard_id}, which is refused"
    )
    assert landing.files == ()
    assert landing.is_empty
    apart = decide_landing(base, Proposal(ranges, (a_file("a", A), a_file("bc", B, C))))
    assert apart.refused[2].why == f"the range shares a file with {B.shard_id}, which is refused"


def test_all_shards_of_a_file_name_the_same_refused_shard_and_come_in_their_order():
    """Also where sets of shards have another order, as in another process."""
    base = base_of(dict.fromkeys(KEYS, Position(5)))
    ranges = tuple(landed(key, Position(5 if key != D else 4), Position(6)) for key in KEYS)
    landing = decide_landing(base, Proposal(ranges, (a_file("all", *KEYS),)))
    others = [key for key in KEYS if key != D]
    assert [each.range.key for each in landing.refused] == [D, *others]
    assert {each.why for each in landing.refused[1:]} == {
        f"the range shares a file with {D.shard_id}, which is refused"
    }


def test_a_file_with_a_shard_that_has_no_range_is_an_error_that_names_its_shards():
    both = f"files hold rows of shards that the proposal has no range for: {[B, C]}"
    with pytest.raises(ValueError, match=f"^{re.escape(both)}$"):
        decide_landing(
            base_of({}), Proposal((landed(A, None, Position(1)),), (a_file("f", C, A), a_file("g", B)))
        )
    with pytest.raises(ValueError, match=r"^a proposal holds at most one range of a shard$"):
        decide_landing(base_of({}), Proposal((landed(A, None, Position(1)),) * 2))


def test_nothing_lands_where_another_commit_has_brought_rows_since_the_comparison():
    """Also rows of another shard: the same event may have come through both."""
    base = base_of({A: Position(5), B: Position(2)})
    proposal = Proposal((landed(A, Position(5), Position(6)),), (a_file("f", A),), compared=base)
    assert not decide_landing(base, proposal).refused
    for moved in (Position(3), Position(2, ended=True), None):
        found = decide_landing(base_of({A: Position(5), B: moved}), proposal)
        assert (found.page.ranges, found.files) == ((), ())
        why = f"the rows of the range have to be compared with those that another commit has brought of {B.shard_id}"
        assert found.refused == (RangeRefused(proposal.ranges[0], Position(5), why),)
    # A look at a quiet shard brings no rows.
    looked = base_of({A: Position(5), B: Position(2, seen=NOON)})
    assert not decide_landing(looked, proposal).refused


def test_a_range_that_is_refused_for_its_own_position_keeps_that_reason_where_rows_have_to_be_compared_anew():
    own, other = landed(A, Position(4), Position(6)), landed(C, Position(1), Position(2))
    proposal = Proposal((own, other), compared=base_of({A: Position(5), B: Position(2), C: Position(1)}))
    found = decide_landing(base_of({A: Position(5), B: Position(3), C: Position(1)}), proposal)
    assert [(each.range, each.position, each.why.split(",")[0]) for each in found.refused] == [
        (own, Position(5), "the table's position is 5"),
        (
            other,
            Position(1),
            f"the rows of the range have to be compared with those that another commit has brought of {B.shard_id}",
        ),
    ]


def test_nothing_of_a_proposal_lands_where_a_file_that_it_would_remove_has_changed():
    base = base_of({A: Position(5)})
    replay = replace(landed(A, Position(1), Position(3)), kind=Kind.REPLAY)
    raised = landed(chain_of(A), None, Position(1))
    why = "another commit has removed a file that this one would remove, or has deleted rows of it"
    assert Landing.without_files(Proposal((replay, raised), (a_file("f", A),)), base) == Landing(
        LedgerPage(),
        (),
        (RangeRefused(replay, Position(5), why), RangeRefused(raised, None, why)),
        base,
    )


def test_aggregates_are_taken_apart_only_where_files_are_removed():
    apart = replace(landed(A, Position(1), Position(3)), kind=Kind.UNPACKED)
    base = base_of({A: Position(5)})
    assert decide_landing(base, Proposal((apart,), whole=True, gone=("f",))).page.ranges == (apart,)
    with pytest.raises(
        ValueError, match=r"^aggregates are taken apart only together with the removal of the files"
    ):
        decide_landing(base, Proposal((apart,)))


def test_a_refused_replay_says_where_the_table_stands_and_what_is_missing():
    replay = replace(landed(A, Position(1), Position(3)), kind=Kind.REPLAY)
    assert decide_landing(base_of({A: Position(5)}), Proposal((replay,))).refused == (
        RangeRefused(
            replay,
            Position(5),
            "the generation of its shard isn't raised with the range, because another commit has raised it meanwhile",
        ),
    )
    for at, shown in ((None, "none"), (Position(2), "2")):
        assert (
            refusal(base_of({A: at}), replay)
            == f"the table's position is {shown}, before the end 3 of the range that would be replaced"
        )
