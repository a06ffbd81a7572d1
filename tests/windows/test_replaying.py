"""Windows on real Iceberg: each row of a window is copied once, whatever happens to the run and to the lake table meanwhile."""

from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from headrace.pipeline.core.landing.landing import Proposal
from headrace.pipeline.core.ledger.arrivals import ALL
from headrace.pipeline.core.ledger.arrivals import Window as Arrivals
from headrace.pipeline.core.ledger.ledger import Kind
from headrace.pipeline.core.shards.position import TRIM, Origin
from headrace.pipeline.core.shards.stream import ShardKey, StreamId
from headrace.pipeline.errors import Transient, Unknown, WrongShape
from headrace.pipeline.lake.table import plain_read as read
from headrace.pipeline.settings.blocks.upkeep import UpkeepSettings
from headrace.pipeline.typed.values import WaveLimits
from headrace.pipeline.upkeep.compact import Compacting
from headrace.pipeline.upkeep.live_table import IcebergLive
from headrace.pipeline.windows.make import Numbers, OfSnapshot
from headrace.pipeline.windows.window import ReplayWindow, Word
from headrace.pipeline.windows.windows import NothingLanded, WindowRequest
from tests.lake.merge_on_read import delete_rows
from tests.lake.samples import NOON, STREAM, a_key
from tests.typed.parsings import A, B, Killed, good
from tests.upkeep.compactions import InProcess as InProcessRewriter
from tests.windows.windows import SETTINGS, WindowBed

DAY = timedelta(days=1)


@pytest.fixture
def bed(tmp_path: Path) -> WindowBed:
    return WindowBed(tmp_path)


def numbers(bed: WindowBed, window: ReplayWindow) -> list[int]:
    return [number for _, _, number, _ in bed.copied(window)]


def compact(bed: WindowBed) -> None:
    lake = bed.lake.handle()
    done = Compacting(
        table=IcebergLive(lake),
        rewriter=lambda: InProcessRewriter(lake),
        settings=UpkeepSettings(),
        clock=bed.clock,
    ).run()
    assert done.done


def test_the_records_of_a_time_are_copied_as_they_are(bed: WindowBed):
    bed.land(A, {1: good(1)}, arrival=NOON - DAY)
    bed.land(A, {2: good(2), 3: b"{"}, malformed=[3])
    bed.land(B, {10: good(10)})
    bed.land(A, {4: good(4)}, arrival=NOON + DAY)
    window = bed.window(Arrivals(NOON, NOON + timedelta(hours=1)))
    assert window.rows == 3
    assert bed.copy(window) == ["3 rows copied"]
    assert numbers(bed, window) == [2, 3, 10]
    table, lake = read.rows(bed.table_of(window)), read.rows(bed.lake.handle())
    wanted = [row for row in lake.to_pylist() if row["sequence_number"] in {"2", "3", "10"}]
    by_key = lambda row: row["sort_key"]  # noqa: E731
    assert sorted(table.select(lake.column_names).to_pylist(), key=by_key) == sorted(wanted, key=by_key)


def test_a_second_run_gives_the_same_rows_and_lands_nothing(bed: WindowBed):
    bed.land(A, {1: good(1), 2: good(2)})
    window = bed.window(ALL)
    bed.copy(window)
    head = bed.table_of(window).load().snapshot
    bed.land(A, {3: good(3)})
    assert bed.copy(window) == ["nothing left to copy"]
    assert bed.table_of(window).load().snapshot == head
    assert numbers(bed, window) == [1, 2]


def test_a_table_that_was_dropped_gets_the_same_rows_again(bed: WindowBed):
    bed.land(A, {1: good(1), 2: good(2)})
    window = bed.window(ALL)
    bed.copy(window)
    bed.lake.iceberg.catalog.drop_table(f"{bed.lake.name}_window_{window.id}")
    bed.land(A, {3: good(3)})
    bed.copy(window)
    assert numbers(bed, window) == [1, 2]


def test_the_lake_table_is_only_read(bed: WindowBed):
    bed.land(A, {1: good(1)})
    before = bed.lake.handle().load()
    bed.copy(bed.window(ALL))
    assert bed.lake.handle().load() == before


