"""What every implementation of the ports of typed tables promises. On Iceberg, Spark's work is done in this process."""

from collections.abc import Iterable
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from headrace.pipeline.core.landing.landing import Proposal
from headrace.pipeline.core.ledger.accounting import read_accounting
from headrace.pipeline.core.ledger.batch import StagedFile
from headrace.pipeline.core.ledger.generation import chain_of, next_link
from headrace.pipeline.core.ledger.ledger import Kind, Range
from headrace.pipeline.core.shards.position import Position
from headrace.pipeline.core.shards.sort_texts import end_of, sort_key_of
from headrace.pipeline.core.shards.stream import ShardKey
from headrace.pipeline.errors import WrongShape
from headrace.pipeline.settings.blocks.parse import ParseSettings
from headrace.pipeline.settings.blocks.upkeep import UpkeepSettings
from headrace.pipeline.typed.account import account, aside_name
from headrace.pipeline.typed.duplicates import Deduplicating
from headrace.pipeline.typed.known_files import KnownFiles
from headrace.pipeline.typed.next_wave import plan_next
from headrace.pipeline.typed.plan import plan_wishes
from headrace.pipeline.typed.ports import ParsePorts, Thinned
from headrace.pipeline.typed.quarantine.redrive_plan import Selection, plan_look, plan_redrive
from headrace.pipeline.typed.quarantine.settle import Settling
from headrace.pipeline.typed.values import Bound, Piece, SurveyOrder, Wanted, WaveLimits, WavePlan, Wishes
from headrace.pipeline.typed.wave import Parsing
from headrace.pipeline.upkeep.compact import Compacting
from headrace.pipeline.windows.replace_plan import check_copied, leaving_of, survey_order_of
from tests.contract.parse_ports import HOUR, MILLISECOND, UNIQUE, InMemory, Made, OnIceberg
from tests.lake.samples import NOON, STREAM
from tests.typed.parsings import SETTINGS, A, B

ALL = WaveLimits(1_000, 2**30)


@pytest.fixture(params=["memory", "iceberg"])
def made(request: pytest.FixtureRequest, tmp_path: Path) -> Made:
    made: Made = InMemory() if request.param == "memory" else OnIceberg(tmp_path)
    made.land(A, {1: True, 2: False, 3: True})
    made.land(B, {10: False, 11: False})
    return made


def key(number: int) -> str:
    return sort_key_of(Position(number))


def planned(made: Made) -> tuple[WavePlan, Wishes]:
    look = made.source.look()
    wishes = plan_wishes(look.positions, made.table.load().positions, takes=lambda _: True)
    return plan_next(wishes, look.files, surveyor=made.parser, limits=ALL, known=KnownFiles()), wishes


def wave(made: Made, settings: ParseSettings = SETTINGS) -> None:
    ports = ParsePorts(
        source=made.source,
        table=made.table,
        quarantine=made.quarantine,
        parser=made.parser,
        dropped_as="",
        set_aside=made.set_aside,
        redriver=made.redriver,
        typed=Thinned(table=made.typed, leaver=made.leaver),
        lineage=None,  # type: ignore[arg-type] # a wave without a check doesn't read it
    )
    Parsing(
        settings=settings,
        ports=ports,
        settling=Settling(table=made.table, quarantine=made.quarantine, run="run"),
        limits=ALL,
        clock=made.clock,
        run="run",
        deduplicating=None
        if settings.unique.within is None
        else Deduplicating(table=made.typed, name=settings.table, within=settings.unique.within),
    ).wave()


def test_a_record_that_the_filter_leaves_out_is_told_of_and_no_row_may_be_missing(made: Made):
    made.leave_out(1, 2)
    plan, wishes = planned(made)
    parsed, schema = made.parser.parse(plan, wishes)
    told = account(plan, parsed, dropped_as="", version="1", schema=schema)
    assert {key: (each.parsed, each.quarantined, each.dropped) for key, each in told.items()} == {
        A: (1, 0, {"filter": 2}),
        B: (0, 2, {}),
    }


