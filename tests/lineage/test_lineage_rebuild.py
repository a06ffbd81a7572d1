"""`headrace lineage --rebuild`: the lineage table anew, without losing a ledger that only it has."""

from pathlib import Path

import pytest

from headrace.pipeline.cli import main
from headrace.pipeline.core.landing.landing import Proposal
from headrace.pipeline.core.ledger.ledger import Kind, LedgerEntry, Lost
from headrace.pipeline.lineage.rebuild import rebuild
from headrace.pipeline.lineage.table import IcebergLineage
from tests.lake.samples import ORIGIN, a_key, a_range, at
from tests.lake.tables import append_as_others
from tests.lakehouse import land
from tests.lineage.lineages import IcebergLines, losses_in, pages_in

A = a_key(0)


@pytest.fixture
def line(tmp_path: Path) -> IcebergLines:
    made = IcebergLines(tmp_path)
    made.lake.table.commit(ORIGIN)
    land(made.ice.iceberg, 1, 2)
    land(made.ice.iceberg, 3)
    return made


def lineage_of(line: IcebergLines) -> IcebergLineage:
    return IcebergLineage(line.ice.handle())


def forget(line: IcebergLines) -> None:
    """Expire all but the head, and its tag, and all older metadata files."""
    line.lake.expire_all_but_the_head(forget=True)


def test_a_rebuild_of_a_whole_history_makes_the_same_table(line: IcebergLines):
    recorded = line.table.record()
    assert rebuild(lineage_of(line)) == recorded
    assert pages_in(line.table) == line.lake.pages()


def test_a_rebuild_without_a_lineage_table_makes_it(line: IcebergLines):
    assert rebuild(lineage_of(line)).snapshots == 3
    assert line.table.recorded().snapshots == 3
    assert pages_in(line.table) == line.lake.pages()


def test_a_rebuild_puts_removed_rows_back(line: IcebergLines):
    line.table.record()
    line.own.catalog.load_table("lake.records_lineage").delete("snapshot_sequence = 2")
    assert pages_in(line.table) != line.lake.pages()
    rebuild(lineage_of(line))
    assert pages_in(line.table) == line.lake.pages()


def test_a_rebuild_keeps_ledgers_of_expired_snapshots_that_only_the_lineage_table_has(line: IcebergLines):
    line.table.record()
    before = line.lake.pages()
    append_as_others(line.ice.iceberg.open())
    line.table.record()
    forget(line)
    recorded = rebuild(lineage_of(line))
    assert (recorded.snapshots, recorded.gaps) == (3, 0)
    assert pages_in(line.table) == before


def test_a_rebuild_of_a_history_that_is_too_long_for_one_file_makes_the_same_table(line: IcebergLines):
    line.table.record()
    for number in range(4, 12):
        land(line.ice.iceberg, number)
    line.table.record()
    append_as_others(line.ice.iceberg.open())
    line.table.record()
    forget(line)
    before = pages_in(line.table)
    assert len(before) > 8
    for at_once in (1, 3, 100):
        recorded = rebuild(lineage_of(line), at_once=at_once)
        assert (recorded.snapshots, recorded.gaps) == (len(before), 0)
        assert pages_in(line.table) == before
    found = lineage_of(line).find()
    assert found is not None
    rebuild(lineage_of(line), at_once=3)
    files = [task.file.record_count for task in found.refresh().scan().plan_files()]
    assert max(files) <= 3 < sum(files)


def test_of_a_lost_part_ranges_are_derived_from_the_rows(line: IcebergLines):
    line.table.record()
    land(line.ice.iceberg, 4, 5, 6)
    land(line.ice.iceberg, 7)
    land(line.ice.iceberg, 8)
    forget(line)
    recorded = rebuild(lineage_of(line))
    # Three ranges are in ledgers, of which the newest is in the head of the lake table, and one is derived.
    assert (recorded.ranges, recorded.snapshots, recorded.gaps) == (4, 4, 1)
    (lost,) = losses_in(line.table)
    (made,) = lost.ranges
    assert (made.key, made.after, made.upto, made.rows, made.run) == (A, at(3), at(7), 4, "unknown")
    kinds = [type(entry) for entry in line.table.entries()]
    assert kinds == [LedgerEntry, LedgerEntry, LedgerEntry, Lost, LedgerEntry]
    assert rebuild(lineage_of(line)) == recorded
    assert losses_in(line.table) == [lost]


def test_a_dropped_lineage_table_is_rebuilt_from_rows_where_nothing_else_is_left(line: IcebergLines):
    line.table.record()
    line.drop()
    land(line.ice.iceberg, 4)
    forget(line)
    recorded = rebuild(lineage_of(line))
    assert (recorded.ranges, recorded.gaps) == (2, 1)
    (lost,) = losses_in(line.table)
    assert [(r.after, r.upto, r.rows) for r in lost.ranges] == [(None, at(3), 3)]


def test_after_a_rebuild_recording_goes_on(line: IcebergLines):
    line.table.record()
    land(line.ice.iceberg, 4)
    land(line.ice.iceberg, 5)
    forget(line)
    rebuilt = rebuild(lineage_of(line))
    land(line.ice.iceberg, 6)
    assert line.table.record().ranges == rebuilt.ranges + 1
    assert line.table.record().gaps == 1


def test_after_a_rollback_a_rebuild_has_only_ledgers_of_main(line: IcebergLines):
    line.table.record()
    line.lake.rollback(1)
    assert rebuild(lineage_of(line)).snapshots == 2
    assert pages_in(line.table) == line.lake.pages()


def test_a_ledger_whose_state_file_is_gone_is_recorded_as_lost_by_a_rebuild_only(line: IcebergLines):
    ranges = tuple(a_range(a_key(n), None, at(7**70 + n**9), kind=Kind.ADOPT) for n in range(10, 3_000))
    line.lake.table.commit(Proposal(ranges))
    for file in (line.ice.folder / "state").iterdir():
        file.unlink()
    assert rebuild(lineage_of(line)).gaps == 1
    (lost,) = losses_in(line.table)
    assert "the file is gone" in lost.why


def test_a_ledger_whose_state_file_is_gone_stays_if_it_was_recorded(line: IcebergLines):
    ranges = tuple(a_range(a_key(n), None, at(7**70 + n**9), kind=Kind.ADOPT) for n in range(10, 3_000))
    line.lake.table.commit(Proposal(ranges))
    before = line.lake.pages()
    line.table.record()
    for file in (line.ice.folder / "state").iterdir():
        file.unlink()
    assert rebuild(lineage_of(line)).gaps == 0
    assert pages_in(line.table) == before


def test_the_command_says_what_the_table_has_and_what_was_derived(
    line: IcebergLines, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    line.table.record()
    land(line.ice.iceberg, 4)
    land(line.ice.iceberg, 5)
    forget(line)
    file = tmp_path / "headrace.yaml"
    catalog = {name: line.own.catalog.properties[name] for name in ("type", "uri", "warehouse")}
    file.write_text(
        "application: app\nstreams: [{name: orders}]\naws: {region: eu-west-1}\n"
        f"landing: {{table: lake.records, state: {tmp_path / 'state'}, catalog: {catalog}}}\n"
    )
    assert main(["lineage", "--config", str(file), "--rebuild"]) == 0
    first, second = capsys.readouterr().out.splitlines()
    assert first.startswith("lake.records_lineage has 4 ranges of 4 snapshots, up to snapshot ")
    assert second.endswith("; ranges derived from rows instead: 1")