@pytest.mark.parametrize("arrow", ["begun", "planned", "staged", "committed"])
def test_a_run_that_is_killed_at_any_arrow_loses_and_doubles_nothing(bed: WindowBed, arrow: str):
    bed.land(A, {1: good(1)})
    bed.land(A, {2: good(2), 3: good(3)})
    bed.land(B, {7: good(7)})
    window = bed.window(Numbers(A.shard_id, 2, 3))
    with pytest.raises(Killed):
        bed.copy(window, kill=arrow)
    bed.copy(window)
    assert numbers(bed, window) == [2, 3]


@pytest.mark.parametrize("arrow", ["begun", "planned", "staged"])
def test_of_two_runs_at_once_one_lands(bed: WindowBed, arrow: str):
    bed.land(A, {1: good(1)})
    bed.land(A, {2: good(2)})
    window = bed.window(Numbers(A.shard_id, 2))
    others: list[str] = []

    def second_run(now: str) -> None:
        if now == arrow:
            others.extend(bed.copy(window))

    first = bed.replaying(window, at=second_run)
    if arrow == "begun":
        assert str(first.wave()) == "nothing left to copy"
    else:
        with pytest.raises(Transient, match="another run has copied records"):
            first.wave()
    assert others == ["1 row copied"]
    assert numbers(bed, window) == [2]


def test_waves_end_at_their_limit_and_the_window_is_copied_by_all_of_them(bed: WindowBed):
    for start in (1000, 3000, 5000):
        bed.land(A, {n: good(n) for n in range(start, start + 1500)})
        bed.land(B, {n: good(n) for n in range(start + 1, start + 501)})
    window = bed.window(Numbers(A.shard_id, 1200, 5100))
    assert not window.is_whole
    told = bed.copy(window, limits=WaveLimits(2000, 2**30))
    assert len(told) == 2
    assert numbers(bed, window) == [
        n for s in (1000, 3000, 5000) for n in range(s, s + 1500) if 1200 <= n <= 5100
    ]


def test_a_window_by_numbers_takes_all_user_records_of_its_ends_and_none_beside_them(bed: WindowBed):
    bed.land(A, {n: good(n) for n in range(10, 15)}, subs=3)
    window = bed.window(Numbers(A.shard_id, 11, 12))
    bed.copy(window)
    assert [(n, sub) for _, _, n, sub in bed.copied(window)] == [(n, s) for n in (11, 12) for s in range(3)]


@pytest.mark.parametrize("name", ["orders/1", "orders@123456789012:{epoch}/1", "orders/{shard}"])
def test_a_shard_of_a_window_may_be_named_with_its_stream(bed: WindowBed, name: str):
    bed.land(A, {1: good(1)})
    bed.land(B, {2: good(2)})
    name = name.replace("orders", B.stream.name).replace("/1", f"/{int(B.shard_id[-12:])}")
    window = bed.window(Numbers(name.format(epoch=B.stream.epoch, shard=B.shard_id)))
    assert [part.key for part in window.ranges] == [B]
    with pytest.raises(NothingLanded):
        bed.window(Numbers(f"other/{B.shard_id}"))


def test_rows_of_other_shards_in_the_same_files_arent_copied(bed: WindowBed):
    for n in range(10, 70, 10):
        bed.land(A, {n: good(n)})
        bed.land(B, {n + 1: good(n + 1)})
    bed.clock.at += timedelta(hours=2)
    compact(bed)
    window = bed.window(Numbers(A.shard_id, 20, 40))
    bed.copy(window)
    assert numbers(bed, window) == [20, 30, 40]


def test_two_windows_at_once_each_get_their_own_rows(bed: WindowBed):
    bed.land(A, {1: good(1), 2: good(2)})
    bed.land(B, {5: good(5)})
    one, two = bed.window(Numbers(A.shard_id, 2)), bed.window(ALL)
    bed.copy(one, at=lambda arrow: arrow == "staged" and bed.copy(two))
    assert numbers(bed, one) == [2]
    assert numbers(bed, two) == [1, 2, 5]