def in_quarantine(made: Made) -> list[tuple[str, str, int]]:
    """The first and the last row of each shard in quarantine, and how many there are."""
    look = made.set_aside.look()
    pieces = (
        made.redriver.survey(plan_look(look.files, look.positions, Selection())).pieces if look.files else ()
    )
    keys = {p.key for p in pieces}
    own = [[p for p in pieces if p.key == key] for key in sorted(keys)]
    return [(min(p.first for p in its), max(p.last for p in its), sum(p.rows for p in its)) for its in own]


def test_a_look_has_the_files_with_their_bounds_and_the_positions_of_the_same_snapshot(made: Made):
    look = made.source.look()
    assert sorted((f.rows, f.low, f.high, f.shards) for f in look.files) == [
        (2, key(10), key(11), (B.shard_id, B.shard_id)),
        (3, key(1), key(3), (A.shard_id, A.shard_id)),
    ]
    assert {k: p.sequence for k, p in look.positions.shards.items()} == {A: 3, B: 11}


SURVEYS: list[
    tuple[tuple[Bound, ...], set[ShardKey], str | None, bool, list[tuple[ShardKey, int, int, int]]]
] = [
    ((Bound(A, key(1), end_of(Position(2))),), {B}, None, True, [(A, 2, 2, 1)]),
    ((Bound(A, key(1)),), set(), None, True, [(A, 2, 3, 2), (B, 10, 11, 2)]),
    ((Bound(A, key(1)),), set(), None, False, [(A, 2, 3, 2)]),
    ((Bound(A), Bound(B)), set(), key(11), True, [(A, 1, 3, 3), (B, 10, 10, 1)]),
]


def test_a_survey_finds_the_rows_within_its_bounds(made: Made):
    files = tuple(file.path for file in made.source.look().files)
    for bounds, closed, ceiling, others, found in SURVEYS:
        order = SurveyOrder(files, bounds, frozenset(closed), (STREAM,), ceiling, others=others)
        pieces = sorted((p.key, p.first, p.last, p.rows) for p in made.parser.survey(order).pieces)
        assert pieces == [(k, key(first), key(last), rows) for k, first, last, rows in found]


def test_a_survey_tells_when_the_oldest_and_the_newest_row_of_a_piece_arrived(made: Made):
    made.land_events(A, {20: 1, 21: 2, 22: 3}, NOON + HOUR)
    files = tuple(file.path for file in made.source.look().files)
    # The bound leaves out the first of the three, and the ceiling nothing.
    for bound, oldest in ((Bound(A, key(20)), 1), (Bound(A, key(3)), 0)):
        order = SurveyOrder(files, (bound,), frozenset({B}), (STREAM,), None)
        pieces = made.parser.survey(order).pieces
        assert [(piece.oldest, piece.newest) for piece in pieces] == [
            (NOON + HOUR + oldest * MILLISECOND, NOON + HOUR + 2 * MILLISECOND)
        ]


def test_a_look_tells_when_the_oldest_and_the_newest_row_of_a_file_arrived(made: Made):
    made.land_events(A, {20: 1, 21: 2, 22: 3}, NOON + HOUR)
    told = sorted((file.oldest, file.newest) for file in made.source.look().files)
    assert told == [
        (NOON, NOON + MILLISECOND),
        (NOON, NOON + 2 * MILLISECOND),
        (NOON + HOUR, NOON + HOUR + 2 * MILLISECOND),
    ]


def test_rows_of_the_same_event_are_left_out_within_a_wave_and_for_rows_of_the_table(made: Made):
    unique = replace(SETTINGS, unique=UNIQUE)
    wave(made, unique)
    made.land_events(A, {20: 101, 21: 101, 22: 102}, NOON + HOUR)
    wave(made, unique)
    # Of the other shard, and parsed later: 30 arrived before rows of its event that are there, and 33 too long after them.
    made.land_events(B, {30: 101, 31: 103}, NOON + HOUR / 2)
    made.land_events(B, {32: 102, 33: 103}, NOON + HOUR + HOUR)
    wave(made, unique)
    told = [
        {each.key: read_accounting(each.account).dropped for each in page.ranges}
        for page in made.table.pages()
    ]
    assert told == [{B: {"duplicate": 2}}, {A: {"duplicate": 1}}, {A: {}, B: {}}]


