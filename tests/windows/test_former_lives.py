"""Windows over a former life of a stream that `headrace repair` has left out of the lake table's positions: they come to an end, and tell what is
out of reach."""

from dataclasses import replace
from pathlib import Path

import pytest

from headrace.pipeline.core.landing.landing import Landing, Proposal
from headrace.pipeline.core.ledger.arrivals import ALL
from headrace.pipeline.core.ledger.ledger import LedgerPage
from headrace.pipeline.core.shards.position import TRIM, Origin, Position, Positions
from headrace.pipeline.core.shards.stream import ShardKey, StreamId
from headrace.pipeline.errors import WrongShape
from headrace.pipeline.windows.copy_plan import why_not
from headrace.pipeline.windows.former_lives import left_unparsed
from headrace.pipeline.windows.window import ReplayWindow, WindowRange
from headrace.pipeline.windows.windows import WindowRequest
from tests.lake.samples import NOON, STREAM
from tests.typed.parsings import A, B, good
from tests.windows.replacements import ReplaceBed
from tests.windows.windows import a_window

LATER = StreamId(STREAM.arn, STREAM.epoch + 1000)
AGAIN = ShardKey(LATER, A.shard_id)
ORIGIN = Origin(TRIM, NOON)
LEFT_OUT = Positions({LATER: ORIGIN}, {AGAIN: Position(1)})
"""The lake table's positions after a repair: those of the later life only."""
WINDOW = replace(
    a_window("w"), ranges=(WindowRange(A, Position(2), Position(9)), WindowRange(AGAIN, None, Position(1)))
)
FORMER = WINDOW.ranges[:1]


def repaired(bed: ReplaceBed) -> None:
    """`headrace repair` has rebuilt the positions of the lake table, without the former life."""
    lake = bed.lake.handle()
    state = lake.load()
    later = {key: position for key, position in state.positions.shards.items() if key.stream == LATER}
    lake.rebuild(Landing(LedgerPage(), (), (), Positions({LATER: ORIGIN}, later)), state.snapshot)


@pytest.fixture
def bed(tmp_path: Path) -> ReplaceBed:
    """Two lives of a stream, in which each shard has records."""
    bed = ReplaceBed(tmp_path)
    bed.land(A, {1: good(1), 2: good(2)})
    bed.lake.handle().commit(Proposal(origins=((LATER, ORIGIN),)))
    bed.land(AGAIN, {1: good(1)})
    return bed


def test_a_range_of_a_life_that_a_repair_has_left_out_is_never_parsed_where_the_typed_table_doesnt_know_the_life() -> (
    None
):
    assert left_unparsed(WINDOW, LEFT_OUT, Positions({LATER: ORIGIN}, {AGAIN: Position(1)})) == FORMER
    assert left_unparsed(WINDOW, LEFT_OUT, Positions()) == FORMER


@pytest.mark.parametrize("position", [Position(5), Position(9), Position(20)])
def test_a_range_that_a_wave_may_still_parse_or_has_parsed_isnt_out_of_reach(position: Position) -> None:
    assert left_unparsed(WINDOW, LEFT_OUT, Positions({}, {A: position})) == ()


def test_a_range_isnt_out_of_reach_where_the_lake_table_knows_the_life_or_no_later_one() -> None:
    known = Positions({STREAM: ORIGIN, LATER: ORIGIN}, {A: Position(9)})
    assert left_unparsed(WINDOW, known, Positions()) == ()
    # The table was rolled back to before the stream's first commit, and lands the stream again.
    assert left_unparsed(WINDOW, Positions(), Positions()) == ()


def test_no_shard_of_a_life_that_the_typed_table_knows_is_out_of_reach() -> None:
    """Waves look for the rows of such a life in each file, also for those of shards that nothing names any more."""
    window = replace(WINDOW, ranges=(WindowRange(B, None, Position(7)),))
    for known in (
        Positions({}, {A: Position(5)}),
        Positions({}, {A: Position(5, ended=True)}),
        Positions({STREAM: ORIGIN}),
    ):
        assert left_unparsed(window, LEFT_OUT, known) == ()


def test_a_window_waits_for_rows_that_waves_parse_of_a_life_of_which_the_typed_table_knows_the_origin_alone(
    tmp_path: Path,
) -> None:
    bed = ReplaceBed(tmp_path)
    bed.lake.handle().commit(Proposal(origins=((STREAM, ORIGIN), (LATER, ORIGIN))))
    bed.land(AGAIN, {1: good(1)})
    bed.catch_up()
    bed.land(A, {2: good(2), 3: good(3)})
    window = bed.window(ALL)
    repaired(bed)
    with pytest.raises(WrongShape, match="parse these records first"):
        bed.replace(window)
    bed.catch_up()
    assert bed.values() == {1: 1, 2: 2, 3: 3}
    *_, last = bed.replacing(window).waves()
    assert f"{last}" == "3 rows parsed again: 3 parsed, 0 set aside, in the place of 3 older rows"
    assert not [note for note in last.notes if note.startswith("out of reach: ")]


def test_a_window_is_done_though_the_typed_table_never_gets_a_part_of_it_and_says_so(bed: ReplaceBed) -> None:
    window = bed.window(ALL)
    repaired(bed)
    bed.catch_up()
    assert bed.values() == {1: 1}
    *_, last = bed.replacing(window).waves()
    assert f"{last}" == "1 row parsed again: 1 parsed, 0 set aside, in the place of 1 older row"
    assert last.is_last
    (note,) = (note for note in last.notes if note.startswith("out of reach: "))
    assert f"{A} after the start up to 2" in note
    assert "a window without --replace copies them" in note
    assert bed.windowing().find(window.id).is_done
    (sentence,) = bed.replacing(window).out_of_reach(window)
    assert sentence in note


def test_rows_of_a_life_that_a_repair_has_left_out_are_copied(bed: ReplaceBed) -> None:
    window: ReplayWindow = bed.windowing().create(WindowRequest(ALL, how="a test"))
    repaired(bed)
    bed.copy(window)
    assert bed.copied(window) == bed.lake_rows()
    assert len(bed.copied(window)) == 3
    assert bed.windowing().find(window.id).is_done


def test_a_copy_is_still_refused_where_the_lake_table_knows_no_later_life() -> None:
    (why,) = why_not(replace(WINDOW, ranges=FORMER), Positions({}, {A: Position(9)}), Positions())
    assert "knows nothing of the stream" in why
