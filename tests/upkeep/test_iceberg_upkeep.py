"""What upkeep deletes of a real table's files, and what it leaves."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from uuid import uuid4

import pyarrow.parquet as pq
import pytest

from headrace.pipeline.core.landing.landing import Proposal
from headrace.pipeline.core.ledger.ledger import Kind
from headrace.pipeline.errors import Transient, Unreachable, WrongShape
from headrace.pipeline.lake.staging import stage_task
from headrace.pipeline.lake.table import summary
from headrace.pipeline.lake.table.schema import PROPERTIES
from headrace.pipeline.lake.table.state_files import Pointer
from headrace.pipeline.upkeep.deletion_plan import StoredFile
from headrace.pipeline.upkeep.table_files import IcebergFiles
from tests.lake.samples import a_key, a_range, at
from tests.lake.tables import IcebergLake, append_as_others, patch
from tests.lake.written import write_files
from tests.upkeep.upkeeps import DAY, FEW, A, Kept

HISTORY = 3
"""Older metadata files that the log names, instead of 200."""


@pytest.fixture
def kept(tmp_path: Path) -> Kept:
    return Kept(IcebergLake(tmp_path))


def path_of(file: str) -> Path:
    return Path(file.removeprefix("file://"))


# --- what goes ------------------------------------------------------------------------------------------------


def test_a_staged_file_that_nothing_names_goes_after_three_days_of_looks(kept: Kept):
    kept.land(1)
    orphan = path_of(kept.proposal(1, 2).files[0].path)
    reports = kept.days(3)
    assert orphan.exists()
    assert all(orphan.name not in each.path for report in reports for each in report.deleted)
    (last,) = kept.days(1)
    assert [Path(each.path).name for each in last.deleted if each.path.endswith(".parquet")] == [orphan.name]
    assert not orphan.exists()
    assert kept.lake.numbers() == {A.shard_id: [1]}
    kept.land(2)
    assert kept.lake.numbers() == {A.shard_id: [1, 2]}


def test_the_age_counts_from_the_first_look_and_not_from_the_writing(kept: Kept):
    """The file was in the table for ten days, until a rollback and an expiry took it out."""
    kept.land(1)
    before = kept.lake.iceberg.load().snapshot or 0
    kept.land(2)
    rows = kept.files("data")
    kept.clock.at += 10 * DAY
    kept.lake.iceberg.open().manage_snapshots().set_current_snapshot(before).commit()
    kept.lake.iceberg.carry()
    shorten(kept)
    kept.lake.iceberg.expire(
        history := kept.lake.iceberg.retained(),
        [each for each in history.snapshots if each not in {r.snapshot for r in history.refs.values()}],
    )
    for _ in range(HISTORY + 1):
        kept.lake.iceberg.carry()
    kept.days(3)
    assert kept.files("data") == rows
    kept.days(2)
    assert len(kept.files("data")) == 1
    assert kept.lake.numbers() == {A.shard_id: [1]}


def shorten(kept: Kept) -> None:
    """Let the metadata log name a few older files only."""
    with kept.lake.iceberg.open().transaction() as change:
        change.set_properties({"write.metadata.previous-versions-max": str(HISTORY)})


def snapshots_and_metadata_are_forgotten(kept: Kept) -> None:
    """All snapshots of before expire, and the metadata log names no file of before."""
    for _ in range(30):
        kept.lake.iceberg.carry()
    kept.clock.at += DAY
    kept.days(1)
    for _ in range(HISTORY + 1):
        kept.lake.iceberg.carry()


@pytest.mark.slow
def test_beside_a_busy_table_the_folders_stop_growing(kept: Kept):
    kept.land(1)
    shorten(kept)
    counts = []
    for day in range(9):
        for _ in range(27):
            kept.lake.iceberg.carry()
        kept.days(1)
        if day > 4:
            counts.append(len(kept.files("metadata")))
    assert max(counts) - min(counts) <= 10
    assert max(counts) < 6 * 27 * 3
    assert kept.lake.handle().load().positions.of(A) == at(1)


def test_a_state_file_goes_once_no_snapshot_and_no_metadata_file_points_to_it(
    kept: Kept, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(summary, "LIMIT", 0)
    kept.lake.iceberg.commit(Proposal((a_range(A, None, 7, kind=Kind.ADOPT),)))
    (first,) = kept.states()
    shorten(kept)
    # The first move is a delta against the first file. At the second one a new full file is due, and nothing needs the first any more.
    for number in (8, 9):
        kept.lake.iceberg.commit(Proposal((a_range(A, number - 1, number, kind=Kind.ADOPT),)))
    assert len(kept.states()) == 3
    kept.lake.iceberg.carry()
    newest = kept.states() - {first, full_file(kept)}
    snapshots_and_metadata_are_forgotten(kept)
    kept.days(5)
    assert first not in kept.states()
    assert not newest & kept.states()
    assert kept.lake.handle().load().positions.of(A) == at(9)


def full_file(kept: Kept) -> str:
    """The full state file that main's head points to."""
    head = next(kept.lake.iceberg.history())
    return Pointer.read(head.summary["headrace.state"]).full.name