def test_what_is_parsed_is_told_row_by_row_and_is_in_no_table_yet(made: Made):
    plan, wishes = planned(made)
    parsed, _ = made.parser.parse(plan, wishes)
    assert [(c.key, c.parsed, c.aside) for c in parsed.counts] == [(A, 2, 1), (B, 0, 2)]
    numbers = sorted(n for first, length in parsed.numbers for n in range(first, first + length))
    assert numbers == list(range(5))
    assert sum(file.rows for file in parsed.files) == 2
    assert sum(file.rows for file in parsed.aside) == 3
    assert made.table.load().snapshot is None
    assert in_quarantine(made) == []


def staged_aside(made: Made) -> tuple[StagedFile, ...]:
    plan, wishes = planned(made)
    return made.parser.parse(plan, wishes)[0].aside


def test_a_staged_file_is_found_by_its_name_alone_and_refused_once_it_is_gone(made: Made):
    for file in staged_aside(made):
        found = made.quarantine.staged(aside_name(file.path), file.shards)
        assert (found.path, found.rows, found.partition) == (file.path, file.rows, file.partition)
        assert found.shards == file.shards
        made.remove(file.path)
        with pytest.raises(WrongShape, match="set aside"):
            made.quarantine.staged(aside_name(file.path), file.shards)


def test_the_pages_of_the_ledgers_come_newest_first(made: Made):
    wave(made)
    made.land(A, {4: True, 5: False})
    wave(made)
    told = [[(r.key, r.kind, r.upto.sequence) for r in page.ranges] for page in made.table.pages()]
    assert told[0] == [(A, Kind.PARSED, 5)]
    assert sorted(told[1]) == [(A, Kind.PARSED, 3), (B, Kind.PARSED, 11)]
    assert len(list(made.quarantine.pages())) == 2


def test_the_reasons_of_rows_in_quarantine_are_counted(made: Made):
    assert not made.quarantine.reasons()
    wave(made)
    rows = sum(file.rows for file in made.set_aside.look().files)
    assert made.quarantine.reasons() == {"bad": rows}


def compacted(made: Made) -> list[str]:
    """Bring rows of five waves into quarantine and compact its files. Returns the names that the first wave's files had."""
    wave(made)
    first: list[str] = [aside_name(file.path) for file in made.set_aside.look().files]
    for number in range(20, 28, 2):
        made.land(A, {number: False})
        wave(made)
    made.clock.at += timedelta(hours=2)
    done = Compacting(
        table=made.live, rewriter=lambda: made.rewriter, settings=UpkeepSettings(), clock=made.clock
    ).run()
    assert done.done
    return first


def test_after_a_compaction_a_redrive_copies_and_removes_the_right_rows(made: Made):
    names = compacted(made)
    rows_that_are_not_selected_are_copied(made)
    live = [file.path for file in made.set_aside.look().files]
    exchange = made.quarantine.without(frozenset(names), frozenset({A, B}))
    assert exchange.gone
    assert set(exchange.gone) <= set(live)
    assert sum(file.rows for file in exchange.added) == 4
    assert {file.shards for file in exchange.added} == {frozenset({A, B})}
    whole = made.quarantine.without(frozenset(map(aside_name, live)), frozenset({A, B}))
    assert (sorted(whole.gone), whole.added) == (sorted(live), ())


def rows_that_are_not_selected_are_copied(made: Made) -> None:
    look = made.set_aside.look()
    for selection, kept in (
        (Selection(shard=A.shard_id), [(B, 2)]),
        (Selection(shard=B.shard_id), [(A, 5)]),
        (Selection(reason="bad"), []),
    ):
        pieces = made.redriver.survey(plan_look(look.files, look.positions, selection)).pieces
        plan = plan_redrive(look.files, pieces, limits=ALL, aside=selection.rows)
        copied = made.redriver.copy_unselected(
            plan.taken, [each.bound for each in plan.wave.ranges], [STREAM]
        )
        assert [(c.key, c.aside) for c in copied.counts] == kept
        assert sum(file.rows for file in copied.aside) == plan.staying
    assert (
        made.redriver.survey(plan_look(look.files, look.positions, Selection(reason="another"))).pieces == ()
    )


def spanned(pieces: Iterable[Piece]) -> tuple[str, str, int]:
    """The first and the last of these rows of a shard, and how many there are. They may be in any number of files."""
    its = [(piece.first, piece.last, piece.rows) for piece in pieces if piece.key == A]
    return min(first for first, _, _ in its), max(last for _, last, _ in its), sum(n for _, _, n in its)