def test_over_a_reshard_children_are_copied_after_their_parents(bed: WindowBed):
    child = a_key(2)
    bed.land(A, {1: good(1)}, ended=[child.shard_id])
    bed.land(child, {5: good(5)}, parents=[A.shard_id])
    bed.land(child, {6: good(6)}, arrival=NOON + DAY)
    window = bed.window(Arrivals(None, NOON + timedelta(hours=1)))
    assert bed.copy(window) == ["1 row copied", "1 row copied"]
    assert numbers(bed, window) == [1, 5]
    by_snapshot = [
        {each.key for each in entry.page.ranges if each.rows} for entry in read.ledger(bed.table_of(window))
    ]
    assert [keys for keys in by_snapshot if keys] == [{A}, {child}]


def test_a_window_over_two_lives_of_a_stream_tells_them_apart(bed: WindowBed):
    later = StreamId(STREAM.arn, STREAM.epoch + 1000)
    again = ShardKey(later, A.shard_id)
    bed.land(A, {1: good(1), 2: good(2)})
    bed.lake.handle().commit(Proposal(origins=((later, Origin(TRIM, NOON)),)))
    bed.land(again, {1: good(1), 2: good(2)})
    both = bed.window(ALL)
    bed.copy(both)
    assert bed.copied(both) == bed.lake_rows()
    assert len(bed.copied(both)) == 4
    (snapshot,) = {
        e.snapshot for e in read.ledger(bed.lake.handle()) for r in e.page.ranges if r.key == again
    }
    second = bed.window(OfSnapshot(snapshot))
    bed.copy(second)
    assert {epoch for _, epoch, _, _ in bed.copied(second)} == {later.epoch}


@pytest.mark.parametrize("arrow", ["begun", "planned"])
def test_compaction_and_expiry_of_the_lake_table_between_two_steps_change_nothing(bed: WindowBed, arrow: str):
    for n in range(10, 70, 10):
        bed.land(A, {n: good(n), n + 1: good(n + 1)})
    window = bed.window(Numbers(A.shard_id, 21, 50))
    bed.clock.at += timedelta(hours=2)

    def upkeep(now: str) -> None:
        if now == arrow:
            compact(bed)
            bed.lake.expire_all_but_the_head(forget=False)

    bed.copy(window, at=upkeep)
    assert numbers(bed, window) == [21, 30, 31, 40, 41, 50]
    bed.copy(window)
    assert numbers(bed, window) == [21, 30, 31, 40, 41, 50]


def test_a_window_is_copied_after_the_lake_table_has_dropped_its_shards_position(bed: WindowBed):
    child = a_key(2)
    bed.land(A, {1: good(1)}, ended=[child.shard_id])
    bed.land(child, {5: good(5)}, parents=[A.shard_id])
    window = bed.window(ALL)
    bed.lake.handle().commit(Proposal(drop=(A,)))
    bed.copy(window)
    assert numbers(bed, window) == [1, 5]


def test_a_cancelled_window_lands_nothing_more_until_it_is_resumed(bed: WindowBed):
    for n in (1000, 2000, 3000):
        bed.land(A, {m: good(m) for m in range(n, n + 1000)})
    window = bed.window(ALL)
    limits = WaveLimits(1000, 2**30)
    bed.replaying(window, limits=limits).wave()

    def cancel(arrow: str) -> None:
        if arrow == "staged":
            bed.windowing().say(window.id, Word.CANCELLED)

    with pytest.raises(Unknown, match="is cancelled"):
        bed.copy(window, limits=limits, at=cancel)
    assert len(numbers(bed, window)) == 1000
    with pytest.raises(Unknown, match="is cancelled"):
        bed.copy(window)
    bed.windowing().say(window.id, Word.RESUMED)
    bed.copy(window)
    assert len(numbers(bed, window)) == 3000
    assert [each.is_cancelled for each in bed.windowing().windows.all()] == [False]


def test_a_window_of_records_that_were_rolled_back_is_refused(bed: WindowBed):
    bed.land(A, {1: good(1)})
    bed.land(A, {2: good(2)})
    window = bed.window(ALL)
    bed.lake.rollback(1)
    with pytest.raises(WrongShape, match="it was rolled back since"):
        bed.copy(window)
    bed.land(A, {2: good(2)})
    bed.copy(window)
    assert numbers(bed, window) == [1, 2]


