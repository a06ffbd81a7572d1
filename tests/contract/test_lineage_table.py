"""What every implementation of the lineage table promises."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from headrace.pipeline.core.landing.landing import Proposal
from headrace.pipeline.core.ledger.filter import RangeFilter
from headrace.pipeline.core.ledger.ledger import LedgerEntry, LedgerPage, Lost
from headrace.pipeline.core.ledger.recording import Recorded
from headrace.pipeline.core.shards.position import Position
from headrace.pipeline.errors import CommitUnknown
from headrace.pipeline.ports.lineage import LineageTable
from tests.contract.lakes import LAKES, MEMORY, an_iceberg
from tests.lake.samples import ORIGIN, a_key, a_landing, a_range
from tests.lineage.lineages import IcebergLines, Lineage, MemoryLines, losses_in, pages_in

A, B = a_key(0), a_key(1)


@pytest.fixture(params=LAKES)
def line(request: pytest.FixtureRequest, tmp_path: Path) -> Lineage:
    """A lake table with an origin and two landings of shard A, of which nothing is recorded."""
    made: Lineage = MemoryLines(tmp_path)
    if request.param != MEMORY:
        made = IcebergLines(tmp_path, an_iceberg(request, tmp_path))
    made.lake.table.commit(ORIGIN)
    land(made, 1)
    land(made, 2)
    return made


def land(line: Lineage, number: int) -> int:
    """Land one record of shard A."""
    found = line.lake.table.load().positions.of(A)
    after = None if found is None else found.sequence
    proposal = a_landing(line.lake.table.staging_spec(), A, after=after, numbers=[number])
    committed = line.lake.table.commit(proposal)
    assert committed.snapshot is not None
    assert not committed.landing.refused
    return committed.snapshot


def recorded_pages(line: Lineage) -> list[LedgerPage]:
    """What is in the lineage table itself, read after the last recording brought it up to the lake table."""
    assert line.table.recorded().snapshot == line.lake.table.load().snapshot
    return pages_in(line.handle())


# --- recording ----------------------------------------------------------------------------------------------


def test_before_the_first_recording_nothing_is_recorded(line: Lineage):
    assert line.table.recorded() == Recorded()


def test_a_recording_brings_the_ledgers_of_all_snapshots_up_to_the_newest(line: Lineage):
    recorded = line.table.record()
    assert recorded.snapshot == line.lake.table.load().snapshot
    assert (recorded.ranges, recorded.snapshots, recorded.gaps) == (2, 3, 0)
    assert line.handle().recorded() == recorded
    assert recorded_pages(line) == line.lake.pages()


def test_ledgers_that_arent_recorded_yet_are_read_from_the_lake_table(line: Lineage):
    assert pages_in(line.table) == line.lake.pages()
    line.table.record()
    land(line, 3)
    assert pages_in(line.table) == line.lake.pages()
    assert line.table.recorded().snapshots == 3


def test_a_second_recording_adds_only_what_is_new(line: Lineage):
    first = line.table.record()
    land(line, 3)
    second = line.handle().record()
    assert second.sequence > first.sequence
    assert (second.ranges, second.snapshots) == (3, 4)
    assert recorded_pages(line) == line.lake.pages()


def test_a_recording_with_nothing_new_commits_nothing(line: Lineage):
    recorded = line.table.record()
    before = line.commits()
    assert line.table.record() == recorded
    assert line.commits() == before


def test_a_lake_table_without_a_snapshot_has_nothing_to_record(tmp_path: Path):
    for made in (MemoryLines(tmp_path / "a"), IcebergLines(tmp_path / "b")):
        assert made.table.record() == Recorded()
        assert list(made.table.entries()) == []


def test_an_entry_tells_where_its_snapshot_stands(line: Lineage):
    before = list(line.table.entries())
    line.table.record()
    assert list(line.table.entries()) == before
    assert all(isinstance(entry, LedgerEntry) for entry in before)
    sequences = [entry.sequence for entry in before]
    assert sequences == sorted(set(sequences))
    assert before[-1].snapshot == line.lake.table.load().snapshot


def test_a_snapshot_that_removed_an_end_and_one_that_landed_nothing_are_recorded_too(line: Lineage):
    line.lake.table.commit(Proposal((a_range(A, 2, Position(2, ended=True, children=(B.shard_id,))),)))
    line.lake.table.commit(a_landing(line.lake.table.staging_spec(), B, after=None, numbers=[10]))
    line.lake.table.commit(Proposal(drop=(A,)))
    line.table.record()
    assert recorded_pages(line)[-1].dropped == (A,)
    assert recorded_pages(line) == line.lake.pages()


# --- other engines ------------------------------------------------------------------------------------------


def test_snapshots_of_other_engines_are_passed_over(line: Lineage):
    line.lake.append_as_others()
    recorded = line.table.record()
    assert recorded.snapshot == line.lake.table.load().snapshot
    assert (recorded.ranges, recorded.snapshots, recorded.gaps) == (2, 3, 0)
    before = line.commits()
    assert line.table.record() == recorded
    assert line.commits() == before


def test_ledgers_stay_when_their_snapshots_expire(line: Lineage):
    line.table.record()
    before = line.lake.pages()
    line.lake.append_as_others()
    line.table.record()
    line.lake.expire_all_but_the_head(forget=True)
    assert pages_in(line.table) == before
    assert losses_in(line.table) == []
    assert line.table.record().gaps == 0


def test_ledgers_that_expired_before_their_recording_are_recorded_as_lost(line: Lineage):
    line.table.record()
    before = line.lake.pages()
    land(line, 3)
    land(line, 4)
    line.lake.append_as_others()
    line.lake.expire_all_but_the_head(forget=True)
    recorded = line.table.record()
    assert (recorded.snapshots, recorded.gaps) == (3, 1)
    assert pages_in(line.table) == before
    (lost,) = losses_in(line.table)
    assert "can't be read any more" in lost.why
    assert line.table.record() == recorded


def test_a_dropped_table_is_made_again_from_what_is_there_and_tells_what_is_lost(line: Lineage):
    line.table.record()
    land(line, 3)
    line.lake.expire_all_but_the_head(forget=True)
    line.drop()
    assert line.table.recorded() == Recorded()
    recorded = line.table.record()
    assert (recorded.snapshots, recorded.gaps) == (1, 1)
    assert [r.upto.sequence for page in pages_in(line.table) for r in page.ranges] == [3]


def test_a_cherry_pick_is_recorded_as_a_part_without_a_ledger(line: Lineage):
    line.table.record()
    gone = land(line, 3)
    line.lake.rollback(1)
    line.lake.cherry_pick(gone)
    recorded = line.table.record()
    assert (recorded.snapshots, recorded.gaps) == (3, 1)
    (lost,) = losses_in(line.table)
    assert "cherry-pick" in lost.why


# --- rollback -----------------------------------------------------------------------------------------------


def test_after_a_rollback_the_ledgers_that_main_doesnt_lead_to_are_removed(line: Lineage):
    line.table.record()
    line.lake.rollback(1)
    assert pages_in(line.table) == line.lake.pages()
    recorded = line.table.record()
    assert (recorded.ranges, recorded.snapshots) == (1, 2)
    assert recorded_pages(line) == line.lake.pages()


def test_after_a_rollback_and_new_landings_the_table_is_the_ledger_of_main_again(line: Lineage):
    line.table.record()
    land(line, 3)
    line.table.record()
    line.lake.rollback(2)
    land(line, 7)
    land(line, 8)
    assert pages_in(line.table) == line.lake.pages()
    recorded = line.table.record()
    assert (recorded.ranges, recorded.snapshots, recorded.gaps) == (3, 4, 0)
    assert recorded_pages(line) == line.lake.pages()


def test_after_a_rollback_to_a_snapshot_of_another_engine_the_table_is_the_ledger_of_main(line: Lineage):
    line.lake.append_as_others()
    land(line, 3)
    line.table.record()
    line.lake.rollback(1)
    line.table.record()
    assert recorded_pages(line) == line.lake.pages()[: len(recorded_pages(line))]
    assert line.table.recorded().ranges == 2
    before = line.commits()
    line.table.record()
    assert line.commits() == before


def test_a_rollback_of_ledgers_that_arent_recorded_changes_nothing_in_the_table(line: Lineage):
    recorded = line.table.record()
    land(line, 3)
    line.lake.rollback(1)
    assert line.table.record() == recorded


def test_a_rollback_in_two_pieces_is_followed(line: Lineage):
    line.table.record()
    line.lake.rollback(1)
    line.table.record()
    line.lake.rollback(1)
    line.table.record()
    assert recorded_pages(line) == line.lake.pages()
    assert line.table.recorded().ranges == 0


# --- lost requests and answers, and races -------------------------------------------------------------------


def test_a_recording_whose_answer_was_lost_is_there_once(line: Lineage):
    line.lose("answer")
    line.table.record()
    assert recorded_pages(line) == line.lake.pages()
    assert line.commits() == 1


def test_a_recording_whose_request_was_lost_is_there_once(line: Lineage):
    line.lose("request")
    line.table.record()
    assert recorded_pages(line) == line.lake.pages()


def test_a_recording_that_gets_no_answer_says_so_and_the_next_one_goes_on(line: Lineage):
    line.lose("request", times=3)
    with pytest.raises(CommitUnknown):
        line.table.record()
    assert line.table.recorded() == Recorded()
    line.table.record()
    assert recorded_pages(line) == line.lake.pages()


def test_after_another_recorder_came_first_each_ledger_is_there_once(line: Lineage):
    line.table.record()
    land(line, 3)
    line.before_next_swap(lambda: line.handle().record())
    line.table.record()
    assert recorded_pages(line) == line.lake.pages()


def test_after_another_recorder_recorded_less_the_rest_is_added(line: Lineage):
    def meanwhile() -> None:
        line.handle().record()
        land(line, 3)

    line.before_next_swap(meanwhile)
    line.table.record()
    assert recorded_pages(line) == line.lake.pages()


def test_ledgers_up_to_a_snapshot_after_a_rollback_are_those_that_main_leads_to(line: Lineage):
    line.table.record()
    line.lake.rollback(1)
    land(line, 3)
    newest = max(entry.sequence for entry in line.table.entries())
    entries = line.table.entries(RangeFilter(upto=newest))
    assert [entry.page for entry in entries if isinstance(entry, LedgerEntry)] == line.lake.pages()


def test_a_rollback_between_the_comparison_and_the_commit_is_mended_by_the_next_recording(line: Lineage):
    line.before_next_swap(lambda: line.lake.rollback(1))
    line.table.record()
    assert pages_in(line.table) == line.lake.pages()
    line.table.record()
    assert recorded_pages(line) == line.lake.pages()


def test_recorders_at_the_same_time_record_each_ledger_once(line: Lineage):
    with ThreadPoolExecutor(3) as recorders:
        working = [recorders.submit(_record_often, line.handle()) for _ in range(3)]
        for number in range(3, 11):
            land(line, number)
        for work in working:
            work.result()
    line.table.record()
    assert recorded_pages(line) == line.lake.pages()


def _record_often(table: LineageTable) -> None:
    for _ in range(5):
        table.record()


def test_a_reader_sees_lost_parts_in_their_place(line: Lineage):
    line.table.record()
    land(line, 3)
    line.lake.append_as_others()
    land(line, 4)
    line.lake.expire_all_but_the_head(forget=True)
    line.table.record()
    kinds = [type(entry) for entry in line.table.entries()]
    assert kinds == [LedgerEntry, LedgerEntry, LedgerEntry, Lost, LedgerEntry]
