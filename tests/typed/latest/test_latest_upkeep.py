"""Upkeep of a table of the latest rows: its waves go on as if there had been none."""

import random
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from headrace.pipeline.settings.blocks.upkeep import UpkeepSettings
from headrace.pipeline.typed.source import IcebergSource
from tests.typed.latest.beds import GONE, LatestBed, named
from tests.typed.parsings import A
from tests.upkeep.compactions import InProcess
from tests.upkeep.upkeeps import upkeep_of

pytestmark = pytest.mark.slow

UPKEEP = UpkeepSettings(
    keep_snapshots=1,
    keep_for=timedelta(minutes=1),
    compact_after=timedelta(0),
    orphans_after=timedelta(hours=1),
)
"""A retention is for the lake table alone."""


def test_the_table_is_the_fold_of_all_changes_with_upkeep_between_any_two_waves(tmp_path: Path) -> None:
    bed, dice, number = LatestBed(tmp_path), random.Random(28), 0
    # The table was created at the host's time, which no commit may go behind.
    bed.clock.at = datetime.now(UTC) + timedelta(hours=1)
    fold: dict[int, str] = {}
    # Snapshots are expired where 25 or more may go.
    for waves in (27, 6):
        for _ in range(waves):
            changes: dict[int, bytes] = {}
            for _ in range(6):
                number += 1
                # Most keys are new ones, so that most files lose no row and their number grows.
                item = number if dice.random() < 0.9 else dice.randrange(1, number + 1)
                name = dice.choice([GONE, f"name {number}"])
                changes[number] = named(item, name)
                fold.pop(item, None)
                if name != GONE:
                    fold[item] = name
            bed.land(A, changes)
            bed.catch_up()
        assert bed.names() == fold
        table = bed.typed()
        before = len(IcebergSource(table).look().files)
        # Weeks later all snapshots and all replaced files are old enough. What one upkeep has found, a later one deletes.
        reports = []
        for _ in range(3):
            bed.clock.at += timedelta(days=10)
            reports.append(upkeep_of(table, UPKEEP, bed.clock, rewriter=InProcess(table)).run())
        assert not any(report.troubles for report in reports)
        assert any(report.deleted for report in reports)
        assert len(IcebergSource(bed.typed()).look().files) < before
        assert len(bed.typed().open().metadata.snapshots) < 28
        assert bed.names() == fold
