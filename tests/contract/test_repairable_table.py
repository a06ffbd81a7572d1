"""What every implementation of the lake table reports if other engines have broken its chain, and how `headrace
repair` repairs it."""

from dataclasses import replace
from pathlib import Path

import pytest

from headrace.pipeline.core.landing.landing import Proposal
from headrace.pipeline.core.landing.repair_plan import Repair, plan_repair
from headrace.pipeline.core.ledger.ledger import Kind
from headrace.pipeline.core.order.parents import a_family
from headrace.pipeline.core.order.start_of_reading import Stop
from headrace.pipeline.core.shards.position import TRIM, Origin, Position
from headrace.pipeline.core.shards.shard import Shard
from headrace.pipeline.errors import ChainBroken, CommitUnknown, Transient
from tests.contract.lakes import LAKES, a_lake
from tests.lake.samples import NOON, ORIGIN, STREAM, a_file, a_key, a_landing, a_range, at
from tests.lake.tables import IcebergLake, Lake, MemoryLake
from tests.lakehouse import land

A, B, C = (a_key(i) for i in range(3))
FAMILIES = {STREAM: a_family(STREAM, [Shard(A.shard_id), Shard(B.shard_id, (A.shard_id,))])}


@pytest.fixture(params=LAKES)
def lake(request: pytest.FixtureRequest, tmp_path: Path) -> Lake:
    """Shard A stands at 3, after two landings. Shard C, which is no relative of A, stands at 7."""
    made = a_lake(request, tmp_path)
    made.table.commit(ORIGIN)
    land(made.table, 1, 2)
    land(made.table, 3)
    made.table.commit(a_landing(made.table.staging_spec(), C, after=None, numbers=[7]))
    return made


def repaired(lake: Lake, **origins: Origin) -> Repair | Stop:
    plan = plan_repair(
        lake.table.evidence([STREAM]),
        FAMILIES,
        origins=dict.fromkeys([STREAM] if origins else [], Origin(TRIM, NOON)),
        gone={a_key(999)},  # another engine inserts these rows
        why="a test",
        run="shell",
    )
    if isinstance(plan, Repair):
        lake.table.rebuild(plan.landing, plan.on)
    return plan


def standing(lake: Lake) -> dict[str, tuple[int | None, int, bool]]:
    """The position of each shard, by the last character of its id."""
    return {key.shard_id[-1]: p.token for key, p in lake.handle().load().positions.shards.items()}


def test_positions_are_found_behind_commits_of_other_engines(lake: Lake):
    lake.append_as_others()
    before = lake.table.load().positions
    assert before.of(A) == at(3)
    lake.expire_all_but_the_head(forget=False)
    assert lake.handle().load().positions == before
    land(lake.table, 4)


def test_a_table_with_snapshots_of_other_engines_but_without_records_accepts_an_origin(tmp_path: Path):
    for fresh in (MemoryLake(tmp_path / "a"), IcebergLake(tmp_path / "b")):
        fresh.append_as_others(rows=False)
        assert fresh.table.load().origin_allowed
        fresh.table.commit(ORIGIN)
        assert land(fresh.table, 1)


def test_nothing_lands_in_a_table_that_has_records_and_no_positions_until_it_is_repaired(tmp_path: Path):
    """A copy of Headrace's table looks like this, and so does a table into which another tool wrote first."""
    for fresh in (MemoryLake(tmp_path / "a"), IcebergLake(tmp_path / "b")):
        fresh.append_as_others()
        with pytest.raises(ChainBroken, match=r"has records, but no.* positions.*headrace repair"):
            fresh.table.load()
        with pytest.raises(ChainBroken):
            fresh.table.commit(ORIGIN)
        assert isinstance(repaired(fresh, known=Origin(TRIM, NOON)), Repair)
        land(fresh.table, 1)
        assert fresh.numbers()[A.shard_id] == [1]


def test_lost_snapshots_break_the_chain_and_the_positions_are_rebuilt_from_the_rows(lake: Lake):
    land(lake.table, 4, 9, 10, 11)  # compared as text, 9 would be the last one
    lake.append_as_others()
    lake.append_as_others()
    lake.expire_all_but_the_head(forget=True)
    with pytest.raises(ChainBroken, match="headrace repair"):
        lake.table.load()
    assert not lake.table.evidence([STREAM]).is_whole
    refused = repaired(lake)
    assert isinstance(refused, Stop)
    assert "--origin" in refused.why
    assert isinstance(repaired(lake, known=Origin(TRIM, NOON)), Repair)
    assert standing(lake) == {"0": (11, 0, False), "2": (7, 0, False)}
    land(lake.table, 12)
    assert lake.numbers()[A.shard_id] == [1, 2, 3, 4, 9, 10, 11, 12]


