"""A typed table passes over no row that landed: what the ledgers of the lake table state is compared with what a wave finds there."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from math import inf
from pathlib import Path

import pytest
from pyiceberg.io import FileIO
from pyiceberg.table.metadata import TableMetadata

from headrace.pipeline.errors import WrongShape
from headrace.pipeline.lake.table import history
from headrace.pipeline.lake.table.data_files import data_files
from headrace.pipeline.lake.table.metadata_files import read_metadata
from headrace.pipeline.lake.table.position_chain import Link
from headrace.pipeline.typed.source import rows_changed
from headrace.pipeline.typed.values import WaveLimits
from headrace.pipeline.upkeep.live_table import IcebergLive
from tests.lake.samples import a_file
from tests.lake.tables import delete_as_others, expire_all_but_the_head, rewrite_as_others
from tests.typed.differences import accepting, expire_snapshots
from tests.typed.parsings import BAD, A, B, Bed, good

DAY = timedelta(days=1)
REFUSED = "neither upkeep.retention nor a commit of another engine tells why"


@pytest.fixture
def bed(tmp_path: Path) -> Bed:
    bed = Bed(tmp_path)
    bed.clock.at = datetime.now(UTC) + timedelta(hours=1)
    return bed


def drop_before(bed: Bed, when: datetime) -> None:
    """Retention that doesn't wait for the typed table."""
    assert IcebergLive(bed.lake.handle()).drop(when.date())


def compact_as_others(bed: Bed, path: str) -> None:
    rewrite_as_others(bed.lake.handle().open(), path)


def remove_on_a_branch(bed: Bed, path: str) -> None:
    table = bed.lake.handle().open()
    head = table.current_snapshot()
    assert head is not None
    table.manage_snapshots().create_branch(head.snapshot_id, "audit").commit()
    delete_as_others(table, path, branch="audit")


def remove_and_roll_back(bed: Bed, path: str) -> None:
    delete_as_others(bed.lake.handle().open(), path)
    bed.lake.rollback(1)


def test_rows_that_a_retention_took_unparsed_are_missed(bed: Bed):
    """As after a reshard, while the target's runs fail. Nothing but the ledgers tells that the shard had rows."""
    bed.land(A, {1: good(1)}, ended=[B.shard_id], arrival=bed.clock.at)
    bed.catch_up()
    bed.land(B, {2: good(2), 3: good(3)}, parents=[A.shard_id], arrival=bed.clock.at - 10 * DAY)
    bed.retention = 2 * DAY
    drop_before(bed, bed.clock.at - 2 * DAY)
    bed.clock.at += timedelta(minutes=1)
    for _ in range(2):
        with pytest.raises(
            WrongShape, match=f"state 2 rows of {B} here, and 0 were found: 2 rows.*{REFUSED}"
        ):
            bed.parsing().wave()
    assert bed.typed().load().positions.of(B) is None


def test_a_person_may_accept_that_rows_are_missing(bed: Bed):
    bed.land(A, {1: good(1)}, arrival=bed.clock.at - 11 * DAY)
    bed.catch_up()
    bed.land(A, {2: good(2)}, arrival=bed.clock.at - 10 * DAY)
    bed.land(A, {3: good(3)}, arrival=bed.clock.at)
    drop_before(bed, bed.clock.at - 2 * DAY)
    with pytest.raises(WrongShape, match="--accept-difference"):
        bed.parsing().wave()
    wave = accepting(bed).wave()
    assert wave.landed == 1
    assert wave.notes == (
        f"{A}: 1 row that landed aren't in the lake table any more, and aren't parsed, as a person has accepted",
    )
    bed.land(A, {4: good(4)}, arrival=bed.clock.at)
    assert bed.catch_up() == 1


