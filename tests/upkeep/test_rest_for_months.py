"""A real table at rest for four months, beside another engine that commits every few hours."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from headrace.pipeline.core.ledger.ledger import LedgerEntry
from headrace.pipeline.duties.waves.expire import look_after
from headrace.pipeline.lake.table.append import OWN_COMMIT
from headrace.pipeline.lake.table.lake_table import IcebergTable
from headrace.pipeline.lineage.table import IcebergLineage
from headrace.pipeline.settings.blocks.upkeep import UpkeepSettings
from tests.lake.samples import ORIGIN, a_key, a_landing, at
from tests.lake.tables import IcebergLake, commit_nothing
from tests.upkeep.upkeeps import upkeep_of

A = a_key(0)
COMMITS_A_DAY, DAYS = 5, 120
SETTINGS = replace(UpkeepSettings(), compact=False)  # nothing lands, so that there is nothing to compact


def metadata_files(table: IcebergTable) -> list[Path]:
    """All files of metadata but the manifest lists of the other engine, which that engine's own tool for orphans deletes."""
    folder = Path(table.open().metadata_location.removeprefix("file://")).parent
    return [file for file in folder.iterdir() if not file.name.startswith("snap-") or OWN_COMMIT in file.name]


@pytest.mark.slow
def test_a_table_at_rest_stays_small_and_keeps_its_positions_for_four_months(tmp_path: Path):
    """The leader looks at the table after each commit of the other engine, and the upkeep job runs every fifth day."""
    lake = IcebergLake(tmp_path)
    lake.iceberg.commit(ORIGIN)
    lake.iceberg.commit(a_landing(lake.iceberg.staging_spec(), A, after=None, numbers=[1]))
    staged_at, lake.clock.at = lake.clock.at, datetime.now(UTC)  # snapshots have the time of this machine
    positions = lake.iceberg.load().positions
    upkeep = upkeep_of(lake.iceberg, SETTINGS, lake.clock)
    files: list[int] = []
    sizes: list[int] = []
    snapshots: list[int] = []
    for number in range(1, DAYS * COMMITS_A_DAY + 1):
        commit_nothing(lake.iceberg.open())
        lake.clock.at += timedelta(days=1) / COMMITS_A_DAY
        state = lake.iceberg.load()
        assert state.shape.foreign <= 50
        list(look_after(lake.iceberg, state, upkeep.expiring))
        if number % (5 * COMMITS_A_DAY) == 0:
            report = upkeep.run()
            assert report.troubles == ()
            found = metadata_files(lake.iceberg)
            files.append(len(found))
            sizes.append(sum(file.stat().st_size for file in found))
            snapshots.append(lake.iceberg.load().shape.snapshots)
    half = len(files) // 2
    for each in (files, sizes, snapshots):
        assert max(each[half:]) <= 1.2 * max(each[:half])
    assert lake.handle().load().positions == positions
    recorded = [entry for entry in IcebergLineage(lake.iceberg).entries() if isinstance(entry, LedgerEntry)]
    assert [(each.after, each.upto) for entry in recorded for each in entry.page.ranges if each.key == A] == [
        (None, at(1))
    ]

    # The stream flows again.
    lake.clock.at = staged_at
    lake.iceberg.commit(a_landing(lake.iceberg.staging_spec(), A, after=1, numbers=[2]))
    assert lake.handle().load().positions.of(A) == at(2)
