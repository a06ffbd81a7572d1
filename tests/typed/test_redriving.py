"""Redrives on real Iceberg: each row is in the typed table or in quarantine, once, whatever happens in between."""

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from pyiceberg.types import ListType, StringType

from headrace.pipeline.core.ledger.accounting import read_accounting
from headrace.pipeline.core.ledger.ledger import Kind
from headrace.pipeline.errors import Transient, Unknown, WrongShape
from headrace.pipeline.lake.table import plain_read as read
from headrace.pipeline.settings.blocks.upkeep import UpkeepSettings
from headrace.pipeline.typed.account import aside_name
from headrace.pipeline.typed.quarantine.redrive_plan import Selection
from headrace.pipeline.typed.values import WaveLimits
from headrace.pipeline.upkeep.compact import Compacting
from headrace.pipeline.upkeep.live_table import IcebergLive
from tests.lake.merge_on_read import delete_rows
from tests.lake.samples import a_key
from tests.lake.tables import before_next_swap
from tests.typed.parsings import BAD, A, B, Bed, Killed, good
from tests.upkeep.compactions import InProcess as InProcessRewriter

WORSE = b"[["
MENDED = {BAD: good(0)}


@pytest.fixture
def bed(tmp_path: Path) -> Bed:
    bed = Bed(tmp_path)
    bed.land(A, {1: good(1), 2: BAD, 3: WORSE})
    bed.land(B, {10: BAD, 11: BAD, 12: WORSE})
    bed.catch_up()
    return bed


def redrive(bed: Bed, selection: Selection | None = None, **how: object) -> list[tuple[int, int]]:
    """What each portion tried, and what it mended."""
    found = list(bed.redriving(**how).portions(selection or Selection()))  # type: ignore[arg-type]
    return [(each.rows, each.landed) for each in found]


def mend(bed: Bed) -> None:
    bed.parser.fixes = MENDED
    bed.parser.reason = "still bad"
    bed.settings = replace(bed.settings, version="2")


def aside(bed: Bed) -> dict[int, tuple[str, str]]:
    """Sequence number -> reason and version."""
    rows = read.rows(bed.quarantine()).to_pylist()
    return {int(row["sequence_number"]): (row["reason"], row["version"]) for row in rows}


def compact(bed: Bed) -> None:
    table = bed.quarantine()
    done = Compacting(
        table=IcebergLive(table),
        rewriter=lambda: InProcessRewriter(table),
        settings=UpkeepSettings(),
        clock=bed.clock,
    ).run()
    assert done.done


def test_rows_that_parse_now_move_and_the_others_stay_with_the_new_reason(bed: Bed):
    mend(bed)
    assert redrive(bed) == [(5, 3)]
    bed.check()
    assert [number for _, number, _ in bed.parsed()] == [1, 2, 10, 11]
    assert aside(bed) == {3: ("still bad", "2"), 12: ("still bad", "2")}


def test_the_ledger_of_the_typed_table_accounts_for_the_redriven_rows(bed: Bed):
    mend(bed)
    redrive(bed)
    page = next(bed.typed().pages())
    told = {each.key.shard_id: read_accounting(each.account) for each in page.ranges}
    assert {each.kind for each in page.ranges} == {Kind.REDRIVEN}
    ours = told[f"{B.shard_id}#redrive"]
    assert (ours.rows, ours.parsed, ours.quarantined, ours.version) == (3, 2, 1, "2")
    assert len(ours.taken) == 1
    assert len(ours.aside) == 1


def test_a_record_that_is_parsed_again_has_its_keys(bed: Bed):
    row = read.rows(bed.quarantine()).to_pylist()[0]
    assert (row["partition_key"], row["explicit_hash_key"], row["decode_error"]) == ("pk", None, None)


def test_only_the_rows_of_the_time_are_parsed_again(bed: Bed):
    bed.land(A, {20: WORSE, 21: BAD})
    bed.catch_up()
    mend(bed)
    arrivals = {
        int(row["sequence_number"]): row["arrival_ts"] for row in read.rows(bed.quarantine()).to_pylist()
    }
    since, until = arrivals[2], arrivals[3]
    assert redrive(bed, Selection(since=since, until=until)) == [(3, 3)]
    bed.check()
    assert set(aside(bed)) == {number for number, time in arrivals.items() if not since <= time < until}
    assert redrive(bed, Selection(shard=A.shard_id, until=since)) == [(1, 0)]
    assert redrive(bed, Selection(since=until)) == [(2, 0)]
    bed.check()
    assert aside(bed)[10] == ("bad", "1"), "the only row that no redrive has selected"


