"""What a person may decide about a shard, and which decisions are refused."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from headrace.pipeline.core.landing.landing import Proposal, decide_landing
from headrace.pipeline.core.leases.lease import Lease
from headrace.pipeline.core.ledger.ledger import Kind, ParentIs, ParentReason
from headrace.pipeline.core.order.parents import InTheWay
from headrace.pipeline.core.order.start_of_reading import Read, Stop, plan_begin
from headrace.pipeline.core.shards.checkpoint import LATEST, SHARD_END, TRIM_HORIZON, Checkpoint
from headrace.pipeline.core.shards.position import TRIM, Origin, Position, Positions, Start
from headrace.pipeline.core.shards.shard import Shard
from headrace.pipeline.core.shards.stream import ShardKey, StreamId
from headrace.pipeline.repair.decision_plan import (
    AfterRecord,
    Decision,
    End,
    Person,
    ShardSituation,
    Target,
    Tip,
    WhatIsLeft,
    plan_reposition,
    plan_skip,
)

STREAM = StreamId("arn:aws:kinesis:us-east-1:123456789012:stream/orders", 1_700_000_000)
KEY = ShardKey(STREAM, "shardId-000000000001")
NOW = datetime(2026, 1, 2, tzinfo=UTC)
ORIGINS = {STREAM: Origin(TRIM, NOW - timedelta(days=1))}
ME = Person("shell-1", "shell-1/1", "the producer was wrong that day")
POSITION = Position(50, arrival=NOW - timedelta(days=3))
CHILDREN = ("shardId-000000000002", "shardId-000000000003")


def scene(position: Position | None = POSITION, row: Lease | None = None, **more: object) -> ShardSituation:
    shards = {} if position is None else {KEY: position}
    said = position.checkpoint if position else None
    row = row or Lease(KEY.shard_id, checkpoint=said or TRIM_HORIZON, landed=said)
    return ShardSituation(KEY, row, Positions(ORIGINS, shards), **more)  # type: ignore[arg-type]


def decided(found: Decision | Stop) -> Decision:
    assert isinstance(found, Decision), found
    return found


def stopped(found: Decision | Stop) -> str:
    assert isinstance(found, Stop), found
    assert "nothing was changed" in found.why
    return found.why


def landing(of: ShardSituation, decision: Decision) -> Position:
    """The shard's position after the table has judged the decision."""
    assert decision.range is not None
    made = decide_landing(of.positions, Proposal((decision.range,)))
    assert made.refused == ()
    after = made.positions.of(KEY)
    assert after is not None
    return after


# --- skip ---------------------------------------------------------------------------------------------------


def test_after_a_skip_of_lost_records_the_next_batch_goes_on_with_the_records_that_are_left() -> None:
    at = scene()
    decision = decided(plan_skip(at, WhatIsLeft(), ME))
    after = landing(at, decision)
    assert after == replace(POSITION, gap_accepted=True)
    plan = plan_begin(at.row, KEY, Positions(ORIGINS, {KEY: after}), retention=timedelta(days=1))
    assert isinstance(plan, Read)
    assert plan.batch.goes_on
    assert plan.batch.witness == POSITION.arrival


def test_without_a_skip_a_batch_stops_at_a_gap() -> None:
    plan = plan_begin(scene().row, KEY, scene().positions, retention=timedelta(days=1))
    assert isinstance(plan, Read)
    assert not plan.batch.goes_on


@pytest.mark.parametrize(
    "target",
    [
        WhatIsLeft(),
        AfterRecord(60),
        Tip(60, NOW, NOW),
        End(Shard(KEY.shard_id, closed=True), CHILDREN, is_gone=False),
    ],
)
def test_every_skip_is_in_the_ledger_with_the_persons_words(target: Target) -> None:
    made = decided(plan_skip(scene(), target, ME)).range
    assert made is not None
    assert (made.kind, made.why, made.run, made.after) == (Kind.SKIPPED, ME.why, ME.run, POSITION)


def test_after_a_skip_to_a_record_reading_goes_on_after_that_record() -> None:
    at = scene()
    assert landing(at, decided(plan_skip(at, AfterRecord(60), ME))).sequence == 60


@pytest.mark.parametrize("sequence", [50, 49, 9])
def test_a_skip_never_goes_back(sequence: int) -> None:
    assert "isn't after it" in stopped(plan_skip(scene(), AfterRecord(sequence), ME))


def test_a_skip_to_the_tip_moves_to_the_newest_record_and_the_time_at_which_it_was_read() -> None:
    at = scene()
    assert landing(at, decided(plan_skip(at, Tip(99, NOW, NOW), ME))) == Position(99, arrival=NOW, seen=NOW)


def test_a_skip_to_the_tip_of_a_shard_without_newer_records_doesnt_move_and_the_position_tells_it() -> None:
    at = scene()
    for tip in (Tip(None, None, NOW), Tip(50, POSITION.arrival, NOW)):
        after = landing(at, decided(plan_skip(at, tip, ME)))
        assert after == replace(POSITION, seen=NOW, skipped_until=NOW)
        assert after.footing != POSITION.footing


def test_a_skip_to_the_tip_of_a_closed_shard_gives_its_children_no_witness() -> None:
    at = scene()
    closed = Tip(99, NOW - timedelta(hours=5), NOW, is_open=False)
    assert landing(at, decided(plan_skip(at, closed, ME))) == Position(99, arrival=NOW - timedelta(hours=5))
    assert "nothing is left" in stopped(plan_skip(at, replace(closed, sequence=None), ME))


def test_a_skip_to_the_tip_of_a_shard_that_was_never_read_moves_to_the_present_time() -> None:
    at = scene(None)
    after = landing(at, decided(plan_skip(at, Tip(None, None, NOW), ME)))
    assert (after.sequence, after.start, after.seen) == (None, Start(NOW), NOW)