def test_rows_of_the_typed_table_are_found_and_those_that_stay_are_copied_as_when_a_window_replaces_them(
    made: Made,
):
    made.land(A, {4: True, 5: True})
    wave(made)
    look = made.typed.look()
    order = survey_order_of([(A, Position(1), Position(4))], look.files, (STREAM,))
    pieces = made.leaver.survey(order).pieces
    assert spanned(pieces) == (key(3), key(4), 2)
    leaving = leaving_of(look.files, pieces)
    copied = made.leaver.copy_unselected(leaving.files, order.bounds, [STREAM])
    check_copied(leaving, copied)
    assert [(c.key, c.aside) for c in copied.counts] == [(A, 2)]
    # The commit exchanges the files. The rows that stay are there once, and those of the range are gone.
    gone = tuple(file.path for file in leaving.files)
    replay = Range(Kind.REPLAY, A, Position(1), Position(4), run="r", claim="r")
    raised = Range(Kind.GENERATION, chain_of(A), None, next_link(None), run="r", claim="r")
    files = tuple(replace(file, shards=frozenset({A})) for file in copied.aside)
    proposal = Proposal((replay, raised), files, whole=True, gone=gone)
    assert not made.table.commit(proposal).landing.refused
    everything = survey_order_of([(A, None, Position(9))], made.typed.look().files, (STREAM,))
    assert spanned(made.leaver.survey(everything).pieces) == (key(1), key(5), 2)
    # A second commit that removes the same files is refused as a whole.
    again = replace(raised, after=next_link(None), upto=Position(2))
    refused = made.table.commit(replace(proposal, ranges=(replay, again), files=())).landing.refused
    assert {each.range.key for each in refused} == {A, chain_of(A)}


def test_the_rows_of_a_window_are_copied_and_are_in_its_table_with_the_commit(made: Made):
    look = made.source.look()
    wanted = (Wanted(A, Position(1), Position(3), floor=key(1)), Wanted(B, None, Position(10), floor=""))
    wishes = Wishes(wanted, streams=(STREAM,), only_wanted=True)
    plan = plan_next(wishes, look.files, surveyor=made.copier, limits=ALL, known=KnownFiles())
    copied = made.copier.copy(plan)
    assert [(c.key, c.parsed, c.aside) for c in copied.counts] == [(A, 2, 0), (B, 1, 0)]
    assert (copied.aside, sum(file.rows for file in copied.files)) == ((), 3)
    account(plan, copied, dropped_as="", version="", schema=0)
    ranges = tuple(
        Range(Kind.COPIED, each.key, None, each.upto, run="r", claim="r", rows=each.rows)
        for each in plan.ranges
    )
    origins = tuple(look.positions.origins.items())
    assert not made.copied.commit(Proposal(ranges, copied.files, origins, whole=True)).landing.refused
    files = made.copies.look().files
    assert sum(file.rows for file in files) == 3
    assert key(2) in {file.low for file in files}


def test_what_another_engine_has_changed_is_told(made: Made):
    assert made.source.changed_by_others(0, lacks=-1) == ""
    made.insert_as_others()
    assert "another engine has changed rows" in made.source.changed_by_others(0, lacks=-1)
    # It has added one row, and removed none.
    assert made.source.changed_by_others(0, lacks=-2) == ""
    assert made.source.changed_by_others(0, lacks=1) == ""
    made.rewrite_as_others()
    assert made.source.changed_by_others(0, lacks=1) == ""
    assert made.source.changed_by_others(made.sequence(), lacks=-1) == ""
    made.delete_as_others()
    assert "another engine has changed rows" in made.source.changed_by_others(made.sequence(), lacks=1)
    assert made.source.changed_by_others(0, lacks=2) == ""
    made.land(A, {20: True})
    assert made.source.changed_by_others(made.sequence(), lacks=1) == ""


def test_what_another_engine_has_changed_and_a_person_has_set_back_isnt_told(made: Made):
    before = made.sequence()
    made.insert_as_others()
    made.roll_back_to(before)
    assert made.source.changed_by_others(0, lacks=-1) == ""
