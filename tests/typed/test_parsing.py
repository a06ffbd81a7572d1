"""Typed tables on real Iceberg: each row of the lake table is parsed once, or set aside once."""

from dataclasses import replace
from datetime import timedelta
from itertools import count
from pathlib import Path

import pytest
from pyiceberg.types import DoubleType, NestedField

from headrace.pipeline.core.landing.landing import Proposal
from headrace.pipeline.core.ledger.accounting import read_accounting
from headrace.pipeline.core.ledger.story import story_of
from headrace.pipeline.errors import ChainBroken, Overtaken, Transient, WrongShape
from headrace.pipeline.lake.table import plain_read as read
from headrace.pipeline.lineage.table import IcebergLineage
from headrace.pipeline.proof.chains import broken_chains
from headrace.pipeline.settings.blocks.upkeep import UpkeepSettings
from headrace.pipeline.typed.values import WaveLimits
from headrace.pipeline.upkeep.compact import Compacting
from headrace.pipeline.upkeep.live_table import IcebergLive
from tests.lake.merge_on_read import delete_rows
from tests.lake.samples import NOON, a_key
from tests.lake.tables import before_next_swap
from tests.typed.parsings import BAD, COLUMNS, A, B, Bed, Killed, good, with_ports
from tests.upkeep.compactions import InProcess as InProcessRewriter


@pytest.fixture
def bed(tmp_path: Path) -> Bed:
    return Bed(tmp_path)


def test_each_row_is_parsed_or_set_aside_and_the_ledger_accounts_for_it(bed: Bed):
    bed.land(A, {1: good(1), 2: BAD, 3: good(3)})
    bed.land(B, {10: good(10)})
    wave = bed.parsing().wave()
    assert (wave.landed, wave.aside, wave.is_last) == (3, 1, True)
    bed.check()
    rows = {row["id"]: row for row in read.rows(bed.typed()).to_pylist()}
    assert rows[3]["name"] == "n3"
    assert rows[3]["sort_key"] == "001:3:0000000000000000000"
    assert rows[10]["arrival_ts"] == NOON
    (aside,) = read.rows(bed.quarantine()).to_pylist()
    assert (aside["data"], aside["reason"], aside["version"]) == (BAD, "bad", "1")
    page = next(bed.typed().pages())
    told = {each.key: read_accounting(each.account) for each in page.ranges}
    assert (told[A].rows, told[A].parsed, told[A].quarantined, told[A].schema > 0) == (3, 2, 1, True)
    assert (told[B].rows, told[B].parsed, told[B].aside) == (1, 1, ())
    assert bed.parsing().wave().snapshot is None


def test_only_what_is_new_is_parsed(bed: Bed):
    bed.land(A, {99: good(99)})
    bed.catch_up()
    bed.land(A, {100: good(100), 101: good(101)})
    bed.land(B, {7: good(7)})
    assert bed.parsing().is_behind()
    assert bed.parsing().wave().landed == 3
    assert not bed.parsing().is_behind()
    bed.check()


def test_the_positions_are_those_of_the_lake_table(bed: Bed):
    bed.land(A, {1: good(1)}, ended=[a_key(2).shard_id])
    bed.land(a_key(2), {5: good(5)}, parents=[A.shard_id])
    assert bed.catch_up() == 2
    lake, typed = bed.lake.handle().load().positions, bed.typed().load().positions
    assert {key: at.token for key, at in typed.shards.items()} == {
        key: at.token for key, at in lake.shards.items()
    }
    bed.check()


def test_a_child_lands_after_its_parents_end(bed: Bed):
    bed.land(A, {1: good(1)}, ended=[a_key(2).shard_id])
    bed.land(a_key(2), {5: good(5)}, parents=[A.shard_id])
    bed.parsing().wave()
    assert bed.parsed() == [(A.shard_id, 1, 0)]
    bed.catch_up()
    bed.check()


def test_a_wave_ends_at_its_limit_and_the_next_one_goes_on(bed: Bed):
    for start in (1000, 3000, 5000):
        bed.land(A, {n: good(n) for n in range(start, start + 1500)})
        bed.land(B, {n: good(n) for n in range(start + 1, start + 501)})
    first = bed.parsing(limits=WaveLimits(2000, 2**30)).wave()
    assert 0 < first.landed <= 2000
    assert not first.is_last
    assert bed.catch_up(limits=WaveLimits(2000, 2**30)) == 2
    bed.check()


