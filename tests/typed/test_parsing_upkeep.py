"""The upkeep of typed tables: it deletes nothing that a commit of the typed table has named, and changes no row."""

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pytest

from headrace.pipeline.errors import ChainBroken, Transient
from headrace.pipeline.settings.blocks.upkeep import UpkeepSettings
from headrace.pipeline.typed.quarantine.settle import Settling
from headrace.pipeline.typed.source import IcebergSource
from headrace.pipeline.typed.table import IcebergTyped
from headrace.pipeline.typed.upkeep import run_upkeep_of_target
from headrace.pipeline.upkeep.compact import Compacting
from headrace.pipeline.upkeep.delete import Deleting
from headrace.pipeline.upkeep.live_table import IcebergLive
from headrace.pipeline.upkeep.rewrite_task import digest
from headrace.pipeline.upkeep.table_files import IcebergFiles, quarantine_files
from headrace.pipeline.upkeep.upkeep import Upkeep, UpkeepReport, together
from tests.lake.samples import NOON
from tests.lake.tables import commit_nothing
from tests.typed.parsings import BAD, A, B, Bed, Killed, good, with_ports
from tests.upkeep.compactions import InProcess as InProcessRewriter
from tests.upkeep.upkeeps import FEW, upkeep_of

DAY = timedelta(days=1)


@pytest.fixture
def bed(tmp_path: Path) -> Bed:
    bed = Bed(tmp_path)
    bed.clock.at = datetime.now(UTC) + timedelta(hours=1)
    return bed


def upkeeps(bed: Bed) -> Iterator[tuple[str, Upkeep]]:
    typed, quarantine = bed.typed(), bed.quarantine()
    settle = bed.parsing().settling.settle
    for table, files in (
        (typed, IcebergFiles(typed)),
        (quarantine, quarantine_files(quarantine, typed, settle)),
    ):
        settings = replace(FEW, compact_after=timedelta(minutes=1))
        compacting = Compacting(
            table=IcebergLive(table),
            rewriter=lambda table=table: InProcessRewriter(table),  # type: ignore[misc]
            settings=settings,
            clock=bed.clock,
        )
        deleting = (Deleting(files=files, settings=settings, clock=bed.clock),)
        yield (
            table.identifier,
            replace(upkeep_of(table, settings, bed.clock), deleting=deleting, compacting=compacting),
        )


def run_upkeep(bed: Bed) -> list[tuple[str, UpkeepReport]]:
    return list(run_upkeep_of_target(bed.settings.table, bed.parsing().settling, upkeeps(bed), dry_run=False))


def test_compaction_and_expiry_change_no_row_and_parsing_goes_on(bed: Bed):
    for n in range(10, 80, 10):
        bed.land(A, {n: good(n), n + 1: BAD})
        bed.catch_up()
    bed.clock.at += DAY
    rows = bed.parsed()
    reports = dict(run_upkeep(bed))
    assert not [trouble for report in reports.values() for trouble in report.troubles]
    assert [len(report.compacted.done) for report in reports.values()] == [1, 1]
    assert bed.parsed() == rows
    bed.land(A, {100: good(100), 101: BAD})
    bed.catch_up()
    bed.check()


def test_the_digest_of_a_compaction_takes_a_column_data_that_is_no_payload():
    rows = pa.table(
        {
            "stream": pa.array(["s"]),
            "stream_epoch": pa.array([1]),
            "shard_id": pa.array(["a"]),
            "sequence_number": pa.array(["1"]),
            "sub_sequence_number": pa.array([0]),
            "arrival_ts": pa.array([NOON], pa.timestamp("us", tz="UTC")),
        }
    )
    (plain,) = digest(rows)
    (number,) = digest(rows.append_column("data", pa.array([7])))
    (payload,) = digest(rows.append_column("data", pa.array([b"seven"])))
    assert plain == number != payload


