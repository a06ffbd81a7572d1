"""The judge of the lineage table, where the history of the lake table is lost and rolled back (I42)."""

from __future__ import annotations

import pytest

from headrace.pipeline.core.landing.landing import Landing
from headrace.pipeline.core.ledger.rows import LOST
from headrace.pipeline.core.shards.position import Positions
from tests.memory.clock import MemoryClock
from tests.memory.lineage import MemoryLineage
from tests.memory.table import MemoryTable
from tests.simulation.watch.lineage_watch import WatchedLineage
from tests.simulation.watch.truth import Violation


def commit(table: MemoryTable) -> int:
    made = table.rebuild(Landing.carrying(Positions(), {}), table.head).snapshot
    assert made is not None
    return made


def lose_history(table: MemoryTable) -> None:
    """What another engine's expiry does that also deletes the metadata files."""
    link = table.append_as_others()
    table.append_as_others()
    table.forget(link)


def a_recorded_table() -> tuple[MemoryTable, WatchedLineage]:
    """Three commits, of which the last is rolled back and recorded before the history is lost."""
    table = MemoryTable(MemoryClock())
    lineage = WatchedLineage(table)
    first, *_ = [commit(table) for _ in range(3)]
    lineage.record()
    table.rollback(first)
    lose_history(table)
    commit(table)
    return table, lineage


def test_what_main_had_left_before_its_history_was_lost_may_stay():
    _, lineage = a_recorded_table()
    assert lineage.record().gaps == 1
    assert lineage.snapshots > {2, 3}


def test_what_main_leaves_after_a_loss_has_to_go_also_from_before_the_loss():
    table = MemoryTable(MemoryClock())
    lineage = WatchedLineage(table)
    first, second = commit(table), commit(table)
    lineage.record()
    lose_history(table)
    commit(table)
    lineage.record()
    kept = [row for row in lineage._rows if row["entry"] == LOST or row["snapshot_id"] <= second]
    table.rollback(first)
    done = MemoryLineage.record(lineage)
    lineage._rows = tuple(kept)
    with pytest.raises(Violation, match=f"I42: the lineage table has snapshot {second}"):
        lineage._judge(done, set())


def test_a_loss_that_is_told_before_a_snapshot_whose_parents_ledger_was_recorded_is_none():
    table, lineage = a_recorded_table()
    done = MemoryLineage.record(lineage)
    [loss] = [row["snapshot_id"] for row in lineage._rows if row["entry"] == LOST]
    lineage._losses = set()
    with pytest.raises(Violation, match="and the ledger of its parent was recorded"):
        lineage._judge(done, {table.snapshots[loss].parent or 0})
