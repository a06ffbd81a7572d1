"""Each row that real KCL workers wrote (rows/, kept by `make interop`) is understood, in each version of KCL."""

from __future__ import annotations

import json
from typing import Any

import pytest

from headrace.pipeline.aws.leases.lease_item import is_no_lease, read_lease
from headrace.pipeline.aws.leases.lock_item import read_lock
from headrace.pipeline.aws.leases.worker_item import read_worker_row
from headrace.pipeline.core.leases.lease import Lease
from headrace.pipeline.core.leases.worker import Worker
from tests.interop.rows import FOLDER, shape_of

VERSIONS = ("1.15.0", "2.7.2", "3.4.2", "3.5.1")
APP = "orders-app"


def tables(version: str) -> dict[str, list[dict[str, Any]]]:
    found: dict[str, list[dict[str, Any]]] = json.loads((FOLDER / f"{version}.json").read_text())["tables"]
    return found


def leases(version):
    return [row for row in tables(version)[APP] if not is_no_lease(row)]


@pytest.mark.parametrize("version", VERSIONS)
def test_every_lease_row_is_understood(version):
    found = [read_lease(row) for row in leases(version)]
    assert all(isinstance(each, Lease) for each in found)
    assert {each.checkpoint.is_end for each in found if isinstance(each, Lease)} == {True, False}


@pytest.mark.parametrize("version", VERSIONS)
def test_a_merged_shard_names_both_parents_and_a_split_one_its_children(version):
    found = [lease for row in leases(version) if isinstance(lease := read_lease(row), Lease)]
    assert max(len(lease.parents) for lease in found) == (1 if version == "3.4.2" else 2)
    assert max(len(lease.children) for lease in found) == 2


def test_a_row_during_its_handover_shows_both_owners():
    under_way = [
        lease
        for row in leases("3.5.1")
        if isinstance(lease := read_lease(row), Lease) and lease.checkpoint_owner
    ]
    assert under_way
    assert all(lease.owner not in {None, lease.checkpoint_owner} for lease in under_way)


def test_a_row_of_metrics_is_understood_in_either_layout():
    beside = [read_worker_row(row) for row in tables("3.4.2")[f"{APP}-WorkerMetricStats"]]
    within = [
        read_worker_row(row, key="leaseKey")
        for row in tables("3.5.1")[APP]
        if row.get("entityType") == {"S": "WORKER_METRIC_STATS"}
    ]
    assert beside
    assert within
    assert all(isinstance(row, Worker) for row in [*beside, *within])


def test_the_leaders_row_is_understood_in_either_layout():
    beside = [row for row in tables("3.4.2")[f"{APP}-CoordinatorState"] if row["key"] == {"S": "Leader"}]
    within = [row for row in tables("3.5.1")[APP] if row["leaseKey"] == {"S": "Leader"}]
    assert {read_lock(row).duration.total_seconds() for row in [*beside, *within]} == {120.0}


@pytest.mark.parametrize("version", ["1.15.0", "2.7.2"])
def test_kcl_1_and_2_leave_only_lease_rows_and_none_with_an_entity_type(version):
    assert set(tables(version)) == {APP}
    assert not [row for row in tables(version)[APP] if "entityType" in row or "checkpoint" not in row]


@pytest.mark.parametrize("version", VERSIONS)
def test_one_row_of_each_shape_is_kept(version):
    for rows in tables(version).values():
        assert len({shape_of(row) for row in rows}) == len(rows)