def test_what_a_commit_has_set_aside_is_carried_out_before_files_are_deleted(bed: Bed):
    bed.land(A, {1: good(1)})
    bed.catch_up()
    bed.land(A, {2: BAD})
    with pytest.raises(Killed):
        bed.parsing(kill="staged").wave()
    with pytest.raises(Killed):
        bed.parsing(kill="committed").wave()
    for _ in range(10):
        run_upkeep(bed)
        bed.clock.at += DAY
    bed.check()
    # The orphan of the run that was killed before its commit is gone, the other file isn't.
    data = Path(bed.quarantine().open().location().removeprefix("file://")) / "data"
    assert len(list(data.rglob("*.parquet"))) == 1


def test_a_commit_that_comes_while_upkeep_looks_keeps_its_files_and_one_that_comes_later_is_refused(bed: Bed):
    bed.land(A, {1: good(1)})
    bed.catch_up()
    bed.land(A, {2: BAD})
    with pytest.raises(Killed):
        bed.parsing(kill="committed").wave()
    typed = bed.typed()
    before = typed.load().snapshot
    settling = bed.parsing().settling
    quarantine_files(bed.quarantine(), typed, settling.settle).fence()
    assert settling.is_settled()
    assert typed.load().snapshot != before


def test_a_quarantine_table_that_cant_be_settled_keeps_its_files(bed: Bed):
    bed.land(A, {1: good(1)})
    bed.catch_up()
    bed.land(A, {2: BAD, 3: good(3)})
    bed.catch_up()
    table = bed.typed()
    links = list(table.history())
    table.open().manage_snapshots().set_current_snapshot(links[1].snapshot).commit()
    ((name, report),) = run_upkeep(bed)
    assert name == "lake.orders"
    assert isinstance(report.troubles[0], ChainBroken)


def test_a_table_whose_upkeep_fails_unexpectedly_keeps_no_other_table_from_its_own(
    bed: Bed, monkeypatch: pytest.MonkeyPatch
):
    bed.land(A, {1: good(1), 2: BAD})
    bed.catch_up()
    load = IcebergTyped.load

    def fail_for_the_typed_table(table: IcebergTyped) -> object:
        if table.identifier == "lake.orders":
            raise LookupError
        return load(table)

    monkeypatch.setattr(Settling, "settle", lambda _: 0)
    monkeypatch.setattr(IcebergTyped, "load", fail_for_the_typed_table)
    reports = dict(run_upkeep(bed))
    (trouble,) = reports["lake.orders"].troubles
    assert "the upkeep of lake.orders was ended by an unexpected LookupError" in str(trouble)
    assert reports["lake.orders_quarantine"].troubles == ()
    whole = together(list(reports.items()))
    assert whole.troubles == (trouble,)


def test_a_commit_whose_files_of_the_quarantine_table_are_gone_is_refused(bed: Bed):
    """A paused run wakes after upkeep has deleted its files. The typed table's own files could still be there."""
    bed.land(A, {1: BAD})

    def delete(arrow: str) -> None:
        if arrow == "staged":
            data = Path(bed.quarantine().open().location().removeprefix("file://")) / "data"
            for file in data.rglob("*.parquet"):
                file.unlink()

    with pytest.raises(Transient, match="can't be found any more"):
        replace(bed.parsing(), on_step=delete).wave()
    assert bed.typed().load().positions.of(A) is None
    bed.catch_up()
    bed.check()


def test_a_redrive_that_stood_still_for_so_long_that_its_files_may_go_is_refused(bed: Bed):
    """It drops all rows, so that it has staged no file whose age tells. A compaction may have replaced the file that it takes."""
    bed.land(A, {10: BAD})
    bed.catch_up()
    bed.parser.keeps = lambda _: False

    def stand_still(arrow: str) -> None:
        if arrow == "staged":
            bed.clock.at += timedelta(hours=13)

    with pytest.raises(Transient, match=r"were looked at at .* Nothing was committed"):
        list(replace(with_ports(bed.redriving(), dropped_as="filtered"), on_step=stand_still).portions())
    bed.check()


