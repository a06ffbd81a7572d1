"""The proof of typed tables and windows' tables: what it says of whole ones, and that each kind of damage is found and named."""

from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from headrace.pipeline.core.ledger.arrivals import Window
from headrace.pipeline.proof.compare_spark import ShufflingComparer
from headrace.pipeline.proof.patterns import NO_BUCKET, Comparing, Pattern
from headrace.pipeline.proof.ports import TargetPorts
from headrace.pipeline.proof.verdict import TableProof
from headrace.pipeline.settings.blocks.upkeep import UpkeepSettings
from headrace.pipeline.typed.quarantine.redrive_plan import Selection
from headrace.pipeline.upkeep.live_table import IcebergLive
from headrace.pipeline.upkeep.rewrite_plan import FileGroup
from headrace.pipeline.windows.window import ReplayWindow
from tests.lake.samples import NOON, a_key
from tests.proof import target_proofs as proofs
from tests.proof.target_proofs import (
    Rows,
    beside,
    changed,
    changed_ledgers,
    is_range,
    moved_to,
    removed,
    unproved,
    wrong,
)
from tests.typed.parsings import BAD, A, B, Bed, Killed, good, with_ports
from tests.upkeep.compactions import InProcess as InProcessRewriter
from tests.windows.windows import WindowBed

C = a_key(2)
DAY = timedelta(days=1)


@pytest.fixture
def bed(tmp_path: Path) -> Bed:
    return made(tmp_path)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Bed:
    """For tests that leave it as they have found it."""
    return made(tmp_path_factory.mktemp("whole"))


def made(folder: Path) -> Bed:
    """9 rows of 3 shards: 7 are in the typed table, 2 in quarantine."""
    bed = Bed(folder)
    bed.land(A, {1: good(1), 2: BAD, 3: good(3)}, ended=[C.shard_id, a_key(3).shard_id])
    bed.land(B, {10: good(10), 11: good(11)})
    bed.parsing().wave()
    bed.land(C, {20: good(20), 30: good(30)}, parents=[A.shard_id])
    bed.land(B, {12: BAD, 13: good(13)})
    bed.parsing().wave()
    return bed


def prove(bed: Bed, *asked: Window, **how: Any) -> TableProof:
    return proofs.prove(bed, partial(proofs.typed_ports, bed), *asked, **how)[1]


def compact(bed: Bed) -> None:
    bed.clock.at += timedelta(hours=2)
    live = IcebergLive(bed.typed())
    look = live.live()
    day = min(str(each.day) for each in look.files)
    group = FileGroup(day, tuple(each for each in look.files if each.day == day), look.schema)
    assert live.replace(InProcessRewriter(bed.typed())([group])).done


def mend(bed: Bed) -> None:
    bed.parser.fixes = {BAD: good(0)}
    bed.settings = replace(bed.settings, version="2")


# --- whole tables -----------------------------------------------------------------------------------------------


def test_a_whole_typed_table_is_proved_and_named_in_the_last_line(whole: Bed):
    proof, table = proofs.prove(whole, partial(proofs.typed_ports, whole))
    assert (wrong(table), unproved(table)) == ([], [])
    assert table.counts == "7 rows parsed, 2 in quarantine, 0 dropped"
    assert "each row is accounted for in lake.orders" in str(proof)
    assert "lake.orders: 7 rows parsed, 2 in quarantine, 0 dropped" in list(proof.lines())


def test_rows_that_have_landed_and_are_not_parsed_yet_are_told_and_are_no_mistake(whole: Bed):
    whole.land(B, {14: good(14), 15: BAD})
    proof, table = proofs.prove(whole, partial(proofs.typed_ports, whole))
    assert (wrong(table), unproved(table)) == ([], [])
    assert table.counts == "7 rows parsed, 2 in quarantine, 0 dropped; 2 rows not parsed yet"
    assert "each row is accounted for in lake.orders (but for those not parsed yet)" in str(proof)
    _, table = proofs.prove(whole, lambda: replace(proofs.typed_ports(whole), stream="payments"))
    assert "not parsed yet" not in table.counts


def test_dropped_rows_are_accounted_for_by_their_number(bed: Bed):
    bed.parser.keeps = lambda number: number != 1
    bed.land(B, {14: good(14), 15: good(15), 16: good(16)})
    with_ports(bed.parsing(), dropped_as="filter").wave()
    told = prove(bed)
    assert (wrong(told), told.counts) == ([], "9 rows parsed, 2 in quarantine, 1 dropped")
    with removed(bed.typed(), 14):
        named = wrong(prove(bed, anew=True))
    assert any("states 2 rows and 0 set aside, and 1 is in lake.orders and 0 in" in text for text in named)