def test_a_skip_of_a_shard_without_landed_records_keeps_the_reasons_of_its_parents() -> None:
    parents = (ParentReason("shardId-000000000000", ParentIs.GONE),)
    made = decided(plan_skip(scene(None, parents=parents), WhatIsLeft(), ME)).range
    assert made is not None
    assert made.parents == parents


def test_a_skip_to_the_end_names_the_shards_children() -> None:
    at = scene()
    end = End(Shard(KEY.shard_id, closed=True), CHILDREN, is_gone=False)
    after = landing(at, decided(plan_skip(at, end, ME)))
    assert (after.ended, after.children, after.sequence) == (True, CHILDREN, 50)


def test_an_open_shard_cannot_be_skipped_to_its_end() -> None:
    assert "still open" in stopped(plan_skip(scene(), End(Shard(KEY.shard_id), CHILDREN, is_gone=False), ME))


def test_an_end_without_children_is_accepted_only_for_a_shard_that_left_the_stream() -> None:
    closed = Shard(KEY.shard_id, closed=True)
    assert "names the shard's children yet" in stopped(plan_skip(scene(), End(closed, (), is_gone=False), ME))
    assert "names the shard's children yet" in stopped(plan_skip(scene(), End(None, (), is_gone=False), ME))
    assert decided(plan_skip(scene(), End(None, (), is_gone=True), ME)).range is not None


@pytest.mark.parametrize(
    ("at", "told"),
    [
        (scene(replace(POSITION, ended=True)), "the shard has ended"),
        (scene(None, passed_by="x"), "counts as ended, because its descendant x has a position"),
        (
            scene(None, waiting=(InTheWay("p", "p stands at 7"),)),
            "the shard's parents come first (p stands at 7)",
        ),
        (scene(row=Lease(KEY.shard_id, checkpoint=Checkpoint("70"))), "headrace reposition"),
        (scene(row=Lease(KEY.shard_id, landed=Checkpoint("70"))), "headrace reposition"),
        (replace(scene(), positions=Positions()), "no origin is decided"),
    ],
)
def test_each_refused_skip_says_why(at: ShardSituation, told: str) -> None:
    assert told in stopped(plan_skip(at, WhatIsLeft(), ME))


def test_a_gap_that_was_skipped_is_not_skipped_twice() -> None:
    at = scene(replace(POSITION, gap_accepted=True))
    assert "decided before" in stopped(plan_skip(at, WhatIsLeft(), ME))


# --- reposition ---------------------------------------------------------------------------------------------

AHEAD = Lease(KEY.shard_id, checkpoint=Checkpoint("70"), landed=Checkpoint("70"))


def test_the_row_goes_back_to_the_table_and_its_reason_says_so() -> None:
    at = scene(row=AHEAD)
    decision = decided(plan_reposition(at, to_lease=False, sentinel=LATEST, person=ME))
    assert (decision.row, decision.landed) == (Checkpoint("50"), Checkpoint("50"))
    assert landing(at, decision) == POSITION
    assert decision.range is not None
    assert decision.range.kind is Kind.REPOSITION


def test_repositioning_a_row_to_a_table_without_a_position_commits_none_because_it_would_end_the_ancestors() -> (
    None
):
    at = scene(None, AHEAD)
    decision = decided(plan_reposition(at, to_lease=False, sentinel=LATEST, person=ME))
    assert decision == replace(decision, range=None, row=LATEST, landed=None)


def test_the_table_goes_forward_to_the_row() -> None:
    at = scene(row=AHEAD)
    decision = decided(plan_reposition(at, to_lease=True, sentinel=LATEST, person=ME))
    after = landing(at, decision)
    assert (after.sequence, after.gap_accepted) == (70, True), (
        "no time is known up to which the shard was read completely"
    )
    witnessed = replace(at, arrival=NOW)
    known = landing(witnessed, decided(plan_reposition(witnessed, to_lease=True, sentinel=LATEST, person=ME)))
    assert known == Position(70, arrival=NOW, inside=True), "the record may be an aggregate, read in part"
    assert (decision.row, decision.landed) == (Checkpoint("70"), Checkpoint("70"))


def test_a_row_at_shard_end_ends_the_shard_with_its_children() -> None:
    at = scene(row=replace(AHEAD, checkpoint=SHARD_END, children=frozenset(CHILDREN)))
    after = landing(at, decided(plan_reposition(at, to_lease=True, sentinel=LATEST, person=ME)))
    assert (after.ended, after.children, after.sequence) == (True, CHILDREN, 50)


def test_a_row_of_a_shard_that_waits_for_its_parents_moves_no_position() -> None:
    at = scene(None, AHEAD, waiting=(InTheWay("p", "p stands at 7"),))
    assert "p stands at 7" in stopped(plan_reposition(at, to_lease=True, sentinel=LATEST, person=ME))


def test_a_table_ahead_of_its_row_never_goes_back() -> None:
    row = Lease(KEY.shard_id, checkpoint=Checkpoint("20"), landed=Checkpoint("70"))
    why = stopped(plan_reposition(scene(row=row), to_lease=True, sentinel=LATEST, person=ME))
    assert "would land twice" in why


@pytest.mark.parametrize("to_lease", [True, False])
@pytest.mark.parametrize("said", ["50", "20", "TRIM_HORIZON"])
def test_where_row_and_table_agree_a_reposition_is_refused(said: str, *, to_lease: bool) -> None:
    at = scene(row=Lease(KEY.shard_id, checkpoint=Checkpoint(said), landed=None))
    assert "agree" in stopped(plan_reposition(at, to_lease=to_lease, sentinel=LATEST, person=ME))