def test_after_a_rollback_with_lost_snapshots_the_repair_lets_rolled_back_records_be_read_again(lake: Lake):
    lake.rollback(2)
    lake.append_as_others()
    known = lake.table.evidence([STREAM])
    # The metadata still names the snapshots that were rolled back, so only the plan can be checked here.
    plan = plan_repair(replace(known, reached=None), FAMILIES, origins={}, why="a test", run="shell")
    assert isinstance(plan, Repair)
    stands = plan.landing.positions.of(A)
    assert stands is not None
    assert stands.token == (2, 0, False)
    assert any("goes back from 3 to 2; the records between are read again" in told for told in plan.sentences)
    assert any("the table has no row of the shard" in told for told in plan.sentences)


def test_main_without_positions_is_repaired_to_its_rows_though_snapshots_beside_main_have_later_positions(
    tmp_path: Path,
):
    for made in (MemoryLake(tmp_path / "a"), IcebergLake(tmp_path / "b")):
        made.append_as_others(rows=False)
        made.table.commit(ORIGIN)
        land(made.table, 1, 2)
        made.rollback(2)
        with pytest.raises(ChainBroken, match="rolled back"):
            made.table.load()
        assert isinstance(repaired(made), Repair)
        assert standing(made) == {}
        land(made.table, 1, 2, 3)
        assert made.numbers()[A.shard_id] == [1, 2, 3]


def test_a_cherry_picked_range_that_begins_at_the_tables_position_is_taken_over(lake: Lake):
    picked = land(lake.table, 4, 5)
    lake.rollback(1)
    lake.cherry_pick(picked)
    with pytest.raises(ChainBroken, match="cherry-pick"):
        lake.table.load()
    plan = repaired(lake)
    assert isinstance(plan, Repair)
    assert standing(lake)["0"] == (5, 0, False)
    assert lake.numbers()[A.shard_id] == [1, 2, 3, 4, 5]
    land(lake.table, 6)


def test_after_a_cherry_pick_over_a_gap_the_rollback_that_the_repair_names_makes_landing_go_on(lake: Lake):
    land(lake.table, 4)
    picked = land(lake.table, 5, 6)
    lake.rollback(2)
    before = lake.table.load().snapshot
    lake.cherry_pick(picked)
    plan = repaired(lake)
    assert isinstance(plan, Stop)
    assert "from after 4 up to 6, but the table's position is 3: the records between are missing" in plan.why
    assert "Delete no rows by shard and number" in plan.why
    assert f"Roll main back to snapshot {before}" in plan.why
    assert "reads these records again as long as the stream has them" in plan.why
    lake.rollback(1)
    land(lake.table, 4, 5, 6)
    assert lake.numbers()[A.shard_id] == [1, 2, 3, 4, 5, 6]


@pytest.mark.parametrize(
    ("again", "told"),
    [([4, 5, 6], "beyond them: the records had landed again"), ([4], "within them: the records up to there")],
)
def test_a_cherry_pick_of_records_that_landed_again_is_undone_by_the_rollback_that_the_repair_names(
    lake: Lake, again: list[int], told: str
):
    """They are there twice. To delete them by their numbers would remove both copies, and nothing would read them again."""
    picked = land(lake.table, 4, 5)
    lake.rollback(1)
    land(lake.table, *again)
    before = lake.table.load().snapshot
    lake.cherry_pick(picked)
    assert lake.numbers()[A.shard_id].count(4) == 2
    plan = repaired(lake)
    assert isinstance(plan, Stop)
    assert told in plan.why
    assert "Delete no rows by shard and number" in plan.why
    assert f"Roll main back to snapshot {before}" in plan.why
    lake.rollback(1)
    assert lake.numbers()[A.shard_id] == [1, 2, 3, *again]
    land(lake.table, again[-1] + 1)
    assert lake.numbers()[A.shard_id] == [1, 2, 3, *again, again[-1] + 1]


def test_a_cherry_pick_of_another_engines_rows_moves_no_position(lake: Lake):
    lake.append_as_others()
    before = lake.table.load()
    assert before.snapshot is not None
    lake.rollback(1)
    lake.cherry_pick(before.snapshot)
    assert isinstance(repaired(lake), Repair)
    assert lake.handle().load().positions.shards == before.positions.shards


