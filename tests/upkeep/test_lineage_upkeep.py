"""What upkeep deletes of the lineage table's files, and what it leaves."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from headrace.pipeline.core.landing.landing import Proposal
from headrace.pipeline.core.ledger.ledger import Kind
from headrace.pipeline.lineage.table import IcebergLineage
from headrace.pipeline.settings.blocks.upkeep import UpkeepSettings
from headrace.pipeline.upkeep.delete import Deleted, Deleting
from headrace.pipeline.upkeep.table_files import lineage_files
from tests.lake.samples import ORIGIN, a_key, a_range
from tests.lake.tables import IcebergLake, before_next_swap

A = a_key(0)
DAY = timedelta(days=1)


class Kept:
    def __init__(self, folder: Path) -> None:
        self.lake = IcebergLake(folder)
        self.lake.clock.at = datetime.now(UTC) + timedelta(hours=1)
        self.lake.iceberg.commit(ORIGIN)
        self.lineage = IcebergLineage(self.lake.iceberg)
        self.number = 0

    def move(self) -> None:
        """One range more in the lake table's ledger."""
        after = self.number or None
        self.number += 1
        self.lake.handle().commit(Proposal((a_range(A, after, self.number, kind=Kind.ADOPT),)))

    def record(self, times: int = 1) -> None:
        for _ in range(times):
            self.move()
            self.lineage.record()

    def days(self, count: int) -> list[Deleted]:
        lineage = IcebergLineage(self.lake.handle())
        duty = Deleting(files=lineage_files(lineage), settings=UpkeepSettings(), clock=self.lake.clock)
        found = []
        for _ in range(count):
            found.append(duty.run())
            self.lake.clock.at += DAY
        return found

    @property
    def root(self) -> Path:
        table = self.lineage.find()
        assert table is not None
        return Path(table.location().removeprefix("file://"))

    def files(self, folder: str) -> set[str]:
        return {each.name for each in (self.root / folder).rglob("*") if each.is_file()}

    def ranges(self) -> int:
        return IcebergLineage(self.lake.handle()).recorded().ranges


@pytest.fixture
def kept(tmp_path: Path) -> Kept:
    return Kept(tmp_path)


def test_without_a_lineage_table_nothing_is_done(kept: Kept):
    (done,) = kept.days(1)
    assert done == Deleted()


@pytest.mark.slow
def test_files_that_recordings_replaced_go_and_those_of_the_newest_snapshot_stay(kept: Kept):
    kept.record(32)
    before = kept.files("data")
    assert len(before) == 32
    # The next one rewrites all of them as one file. The snapshots that name them leave the metadata, and these metadata files its log.
    kept.record(45)
    assert before < kept.files("data")
    kept.days(5)
    assert not before & kept.files("data")
    kept.record()
    assert kept.ranges() == 78
    assert len(list(IcebergLineage(kept.lake.handle()).entries())) == 79


def test_all_files_of_a_recording_have_the_forms_by_which_upkeep_knows_them(kept: Kept):
    kept.record(3)
    known = {Path(each.path).name for each in lineage_files(kept.lineage).look().stored}
    assert known == kept.files("data") | kept.files("metadata")


def test_a_recording_that_wakes_after_its_file_was_deleted_is_refused_and_records_anew(kept: Kept):
    kept.record()
    kept.move()
    there = kept.files("data")
    deleted: list[str] = []

    def days_pass() -> None:
        for report in kept.days(5):
            deleted.extend(Path(each.path).name for each in report.deleted)

    before_next_swap(kept.lake.iceberg.catalog, days_pass)
    kept.lineage.record()
    assert [name for name in deleted if name.endswith(".parquet")]
    assert not set(deleted) & kept.files("data")
    assert len(kept.files("data") - there) == 1
    assert kept.ranges() == 2
    assert len(list(IcebergLineage(kept.lake.handle()).entries())) == 3


def test_a_fence_changes_nothing_of_what_is_recorded(kept: Kept):
    kept.record(2)
    recorded = kept.lineage.recorded()
    lineage_files(kept.lineage).fence()
    assert IcebergLineage(kept.lake.handle()).recorded() == recorded