def test_a_person_may_accept_rows_of_another_engine_whose_snapshot_has_expired(bed: Bed):
    bed.land(A, {1: good(1)}, arrival=bed.clock.at)
    bed.catch_up()
    table = bed.lake.handle().open()
    file = a_file(bed.lake.handle().staging_spec(), {A: [2]})
    with table.transaction() as change, change.update_snapshot().fast_append() as append:
        append.append_data_file(next(data_files((file,), table.metadata)))
    bed.land(A, {3: good(3)}, arrival=bed.clock.at)
    expire_all_but_the_head(bed.lake.handle(), forget=True)
    with pytest.raises(WrongShape, match="1 row more") as refused:
        bed.parsing().wave()
    # The row isn't there twice.
    assert "two equal rows" in str(refused.value)
    assert "--accept-difference" in str(refused.value)
    wave = accepting(bed).wave()
    assert wave.landed + wave.aside == 2
    assert wave.notes == (f"{A}: 1 row more parsed than landed, as a person has accepted",)
    bed.land(A, {4: good(4)}, arrival=bed.clock.at)
    assert bed.catch_up() == 1
    bed.check()


def test_a_new_typed_table_begins_with_what_the_retention_has_left(bed: Bed):
    bed.land(A, {1: good(1), 2: good(2)}, arrival=bed.clock.at - 10 * DAY)
    bed.land(A, {3: good(3)}, arrival=bed.clock.at)
    bed.retention = 2 * DAY
    drop_before(bed, bed.clock.at - 2 * DAY)
    wave = bed.parsing().wave()
    assert wave.landed == 1
    assert "upkeep.retention had removed them before the typed table was made" in wave.notes[0]
    bed.check()


def test_rows_that_another_engine_deleted_are_told_of_and_stop_nothing(bed: Bed):
    bed.land(A, {1: good(1), 2: BAD}, arrival=bed.clock.at)
    (file,) = bed.land(A, {3: good(3)}, arrival=bed.clock.at)
    delete_as_others(bed.lake.handle().open(), file.path)
    wave = bed.parsing().wave()
    assert (wave.landed, wave.aside) == (1, 1)
    assert (
        "1 row that landed aren't in the lake table any more, and aren't parsed: another engine has changed rows"
        in wave.notes[0]
    )
    bed.check()


@pytest.mark.parametrize("act", [compact_as_others, remove_on_a_branch, remove_and_roll_back])
def test_a_commit_of_another_engine_that_removed_no_row_of_main_excuses_no_missing_row(
    bed: Bed, act: Callable[[Bed, str], None]
):
    bed.land(A, {1: good(1)}, arrival=bed.clock.at - 11 * DAY)
    bed.catch_up()
    bed.land(A, {2: good(2)}, arrival=bed.clock.at - 10 * DAY)
    (file,) = bed.land(A, {3: good(3)}, arrival=bed.clock.at)
    act(bed, file.path)
    drop_before(bed, bed.clock.at - 2 * DAY)
    with pytest.raises(WrongShape, match=REFUSED):
        bed.parsing().wave()


@pytest.mark.parametrize(
    ("operation", "summary", "removed", "added"),
    [
        ("append", {}, 0, inf),
        ("overwrite", {}, inf, inf),
        ("delete", {}, inf, 0),
        ("replace", {}, inf, 0),
        ("replace", {"total-records": "9"}, 0, 0),
        ("replace", {"added-records": "5", "deleted-records": "9"}, 4, 0),
        ("overwrite", {"added-records": "5", "deleted-records": "9"}, 4, 0),
        ("overwrite", {"added-records": "9", "deleted-records": "5"}, 0, 4),
        ("overwrite", {"added-delete-files": "1", "total-records": "9"}, inf, 0),
        ("delete", {"deleted-records": "9"}, 9, 0),
        ("append", {"added-records": "9"}, 0, 9),
    ],
)
def test_a_commit_of_another_engine_has_changed_as_many_rows_as_its_summary_tells(
    operation: str, summary: dict[str, str], removed: float, added: float
):
    link = Link(2, 1, 2, summary=summary, operation=operation)
    assert (rows_changed(link, removes=True), rows_changed(link, removes=False)) == (removed, added)