def test_only_the_rows_of_the_shard_or_with_the_reason_are_parsed_again(bed: Bed):
    bed.parser.reason = "other"
    bed.land(A, {20: WORSE, 21: BAD})
    bed.catch_up()
    mend(bed)
    assert redrive(bed, Selection(reason="other")) == [(2, 1)]
    bed.check()
    assert redrive(bed, Selection(shard=B.shard_id, reason="bad")) == [(3, 2)]
    bed.check()
    assert aside(bed) == {
        2: ("bad", "1"),
        3: ("bad", "1"),
        12: ("still bad", "2"),
        20: ("still bad", "2"),
    }


def test_rows_that_are_not_selected_stay_as_they_are_in_a_file_that_is_taken(bed: Bed):
    # One wave sets rows of both shards aside, in one file.
    bed.land(A, {30: BAD})
    bed.land(B, {31: BAD})
    bed.parsing().wave()
    mend(bed)
    redrive(bed, Selection(shard=A.shard_id))
    bed.check()
    assert aside(bed)[31] == ("bad", "1")
    assert 30 not in aside(bed)


def test_a_dry_run_commits_nothing(bed: Bed):
    mend(bed)
    before = bed.typed().load(), bed.quarantine().load()
    (told,) = bed.redriving().portions(dry_run=True)
    assert (told.rows, told.landed, told.snapshot) == (5, 3, None)
    assert str(told) == ("dry run, nothing was committed: 5 rows parsed again: 3 mended, 2 still set aside")
    assert (bed.typed().load(), bed.quarantine().load()) == before


def test_a_shard_that_nothing_was_parsed_of_is_told(bed: Bed):
    with pytest.raises(Unknown, match="has no shard shardId-9"):
        redrive(bed, Selection(shard="shardId-9"))


def test_records_that_were_landed_as_malformed_stay(bed: Bed):
    bed.land(A, {40: good(40), 41: BAD}, malformed=[40])
    bed.parsing().wave()
    mend(bed)
    redrive(bed)
    bed.check()
    assert aside(bed)[40][0] == "the aggregate is cut off"


def test_a_redrive_goes_on_in_portions_and_tries_each_row_once(bed: Bed):
    for number in range(50, 60, 2):
        bed.land(A, {number: BAD, number + 1: WORSE})
        bed.parsing().wave()
    mend(bed)
    done = redrive(bed, limits=WaveLimits(1, 2**30))
    assert len(done) > 2
    assert sum(tried for tried, _ in done) == 15
    bed.check()
    assert set(aside(bed)) == {3, 12, 51, 53, 55, 57, 59}


@pytest.mark.parametrize("arrow", ["planned", "staged", "committed"])
def test_a_redrive_that_is_killed_at_any_arrow_loses_and_doubles_nothing(bed: Bed, arrow: str):
    mend(bed)
    with pytest.raises(Killed):
        redrive(bed, kill=arrow)
    bed.land(A, {60: BAD, 61: WORSE})
    bed.catch_up()
    bed.check()
    redrive(bed)
    bed.check()
    assert set(aside(bed)) == {3, 12, 61}


def test_another_version_carries_out_what_the_redrive_has_decided(bed: Bed):
    """A deployment between the two commits: the new code would parse no row at all."""
    mend(bed)
    with pytest.raises(Killed):
        redrive(bed, kill="committed")
    bed.parser.fixes = {}
    bed.parser.reason = "worse"
    bed.settings = replace(bed.settings, version="3")
    bed.clock.at += timedelta(days=30)
    bed.parsing().wave()
    bed.check()
    assert aside(bed) == {3: ("still bad", "2"), 12: ("still bad", "2")}


def at_arrow(arrow: str, act: Callable[[], object]) -> Callable[[str], None]:
    return lambda at: (act(), None)[1] if at == arrow else None


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (Selection(), Selection()),
        (Selection(shard=A.shard_id), Selection(shard=B.shard_id)),
        (Selection(reason="bad"), Selection(shard=A.shard_id)),
    ],
)
@pytest.mark.parametrize("kill", ["", "committed"])
def test_two_redrives_at_once_land_each_row_once(bed: Bed, first: Selection, second: Selection, kill: str):
    # A file with rows of both shards.
    bed.land(A, {70: BAD})
    bed.land(B, {71: WORSE, 72: BAD})
    bed.parsing().wave()
    mend(bed)

    def overtake() -> None:
        if kill:
            with pytest.raises(Killed):
                redrive(bed, second, kill=kill)
        else:
            redrive(bed, second)

    late = replace(bed.redriving(), on_step=at_arrow("staged", overtake))
    with pytest.raises(Transient, match="another redrive"):
        list(late.portions(first))
    bed.parsing().wave()
    bed.check()
    redrive(bed)
    bed.check()
    assert set(aside(bed)) == {3, 12, 71}


