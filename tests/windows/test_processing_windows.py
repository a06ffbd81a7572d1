"""Windows through a record processor on real Iceberg: its rows, its states and the positions are those of a processor that had got the
window's records and no other ones, whatever happens to the run, and the live processor goes on untouched."""

from dataclasses import replace
from pathlib import Path

import pytest

from headrace.pipeline.core.ledger.arrivals import ALL
from headrace.pipeline.core.shards.stream import ShardKey
from headrace.pipeline.errors import BadSetting, ProcessorStopped, Unknown, WrongShape
from headrace.pipeline.settings.choices import OnProcessorError, ProcessorMode
from headrace.pipeline.typed.values import WaveLimits
from headrace.pipeline.windows.make import Numbers, OfSnapshot
from headrace.pipeline.windows.window import Word
from headrace.pipeline.windows.windows import WindowRequest
from tests.processors.beds import dying
from tests.typed.parsings import A, B, Killed
from tests.windows.processings import INTO, WindowProcessorBed

CHILD = ShardKey(A.stream, "shardId-000000000007")


def landed(tmp_path: Path, **settings) -> WindowProcessorBed:
    """Records 1 to 5 of A in two landings, and two of B. The live processor has had all of them."""
    bed = WindowProcessorBed(tmp_path, **settings)
    bed.land(A, {1: b"a", 2: b"b"})
    bed.land(A, {3: b"a", 4: b"a", 5: b"b"})
    bed.land(B, {10: b"a", 11: b"c"})
    return bed


def test_a_window_begins_with_empty_states_and_has_its_own_records_only(tmp_path: Path):
    bed = landed(tmp_path)
    bed.catch_up()
    window = bed.window(Numbers(A.shard_id, 3))
    assert bed.run(window) == ["3 records processed into 3 rows, 0 set aside"]
    assert bed.of(window).words() == [("a", 1), ("a", 2), ("b", 1)]
    assert bed.of(window).state(A) == '{"a":2,"b":1}'
    assert bed.is_done(window)


@pytest.mark.slow
@pytest.mark.parametrize("code", ["counting:rows", "counting:Words", "counting:AtShutdown"])
def test_small_waves_of_a_window_go_on_with_the_state_of_the_window(tmp_path: Path, code: str):
    bed = landed(tmp_path, callable=code)
    window = bed.window()
    assert len(bed.run(window, limits=WaveLimits(2, 2**30))) > 1
    assert bed.of(window).words() == [("a", 1), ("b", 1), ("a", 2), ("a", 3), ("b", 2), ("a", 1), ("c", 1)]


def test_the_live_processor_is_untouched_and_goes_on_beside_a_window(tmp_path: Path):
    bed = landed(tmp_path)
    bed.catch_up()
    before = bed.table().load()
    window = bed.window()

    def live(arrow: str) -> None:
        if arrow == "staged":
            bed.land(A, {6: b"a"})
            assert bed.catch_up() == ["1 record processed into 1 row, 0 set aside"]

    bed.run(window, on_step=live)
    assert bed.state(A) == '{"a":4,"b":2}'
    assert bed.of(window).state(A) == '{"a":3,"b":2}'
    assert len(list(bed.table().pages())) == 2, "the window has committed nothing to the live table"
    assert bed.table().load().positions.of(B) == before.positions.of(B)
    # What has landed since isn't of the window.
    assert bed.run(window) == ["no new record was processed"]
    assert ("a", 4) not in bed.of(window).words()


@pytest.mark.slow
@pytest.mark.parametrize("arrow", ["begun", "planned", "staged", "committed"])
def test_a_run_that_is_killed_at_any_arrow_counts_each_record_once(tmp_path: Path, arrow: str):
    bed = landed(tmp_path)
    window = bed.window(Numbers(A.shard_id, 2, 4))
    with pytest.raises(Killed):
        bed.run(window, on_step=dying(arrow), limits=WaveLimits(2, 2**30))
    assert not bed.is_done(window)
    bed.run(window)
    assert bed.of(window).words() == [("b", 1), ("a", 1), ("a", 2)]
    assert bed.is_done(window)


@pytest.mark.slow
@pytest.mark.parametrize("arrow", ["begun", "planned", "staged"])
def test_of_two_runs_at_once_each_record_counts_once(tmp_path: Path, arrow: str):
    bed = landed(tmp_path)
    window = bed.window(Numbers(A.shard_id, 2))
    others: list[str] = []

    def second_run(now: str) -> None:
        if now == arrow and not others:
            others.extend(bed.run(window))

    bed.run(window, on_step=second_run)
    assert others
    assert bed.of(window).words() == [("b", 1), ("a", 1), ("a", 2), ("b", 2)]