def test_a_redrive_whose_files_are_gone_is_refused(bed: Bed):
    bed.land(A, {10: BAD})
    bed.catch_up()
    bed.parser.keeps = lambda _: False
    (taken,) = (file.path for file in IcebergSource(bed.quarantine()).look().files)

    def delete(arrow: str) -> None:
        if arrow == "staged":
            Path(taken.removeprefix("file://")).unlink()

    with pytest.raises(Transient, match="1 file of the commit can't be found any more"):
        list(replace(with_ports(bed.redriving(), dropped_as="filtered"), on_step=delete).portions())


def test_rows_that_arent_parsed_yet_outlive_the_retention(bed: Bed):
    old = bed.clock.at - 10 * DAY
    bed.land(A, {1: good(1)}, arrival=old)
    lake = bed.lake.handle()
    compacting = Compacting(
        table=IcebergLive(lake),
        rewriter=lambda: InProcessRewriter(lake),
        settings=UpkeepSettings(retention=2 * DAY),
        clock=bed.clock,
        needed=lambda day: "orders" if bed.parsing().needs_before(day) else "",
    )
    with pytest.raises(Transient, match="may not be parsed yet for orders"):
        compacting.expired_rows()
    bed.catch_up()
    assert len(compacting.expired_rows().files) == 1
    assert len(bed.parsed()) == 1


def test_rows_of_a_shard_that_the_typed_table_doesnt_know_yet_outlive_the_retention(bed: Bed):
    """As after a reshard, while the target's runs fail. The typed table is there, and it has parsed all of the parent."""
    day = bed.clock.at.date() - 2 * DAY
    bed.land(A, {1: good(1)}, ended=[B.shard_id], arrival=bed.clock.at - DAY)
    bed.catch_up()
    assert not bed.parsing().needs_before(day)
    bed.land(B, {2: good(2)}, parents=[A.shard_id], arrival=bed.clock.at - 10 * DAY)
    assert bed.parsing().needs_before(day)
    bed.catch_up()
    bed.land(B, {3: good(3)}, arrival=bed.clock.at)
    bed.catch_up()
    assert not bed.parsing().needs_before(day)


def test_a_row_that_arrived_just_before_midnight_is_needed_though_the_parsed_one_before_it_arrived_after_midnight(
    bed: Bed,
):
    """Arrival times needn't grow from record to record of a shard."""
    midnight = NOON + timedelta(hours=12)
    bed.land(A, {1: good(1)}, arrival=midnight + timedelta(seconds=10))
    bed.catch_up()
    bed.land(A, {2: good(2)}, arrival=midnight - timedelta(seconds=10))
    assert bed.parsing().needs_before(midnight.date())
    assert not bed.parsing().needs_before((midnight - DAY).date())
    bed.catch_up()
    assert not bed.parsing().needs_before(midnight.date())


def test_beside_an_engine_that_commits_and_expires_typed_tables_at_rest_keep_their_positions(bed: Bed):
    """Without a commit of Headrace the metadata log would lead to their positions for 200 commits only."""
    bed.land(A, {1: good(1), 2: BAD})
    bed.catch_up()
    for _ in range(2):
        for table in (bed.typed(), bed.quarantine()):
            for _ in range(3):
                commit_nothing(table.open())
            later = datetime.now(UTC) + DAY
            table.open().maintenance.expire_snapshots().older_than(later).commit()
        reports = dict(run_upkeep(bed))
        assert not [trouble for report in reports.values() for trouble in report.troubles]
        assert all("positions committed once more" in report.notes[0] for report in reports.values())
        assert not any(table.load().shape.needs_carrying for table in (bed.typed(), bed.quarantine()))
    bed.land(A, {3: good(3), 4: BAD})
    bed.catch_up()
    bed.check()