def test_the_names_of_staged_files_have_the_form_by_which_upkeep_knows_them(kept: Kept):
    rows = pq.read_table(path_of(kept.proposal(None, 1).files[0].path), partitioning=None)
    spec = kept.lake.iceberg.staging_spec()
    write_files({A: rows.to_batches()}, spec, now=kept.clock.now, fresh=stage_task._fresh)
    assert len([each for each in kept.lake_files().look().stored if each.path.endswith(".parquet")]) == 2


def test_all_files_of_a_commit_have_the_forms_by_which_upkeep_knows_them(kept: Kept):
    kept.land(1)
    there = {each.path for each in kept.lake_files().look().stored}
    assert there == {str(kept.root / each) for each in kept.files()}


# --- what stays -----------------------------------------------------------------------------------------------


def test_whatever_a_tag_or_a_branch_names_stays(kept: Kept):
    kept.land(1)
    first = kept.lake.iceberg.load().snapshot or 0
    kept.lake.iceberg.open().manage_snapshots().create_tag(first, "audit").commit()
    kept.land(2)
    second = kept.lake.iceberg.load().snapshot or 0
    kept.lake.iceberg.open().manage_snapshots().create_branch(second, "test").commit()
    shorten(kept)
    kept.lake.iceberg.open().delete(f"sequence_number = '{1}'")
    for _ in range(30):
        kept.lake.iceberg.carry()
    kept.days(6)
    table = kept.lake.handle().open()
    assert table.scan(snapshot_id=first).count() == 1
    assert table.scan(snapshot_id=second).count() == 2