@pytest.mark.slow
def test_a_window_that_is_done_gives_nothing_more_and_makes_no_commit(tmp_path: Path):
    bed = landed(tmp_path)
    window = bed.window()
    bed.run(window)
    head = bed.of(window).table().load().snapshot
    assert bed.run(window) == ["no new record was processed"]
    assert bed.of(window).table().load().snapshot == head


@pytest.mark.slow
def test_children_of_the_window_come_after_its_parents_also_where_the_processor_stops_at_a_parent(
    tmp_path: Path,
):
    bed = landed(tmp_path, callable="counting:Words", records=1)
    bed.land(A, {6: b"bad"}, ended=[CHILD.shard_id])
    bed.land(CHILD, {20: b"a"}, parents=[A.shard_id])
    window = bed.window(Numbers(A.shard_id, 5))
    # Both shards, the parent from the middle on.
    window = replace(
        window, id="family", ranges=(*window.ranges, *_ranges(bed, CHILD, parents=(A.shard_id,)))
    )
    bed.wiring().ports.windows().keep(window)
    with pytest.raises(ProcessorStopped, match=r"no such word"):
        bed.run(window)
    assert bed.of(window).words() == [("b", 1)]
    assert list(bed.processing_of(window).stops())
    bed.settings = replace(bed.settings, callable="counting:Mended")
    bed.run(window)
    assert bed.of(window).words() == [("b", 1), ("bad", 1), ("ended", 2), ("a", 1)]
    assert list(bed.processing_of(window).stops()) == []
    assert bed.is_done(window)


def _ranges(bed: WindowProcessorBed, key: ShardKey, *, parents: tuple[str, ...]):
    (own,) = bed.wiring().windowing("a test").plan(WindowRequest(Numbers(key.shard_id), how="a test")).ranges
    return (replace(own, parents=parents),)


@pytest.mark.slow
def test_a_processor_that_halts_stops_its_shard_of_the_window_and_the_next_run_goes_on(tmp_path: Path):
    bed = landed(tmp_path, records=1)
    bed.land(A, {6: b"bad", 7: b"a"})
    window = bed.window()
    with pytest.raises(ProcessorStopped, match=r"no such word"):
        bed.run(window)
    assert bed.of(window).words() == [("a", 1), ("b", 1), ("a", 2), ("a", 3), ("b", 2), ("a", 1), ("c", 1)]
    assert [stop.key for stop in bed.of(window).ports().stops.known()] == [A]
    assert not bed.is_done(window)
    bed.settings = replace(bed.settings, callable="counting:mended")
    bed.run(window)
    assert bed.of(window).words()[5:7] == [("bad", 1), ("a", 4)]
    assert bed.is_done(window)


@pytest.mark.slow
def test_what_a_window_sets_aside_is_in_a_quarantine_table_of_its_own_and_can_be_given_again(tmp_path: Path):
    bed = landed(tmp_path, on_error=OnProcessorError.QUARANTINE)
    bed.land(A, {6: b"bad", 7: b"a"})
    bed.catch_up()
    live = bed.aside()
    window = bed.window(Numbers(A.shard_id, 5))
    bed.run(window)
    assert bed.of(window).aside().keys() == {6}
    bed.settings = replace(bed.settings, callable="counting:mended")
    with pytest.raises(WrongShape, match="is that of the window"):
        bed.of(window).redrive()
    assert bed.of(window).redrive(of_window=window.id) == [
        "1 record given again: 1 processed into 1 row, 0 still set aside"
    ]
    assert sorted(bed.of(window).words()) == [("a", 1), ("b", 1), ("bad", 1)]
    assert bed.aside() == live


def test_a_window_isnt_done_before_its_quarantine_table_has_what_a_killed_run_set_aside(tmp_path: Path):
    bed = landed(tmp_path, on_error=OnProcessorError.QUARANTINE)
    bed.land(A, {6: b"bad"})
    window = bed.window()

    def faster_run_dies(arrow: str) -> None:
        # This run has settled already, and hasn't looked yet.
        if arrow == "begun":
            with pytest.raises(Killed):
                bed.run(window, on_step=dying("committed"))

    assert bed.run(window, on_step=faster_run_dies) == ["no new record was processed"]
    assert bed.is_done(window)
    assert bed.processing_of(window).settling.is_settled()


