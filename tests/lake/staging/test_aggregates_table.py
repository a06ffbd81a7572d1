"""Whether a table has aggregates taken apart: by the setting, by the table's property, and how its ledger tells of it."""

from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from headrace.pipeline.core.landing.landing import Proposal
from headrace.pipeline.core.landing.repair_plan import LastRow
from headrace.pipeline.core.ledger.ledger import LedgerEntry, LedgerPage, Range
from headrace.pipeline.lake.staging.stage_task import stage_batches
from headrace.pipeline.lake.table.lake_table import IcebergTable
from headrace.pipeline.lake.table.schema import AGGREGATES
from headrace.pipeline.lineage.frame import lineage_frame
from headrace.pipeline.lineage.table import IcebergLineage
from headrace.pipeline.settings.choices import Aggregates
from tests.lake.kpl_pages import a_page_of, aggregate
from tests.lake.samples import NOON, ORIGIN, STREAM, StandingClock, a_key, a_range
from tests.lake.stage_script import ROOMY, a_batch, script
from tests.lake.tables import IcebergLake

A = a_key(0)
AUTO, UNPACK, KEEP = Aggregates.AUTO, Aggregates.UNPACK, Aggregates.KEEP


def opened(lake: IcebergLake, aggregates: Aggregates) -> IcebergTable:
    """As the next run opens the table, with this setting."""
    table = IcebergTable(
        lake.properties, lake.name, state=str(lake.folder / "state"), clock=lake.clock, aggregates=aggregates
    )
    table.ensure(create=False)
    return table


@pytest.fixture
def old(tmp_path: Path) -> IcebergLake:
    """A table of a version that knew nothing of aggregates."""
    lake = IcebergLake(tmp_path)
    with lake.iceberg.open().transaction() as change:
        change.remove_properties(AGGREGATES)
    return lake


@pytest.mark.parametrize("setting", [AUTO, UNPACK, KEEP])
def test_in_a_new_table_aggregates_are_taken_apart_unless_the_settings_say_otherwise(
    tmp_path: Path, setting: Aggregates
):
    assert opened(IcebergLake(tmp_path), setting).staging_spec().unpack is (setting is not KEEP)


def test_a_table_that_was_made_to_keep_aggregates_keeps_them_by_itself(tmp_path: Path):
    lake = IcebergLake(tmp_path / "other")
    made = IcebergTable(
        lake.properties, "lake.kept", state=str(tmp_path / "state"), clock=lake.clock, aggregates=KEEP
    )
    made.ensure(create=True)
    again = IcebergTable(lake.properties, "lake.kept", state=str(tmp_path / "state"), clock=lake.clock)
    again.ensure(create=False)

    assert again.staging_spec().unpack is False


def test_an_older_table_keeps_aggregates_until_a_person_says_unpack_and_remembers_that(old: IcebergLake):
    assert opened(old, AUTO).staging_spec().unpack is False
    assert opened(old, AUTO).staging_spec().unpack is False, "opening the table doesn't change it"
    assert opened(old, UNPACK).staging_spec().unpack is True
    assert opened(old, AUTO).staging_spec().unpack is True
    assert opened(old, KEEP).staging_spec().unpack is False


# --- the ledger tells from where -----------------------------------------------------------------------------


def ranges_in(lineage: IcebergLineage) -> list[Range]:
    return [r for e in lineage.entries() if isinstance(e, LedgerEntry) for r in e.page.ranges]


def test_the_frame_tells_of_each_range_its_records_its_rows_and_whether_aggregates_were_taken_apart():

    kept = a_range(A, None, 7, rows=7)
    unpacked = replace(a_range(A, 7, 9, rows=50), records=2, unpacked=True)
    frame = lineage_frame([LedgerEntry(1, 1, NOON, LedgerPage((kept, unpacked)))])

    assert frame[["records", "rows", "unpacked"]].to_numpy().tolist() == [[7, 7, False], [2, 50, True]]


def test_a_repair_finds_the_last_user_record_of_the_last_aggregate(tmp_path: Path):
    """Else KCL would deliver user records again that are in the table, after a repair and a give-back."""
    lake = IcebergLake(tmp_path)
    lake.iceberg.commit(ORIGIN)
    pages = script(s0=[a_page_of(b"plain", aggregate(b"a", b"b", b"c"))])
    spec = lake.iceberg.staging_spec()
    manifest = stage_batches(
        [a_batch()], pages, spec=spec, limits=ROOMY, threads=1, clock=StandingClock(), fresh=lambda: "f" * 32
    )
    (staged,) = manifest.staged
    landed = replace(a_range(A, None, staged.upto, rows=4, files=manifest.files), records=2, unpacked=True)
    assert not lake.iceberg.commit(Proposal((landed,), manifest.files)).landing.refused

    rows = lake.iceberg.evidence([STREAM]).rows

    assert rows[A] == LastRow(2, NOON + timedelta(seconds=1), 2)
    assert lake.pages()[-1].ranges == (landed,)
    keys = [str(key) for key in lake.iceberg.open().scan().to_arrow()["sort_key"].to_pylist()]
    assert keys == sorted(keys)
    assert [key[-2:] for key in keys] == ["00", "00", "01", "02"]
