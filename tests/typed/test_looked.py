"""Which files of the lake table have nothing left for a typed table, and which part of the others a wave looks into."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.pipeline.core.landing.landing import Proposal, decide_landing
from headrace.pipeline.core.landing.ledger_codec import read_ledger, write_ledger
from headrace.pipeline.core.ledger.ledger import FilesDone, Kind, LedgerPage, Range
from headrace.pipeline.core.shards.position import Position, Positions
from headrace.pipeline.core.shards.sort_texts import end_of, row_shard, sort_key_of
from headrace.pipeline.core.shards.stream import ShardKey, StreamId
from headrace.pipeline.typed.files.looked import MOST_OPEN, covers, looked_after, looked_in
from headrace.pipeline.typed.files.portion import plan_portion
from headrace.pipeline.typed.values import FilePart, SourceFile, Wanted, Wishes
from tests.core.landings import ORIGIN

STREAM = StreamId("arn:aws:kinesis:eu-west-1:123456789012:stream/orders", 1_769_000_000)
OTHER = replace(STREAM, arn=STREAM.arn.replace("orders", "clicks"))
A, B = (ShardKey(STREAM, f"shardId-{n:012d}") for n in range(2))
C = ShardKey(OTHER, A.shard_id)
LOOKED = FilesDone(snapshot=77, sequence=9, upto=8, stream=None, still=frozenset({"f3"}))


def part(key: ShardKey, first: int, last: int, *, rows: int = 1) -> FilePart:
    return FilePart(*row_shard(key), sort_key_of(Position(first)), sort_key_of(Position(last)), rows)


def file(name: str, *parts: FilePart, added: int | None = 5) -> SourceFile:
    return SourceFile(f"s3://lake/data/{name}", sum(each.rows for each in parts), added=added, parts=parts)


def told(*files: SourceFile, stream: str | None = None, before: FilesDone | None = None) -> FilesDone:
    at = Positions({}, {A: Position(100), B: Position(200, 3)})
    found = looked_after(files, at, snapshot=77, sequence=9, stream=stream, before=before)
    assert found is not None
    return found


def test_a_file_has_nothing_left_once_each_of_its_rows_is_at_or_below_a_position():
    done = file("f1", part(A, 1, 100), part(B, 1, 150))
    assert told(done) == FilesDone(77, 9, 9)
    assert covers(told(done), done)
    for more in (part(A, 1, 101), part(C, 1, 1), replace(part(A, 1, 1), shard_id="shardId-another")):
        left = file("f2", part(B, 1, 150), more)
        assert told(done, left).still == {"f2"}
        assert not covers(told(done, left), left)


def test_a_position_within_a_kinesis_record_leaves_the_rest_of_the_record():
    rows = [sort_key_of(Position(200, sub)) for sub in (3, 4)]
    for last, left in zip(rows, (set(), {"f"}), strict=True):
        assert told(file("f", FilePart(*row_shard(B), rows[0], last, 1))).still == left


def test_a_file_that_nobody_has_looked_through_may_have_something_left():
    unknown = replace(file("f1"), parts=None)
    assert told(unknown).still == {"f1"}


def test_rows_of_streams_that_the_target_isnt_for_leave_nothing():
    both = file("f1", part(A, 1, 100), part(C, 1, 1_000))
    assert told(both).still == {"f1"}
    found = told(both, stream="orders")
    assert (found.still, found.stream) == (frozenset(), "orders")


def test_files_of_later_commits_and_of_unknown_ones_are_looked_into():
    assert covers(LOOKED, file("f1", added=8))
    assert not covers(LOOKED, file("f1", added=9))
    assert not covers(LOOKED, file("f1", added=None))
    assert not covers(LOOKED, file("f3", added=2))


def test_what_was_said_before_holds_on_and_nothing_of_it_is_asked_again():
    covered = replace(file("f1", added=2), parts=None)
    assert told(covered, before=LOOKED).still == frozenset()
    assert told(file("f3", part(A, 1, 101), added=3), before=LOOKED).still == {"f3"}


def test_of_many_files_with_something_left_the_oldest_are_named_and_the_rest_comes_later():
    files = [file(f"f{n}", part(A, 1, 101), added=n) for n in range(1, MOST_OPEN + 51)]
    found = told(*files)
    assert (found.upto, len(found.still)) == (MOST_OPEN, MOST_OPEN)
    assert not any(covers(found, each) for each in files)


def pages(*looked: FilesDone | None) -> list[LedgerPage]:
    return [LedgerPage(looked=each) for each in looked]


def test_the_newest_ledger_that_says_something_counts():
    newest = replace(LOOKED, upto=9)
    found = looked_in(pages(None, newest, LOOKED), stream=None, leads_to=lambda _, __: True)
    assert found == newest
    assert looked_in(pages(None), stream=None, leads_to=lambda _, __: True) is None


def test_nothing_counts_that_was_said_of_a_history_which_main_has_left():
    asked: list[tuple[int, int]] = []

    def leads_to(*snapshot: int) -> bool:
        asked.append((snapshot[0], snapshot[1]))
        return False

    assert looked_in(pages(LOOKED), stream=None, leads_to=leads_to) is None
    assert asked == [(77, 9)]


@pytest.mark.parametrize(("said", "now", "counts"), [(None, "orders", True), ("orders", "orders", True)])
@pytest.mark.parametrize(("other", "wanted"), [("orders", None), ("orders", "clicks")])
def test_what_was_said_of_one_stream_says_nothing_of_others(
    said: str | None, now: str, *, counts: bool, other: str, wanted: str | None
):
    every = lambda _, __: True  # noqa: E731
    assert (looked_in(pages(replace(LOOKED, stream=said)), stream=now, leads_to=every) is not None) is counts
    assert looked_in(pages(replace(LOOKED, stream=other)), stream=wanted, leads_to=every) is None


def test_nothing_counts_that_was_said_before_a_position_was_set_back():
    back = Range(Kind.REPOSITION, A, Position(9), Position(3), run="r", claim="c")
    found = looked_in([LedgerPage((back,)), *pages(LOOKED)], stream=None, leads_to=lambda _, __: True)
    assert found is None


@pytest.mark.parametrize("looked", [LOOKED, FilesDone(1, 2, 2, "orders"), None])
def test_a_ledger_keeps_what_it_says(looked: FilesDone | None):
    page = LedgerPage(looked=looked)
    assert read_ledger(write_ledger(page)) == page


# --- which part of the files a wave looks into ------------------------------------------------------------------

WISHES = Wishes(
    (Wanted(A, Position(100), Position(500)), Wanted(B, Position(200), Position(900))),
    closed=frozenset({C}),
    streams=(STREAM, OTHER),
)


def test_a_file_of_several_shards_is_looked_into_only_for_rows_that_are_wanted():
    """Its bounds as a whole reach from the first record of one shard to the last one of another."""
    old = file("f1", part(A, 1, 100), part(B, 1, 200), part(C, 1, 9_000))
    beyond = file("f2", part(A, 501, 600), part(B, 901, 990))
    assert plan_portion([old, beyond], WISHES, rows=9).files == ()
    new = file("f3", part(A, 101, 110), part(B, 1, 200))
    assert plan_portion([old, beyond, new], WISHES, rows=9).files == (new,)


def test_rows_of_shards_that_nobody_knows_are_looked_for_unless_only_some_are_wanted():
    unknown = file("f1", replace(part(A, 1, 5), shard_id="shardId-another"))
    assert plan_portion([unknown], WISHES, rows=9).files == (unknown,)
    assert plan_portion([unknown], replace(WISHES, only_wanted=True), rows=9).files == ()
    assert plan_portion([unknown], replace(WISHES, wanted=()), rows=9).files == ()


def numbers() -> st.SearchStrategy[list[list[int]]]:
    return st.lists(st.lists(st.integers(1, 400), min_size=1, max_size=8), min_size=1, max_size=8)


@given(of_a=numbers(), of_b=numbers(), rows=st.integers(1, 12), after=st.integers(0, 200))
def test_no_file_that_is_left_out_has_wanted_rows_below_the_ceiling(
    of_a: list[list[int]], of_b: list[list[int]], rows: int, after: int
):
    files = []
    for number, (in_a, in_b) in enumerate(zip(of_a, of_b, strict=False)):
        held = {A: in_a, B: [1_000 + n for n in in_b]}
        parts = (part(key, min(its), max(its), rows=len(its)) for key, its in held.items())
        files.append((file(f"f{number}", *parts), held))
    wanted = (Wanted(A, Position(after), Position(350)), Wanted(B, Position(1_000 + after), Position(1_350)))
    portion = plan_portion([each for each, _ in files], Wishes(wanted, streams=(STREAM,)), rows=rows)
    for each, rows_of in files:
        for want in wanted:
            keys = [sort_key_of(Position(n)) for n in rows_of[want.key]]
            asked = [key for key in keys if want.low < key < (want.high or "")]
            if portion.ceiling is not None:
                asked = [key for key in asked if key < portion.ceiling]
            assert not asked or each in portion.files


def test_a_ceiling_is_never_within_a_kinesis_record():
    first = file("f1", part(A, 101, 101), added=1)
    rest = file("f2", FilePart(*row_shard(A), sort_key_of(Position(102, 4)), sort_key_of(Position(300)), 9))
    ceiling = plan_portion([first, rest], WISHES, rows=1).ceiling
    assert ceiling is not None
    assert end_of(Position(101)) <= ceiling <= sort_key_of(Position(102))


@pytest.mark.parametrize(
    ("there", "stays"),
    [
        ({A: Position(100), B: Position(7)}, True),
        ({A: Position(101), B: Position(7)}, True),
        ({A: Position(100, ended=True), B: Position(7)}, True),
        ({A: Position(100, inside=True), B: Position(7)}, False),
        ({A: Position(99), B: Position(7)}, False),
        ({B: Position(7)}, False),
    ],
)
def test_a_commit_says_which_files_are_done_only_where_no_position_is_behind_those_that_this_rests_on(
    there: dict[ShardKey, Position], *, stays: bool
):
    origins = {STREAM: ORIGIN}
    rests_on = Positions(origins, {A: Position(100), B: Position(7)})
    moved = Range(Kind.PARSED, B, Position(7), Position(8), run="r", claim="r")
    proposal = Proposal((moved,), whole=True, looked=LOOKED, rests_on=rests_on)
    landing = decide_landing(Positions(origins, there), proposal)
    assert not landing.refused
    assert landing.page.looked == (LOOKED if stays else None)