def test_a_shard_whose_child_has_rows_is_repaired_to_its_end(lake: Lake):
    spec = lake.table.staging_spec()
    file = a_file(spec, {B: [10]})
    lake.table.commit(Proposal((a_range(A, 3, Position(3, ended=True, children=(B.shard_id,))),)))
    lake.table.commit(Proposal((a_range(B, None, 10, files=[file]),), (file,)))
    lake.append_as_others()
    lake.expire_all_but_the_head(forget=True)
    assert isinstance(repaired(lake, known=Origin(TRIM, NOON)), Repair)
    assert standing(lake)["0"] == (3, 0, True)
    assert lake.handle().load().positions.shards[A].children == (B.shard_id,)


def test_a_repair_is_in_the_ledger_with_its_kind_and_reason(lake: Lake):
    picked = land(lake.table, 4)
    lake.rollback(1)
    lake.cherry_pick(picked)
    repaired(lake)
    if isinstance(lake, MemoryLake):
        page = lake.memory.snapshots[lake.memory.head or 0].page
    else:
        page = lake.pages()[-1]
    assert {(r.kind, r.why) for r in page.ranges} == {(Kind.REPAIR, "a test")}


def test_a_repair_of_a_table_with_a_commit_since_the_plan_changes_nothing(lake: Lake):
    picked = land(lake.table, 4)
    lake.rollback(1)
    lake.cherry_pick(picked)
    plan = plan_repair(lake.table.evidence([STREAM]), FAMILIES, origins={}, why="a test", run="shell")
    assert isinstance(plan, Repair)
    lake.append_as_others()
    with pytest.raises((Transient, ChainBroken)):
        lake.table.rebuild(plan.landing, plan.on)
    with pytest.raises(ChainBroken):
        lake.table.load()


def with_a_picked_landing(lake: Lake) -> Repair:
    """Shard A stands at 3, and record 4 is cherry-picked."""
    picked = land(lake.table, 4)
    lake.rollback(1)
    lake.cherry_pick(picked)
    plan = plan_repair(lake.table.evidence([STREAM]), FAMILIES, origins={}, why="a test", run="shell")
    assert isinstance(plan, Repair)
    return plan


def test_a_repair_is_reported_as_done_though_a_run_landed_right_after_it(lake: Lake):
    plan, other = with_a_picked_landing(lake), lake.handle()
    lake.after_next_swap(
        lambda: other.commit(a_landing(other.staging_spec(), A, after=4, numbers=[5], run="run-2"))
    )
    assert lake.table.rebuild(plan.landing, plan.on).positions.of(A) == plan.landing.positions.of(A)
    assert standing(lake)["0"] == (5, 0, False)


def test_a_repair_whose_answer_was_lost_is_reported_as_done(lake: Lake):
    plan, other = with_a_picked_landing(lake), lake.handle()
    lake.lose("answer")
    made = lake.table.rebuild(plan.landing, plan.on)
    assert (made.positions, made.snapshot) == (other.load().positions, other.load().snapshot)


def test_a_repair_whose_request_was_lost_says_that_it_may_have_landed_and_can_be_done_again(lake: Lake):
    plan = with_a_picked_landing(lake)
    lake.lose("request")
    with pytest.raises(CommitUnknown, match="run the command again"):
        lake.table.rebuild(plan.landing, plan.on)
    assert isinstance(repaired(lake), Repair)
    assert standing(lake)["0"] == (4, 0, False)


def test_a_repair_changes_nothing_if_another_repair_came_first(lake: Lake):
    plan, other = with_a_picked_landing(lake), lake.handle()
    lake.before_next_swap(lambda: other.rebuild(plan.landing, plan.on))
    with pytest.raises(Transient, match="Nothing was changed"):
        lake.table.rebuild(plan.landing, plan.on)
    assert len([page for page in lake.pages() if page.ranges and page.ranges[0].kind is Kind.REPAIR]) == 1


def test_repaired_positions_are_carried_forward_by_later_commits(lake: Lake):
    lake.append_as_others()
    lake.append_as_others()
    lake.expire_all_but_the_head(forget=True)
    repaired(lake, known=Origin(TRIM, NOON))
    lake.append_as_others()
    land(lake.table, 4)
    assert standing(lake) == {"0": (4, 0, False), "2": (7, 0, False)}
    assert not lake.table.load().origin_allowed
