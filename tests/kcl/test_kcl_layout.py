"""In which tables rows are, decided by what is found: one test for each status of KCL's table migration, and the
cases that need a person."""

import itertools
from dataclasses import replace
from typing import Any

import pytest

from headrace.pipeline.errors import BadSetting, WrongShape
from headrace.pipeline.kcl.layout import Arrangement, LayoutEvidence, plan_layout
from headrace.pipeline.kcl.migration import TableStatus
from headrace.pipeline.settings.choices import Layout

NOTHING = LayoutEvidence(lease_table="app", state_table="app-CoordinatorState")
LEADER_ROW = frozenset({"Leader"})
THREE_TABLES = replace(NOTHING, has_state_table=True, has_worker_table=True, in_state_table=LEADER_ROW)
ONE_TABLE = replace(NOTHING, beside_leases=frozenset({"Leader", "w1"}))
S, PENDING, DEPLOYED, INIT = TableStatus.COMPLETE, TableStatus.PENDING, TableStatus.DEPLOYED, TableStatus.INIT


def auto(found: LayoutEvidence) -> Arrangement:
    return plan_layout(found, Layout.AUTO)


def test_a_new_application_has_three_tables_or_the_layout_that_the_settings_ask_for():
    assert auto(NOTHING).layout is Layout.M
    assert plan_layout(NOTHING, Layout.M).layout is Layout.M
    assert plan_layout(NOTHING, Layout.S).layout is Layout.S


@pytest.mark.parametrize(
    ("status", "workers", "both", "lock"),
    [
        (None, False, False, False),
        (INIT, False, False, False),
        (DEPLOYED, False, True, False),
        (PENDING, True, True, False),
        (S, True, False, True),
    ],
    ids=str,
)
def test_the_stored_status_says_which_rows_have_moved(
    status: TableStatus | None, *, workers: bool, both: bool, lock: bool
):
    """The workers' rows move to the lease table from PENDING on, the lock only at COMPLETE."""
    found = auto(replace(THREE_TABLES, status=status))
    assert (found.workers_in_lease_table, found.workers_in_both, found.lock_in_lease_table) == (
        workers,
        both,
        lock,
    )
    assert found.layout is (Layout.S if lock else Layout.M)


@pytest.mark.parametrize("status", [DEPLOYED, PENDING])
@pytest.mark.parametrize("moved", [{"w1"}, {"Migration3.0"}, {"w1", "Migration3.0"}])
def test_rows_that_a_migration_has_moved_already_are_no_contradiction(status: TableStatus, moved: set[str]):
    assert auto(replace(THREE_TABLES, status=status, beside_leases=frozenset(moved))).status is status


@pytest.mark.parametrize("status", [None, INIT, DEPLOYED, PENDING])
def test_a_lock_in_both_tables_is_refused_until_the_migration_is_complete(status: TableStatus | None):
    both = replace(THREE_TABLES, status=status, beside_leases=LEADER_ROW)
    with pytest.raises(
        WrongShape, match=r"both table app \(Leader\) and table app-CoordinatorState \(Leader\)"
    ):
        auto(both)
    assert auto(replace(both, status=S)).layout is Layout.S


@pytest.mark.parametrize("beside", [{"Leader"}, {"Migration3.0"}, {"w1"}])
@pytest.mark.parametrize("worker_table", [False, True])
@pytest.mark.parametrize("wanted", Layout)
def test_an_empty_state_table_beside_rows_of_layout_s_is_refused_with_the_repair(
    beside: set[str], wanted: Layout, *, worker_table: bool
):
    stray = replace(
        NOTHING, has_state_table=True, has_worker_table=worker_table, beside_leases=frozenset(beside)
    )
    with pytest.raises(WrongShape) as error:
        plan_layout(stray, wanted)
    said = str(error.value)
    assert "stray table app-CoordinatorState" in said
    assert (
        "TableMigration3.5 with tm = TABLE_MIGRATION_STATUS_COMPLETE into table app-CoordinatorState" in said
    )
    assert "delete table app-CoordinatorState" in said


@pytest.mark.parametrize("beside", ["Leader", "Migration3.0", "w1"])
def test_an_empty_state_table_is_refused_also_after_a_leader_has_written_the_first_status_of_a_migration(
    beside: str,
):
    """KCL 3.5.1 writes that status by itself. No row has moved by then."""
    found = replace(THREE_TABLES, has_worker_table=False, status=INIT, beside_leases=frozenset({beside}))
    with pytest.raises(
        WrongShape, match=rf"both table app \({beside}\) and table app-Coord.*COMPLETE into table"
    ):
        auto(found)