def test_a_long_backlog_is_looked_at_in_portions(bed: Bed):
    for n in range(1000, 10_000, 1000):
        bed.land(A, {m: good(m) for m in range(n, n + 10)})
    bed.parsing(limits=WaveLimits(20, 2**30)).wave()
    assert len(bed.parser.surveyed[0].files) <= 4
    bed.catch_up(limits=WaveLimits(20, 2**30))
    bed.check()


def test_a_wave_never_ends_within_a_kinesis_record(bed: Bed):
    bed.land(A, {n: good(n) for n in range(10, 14)}, subs=700)
    assert bed.catch_up(limits=WaveLimits(1000, 2**30)) > 1
    bed.check()
    for page in bed.typed().pages():
        assert all(each.upto.sub == 699 for each in page.ranges)


def test_compaction_of_the_lake_table_changes_nothing(bed: Bed):
    for n in range(10, 70, 10):
        bed.land(A, {n: good(n), n + 1: BAD})
        if n == 30:
            bed.catch_up()
    bed.clock.at += timedelta(hours=2)
    lake = bed.lake.handle()
    done = Compacting(
        table=IcebergLive(lake),
        rewriter=lambda: InProcessRewriter(lake),
        settings=UpkeepSettings(),
        clock=bed.clock,
    ).run()
    assert len(done.done) == 1
    bed.catch_up()
    bed.check()


def test_an_expired_history_of_the_lake_table_stops_nothing(bed: Bed):
    bed.land(A, {1: good(1)})
    bed.catch_up()
    for n in range(2, 6):
        bed.land(A, {n: good(n)})
    bed.lake.expire_all_but_the_head(forget=False)
    bed.catch_up()
    bed.check()


def test_after_a_rollback_of_the_lake_table_no_record_is_parsed_twice(bed: Bed):
    bed.land(A, {1: good(1)})
    bed.land(A, {2: good(2)})
    bed.catch_up()
    bed.lake.rollback(1)
    wave = bed.parsing().wave()
    assert "rolled back" in wave.notes[0]
    bed.land(A, {2: good(2), 3: good(3)})
    bed.catch_up()
    bed.check()


def test_a_shard_that_lands_again_a_day_after_a_rollback_is_parsed_to_its_end(bed: Bed):
    bed.land(B, {1: good(1)})
    bed.land(A, {2: good(2)})
    bed.catch_up()
    bed.lake.rollback(1)
    bed.land(B, {3: good(3)}, arrival=NOON + timedelta(days=2))
    bed.catch_up()
    assert bed.typed().load().positions.has_ended(A), "the lake table has no position of the shard"
    bed.land(A, {2: good(2), 4: BAD}, ended=[a_key(2).shard_id, a_key(3).shard_id])
    bed.catch_up()
    bed.check()
    story = story_of(IcebergLineage(bed.typed()).entries())
    assert list(broken_chains(story)) == []
    assert story.end(A) is not None


def test_a_malformed_aggregate_is_set_aside_with_its_reason(bed: Bed):
    bed.land(A, {1: good(1), 2: good(2)}, malformed=[2])
    bed.catch_up()
    (aside,) = read.rows(bed.quarantine()).to_pylist()
    assert aside["reason"] == "the aggregate is cut off"
    bed.check()


def test_a_shard_that_came_and_went_between_two_waves_is_parsed(bed: Bed):
    """The lake table drops the positions of ended shards that Kinesis has forgotten."""
    child, grandchild = a_key(2), a_key(3)
    bed.land(A, {1: good(1)})
    bed.catch_up()
    bed.land(A, {2: good(2)}, ended=[child.shard_id])
    bed.land(child, {10: good(10)}, parents=[A.shard_id], ended=[grandchild.shard_id])
    bed.land(grandchild, {20: good(20)}, parents=[child.shard_id], arrival=NOON + timedelta(days=2))
    table = bed.lake.handle()
    table.commit(Proposal(drop=(A,)))
    table.commit(Proposal(drop=(child,)))
    assert set(table.load().positions.shards) == {grandchild}
    bed.catch_up()
    bed.check()
    ended = bed.typed().load().positions
    assert ended.has_ended(A)
    assert ended.has_ended(child)


