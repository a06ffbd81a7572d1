"""Which files of a quarantine table a redrive takes, and whether its rows are accounted for."""

from dataclasses import replace

import pytest

from headrace.pipeline.core.ledger.accounting import Accounting
from headrace.pipeline.core.ledger.batch import StagedFile
from headrace.pipeline.core.ledger.generation import chain_of, is_chain, next_link
from headrace.pipeline.core.shards.position import TRIM, Origin, Position, Positions
from headrace.pipeline.core.shards.stream import ShardKey
from headrace.pipeline.errors import Unknown, WrongShape
from headrace.pipeline.typed.account import account
from headrace.pipeline.typed.plan import plan_wishes
from headrace.pipeline.typed.quarantine.redrive_plan import (
    RedrivePlan,
    Selection,
    in_order,
    plan_look,
    plan_redrive,
    reason_meant,
    with_staying,
    worth_parsing,
)
from headrace.pipeline.typed.values import (
    AsideRows,
    Bound,
    Parsed,
    Piece,
    ReadUnit,
    ShardCount,
    SourceFile,
    WaveLimits,
)
from tests.lake.samples import NOON, a_key

A, B = a_key(0), a_key(1)
MANY = WaveLimits(1000, 10**9)
FILES = (SourceFile("d/one", 5), SourceFile("d/two", 3), SourceFile("d/three", 9))


def a_piece(path: str, number: int, *, rows: int = 2, malformed: int = 0, key: object = A) -> Piece:
    text = f"001:{number}:{0:019}"
    return Piece(key, path, 0, text, text, rows, 10 * rows, malformed)  # type: ignore[arg-type]


def a_staged(path: str, *keys: object) -> StagedFile:
    return StagedFile(path, frozenset(keys), 1, 1, b"", "2026-01-31", NOON)  # type: ignore[arg-type]


def plan(*pieces: Piece, limits: WaveLimits = MANY, reason: str | None = None) -> RedrivePlan:
    return plan_redrive(FILES, pieces, limits=limits, aside=AsideRows(reason))


def test_each_redrive_of_a_shard_is_one_more_link_of_its_chain():
    assert is_chain(chain_of(A))
    assert not is_chain(A)
    assert next_link(None) == Position(1)
    assert next_link(Position(1)) == Position(2)


def test_a_wave_of_the_typed_table_wants_no_rows_for_a_chain():
    # Else the wave would look through all files of the lake table.
    origins = {A.stream: Origin(TRIM, NOON)}
    lake = Positions(origins, {A: Position(9)})
    typed = Positions(origins, {A: Position(9), chain_of(A): Position(1)})
    assert plan_wishes(lake, typed, takes=lambda _: True).wanted == ()


def test_a_look_is_for_the_selected_shards_and_never_for_chains():
    known = Positions({}, {A: Position(9), B: Position(9), chain_of(A): Position(1)})
    order = plan_look(FILES, known, Selection(A.shard_id, "bad"))
    assert order.bounds == (Bound(A, aside=AsideRows("bad")),)
    assert order.closed == {B}
    assert order.files == ("d/one", "d/three", "d/two")
    assert plan_look(FILES, known, Selection()).bounds == (Bound(A), Bound(B))
    with pytest.raises(Unknown, match="no shard shardId-7"):
        plan_look(FILES, known, Selection("shardId-7"))


def test_files_with_malformed_records_only_are_left():
    good, bad = a_piece("d/one", 1, malformed=1), a_piece("d/two", 2, malformed=2)
    also = a_piece("d/one", 3, malformed=2)
    assert worth_parsing([good, bad, also]) == (good, also)


def test_a_portion_takes_whole_files_within_the_limits_and_at_least_one():
    pieces = [a_piece("d/one", 1), a_piece("d/two", 2), a_piece("d/two", 3, key=B)]
    whole = plan(*pieces, reason="bad")
    assert [each.path for each in whole.taken] == ["d/one", "d/two"]
    assert (whole.wave.rows, whole.staying) == (6, 2)
    assert [(each.key, each.upto.sequence, each.aside.reason) for each in whole.wave.ranges] == [
        (A, 2, "bad"),
        (B, 3, "bad"),
    ]
    assert whole.wave.units == (ReadUnit("d/one", 0, 0, 2), ReadUnit("d/two", 0, 2, 4))
    assert [each.path for each in plan(*pieces, limits=WaveLimits(2, 10**9)).taken] == ["d/one"]
    assert [each.path for each in plan(*pieces, limits=WaveLimits(10, 20)).taken] == ["d/one"]
    assert [each.path for each in plan(*pieces, limits=WaveLimits(0, 0)).taken] == ["d/one"]