def test_after_a_redrive_the_rows_are_in_the_typed_table_and_no_more_in_quarantine(bed: Bed):
    prove(bed)
    mend(bed)
    list(bed.redriving().portions(Selection(shard=A.shard_id)))
    told = prove(bed)
    assert (wrong(told), unproved(told), told.counts) == ([], [], "8 rows parsed, 1 in quarantine, 0 dropped")
    # All rows of the three tables were read once more.
    assert told.rows == 18
    with changed(bed.quarantine(), 12, beside(2, A.shard_id)):
        named = wrong(prove(bed, anew=True))
    assert f"{A} 2: both in lake.orders and in lake.orders_quarantine" in named
    assert any(
        text.endswith(
            "the ledger states 3 rows in the typed table and 0 in quarantine, and 3 and 1 are there"
        )
        for text in named
    )


def test_what_the_quarantine_table_hasnt_got_yet_is_not_proved_and_not_wrong(bed: Bed):
    prove(bed)
    bed.land(B, {14: good(14), 15: BAD})
    with pytest.raises(Killed):
        bed.parsing(kill="committed").wave()
    told = prove(bed)
    assert wrong(told) == []
    assert "hasn't got the rows of 1 range yet" in unproved(told)[0]
    mend(bed)
    with pytest.raises(Killed):
        list(bed.redriving(kill="committed").portions())
    assert wrong(prove(bed)) == []
    bed.parsing().wave()
    told = prove(bed)
    assert (wrong(told), unproved(told)) == ([], [])


def test_only_ranges_whose_sums_dont_agree_are_compared_row_by_row(whole: Bed):
    asked: list[tuple[list[int], int]] = []

    class Watched(ShufflingComparer):
        def __call__(self, sides: Sequence[Sequence[str]], wanted: Comparing) -> tuple[Pattern, ...]:
            spans = [bucket for of in wanted.buckets for bucket in of if bucket != NO_BUCKET]
            asked.append(([len(paths) for paths in sides], len(spans)))
            return super().__call__(sides, wanted)

    def ports() -> TargetPorts:
        specs = [
            partial(proofs.side, each) for each in (whole.lake.handle(), whole.typed(), whole.quarantine())
        ]
        return replace(proofs.typed_ports(whole), compare=Watched(proofs.shuffled, specs))

    assert wrong(proofs.prove(whole, ports, anew=True)[1]) == []
    assert asked == []
    with changed(whole.typed(), 20, moved_to(25)):
        assert wrong(proofs.prove(whole, ports, anew=True)[1]) != []
    # One file of the lake table and one of the typed table, none of the quarantine table.
    assert asked == [([1, 1, 0], 1)]


# --- damage in the tables ---------------------------------------------------------------------------------------


def found(bed: Bed, damage: AbstractContextManager[object]) -> list[str]:
    with damage:
        return wrong(prove(bed, anew=True))


def test_a_missing_row_is_named(whole: Bed):
    named = found(whole, removed(whole.typed(), 11))
    assert named[-1].startswith(f"{B} after the start up to 11 ")
    assert named[-1].endswith(
        "the ledger states 2 rows and 0 set aside, and 1 is in lake.orders and 0 in lake.orders_quarantine; in no table: "
        f"{B} 11"
    )


def test_a_doubled_row_is_named(whole: Bed):
    named = found(whole, changed(whole.typed(), 11, lambda row: [row, row]))
    assert named[-1] == f"{B} 11: 2 times in lake.orders"


def test_a_row_that_is_in_both_tables_is_named(whole: Bed):
    named = found(whole, changed(whole.quarantine(), 12, beside(13)))
    assert named[-1] == f"{B} 13: both in lake.orders and in lake.orders_quarantine"


def test_a_row_that_was_moved_to_the_quarantine_is_found_although_it_is_there_once(whole: Bed):
    with removed(whole.typed(), 13):
        named = found(whole, changed(whole.quarantine(), 12, beside(13)))
    assert (
        "states 1 row and 1 set aside, and 0 are in lake.orders and 2 in lake.orders_quarantine" in named[-1]
    )


def test_a_row_in_place_of_another_is_found_by_its_number(whole: Bed):
    (named,) = found(whole, changed(whole.typed(), 20, moved_to(25)))
    assert named == f"{C} 25: in lake.orders and not in the lake table"


def test_a_row_beyond_the_ranges_is_named(whole: Bed):
    named = found(whole, changed(whole.typed(), 13, beside(99)))
    assert any(f"in no range of the ledger: {B} 99" in text for text in named)


def test_a_row_that_left_the_lake_table_is_found(whole: Bed):
    with removed(whole.lake.handle(), 11):
        named = wrong(prove(whole, anew=True))
        # A day that the retention removes says nothing about the typed table.
        short = UpkeepSettings(retention=-DAY)
        assert wrong(prove(whole, anew=True, settings=short)) == []
    assert "the lake table had 2 rows of this range when they were parsed, and has 1 now" in named[0]
    assert named[1] == f"{B} 11: in lake.orders and not in the lake table"


# --- damage in the ledgers --------------------------------------------------------------------------------------