def test_shards_that_came_and_went_before_the_typed_table_was_made_are_parsed(bed: Bed):
    """Their data files have rows of no shard of which the lake table still has a position."""
    child, grandchild = a_key(2), a_key(3)
    bed.land(A, {1: good(1), 2: BAD}, ended=[child.shard_id])
    bed.land(child, {10: good(10)}, parents=[A.shard_id], ended=[grandchild.shard_id])
    bed.land(grandchild, {20: good(20)}, parents=[child.shard_id], arrival=NOON + timedelta(days=2))
    table = bed.lake.handle()
    table.commit(Proposal(drop=(A,)))
    table.commit(Proposal(drop=(child,)))
    assert bed.catch_up(limits=WaveLimits(1, 2**30)) == 3
    bed.check()


@pytest.mark.parametrize("arrow", ["planned", "staged", "committed"])
def test_a_run_that_is_killed_at_any_arrow_loses_and_doubles_nothing(bed: Bed, arrow: str):
    bed.land(A, {1: good(1), 2: BAD})
    bed.land(B, {5: BAD, 6: good(6)})
    with pytest.raises(Killed):
        bed.parsing(kill=arrow).wave()
    assert bed.set_aside() == []
    bed.land(A, {3: BAD})
    bed.catch_up()
    bed.check()


def test_another_version_carries_out_what_the_commit_has_decided(bed: Bed):
    """A deployment between the two commits: the new parser would have parsed the record, and given another reason."""
    bed.land(A, {1: good(1), 2: BAD})
    with pytest.raises(Killed):
        bed.parsing(kill="committed").wave()
    bed.settings = replace(bed.settings, version="2")
    bed.parser.reason = "still bad"
    bed.clock.at += timedelta(days=30)
    wave = bed.parsing().wave()
    assert (wave.settled, wave.snapshot) == (1, None)
    (aside,) = read.rows(bed.quarantine()).to_pylist()
    assert (aside["reason"], aside["version"]) == ("bad", "1")
    bed.check()


def test_two_runs_at_once_land_each_row_once(bed: Bed):
    bed.land(A, {1: good(1), 2: BAD})
    late = bed.parsing()
    object.__setattr__(late, "on_step", lambda arrow: bed.parsing().wave() if arrow == "staged" else None)
    with pytest.raises(Transient, match="another run has parsed"):
        late.wave()
    bed.check()


def test_a_run_that_another_one_has_overtaken_goes_on_with_what_is_left(bed: Bed):
    bed.land(A, {1: good(1), 2: BAD})
    late = replace(
        bed.parsing(), on_step=lambda arrow: (bed.catch_up(), None)[1] if arrow == "staged" else None
    )
    # Nothing is left, which is what the run was to reach.
    assert [f"{wave}" for wave in late.waves()] == ["nothing new to parse"]
    bed.check()


def test_a_run_that_is_overtaken_time_after_time_says_so(bed: Bed):
    tries = count(1)

    def overtake(arrow: str) -> None:
        if arrow == "staged":
            bed.parsing().wave()
            bed.land(A, {next(tries) + 1: good(1)})

    bed.land(A, {1: good(1)})
    with pytest.raises(Overtaken, match=r"another run has parsed .* the next wave goes on"):
        list(replace(bed.parsing(), on_step=overtake).waves())
    assert next(tries) == 6
    bed.catch_up()
    bed.check()


def test_a_run_that_another_one_has_overtaken_in_one_shard_lands_nothing(bed: Bed):
    """The files that it has set aside hold rows of both shards."""
    bed.land(A, {1: BAD})
    bed.land(B, {5: BAD, 6: good(6)})

    def overtake(arrow: str) -> None:
        if arrow == "staged":
            assert bed.parsing(limits=WaveLimits(1, 2**30)).wave().aside == 1

    with pytest.raises(Transient, match="another run has parsed"):
        replace(bed.parsing(), on_step=overtake).wave()
    assert set(bed.typed().load().positions.shards) == {A}
    bed.catch_up()
    bed.check()


def test_two_runs_that_settle_at_once_set_each_row_aside_once(bed: Bed):
    bed.land(A, {1: BAD, 2: good(2)})
    with pytest.raises(Killed):
        bed.parsing(kill="committed").wave()
    quarantine = bed.quarantine()
    late = replace(bed.parsing().settling, quarantine=quarantine)
    before_next_swap(quarantine.catalog, bed.parsing().settling.settle)
    late.settle()
    bed.check()


def test_a_parser_that_fails_everything_moves_nothing_aside(bed: Bed):
    bed.land(A, dict.fromkeys(range(1000, 1100), BAD))
    with pytest.raises(
        WrongShape,
        match=r"more than its stop_above allows \(0\.5\); the most frequent reasons are: .+ \(100 records\)\. Nothing",
    ):
        bed.parsing().wave()
    assert bed.typed().load().positions.of(A) is None
    assert bed.set_aside() == []