def test_a_stray_state_table_is_repaired_only_by_a_complete_status_in_that_table():
    stray = replace(ONE_TABLE, has_state_table=True)
    assert auto(replace(stray, status=S)).layout is Layout.S
    with pytest.raises(WrongShape, match="stray table"):
        auto(replace(stray, status_beside_leases=S))
    with pytest.raises(WrongShape, match="stray table"):
        auto(replace(NOTHING, has_state_table=True, status_beside_leases=S))


def test_rows_of_layout_s_without_a_state_table_mean_layout_s():
    assert auto(ONE_TABLE).layout is Layout.S
    assert auto(replace(NOTHING, status_beside_leases=S)).layout is Layout.S
    # The worker table of a migrated application stays when its state table is deleted.
    assert auto(replace(ONE_TABLE, has_worker_table=True)).layout is Layout.S


def test_a_worker_table_without_other_evidence_means_three_tables():
    assert auto(replace(NOTHING, has_worker_table=True)).layout is Layout.M


def test_leases_without_other_evidence_are_judged_by_which_program_wrote_them():
    leases = replace(NOTHING, has_leases=True)
    assert auto(leases) == Arrangement(TableStatus.COMPLETE)
    assert auto(replace(leases, has_own_leases=True)) == Arrangement(TableStatus.INIT)
    assert auto(replace(leases, has_older_leases=True)) == Arrangement(TableStatus.INIT, lease_rows_only=True)
    assert plan_layout(replace(leases, has_own_leases=True), Layout.S).layout is Layout.S


@pytest.mark.parametrize("ours", [False, True])
def test_beside_workers_older_than_3_5_only_leases_go_into_the_lease_table(*, ours: bool):
    older = replace(NOTHING, has_leases=True, has_older_leases=True, has_own_leases=ours)
    with pytest.raises(BadSetting, match=r"layout is S.*older than 3\.5.*Nothing was written"):
        plan_layout(older, Layout.S)
    assert plan_layout(older, Layout.M).lease_rows_only


@pytest.mark.parametrize("status", [DEPLOYED, PENDING, S])
def test_old_leases_in_a_table_with_a_status_of_a_migration_dont_mean_older_workers(status: TableStatus):
    found = replace(NOTHING, has_state_table=True, status=status, has_leases=True, has_older_leases=True)
    assert auto(found) == Arrangement(status)
    gone = replace(found, has_state_table=False, status=None, status_beside_leases=S)
    assert plan_layout(gone, Layout.S) == Arrangement(S)


@pytest.mark.parametrize(
    ("found", "wanted", "has"),
    [
        (ONE_TABLE, "M", "S"),
        (THREE_TABLES, "S", "M"),
        (replace(THREE_TABLES, status=PENDING), "S", "M"),
        (replace(THREE_TABLES, status=S), "M", "S"),
        (replace(NOTHING, has_leases=True), "M", "S"),
        (replace(NOTHING, has_worker_table=True), "S", "M"),
        (replace(NOTHING, status_beside_leases=S), "M", "S"),
    ],
)
def test_a_setting_that_contradicts_the_layout_found_is_refused(found: LayoutEvidence, wanted: str, has: str):
    with pytest.raises(
        BadSetting,
        match=rf"layout is {wanted}, but the application has layout {has} already \(.+\)\. Nothing",
    ):
        plan_layout(found, Layout(wanted))
    assert plan_layout(found, Layout(has)) == auto(found)


def planned(found: LayoutEvidence, wanted: Layout) -> Arrangement | str:
    try:
        return plan_layout(found, wanted)
    except (BadSetting, WrongShape) as error:
        return str(error)


def test_no_other_row_is_put_beside_the_leases_of_older_workers_and_none_into_both_tables():
    """All combinations of what can be found: each gives a plan or a sentence."""
    refused = 0
    flags = ("has_worker_table", "has_leases", "has_older_leases", "has_own_leases", "has_state_table")
    for chosen in itertools.product([False, True], repeat=len(flags)):
        for status, beside, legacy, wanted in itertools.product(
            [None, *TableStatus], [set(), LEADER_ROW, {"w1"}], [set(), LEADER_ROW], Layout
        ):
            facts: dict[str, Any] = dict(zip(flags, chosen, strict=True))
            found = replace(
                NOTHING,
                **facts,
                status=status,
                beside_leases=frozenset(beside),
                in_state_table=frozenset(legacy),
            )
            if not found.has_state_table and (status is not None or legacy):
                continue
            plan = planned(found, wanted)
            if isinstance(plan, str):
                assert "Nothing was written" in plan
                refused += 1
                continue
            assert wanted in {Layout.AUTO, plan.layout}
            assert not (plan.lease_rows_only and wanted is Layout.S)
            if plan.lock_in_lease_table:
                assert plan.workers_in_lease_table
            if legacy and not plan.lock_in_lease_table:
                assert "Leader" not in beside
    assert refused > 100