def test_a_range_that_was_cut_out_of_the_ledger_is_found_with_its_rows(whole: Bed):
    cut = changed_ledgers(whole.typed(), lambda row: [] if is_range(row, B.shard_id, 11) else [row])
    named = found(whole, cut)
    assert named[0].startswith(f"a range is missing before {B} after 11 up to 13")
    assert any(
        f"in no range of the ledger: {B} 10 (created {B.stream.epoch}); {B} 11 (created " in text
        for text in named
    )


def test_a_count_that_was_changed_is_found(whole: Bed):
    def lower(row: dict[str, Any]) -> Rows:
        is_it = is_range(row, B.shard_id, 11)
        return [{**row, "why": proofs.without(row["why"], "parsed", -1)} if is_it else row]

    named = found(whole, changed_ledgers(whole.typed(), lower))
    assert (
        "of 2 rows the ledger tells of 1 parsed, 0 set aside and 0 dropped, and of 2 in the typed table"
        in named[0]
    )


def test_a_lie_of_the_ledger_that_adds_up_is_found_by_the_rows(whole: Bed):
    def shift(row: dict[str, Any]) -> Rows:
        if not is_range(row, A.shard_id, 3):
            return [row]
        told = proofs.without(proofs.without(row["why"], "parsed", -1), "quarantined", 1)
        return [{**row, "why": told, "rows": row["rows"] - 1}]

    named = found(whole, changed_ledgers(whole.typed(), shift))
    assert "lake.orders has set aside 2 rows of" in named[0]
    assert "states 1 row and 2 set aside, and 2 are in lake.orders and 1 in" in named[1]


def test_an_accounting_that_cant_be_read_is_told(whole: Bed):
    damage = changed_ledgers(
        whole.typed(), lambda row: [{**row, "why": "{}"} if is_range(row, B.shard_id, 11) else row]
    )
    assert "doesn't tell what became of the rows of" in found(whole, damage)[0]


# --- what isn't read again --------------------------------------------------------------------------------------


def test_a_second_proof_reads_only_what_is_new(bed: Bed):
    first = prove(bed)
    assert first.rows == 18
    assert (prove(bed).rows, prove(bed).files) == (0, 0)
    bed.land(B, {30: good(30), 31: BAD}, arrival=NOON + DAY)
    bed.parsing().wave()
    told = prove(bed)
    # The two new rows in the lake table, and one in each of the other tables.
    assert (wrong(told), told.rows, told.files) == ([], 4, 3)
    compact(bed)
    told = prove(bed)
    assert (wrong(told), told.rows, told.files) == ([], 7, 1)
    assert prove(bed, anew=True).rows == 22


def test_where_something_new_is_wrong_all_rows_are_read(bed: Bed):
    prove(bed)
    bed.land(B, {30: good(30), 31: BAD}, arrival=NOON + DAY)
    bed.parsing().wave()
    with removed(bed.typed(), 30):
        told = prove(bed)
    assert told.rows == 21
    assert any(text.endswith(f"in no table: {B} 30") for text in wrong(told))


def test_a_window_of_time_compares_only_its_ranges(bed: Bed):
    bed.land(B, {40: good(40)}, arrival=NOON + DAY)
    bed.parsing().wave()
    with removed(bed.typed(), 11):
        assert wrong(prove(bed, Window(since=NOON + timedelta(hours=1)))) == []
        assert not prove(bed, Window(until=NOON + timedelta(hours=1))).holds


# --- the tables of windows --------------------------------------------------------------------------------------


@pytest.fixture
def windows(tmp_path: Path) -> tuple[WindowBed, ReplayWindow]:
    bed = WindowBed(tmp_path)
    bed.land(A, {1: good(1), 2: good(2)}, arrival=NOON - DAY)
    bed.land(A, {3: good(3), 4: good(4)})
    bed.land(B, {10: good(10)})
    window = bed.window(Window(NOON, NOON + timedelta(hours=1)))
    bed.copy(window)
    return bed, window


def test_the_table_of_a_window_has_the_rows_of_its_ranges(windows: tuple[WindowBed, ReplayWindow]):
    bed, window = windows
    ports = partial(proofs.window_ports, bed, window)
    told = proofs.prove(bed, ports)[1]
    assert (wrong(told), unproved(told), told.counts) == ([], [], "3 rows copied")
    with removed(bed.table_of(window), 4):
        missing = wrong(proofs.prove(bed, ports, anew=True)[1])[-1]
    assert missing.endswith(f"the ledger states 2 rows, and 1 is in {told.name}; in no table: {A} 4")


def test_a_range_that_the_window_doesnt_have_is_found(windows: tuple[WindowBed, ReplayWindow]):
    bed, window = windows
    smaller = replace(window, ranges=tuple(each for each in window.ranges if each.key != B))
    named = wrong(proofs.prove(bed, partial(proofs.window_ports, bed, smaller))[1])
    assert any(f"the window {window.id} doesn't have all of {B}" in text for text in named)