def test_rows_that_come_back_twice_are_refused(bed: Bed):
    bed.land(A, {1: good(1), 2: good(2)})
    bed.parser.again = lambda number: number == 1
    with pytest.raises(WrongShape, match="came back twice"):
        bed.parsing().wave()
    assert bed.typed().load().positions.of(A) is None


def test_rows_that_are_missing_without_a_reason_are_refused(bed: Bed):
    bed.land(A, {1: good(1), 2: good(2)})
    bed.parser.keeps = lambda number: number != 1
    with pytest.raises(WrongShape, match="2 rows went in, 1 were parsed"):
        bed.parsing().wave()
    assert bed.typed().load().positions.of(A) is None


def test_rows_that_a_filter_leaves_out_are_counted(bed: Bed):
    bed.land(A, {1: good(1), 2: good(2)})
    bed.parser.keeps = lambda number: number != 1
    assert with_ports(bed.parsing(), dropped_as="filter").wave().dropped == {"filter": 1}


def test_a_staged_file_that_is_gone_is_told_and_nothing_moves(bed: Bed):
    bed.land(A, {1: BAD, 2: good(2)})
    with pytest.raises(Killed):
        bed.parsing(kill="committed").wave()
    data = Path(bed.quarantine().open().location().removeprefix("file://")) / "data"
    (staged,) = data.rglob("*.parquet")
    kept = staged.read_bytes()
    staged.unlink()
    with pytest.raises(WrongShape, match="set aside, and can't be read"):
        bed.parsing().wave()
    staged.write_bytes(kept)
    bed.catch_up()
    bed.check()


def test_a_typed_table_that_was_rolled_back_is_told(bed: Bed):
    bed.land(A, {1: BAD, 2: good(2)})
    bed.catch_up()
    bed.land(A, {3: BAD, 4: good(4)})
    bed.catch_up()
    table = bed.typed()
    links = list(table.history())
    table.open().manage_snapshots().set_current_snapshot(links[1].snapshot).commit()
    with pytest.raises(ChainBroken, match="rolled back, made anew, or lost its history"):
        bed.parsing().wave()


def test_rows_that_are_set_aside_have_bounds_of_their_version_and_pyiceberg_warns_of_nothing(
    bed: Bed, caplog: pytest.LogCaptureFixture
):
    bed.land(A, {1: BAD, 2: good(2)})
    bed.catch_up()
    assert [each.getMessage() for each in caplog.records if each.name.startswith("pyiceberg")] == []
    table = bed.quarantine().open()
    number = table.schema().find_field("version").field_id
    (task,) = table.scan().plan_files()
    assert task.file.lower_bounds[number] == task.file.upper_bounds[number] == bed.settings.version.encode()


def test_a_column_that_is_added_to_the_schema_is_added_to_the_table(bed: Bed):
    bed.land(A, {1: good(1)})
    bed.catch_up()
    typed = bed.typed()
    typed.with_columns([*COLUMNS, NestedField(3, "amount", DoubleType())])
    assert "amount" in typed.open().schema().column_names
    with pytest.raises(WrongShape, match="the column id"):
        typed.with_columns([NestedField(1, "id", DoubleType())])


def test_rows_that_another_engine_has_deleted_by_a_delete_file_stop_the_parsing(bed: Bed):
    (file,) = bed.land(A, {1: good(1), 2: good(2)})
    delete_rows(bed.lake.iceberg.open(), file.path, 0)
    with pytest.raises(WrongShape, match="rewrite_data_files"):
        bed.parsing().wave()


def test_nothing_is_parsed_before_there_is_a_lake_table(bed: Bed):
    bed.lake.iceberg.catalog.drop_table(bed.lake.name)
    parsing = bed.parsing()
    assert not parsing.is_behind()
    (note,) = parsing.wave().notes
    assert note.startswith("there is no lake table yet; ")
    assert not bed.typed().exists()


def test_typed_tables_that_were_dropped_are_parsed_anew(bed: Bed):
    bed.land(A, {1: good(1), 2: BAD})
    bed.catch_up()
    bed.typed().catalog.drop_table(bed.settings.table)
    with pytest.raises(ChainBroken):
        bed.parsing().wave()
    bed.quarantine().catalog.drop_table(bed.settings.quarantine)
    bed.catch_up()
    bed.check()