@pytest.mark.slow
def test_a_table_that_was_dropped_with_its_quarantine_table_gets_the_same_rows_again(tmp_path: Path):
    bed = landed(tmp_path)
    window = bed.window()
    bed.run(window)
    rows = bed.of(window).rows()
    catalog = bed.lake.lake.handle().catalog
    for name in (INTO, f"{INTO}_quarantine"):
        catalog.drop_table(name)
    bed.run(window)
    assert bed.of(window).rows() == rows


@pytest.mark.slow
def test_a_cancelled_window_commits_nothing_more(tmp_path: Path):
    bed = landed(tmp_path)
    window = bed.window()

    def cancel(arrow: str) -> None:
        if arrow == "staged":
            bed.wiring().windowing("a test").say(window.id, Word.CANCELLED)

    with pytest.raises(Unknown, match="is cancelled"):
        bed.run(window, on_step=cancel)
    assert bed.of(window).rows() == []


@pytest.mark.slow
def test_a_window_without_into_has_a_table_with_a_name_of_its_own(tmp_path: Path):
    bed = landed(tmp_path)
    window = bed.window(into="")
    bed.run(window)
    assert bed.of(window).settings.table == f"{bed.lake.lake.name}_window_{window.id}"
    assert len(bed.of(window).rows()) == 7


@pytest.mark.slow
def test_records_that_the_lake_table_lacks_are_never_passed_over(tmp_path: Path):
    bed = landed(tmp_path)
    first = bed.lake.lake.handle().load().snapshot
    bed.land(A, {6: b"a", 7: b"b"})
    window = bed.window(OfSnapshot(bed.lake.lake.handle().load().snapshot or 0))
    table = bed.lake.lake.handle().open()
    table.manage_snapshots().set_current_snapshot(first).commit()
    with pytest.raises(WrongShape, match="was rolled back since"):
        bed.run(window)
    assert not bed.of(window).table().load().positions.shards
    bed.land(A, {6: b"a", 7: b"b"})
    bed.run(window)
    assert bed.of(window).words() == [("a", 1), ("b", 1)]


@pytest.mark.slow
def test_a_window_may_end_at_a_number_without_a_record_and_lack_records_of_a_shard_altogether(tmp_path: Path):
    bed = WindowProcessorBed(tmp_path)
    bed.land(A, {2: b"a", 3: b"b"})
    bed.land(A, {20: b"a"})
    between, before = (
        bed.window(Numbers(A.shard_id, None, 9)),
        bed.window(Numbers(A.shard_id, None, 1), into=""),
    )
    assert bed.run(between) == ["2 records processed into 2 rows, 0 set aside"]
    bed.run(before)
    assert bed.of(before).table().load().positions.of(A) == before.ranges[0].upto
    assert bed.is_done(between)
    assert bed.is_done(before)


# --- refusals -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("into", "why"),
    [
        ("lake.words", r"own table of the processor words.* would count twice.* leave --into out"),
        ("lake.words_quarantine", "words_quarantine can't be the window's: it is a table of these settings"),
        ("words", "allowed: a namespace and a name"),
    ],
)
def test_a_window_into_a_table_that_isnt_its_own_is_refused_with_the_way_out(
    tmp_path: Path, into: str, why: str
):
    bed = landed(tmp_path)
    with pytest.raises(BadSetting, match=why):
        bed.window(into=into)
    assert bed.wiring().ports.windows().all() == ()


def test_a_window_into_a_table_that_is_there_already_or_of_another_window_is_refused(tmp_path: Path):
    bed = landed(tmp_path)
    bed.window()
    with pytest.raises(BadSetting, match="of another window"):
        bed.window()
    bed.on(replace(bed.settings, table="lake.other")).catch_up()
    with pytest.raises(BadSetting, match=r"there is a table lake\.other or"):
        bed.window(into="lake.other")


def test_a_window_of_a_processor_that_is_a_kcl_application_is_refused_with_the_way_out(tmp_path: Path):
    bed = landed(tmp_path)
    bed.settings = replace(bed.settings, mode=ProcessorMode.APPLICATION, application="words", table="")
    with pytest.raises(BadSetting, match=r"mode: application.*set its checkpoints back"):
        bed.window()


def test_a_window_of_another_stream_than_the_processors_is_refused(tmp_path: Path):
    bed = landed(tmp_path, stream="orders")
    with pytest.raises(BadSetting, match="takes records of orders only"):
        bed.window(ALL, stream="payments")


def test_a_window_whose_table_became_the_live_one_is_refused(tmp_path: Path):
    bed = landed(tmp_path)
    window = bed.window()
    bed.settings = replace(bed.settings, table=INTO)
    with pytest.raises(
        BadSetting, match=r"own table of the processor.* cancel the window and make a new one"
    ):
        bed.run(window)