def test_the_state_file_of_a_tagged_snapshot_stays(kept: Kept, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(summary, "LIMIT", 0)
    kept.lake.iceberg.commit(Proposal((a_range(A, None, 7, kind=Kind.ADOPT),)))
    first = kept.lake.iceberg.load().snapshot or 0
    kept.lake.iceberg.open().manage_snapshots().create_tag(first, "audit").commit()
    shorten(kept)
    snapshots_and_metadata_are_forgotten(kept)
    kept.days(5)
    assert len(kept.states()) < 20
    kept.lake.iceberg.open().manage_snapshots().set_current_snapshot(first).commit()
    assert kept.lake.handle().load().positions.of(A) == at(7)


def test_the_full_state_file_stays_that_only_an_expired_snapshot_has_written(
    kept: Kept, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(summary, "LIMIT", 0)
    many = tuple(a_range(a_key(n), None, 7, kind=Kind.ADOPT) for n in range(100))
    kept.lake.iceberg.commit(Proposal(many))
    writer, full = kept.lake.iceberg.load().snapshot, full_file(kept)
    shorten(kept)
    kept.lake.iceberg.commit(Proposal((a_range(A, 7, 8, kind=Kind.ADOPT),)))
    snapshots_and_metadata_are_forgotten(kept)
    deltas = len(kept.states())
    kept.days(5)
    assert writer not in kept.lake.iceberg.retained().snapshots
    assert len(kept.states()) < deltas
    assert full_file(kept) == full
    found = kept.lake.handle().load().positions
    assert found.of(A) == at(8)
    assert len(found.shards) == 100


def test_files_of_expired_snapshots_stay_while_an_older_metadata_file_names_them(kept: Kept):
    """The log names 200 older metadata files: a walk through the history may need any of them, and a reader may hold one."""
    for _ in range(40):
        kept.lake.iceberg.carry()
    before = kept.files("metadata")
    kept.days(6)
    assert len(kept.lake.iceberg.retained().snapshots) < 10
    assert before <= kept.files("metadata")


def test_files_with_names_of_others_stay(kept: Kept):
    kept.land(1)
    other = uuid4()
    strangers = [
        "data/arrival_ts_day=2026-01-31/00000-0-part.parquet",
        "data/notes.parquet",
        f"metadata/{other}-m0.avro",
        f"metadata/snap-12345-0-{other}.avro",
        "metadata/v7.metadata.json",
        "metadata/version-hint.text",
        "metadata/stats.puffin",
        f"other/arrival_ts_day=2026-01-31/{uuid4().hex}.parquet",
    ]
    for name in strangers:
        (kept.root / name).parent.mkdir(parents=True, exist_ok=True)
        (kept.root / name).write_text("not ours")
    state = kept.lake.folder / "state"
    state.mkdir(exist_ok=True)
    (state / f"{uuid4().hex}.json").write_text("of nobody")
    (state / f"{uuid4().hex}-{uuid4().hex}.json").write_text("of another table")
    kept.days(6)
    assert all((kept.root / name).exists() for name in strangers)
    assert len(list(state.glob("*.json"))) == 3  # with the memory of the upkeep


@pytest.mark.parametrize("codec", ["none", "gzip"])
def test_files_of_a_renamed_table_stay_whose_folder_the_next_table_of_that_name_has(
    kept: Kept, tmp_path: Path, codec: str
):
    renamed = kept.lake.iceberg.open().transaction()
    renamed.set_properties({"write.metadata.compression-codec": codec}).commit_transaction()
    for number in range(1, 4):
        kept.land(number)
    catalog = kept.lake.iceberg.catalog
    catalog.rename_table(kept.lake.name, "lake.archive")
    new = Kept(IcebergLake(tmp_path, kept.lake.properties))
    assert new.root == Path(catalog.load_table("lake.archive").location().removeprefix("file://"))
    new.land(7)
    orphan = path_of(new.proposal(7, 8).files[0].path)
    theirs = kept.files() - {str(orphan.relative_to(new.root))}
    new.days(5)
    assert not orphan.exists()
    assert theirs <= kept.files()
    assert len(catalog.load_table("lake.archive").scan().to_arrow()) == 3
    assert new.lake.numbers() == {A.shard_id: [7]}


def test_files_of_a_table_that_forbids_their_deletion_stay(kept: Kept):
    orphan = path_of(kept.proposal(None, 1).files[0].path)
    with kept.lake.iceberg.open().transaction() as change:
        change.set_properties({"gc.enabled": "false"})
    assert str(kept.days(6)[-1]) == "no file deleted: the table has gc.enabled=false"
    assert orphan.exists()


def test_a_dry_run_tells_what_would_go_and_changes_nothing(kept: Kept):
    orphan = path_of(kept.proposal(None, 1).files[0].path)
    kept.days(3)
    before, head = kept.files(), kept.lake.iceberg.load().snapshot
    report = kept.upkeep().run(dry_run=True)
    assert orphan.name in {Path(each.path).name for each in report.due}
    assert str(report).startswith(f"{len(report.due)} file")
    assert "would be deleted" in str(report)
    assert (kept.files(), kept.lake.iceberg.load().snapshot) == (before, head)


def test_nothing_is_deleted_where_upkeep_is_switched_off_or_nothing_landed(kept: Kept, tmp_path: Path):
    assert "upkeep.enabled" in str(kept.upkeep(replace(FEW, enabled=False)).run())
    empty = IcebergLake(tmp_path / "other")
    upkeep = replace(kept.upkeep(), table=empty.iceberg)
    assert "nothing has landed" in str(upkeep.run())


# --- ages -----------------------------------------------------------------------------------------------------


def test_a_file_that_gets_a_name_between_two_looks_starts_anew(kept: Kept):
    proposal = kept.proposal(None, 1)
    kept.upkeep().run()
    kept.lake.iceberg.commit(proposal)
    kept.clock.at += DAY
    kept.upkeep().run()
    assert str(path_of(proposal.files[0].path)) not in IcebergFiles(kept.lake.iceberg).remembered().since


def test_a_damaged_memory_makes_all_files_wait_once_more(kept: Kept):
    orphan = path_of(kept.proposal(None, 1).files[0].path)
    kept.days(3)
    (memory,) = (kept.lake.folder / "state").glob("upkeep-*.json")
    memory.write_text(memory.read_text()[:40])
    kept.days(3)
    assert orphan.exists()
    kept.days(1)
    assert not orphan.exists()


def test_a_clock_that_jumps_ten_days_ahead_makes_no_file_old(kept: Kept):
    orphan = path_of(kept.proposal(None, 1).files[0].path)
    kept.upkeep().run()
    kept.clock.at += 10 * DAY
    kept.upkeep().run()
    assert orphan.exists()


# --- writers that were paused -----------------------------------------------------------------------------------


def meanwhile(kept: Kept, act: Callable[[Kept], object]) -> None:
    """What happens between the moment when a writer has prepared a commit and the moment when its request arrives."""
    lake = IcebergLake(kept.lake.folder)
    lake.clock = lake.iceberg.clock = kept.clock
    other = Kept(lake, is_new=False)
    kept.lake.before_next_swap(lambda: act(other))


def test_a_writer_that_wakes_after_the_deletion_lands_nothing_and_the_table_can_be_read(kept: Kept):
    """Its staged file, its manifests and its metadata file look like orphans. Only the fence keeps its commit off: main hasn't moved."""
    kept.land(1)
    proposal = kept.proposal(1, 2)
    meanwhile(kept, lambda other: other.days(5))
    with pytest.raises(Transient, match="older than"):
        kept.lake.iceberg.commit(proposal)
    assert not path_of(proposal.files[0].path).exists()
    assert kept.lake.handle().load().positions.of(A) == at(1)
    assert kept.lake.numbers() == {A.shard_id: [1]}
    kept.land(2)
    assert kept.lake.numbers() == {A.shard_id: [1, 2]}


def test_an_empty_commit_that_wakes_after_the_deletion_has_all_its_files(kept: Kept):
    """It has no staged files whose age would stop it, but manifests that were deleted: it has to write new ones."""
    kept.land(1)
    meanwhile(kept, lambda other: other.days(5))
    moved = kept.lake.iceberg.commit(Proposal((a_range(A, 1, 5, kind=Kind.SKIPPED),)))
    assert not moved.landing.refused
    assert kept.lake.numbers() == {A.shard_id: [1]}
    kept.lake_files().look()  # refuses if a file of the newest snapshot is missing


def test_a_commit_that_comes_between_the_first_look_and_the_fence_keeps_its_files(kept: Kept):
    """The second look finds their names."""
    kept.land(1)
    proposal = kept.proposal(1, 2)
    kept.days(3)
    fresh = replace(proposal, files=tuple(replace(each, staged_at=kept.clock.at) for each in proposal.files))
    late = kept.lake.handle()
    late.clock = kept.clock
    kept.lake.before_next_swap(lambda: late.commit(fresh))
    kept.upkeep().run()
    assert path_of(proposal.files[0].path).exists()
    assert kept.lake.numbers() == {A.shard_id: [1, 2]}


# --- trouble --------------------------------------------------------------------------------------------------


def test_a_live_file_that_the_listing_lacks_stops_everything(kept: Kept):
    """Without this check, a storage whose names look different from those in the metadata would be emptied."""
    kept.land(1)
    orphan = path_of(kept.proposal(1, 2).files[0].path)
    kept.days(3)
    (landed,) = (each for each in (kept.root / "data").rglob("*.parquet") if each != orphan)
    landed.rename(landed.with_suffix(".away"))
    (trouble,) = kept.upkeep().run().troubles
    assert isinstance(trouble, WrongShape)
    assert landed.name in str(trouble)
    assert orphan.exists()


def test_a_file_that_may_not_be_deleted_is_told_with_the_right_that_is_missing(kept: Kept):
    orphan = path_of(kept.proposal(None, 1).files[0].path)
    kept.days(3)
    upkeep = kept.upkeep()
    patch(upkeep.deleting[0].files, "delete", lambda files: ((), "AccessDenied"))
    (trouble,) = upkeep.run().troubles
    assert isinstance(trouble, Unreachable)
    assert "right to delete" in str(trouble)
    assert orphan.exists()


def test_a_file_outside_of_the_tables_folders_is_never_deleted(kept: Kept, tmp_path: Path):
    outside = tmp_path / "mine.txt"
    outside.write_text("mine")
    with pytest.raises(ValueError, match="isn't a file of Headrace"):
        kept.lake_files().delete([StoredFile(str(outside), 4)])
    assert outside.exists()


def test_landing_deletes_nothing(kept: Kept):
    """pyiceberg's own commit deletes older metadata files, because this property asks for it."""
    assert PROPERTIES["write.metadata.delete-after-commit.enabled"] == "true"
    shorten(kept)
    for number in range(1, 9):
        kept.land(number)
    before = kept.files()
    for number in range(9, 17):
        kept.land(number)
    assert before <= kept.files()


def test_another_engines_files_are_counted_as_named(kept: Kept):
    append_as_others(kept.lake.iceberg.open())
    kept.days(6)
    assert sum(map(len, kept.lake.numbers().values())) == 1
