"""An application's layout is recognized from its rows, and so is the stray state table that stops KCL 3.5."""

from dataclasses import replace
from datetime import timedelta

import pytest

from headrace.pipeline.core.leases.election import LockRow
from headrace.pipeline.errors import WrongShape
from headrace.pipeline.inspect.layout import EMPTY, LayoutFacts, LayoutKind, OtherRows, layout_of
from headrace.pipeline.kcl.layout import LayoutEvidence, plan_layout
from headrace.pipeline.kcl.migration import TableStatus
from headrace.pipeline.settings.choices import Layout

LOCK = LockRow("w1", "v", timedelta(seconds=120))
STATUS_PREFIX = "TABLE_MIGRATION_STATUS_"


def tables(**found: object) -> LayoutFacts:
    return LayoutFacts(lease_table="app", state_table="app-CoordinatorState", **found)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("found", "kind"),
    [
        (tables(), LayoutKind.LEASES_ONLY),
        (tables(typed_leases=True), LayoutKind.LEASES_ONLY),
        (tables(beside_leases=OtherRows(lock=LOCK)), LayoutKind.S),
        (tables(beside_leases=OtherRows(workers=2)), LayoutKind.S),
        (tables(beside_leases=OtherRows(client_version="CLIENT_VERSION_UPGRADE_FROM_2X")), LayoutKind.S),
        (tables(beside_leases=OtherRows(table_migration=f"{STATUS_PREFIX}COMPLETE")), LayoutKind.S),
        (tables(beside_leases=OtherRows(workers=2), worker_rows=1), LayoutKind.S),
        (tables(worker_rows=2), LayoutKind.M),
        (tables(worker_rows=2, state=OtherRows(lock=LOCK)), LayoutKind.M),
        (tables(worker_rows=0, state=EMPTY), LayoutKind.M),
        (
            tables(worker_rows=2, state=OtherRows(lock=LOCK, table_migration=f"{STATUS_PREFIX}DEPLOYED")),
            LayoutKind.M,
        ),
        (
            tables(
                beside_leases=OtherRows(workers=2),
                worker_rows=2,
                state=OtherRows(lock=LOCK, table_migration=f"{STATUS_PREFIX}PENDING"),
            ),
            LayoutKind.MOVING,
        ),
        (
            tables(
                beside_leases=OtherRows(workers=2, client_version="CLIENT_VERSION_3X"),
                worker_rows=2,
                state=OtherRows(lock=LOCK, table_migration=f"{STATUS_PREFIX}DEPLOYED"),
            ),
            LayoutKind.MOVING,
        ),
        (
            tables(
                beside_leases=OtherRows(lock=LOCK, workers=2),
                worker_rows=2,
                state=OtherRows(table_migration=f"{STATUS_PREFIX}COMPLETE"),
            ),
            LayoutKind.S,
        ),
    ],
)
def test_the_layout_is_recognized_from_the_rows(found: LayoutFacts, kind: LayoutKind):
    seen = layout_of(found)
    assert seen.kind is kind
    assert seen.repair is None


def test_lease_rows_with_an_entity_type_show_kcl_3_5():
    assert "3.5" in layout_of(tables(typed_leases=True)).sentence
    assert "2.x" in layout_of(tables()).sentence


@pytest.mark.parametrize("stray", [EMPTY, OtherRows(lock=LOCK)], ids=["empty", "second lock"])
def test_a_stray_state_table_beside_layout_s_is_reported_with_its_repair(stray: OtherRows):
    seen = layout_of(tables(beside_leases=OtherRows(lock=LOCK, workers=2), state=stray))
    assert seen.kind is LayoutKind.TRAPPED
    assert seen.repair is not None
    assert f"tm = {STATUS_PREFIX}COMPLETE into table app-CoordinatorState" in seen.repair
    assert ("delete the empty table" in seen.repair) is (stray == EMPTY)


def test_a_complete_status_in_the_lease_table_only_doesnt_repair_a_stray_state_table():
    here = OtherRows(workers=2, table_migration=f"{STATUS_PREFIX}COMPLETE")
    assert layout_of(tables(beside_leases=here, state=EMPTY)).kind is LayoutKind.TRAPPED


def test_a_second_lock_during_a_migration_is_reported_too():
    moving = OtherRows(lock=LOCK, table_migration=f"{STATUS_PREFIX}PENDING")
    found = tables(beside_leases=OtherRows(lock=LOCK, workers=2), worker_rows=2, state=moving)
    assert layout_of(found).kind is LayoutKind.TRAPPED


@pytest.mark.parametrize("worker_rows", [None, 2])
@pytest.mark.parametrize("status", [None, *TableStatus])
@pytest.mark.parametrize(
    "legacy", [None, EMPTY, OtherRows(lock=LOCK), OtherRows(client_version="CLIENT_VERSION_3X")]
)
@pytest.mark.parametrize(
    "here", [EMPTY, OtherRows(lock=LOCK), OtherRows(workers=1), OtherRows(lock=LOCK, workers=1)]
)
def test_status_shows_the_layout_that_headraces_workers_use(
    here: OtherRows, legacy: OtherRows | None, status: TableStatus | None, worker_rows: int | None
):
    state = legacy and replace(legacy, table_migration=status and f"{STATUS_PREFIX}{status}")
    kind = layout_of(tables(beside_leases=here, state=state, worker_rows=worker_rows)).kind
    evidence = LayoutEvidence(
        lease_table="app",
        state_table="app-CoordinatorState",
        has_state_table=state is not None,
        has_worker_table=worker_rows is not None,
        status=None if state is None else status,
        in_state_table=_keys(legacy),
        beside_leases=_keys(here),
    )
    if kind is LayoutKind.TRAPPED:
        with pytest.raises(WrongShape):
            plan_layout(evidence, Layout.AUTO)
    elif kind is not LayoutKind.LEASES_ONLY:
        arranged = plan_layout(evidence, Layout.AUTO)
        assert (arranged.layout is Layout.S) is (kind is LayoutKind.S)


def _keys(place: OtherRows | None) -> frozenset[str]:
    said = {"Leader": place and place.lock, "Migration3.0": place and place.client_version}
    return frozenset(
        {key for key, there in said.items() if there} | ({"w1"} if place and place.workers else set())
    )


def test_rows_of_both_layouts_need_a_person():
    seen = layout_of(tables(beside_leases=OtherRows(workers=2), worker_rows=2, state=OtherRows(lock=LOCK)))
    assert seen.kind is LayoutKind.TRAPPED
    assert seen.repair is not None
    assert "KCL version" in seen.repair
