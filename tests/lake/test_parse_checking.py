"""A typed table passes over no row that landed: what the ledgers of the lake table state is compared with what a wave finds there."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from headrace.pipeline.core.parse_values import WaveLimits
from headrace.pipeline.errors import WrongShape
from headrace.pipeline.lake.live_table import IcebergLive
from tests.lake.parsings import BAD, A, B, Bed, good
from tests.lake.tables import expire_all_but_the_head

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


def remove_file(bed: Bed, path: str) -> None:
    """Delete all rows of a file, as another engine does by copy-on-write."""
    table = bed.lake.handle().open()
    (file,) = (task.file for task in table.scan().plan_files() if task.file.file_path == path)
    with table.transaction() as change, change.update_snapshot().overwrite() as overwrite:
        overwrite.delete_data_file(file)


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
    with pytest.raises(WrongShape, match="--accept-missing"):
        bed.parsing().wave()
    parsing = bed.parsing()
    checking = parsing.checking
    assert checking is not None
    wave = replace(parsing, checking=replace(checking, accepts_missing=True)).wave()
    assert wave.parsed == 1
    assert wave.notes == (
        f"{A}: 1 row that landed aren't in the lake table any more, and aren't parsed, as a person has accepted",
    )
    bed.land(A, {4: good(4)}, arrival=bed.clock.at)
    assert bed.catch_up() == 1


def test_a_new_typed_table_begins_with_what_the_retention_has_left(bed: Bed):
    bed.land(A, {1: good(1), 2: good(2)}, arrival=bed.clock.at - 10 * DAY)
    bed.land(A, {3: good(3)}, arrival=bed.clock.at)
    bed.retention = 2 * DAY
    drop_before(bed, bed.clock.at - 2 * DAY)
    wave = bed.parsing().wave()
    assert wave.parsed == 1
    assert "upkeep.retention had removed them before the typed table was made" in wave.notes[0]
    bed.check()


def test_rows_that_another_engine_deleted_are_told_of_and_stop_nothing(bed: Bed):
    bed.land(A, {1: good(1), 2: BAD}, arrival=bed.clock.at)
    (file,) = bed.land(A, {3: good(3)}, arrival=bed.clock.at)
    remove_file(bed, file.path)
    wave = bed.parsing().wave()
    assert (wave.parsed, wave.quarantined) == (1, 1)
    assert (
        "1 row that landed aren't in the lake table any more, and aren't parsed: another engine has changed rows"
        in wave.notes[0]
    )
    bed.check()


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
    assert next(waves).parsed
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