def test_a_deletion_by_another_engine_excuses_no_more_rows_than_it_removed_of_all_shards_together(bed: Bed):
    for key in (A, B):
        bed.land(key, {1: good(1)}, arrival=bed.clock.at - 11 * DAY)
    bed.catch_up()
    (file,) = bed.land(A, {2: good(2)}, arrival=bed.clock.at)
    bed.land(B, {2: good(2)}, arrival=bed.clock.at - 10 * DAY)
    delete_as_others(bed.lake.handle().open(), file.path)
    drop_before(bed, bed.clock.at - 2 * DAY)
    with pytest.raises(WrongShape, match=REFUSED):
        bed.parsing().wave()


def test_a_long_landing_that_several_waves_share_is_whole(bed: Bed):
    bed.land(A, {n: good(n) for n in range(1, 1501)}, arrival=bed.clock.at)
    bed.land(A, {n: good(n) for n in range(1501, 2201)}, arrival=bed.clock.at)
    assert bed.catch_up(limits=WaveLimits(1000, 2**30)) == 3
    bed.check()


@pytest.mark.parametrize("forget", [False, True])
def test_ledgers_of_earlier_waves_that_have_expired_stop_nothing(bed: Bed, *, forget: bool):
    """The waves share a range of the lake table. `forget`: whether the older metadata files are gone as well."""
    bed.land(A, {n: good(n) for n in range(1, 2201)}, arrival=bed.clock.at)
    waves = bed.parsing(limits=WaveLimits(1000, 2**30)).waves()
    assert next(waves).landed
    next(waves)
    expire_all_but_the_head(bed.typed(), forget=forget)
    bed.catch_up(limits=WaveLimits(1000, 2**30))
    bed.check()


def test_compaction_changes_nothing_of_what_the_ledgers_state(bed: Bed):
    for n in range(1, 9):
        bed.land(A, {n: good(n)}, arrival=bed.clock.at - DAY)
        if n == 4:
            bed.catch_up(limits=WaveLimits(3, 2**30))
    bed.catch_up(limits=WaveLimits(5, 2**30))
    bed.check()


def test_rows_that_another_engine_deleted_are_told_once_also_where_the_snapshots_have_expired(bed: Bed):
    bed.land(A, {1: good(1)}, arrival=bed.clock.at)
    (file,) = bed.land(A, {2: good(2)}, arrival=bed.clock.at)
    delete_as_others(bed.lake.handle().open(), file.path)
    assert bed.parsing().wave().notes
    bed.land(B, {9: good(9)}, arrival=bed.clock.at)
    expire_snapshots(bed)
    bed.land(A, {3: good(3)}, arrival=bed.clock.at)
    wave = bed.parsing().wave()
    assert (wave.landed, wave.notes) == (2, ())


def test_where_a_shard_comes_back_after_a_long_rest_a_wave_reads_few_metadata_files(
    bed: Bed, monkeypatch: pytest.MonkeyPatch
):
    bed.land(B, {1: good(1)}, arrival=bed.clock.at)
    bed.catch_up()
    for n in range(1, 11):
        bed.land(A, {n: good(n)}, arrival=bed.clock.at)
        bed.catch_up()
    expire_snapshots(bed)
    bed.land(B, {2: good(2)}, arrival=bed.clock.at)
    reads = list[str]()

    def read(io: FileIO, location: str, **what: str) -> TableMetadata:
        reads.append(location)
        return read_metadata(io, location, **what)

    monkeypatch.setattr(history, "read_metadata", read)
    assert bed.parsing().wave().landed == 1
    assert len(reads) <= 5


def test_records_that_land_once_more_after_a_rollback_stop_nothing(bed: Bed):
    bed.land(A, {1: good(1)}, arrival=bed.clock.at)
    bed.land(A, {2: good(2), 3: good(3)}, arrival=bed.clock.at)
    bed.catch_up()
    bed.lake.rollback(1)
    bed.land(A, {2: good(2), 3: good(3), 4: good(4)}, arrival=bed.clock.at)
    assert bed.catch_up() == 1
    bed.check()