PARSED = Parsed(
    (a_staged("t/good", A),),
    (a_staged("q/d/rest", A),),
    (ShardCount(A, parsed=1, aside=1),),
    ((0, 2),),
)
COPIED = Parsed((), (a_staged("q/d/copy", A, B),), (ShardCount(A, aside=1), ShardCount(B, aside=2)))


def accounts(
    parsed: Parsed = PARSED, copied: Parsed = COPIED, dropped_as: str = ""
) -> dict[ShardKey, Accounting]:
    one = plan(a_piece("d/one", 1))
    tried = account(one.wave, parsed, dropped_as=dropped_as, version="2", schema=3)
    aside = (*parsed.aside, *copied.aside)
    return with_staying(one, tried, aside, copied, version="2", schema=3)


def test_each_row_of_a_taken_file_is_accounted_for_by_shard():
    assert accounts() == {
        A: Accounting(3, 1, 2, {}, "2", 3, ("d/rest", "d/copy"), ("d/one",)),
        B: Accounting(2, 0, 2, {}, "2", 3, ("d/copy",), ("d/one",)),
    }


def test_rows_that_are_dropped_by_a_filter_are_counted():
    some = replace(PARSED, aside=(), counts=(ShardCount(A, parsed=1),), numbers=((0, 1),))
    assert accounts(some, dropped_as="filter")[A].dropped == {"filter": 1}
    with pytest.raises(WrongShape, match="2 rows went in, 1 were parsed"):
        accounts(some)


@pytest.mark.parametrize(
    "copied", [Parsed(), replace(COPIED, counts=(*COPIED.counts, ShardCount(B, aside=1)))]
)
def test_rows_that_the_copy_lost_or_doubled_are_refused(copied: Parsed):
    with pytest.raises(WrongShape, match="have 3 rows beside those"):
        accounts(copied=copied)


REASONS = {"a value doesn't fit its column: id": 3, "a value doesn't fit its column: amount": 7, "no JSON": 1}


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("no JSON", "no JSON"),
        ("JSON", "no JSON"),
        ("column: id", "a value doesn't fit its column: id"),
        ("no Avro", None),
        ("no json", None),
    ],
)
def test_a_reason_is_meant_by_a_part_that_no_other_reason_has(text: str, reason: str | None):
    assert reason_meant(text, REASONS) == reason


def test_the_whole_text_of_a_reason_means_it_even_inside_of_another():
    assert reason_meant("no JSON", {**REASONS, "no JSON at all": 1}) == "no JSON"


def test_a_part_that_several_reasons_have_is_refused_with_the_reasons_the_most_frequent_first():
    with pytest.raises(Unknown, match="2 reasons have the text 'a value'") as refused:
        reason_meant("a value", REASONS)
    assert str(refused.value).endswith(
        "one that you mean: a value doesn't fit its column: amount (7 rows); a value doesn't fit its column: id (3 rows)"
    )
    with pytest.raises(Unknown, match=r"; and 15 more$"):
        reason_meant("r", {f"r{n}": 1 for n in range(20)})


def ordered(path: str, key: ShardKey, first: int, last: int) -> Piece:
    return replace(a_piece(path, 1, key=key), first=f"{first:03d}", last=f"{last:03d}")


def test_files_whose_records_lie_between_each_other_are_taken_together():
    pieces = (
        ordered("z", A, 1, 4),
        ordered("y", A, 3, 5),
        ordered("x", A, 6, 7),
        # In no order with those of A, but with each other.
        ordered("w", B, 2, 9),
        ordered("x", B, 8, 10),
    )
    assert in_order(pieces) == [["z", "w", "y", "x"]]
    assert in_order(pieces[:3]) == [["z", "y"], ["x"]]
    assert in_order(pieces[:4]) == [["z", "w", "y"], ["x"]]