def test_a_window_is_refused_also_where_the_rollback_took_the_position_of_its_shard(bed: WindowBed):
    bed.land(A, {1: good(1)})
    bed.land(B, {11: good(11), 12: good(12)})
    for asked in (ALL, Numbers(B.shard_id, 11, 11)):
        window = bed.window(asked)
        bed.lake.rollback(1)
        assert bed.lake.handle().load().positions.of(B) is None
        with pytest.raises(
            WrongShape, match=r"is at no position, before the window's end .* it was rolled back since"
        ):
            bed.copy(window)
        bed.land(B, {11: good(11), 12: good(12)})
        bed.copy(window)
        assert numbers(bed, window) == ([1, 11, 12] if asked is ALL else [11])


def test_rows_that_are_gone_from_the_lake_table_are_told(bed: WindowBed):
    bed.land(A, {1: good(1)}, arrival=NOON - DAY)
    bed.land(A, {2: good(2)})
    window = bed.window(ALL)
    IcebergLive(bed.lake.handle()).drop(NOON.date())
    (wave,) = bed.replaying(window).waves()
    assert wave.notes[0].startswith(
        "the window's table has 1 row, and the ledgers of the lake table stated 2 when the window was made: rows may have been removed"
    )


def test_a_window_that_cuts_ranges_tells_that_none_of_its_rows_is_there_any_more(bed: WindowBed):
    bed.land(A, {n: good(n) for n in (1, 2, 3)}, arrival=NOON - DAY)
    bed.land(A, {4: good(4)})
    window = bed.window(Numbers(A.shard_id, 2, 2))
    IcebergLive(bed.lake.handle()).drop(NOON.date())
    (wave,) = bed.replaying(window).waves()
    assert wave.rows == 0
    assert "no row of the window any more" in wave.notes[0]
    assert "a rollback removed them" in wave.notes[0]


def test_rows_that_another_engine_deleted_by_a_delete_file_stop_the_window(bed: WindowBed):
    (file,) = bed.land(A, {1: good(1), 2: good(2)})
    window = bed.window(ALL)
    delete_rows(bed.lake.iceberg.open(), file.path, 0)
    with pytest.raises(WrongShape, match="delete"):
        bed.copy(window)


def test_the_table_of_a_window_tells_its_lineage(bed: WindowBed):
    bed.land(A, {1: good(1)})
    bed.land(A, {2: good(2)})
    window = bed.window(Numbers(A.shard_id, 2))
    bed.copy(window)
    ranges = [each for entry in read.ledger(bed.table_of(window)) for each in entry.page.ranges]
    assert [(each.kind, each.rows, each.upto.sequence) for each in ranges] == [
        (Kind.COPIED, 0, 1),
        (Kind.COPIED, 1, 2),
    ]
    assert bed.replaying(window).rows_done() == 1


def test_a_window_stays_as_it_was_made(bed: WindowBed):
    bed.land(A, {1: good(1)})
    window = bed.window(ALL)
    bed.land(A, {2: good(2)})
    bed.land(B, {9: good(9)})
    (kept,) = bed.windowing().windows.all()
    assert kept.window == window
    assert [each.key for each in kept.window.ranges] == [A]


def test_nothing_is_kept_where_no_range_matches(bed: WindowBed):
    bed.land(A, {1: good(1)})
    with pytest.raises(Unknown, match="No window was made"):
        bed.window(OfSnapshot(5))
    assert bed.windowing().windows.all() == ()


def test_what_the_retention_may_have_removed_is_told_when_the_window_is_made(bed: WindowBed):
    bed.land(A, {1: good(1)}, arrival=NOON - 3 * DAY)
    bed.land(A, {2: good(2)})
    settings = replace(SETTINGS, upkeep=replace(SETTINGS.upkeep, retention=DAY))
    window = bed.windowing(settings).create(WindowRequest(ALL, how="a test"))
    assert len(window.missing) == 1
    assert "1 row of 1 range arrived before 2026-01-30" in window.missing[0]
