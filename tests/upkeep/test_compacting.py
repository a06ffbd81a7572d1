"""The order of an upkeep: day after day, with a while between two commits, and each part goes on where another one has failed."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from headrace.pipeline.core.landing.landing import Proposal
from headrace.pipeline.duties.waves.expire import Expiring
from headrace.pipeline.errors import Unreachable
from headrace.pipeline.settings.blocks.upkeep import UpkeepSettings
from headrace.pipeline.upkeep.compact import Compacting
from headrace.pipeline.upkeep.delete import Deleting
from headrace.pipeline.upkeep.ports import Rewriter
from headrace.pipeline.upkeep.rewrite_plan import FileGroup, Rewritten
from headrace.pipeline.upkeep.upkeep import Upkeep
from tests.lake.samples import NOON, ORIGIN, a_file, a_key, a_range
from tests.lake.tables import MemoryLake, rows_in_file
from tests.memory.files import MemoryFiles
from tests.memory.lineage import MemoryLineage
from tests.memory.live import MemoryLive, MemoryRewriter

A = a_key(0)
DAY = timedelta(days=1)
SETTINGS = UpkeepSettings()


class Place:
    """A table in memory with five small files on each of some days."""

    def __init__(self, folder: Path) -> None:
        self.lake = MemoryLake(folder)
        self.lake.table.commit(ORIGIN)
        self.rewriter: Rewriter = MemoryRewriter({}, self.lake.clock)
        self.rewrites: list[tuple[float, str]] = []
        """When Spark was asked, and for which day."""
        self.number = 0
        self.live = MemoryLive(self.lake.memory)

    def fill(self, *days: int) -> None:
        assert isinstance(self.rewriter, MemoryRewriter)
        for day in days:
            self.lake.clock.at = NOON + day * DAY
            for _ in range(5):
                spec = self.lake.memory.staging_spec()
                file = a_file(
                    spec, {A: [self.number + 1]}, arrival=self.lake.clock.at, staged_at=self.lake.clock.at
                )
                each = a_range(A, self.number or None, self.number + 1, rows=1, files=[file])
                self.lake.table.commit(Proposal((each,), (file,)))
                self.rewriter._rows[file.path] = tuple(rows_in_file(file))
                self.number += 1
        self.lake.clock.at += DAY

    def compacting(self, settings: UpkeepSettings = SETTINGS) -> Compacting:
        return Compacting(table=self.live, rewriter=self._noted, settings=settings, clock=self.lake.clock)

    def _noted(self) -> Rewriter:
        place = self

        class Noted:
            def __call__(self, groups: Sequence[FileGroup]) -> tuple[Rewritten, ...]:
                place.rewrites.append((place.lake.clock.monotonic(), groups[0].day))
                return place.rewriter(groups)

        return Noted()

    def upkeep(self, settings: UpkeepSettings = SETTINGS) -> Upkeep:
        lake, clock = self.lake, self.lake.clock
        return Upkeep(
            table=lake.table,
            deleting=(Deleting(files=MemoryFiles(lake.memory), settings=settings, clock=clock),),
            expiring=Expiring(
                table=lake.table, lineage=lambda: MemoryLineage(lake.memory), settings=settings, clock=clock
            ),
            compacting=self.compacting(settings),
            settings=settings,
        )

    def files(self) -> int:
        return len(self.live.live().files)


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


class NoSpark:
    def __call__(self, groups: Sequence[FileGroup]) -> tuple[Rewritten, ...]:
        raise Unreachable("Spark gave no session; nothing was read")


def test_each_day_has_a_commit_of_its_own_with_time_for_landings_between(place: Place):
    place.fill(0, 1, 2)
    head = place.lake.memory.head or 0
    done = place.compacting().run()
    assert place.files() == len(done.done) == 3
    assert place.lake.memory.head == head + 3
    times = [at for at, _ in place.rewrites]
    assert [later - earlier for earlier, later in pairwise(times)] == [5.0, 5.0]
    assert [day for _, day in place.rewrites] == sorted(day for _, day in place.rewrites)


def test_a_compaction_that_fails_at_its_second_day_keeps_the_first(place: Place):
    place.fill(0, 1)
    working = place.rewriter

    class Once:
        def __call__(self, groups: Sequence[FileGroup]) -> tuple[Rewritten, ...]:
            place.rewriter = NoSpark()
            return working(groups)

    place.rewriter = Once()
    done = place.compacting().run()
    assert [group.day for group in done.done] == ["2026-01-31"]
    assert isinstance(done.trouble, Unreachable)
    assert place.files() == 6


def test_the_upkeep_goes_on_after_a_compaction_that_failed_and_reports_it(place: Place):
    place.fill(0)
    place.rewriter = NoSpark()
    report = place.upkeep().run()
    assert [str(trouble) for trouble in report.troubles] == ["Spark gave no session; nothing was read"]
    assert report.files.why_none is None
    assert "0 files (0 bytes) deleted" in str(report)


def failing(why: str) -> Any:
    def fail(*_: object) -> None:
        raise Unreachable(why)

    return fail


def test_no_part_of_an_upkeep_that_fails_hides_another_one(place: Place, monkeypatch: pytest.MonkeyPatch):
    place.fill(0)
    place.rewriter = NoSpark()
    upkeep = place.upkeep()
    monkeypatch.setattr(Compacting, "expired_rows", failing("the retention failed"))
    monkeypatch.setattr(Expiring, "_expire", failing("the expiry failed"))
    monkeypatch.setattr(Deleting, "run", failing("the deletion failed"))
    told = [str(each) for each in upkeep.run().troubles]
    assert told[:2] == ["the retention failed", "Spark gave no session; nothing was read"]
    assert "couldn't be expired now: the expiry failed" in told[2]
    assert told[3:] == ["the deletion failed"] * len(upkeep.deleting)


def test_an_error_that_nobody_foresaw_ends_one_part_of_an_upkeep_and_is_told(
    place: Place, monkeypatch: pytest.MonkeyPatch
):
    place.fill(0)
    upkeep = place.upkeep()
    monkeypatch.setattr(MemoryLive, "replace", lambda *_: _raise(LookupError("a row: secret")))
    report = upkeep.run()
    (trouble,) = report.troubles
    assert "the compaction of the lake table was ended by an unexpected LookupError" in str(trouble)
    assert "secret" not in str(trouble)
    assert report.files.why_none is None
    monkeypatch.setattr(Compacting, "expired_rows", lambda *_: _raise(RuntimeError))
    monkeypatch.setattr(Deleting, "run", lambda *_: _raise(RuntimeError))
    told = [str(each).partition(". ")[0] for each in upkeep.run().troubles]
    assert told == [
        "the retention of the lake table was ended by an unexpected RuntimeError",
        "the compaction of the lake table was ended by an unexpected LookupError",
        *["the deletion of files of the lake table was ended by an unexpected RuntimeError"]
        * len(upkeep.deleting),
    ]


def _raise(error: Any) -> Any:
    raise error


def test_a_dry_run_tells_all_that_it_couldnt_find_out(place: Place, monkeypatch: pytest.MonkeyPatch):
    place.fill(0)
    upkeep = place.upkeep()
    monkeypatch.setattr(Compacting, "plan", failing("no plan"))
    monkeypatch.setattr(Deleting, "look", failing("no listing"))
    report = upkeep.run(dry_run=True)
    assert [str(each) for each in report.troubles] == ["no plan", *["no listing"] * len(upkeep.deleting)]


def test_a_dry_run_tells_what_would_be_compacted_and_asks_no_spark(place: Place):
    place.fill(0, 1)
    head = place.lake.memory.head
    report = place.upkeep().run(dry_run=True)
    assert report.notes == ("10 data files would be compacted into 2",)
    assert not place.rewrites
    assert place.lake.memory.head == head


def test_a_table_without_small_files_asks_no_spark(place: Place):
    place.fill(0)
    place.compacting().run()
    place.rewrites.clear()
    place.upkeep().run()
    assert not place.rewrites


def test_compaction_can_be_switched_off(place: Place):
    place.fill(0)
    report = place.upkeep(replace(SETTINGS, compact=False)).run()
    assert not report.compacted.done
    assert not place.rewrites


def test_days_before_the_retention_are_dropped_and_not_compacted_first(place: Place):
    place.fill(0, 5)
    report = place.upkeep(replace(SETTINGS, retention=3 * DAY)).run()
    assert [day for _, day in place.rewrites] == ["2026-02-05"]
    assert len(report.dropped) == 5
    assert report.notes[0] == "5 rows of 1 day older than upkeep.retention, in 5 files"
    position = place.lake.table.load().positions.of(A)
    assert position is not None
    assert position.sequence == 10


def test_the_report_names_the_groups_that_were_left(place: Place):
    place.fill(0)
    assert isinstance(place.rewriter, MemoryRewriter)
    place.rewriter.spoil = lambda rows: (*rows[1:], rows[1])
    done = place.compacting().run()
    assert list(done.sentences()) == [
        "5 files of 2026-01-31 not compacted this time: the rows that were written aren't those that were read"
    ]
    assert place.files() == 5
