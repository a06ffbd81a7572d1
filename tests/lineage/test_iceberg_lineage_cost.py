"""The lineage table on Iceberg: its size, and what a recording costs."""

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.table import Table

from headrace.pipeline.core.ledger.ledger import LedgerEntry, Lost
from headrace.pipeline.lake.table import plain_read as read
from headrace.pipeline.lineage import content as lineage_content
from headrace.pipeline.lineage import table as lineage_table
from tests.lake.samples import NOON
from tests.lake.tables import append_as_others, before_next_swap, patch
from tests.lakehouse import land
from tests.lineage.iceberg_lines import NAME, forget_history, lineage_of, with_two_landings
from tests.lineage.lineages import IcebergLines, pages_in


@pytest.fixture
def line(tmp_path: Path) -> IcebergLines:
    return with_two_landings(tmp_path)


def loads(line: IcebergLines, act: Callable[[], object]) -> list[str]:
    """The tables that were loaded from the catalog meanwhile."""
    found: list[str] = []
    load = line.own.catalog.load_table

    def counted(name: Any) -> Table:
        found.append(".".join(name) if isinstance(name, tuple) else name)
        return load(name)

    patch(line.own.catalog, "load_table", counted)
    act()
    patch(line.own.catalog, "load_table", load)
    return found


def test_a_recording_with_nothing_new_loads_each_table_once(line: IcebergLines):
    line.table.record()
    assert sorted(loads(line, line.table.record)) == ["lake.records", NAME]


def test_a_recording_reads_only_ledgers_that_arent_recorded(
    line: IcebergLines, monkeypatch: pytest.MonkeyPatch
):
    line.table.record()
    newest = land(line.ice.iceberg, 3)
    found: list[int] = []

    def noted(link: Any, table: Any) -> LedgerEntry:
        found.append(link.snapshot)
        return read.entry_of(link, table)

    monkeypatch.setattr("headrace.pipeline.lineage.table.entry_of", noted)
    line.table.record()
    assert found == [newest]


def test_a_long_history_is_recorded_in_pieces_oldest_first(
    line: IcebergLines, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(lineage_table, "_MOST_ROWS", 2)
    for number in range(3, 7):
        land(line.ice.iceberg, number)
    recorded = line.table.record(at_most=timedelta(0))
    assert (recorded.snapshots, line.handle().recorded()) == (2, recorded)
    assert pages_in(line.handle()) == line.lake.pages()
    assert line.table.record().snapshot == line.lake.table.load().snapshot
    assert line.commits() == 4
    assert pages_in(line.handle()) == line.lake.pages()


def test_a_rollback_is_followed_in_pieces(line: IcebergLines, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(lineage_table, "_MOST_ROWS", 1)
    line.table.record()
    line.lake.rollback(1)
    for number in range(3, 6):
        land(line.ice.iceberg, number)
    assert line.table.record(at_most=timedelta(0)).ranges == 2
    line.lake.rollback(1)
    line.table.record()
    assert pages_in(line.handle()) == line.lake.pages()
    assert line.table.recorded().snapshot == line.lake.table.load().snapshot


def test_the_table_keeps_only_its_newest_snapshots_and_those_that_somebody_named(line: IcebergLines):
    line.table.record()
    first = lineage_of(line).current_snapshot()
    assert first is not None
    lineage_of(line).manage_snapshots().create_tag(first.snapshot_id, "audit").commit()
    for number in range(3, 30):
        land(line.ice.iceberg, number)
        line.table.record()
    table = lineage_of(line)
    assert len(table.snapshots()) == 21
    assert table.refs()["audit"].snapshot_id == first.snapshot_id
    assert len(table.metadata.metadata_log) <= 20
    assert pages_in(line.handle()) == line.lake.pages()


def test_many_small_files_become_one(line: IcebergLines, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(lineage_content, "_MOST_SMALL_FILES", 4)
    for number in range(3, 15):
        land(line.ice.iceberg, number)
        line.table.record()
        assert len(list(lineage_of(line).scan().plan_files())) <= 4
    assert pages_in(line.handle()) == line.lake.pages()


def test_ledgers_in_several_files_are_cut_by_a_rollback(line: IcebergLines):
    for number in range(3, 8):
        land(line.ice.iceberg, number)
        if number % 2:
            line.table.record()
    line.table.record()
    line.lake.rollback(4)
    land(line.ice.iceberg, 20)
    recorded = line.table.record()
    assert (recorded.snapshots, recorded.ranges) == (5, 4)
    assert pages_in(line.handle()) == line.lake.pages()


def test_times_of_the_lineage_tables_snapshots_never_go_back(line: IcebergLines):
    line.table.record()
    line.ice.clock.at = NOON - timedelta(hours=1)
    land(line.ice.iceberg, 3)
    line.table.record()
    times = [entry.timestamp_ms for entry in lineage_of(line).history()]
    assert times == sorted(times)


def test_a_lost_part_is_a_sentence_in_the_table(line: IcebergLines):
    append_as_others(line.ice.iceberg.open())
    forget_history(line.ice.iceberg.open())
    line.table.record()
    (row,) = lineage_of(line).scan("entry = 'lost'").to_arrow().to_pylist()
    assert "were expired before their ledgers were recorded" in row["why"]
    # Its tag keeps the newest landing.
    assert [type(entry) for entry in line.table.entries()] == [Lost, LedgerEntry]


def test_two_recorders_in_turn_write_each_ledger_once(line: IcebergLines):
    before_next_swap(line.own.catalog, lambda: line.handle().record())
    line.table.record()
    rows = lineage_of(line).scan().to_arrow()
    assert rows.num_rows == 3