def test_a_wave_that_parses_new_records_meanwhile_hinders_no_redrive(bed: Bed):
    mend(bed)

    def wave() -> None:
        bed.land(A, {80: BAD, 81: WORSE})
        bed.parsing().wave()

    list(replace(bed.redriving(), on_step=at_arrow("staged", wave)).portions())
    bed.check()
    assert set(aside(bed)) == {3, 12, 81}


@pytest.mark.parametrize("arrow", ["staged", "committed"])
def test_a_compaction_of_the_quarantine_table_in_between_loses_and_doubles_nothing(bed: Bed, arrow: str):
    for number in range(90, 100, 2):
        bed.land(A, {number: BAD, number + 1: WORSE})
        bed.parsing().wave()
    mend(bed)
    bed.clock.at += timedelta(hours=2)
    list(replace(bed.redriving(), on_step=at_arrow(arrow, lambda: compact(bed))).portions())
    bed.check()
    assert set(aside(bed)) == {3, 12, 91, 93, 95, 97, 99}
    assert set(aside(bed).values()) == {("still bad", "2")}


def test_rows_that_another_engine_deletes_before_the_exchange_are_named_as_what_is_in_its_way(bed: Bed):
    mend(bed)
    with pytest.raises(Killed):
        redrive(bed, kill="committed")
    (taken, *_) = read.landed_files(bed.quarantine())
    delete_rows(bed.quarantine().open(), taken.path, 0)
    settling = bed.parsing().settling
    with pytest.raises(
        WrongShape,
        match=rf"deleted rows of .*{aside_name(taken.path)} by a delete file.* run its rewrite_data_files",
    ):
        settling.settle()
    assert not settling.is_settled()


@pytest.mark.slow
def test_rows_that_are_found_in_a_compacted_file_keep_the_columns_that_others_have_added(bed: Bed):
    for number in range(90, 95):
        bed.land(A, {number: BAD})
        bed.parsing().wave()
    taken = aside_name(read.landed_files(bed.quarantine())[0].path)
    with bed.quarantine().open().update_schema() as change:
        change.add_column("note", StringType())
        change.add_column("tags", ListType(100, StringType(), element_required=False))
    bed.clock.at += timedelta(hours=2)
    compact(bed)
    (made,) = bed.quarantine().without(frozenset((taken,)), frozenset((A,))).added
    assert "note" in pq.read_schema(made.path.removeprefix("file://")).names


def test_a_compaction_that_commits_just_before_the_exchange_loses_and_doubles_nothing(bed: Bed):
    for number in range(90, 100, 2):
        bed.land(A, {number: BAD, number + 1: WORSE})
        bed.parsing().wave()
    mend(bed)
    with pytest.raises(Killed):
        redrive(bed, kill="committed")
    bed.clock.at += timedelta(hours=2)
    quarantine = bed.quarantine()
    late = replace(bed.parsing().settling, quarantine=quarantine)
    before_next_swap(quarantine.catalog, lambda: compact(bed))
    late.settle()
    bed.check()
    assert set(aside(bed)) == {3, 12, 91, 93, 95, 97, 99}


def test_a_child_of_a_redriven_shard_is_parsed_on(bed: Bed):
    mend(bed)
    redrive(bed)
    bed.land(A, {100: good(100)}, ended=[a_key(2).shard_id])
    bed.land(a_key(2), {105: BAD}, parents=[A.shard_id])
    bed.catch_up()
    assert not bed.parsing().is_behind()
    bed.check()


def test_nothing_happens_where_nothing_is_in_quarantine(tmp_path: Path):
    bed = Bed(tmp_path)
    assert redrive(bed) == []
    bed.land(A, {1: good(1)})
    bed.catch_up()
    assert redrive(bed) == []


def test_a_part_of_a_reason_chooses_its_rows(bed: Bed):
    """Here each row has one reason; a part that no row's reason has chooses none."""
    (reason,) = {why for why, _ in aside(bed).values()}
    mend(bed)
    assert redrive(bed, Selection(reason="no such reason")) == []
    assert redrive(bed, Selection(reason=reason[1:])) == [(5, 3)]
    bed.check()


@pytest.mark.parametrize("name", ["orders/1", "orders@123456789012:1769000000/1"])
def test_a_shard_of_several_streams_is_named_with_its_stream(bed: Bed, name: str):
    mend(bed)
    assert redrive(bed, Selection(shard=name)) == [(3, 2)]
    with pytest.raises(Unknown, match="has no shard returns/1"):
        redrive(bed, Selection(shard="returns/1"))
