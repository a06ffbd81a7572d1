"""Replacements on real Iceberg: exactly the rows of a window are those of today's parser, once, whatever happens meanwhile.

A parser of version 1 reads some payloads wrongly: as another id, or not at all. Version 2 is correct.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from headrace.pipeline.core.landing.landing import Proposal
from headrace.pipeline.core.ledger.accounting import read_accounting
from headrace.pipeline.core.ledger.arrivals import ALL
from headrace.pipeline.core.ledger.generation import chain_of
from headrace.pipeline.core.ledger.ledger import Kind, Range
from headrace.pipeline.core.shards.position import Position
from headrace.pipeline.errors import BadSetting, Transient, Unknown, WrongShape
from headrace.pipeline.lake.table import plain_read as read
from headrace.pipeline.lake.table.lake_table import IcebergTable
from headrace.pipeline.settings.blocks.parse import ParseSettings, UniqueSettings
from headrace.pipeline.settings.blocks.upkeep import UpkeepSettings
from headrace.pipeline.typed.ports import SourceLook, SourceTable
from headrace.pipeline.typed.values import WaveLimits
from headrace.pipeline.upkeep.compact import Compacting
from headrace.pipeline.upkeep.live_table import IcebergLive
from headrace.pipeline.windows.make import Numbers
from headrace.pipeline.windows.replace import check_replaceable
from headrace.pipeline.windows.window import Word
from tests.lake.merge_on_read import delete_rows
from tests.lake.samples import NOON, a_key
from tests.typed.parsings import BAD, A, B, Killed, good, with_ports
from tests.upkeep.compactions import InProcess as InProcessRewriter
from tests.windows.replacements import ReplaceBed

WRONG = {good(2): good(102), good(3): BAD, good(4): good(104), good(11): good(111)}
"""How version 1 reads payloads."""
TWO_TO_FOUR = Numbers(A.shard_id, 2, 4)
OLD = {1: 1, 2: 102, 4: 104, 6: 6, 10: 10, 11: 111}
NEW = {**OLD, 2: 2, 3: 3, 4: 4}
"""After the window of shard A from 2 to 4 was parsed again: what lies outside is as it was, also where it is wrong."""


@pytest.fixture
def bed(tmp_path: Path) -> ReplaceBed:
    """Shard A in two waves, of which each has rows outside of the window in its files; shard B shares these files."""
    bed = ReplaceBed(tmp_path)
    bed.parser.fixes = WRONG
    bed.land(A, {1: good(1), 2: good(2), 3: good(3)})
    bed.land(B, {10: good(10), 11: good(11), 12: BAD})
    bed.catch_up()
    bed.land(A, {4: good(4), 5: BAD, 6: good(6)})
    bed.catch_up()
    assert bed.values() == OLD
    mend(bed)
    return bed


def mend(bed: ReplaceBed) -> None:
    bed.parser.fixes = {}
    bed.settings = replace(bed.settings, version="2")


def test_a_parser_that_fails_everything_replaces_nothing(tmp_path: Path):
    bed = ReplaceBed(tmp_path)
    bed.land(A, {number: good(number) for number in range(1000, 1100)})
    bed.catch_up()
    values, window = bed.values(), bed.window(Numbers(A.shard_id))
    bed.settings = replace(bed.settings, version="2")
    bed.parser.fixes = dict.fromkeys(map(good, range(1000, 1100)), BAD)
    with pytest.raises(WrongShape, match=r"the most frequent reasons are: .+ \(100 records\)\. Nothing"):
        bed.replace(window)
    assert bed.values() == values
    assert bed.aside() == {}
    bed.settings = replace(bed.settings, stop_above=1.0)
    bed.replace(window)
    assert len(bed.aside()) == 100


def check(bed: ReplaceBed, values: dict[int, int], *aside: int) -> None:
    assert bed.values() == values
    assert sorted(bed.aside()) == list(aside)
    bed.check()


def at_arrow(arrow: str, act: Callable[[], object]) -> Callable[[str], None]:
    return lambda at: (act(), None)[1] if at == arrow else None


def compact(bed: ReplaceBed, table: IcebergTable) -> None:
    bed.clock.at += timedelta(hours=2)
    assert (
        Compacting(
            table=IcebergLive(table),
            rewriter=lambda: InProcessRewriter(table),
            settings=UpkeepSettings(),
            clock=bed.clock,
        )
        .run()
        .done
    )


def test_exactly_the_rows_of_the_window_are_those_of_todays_parser(bed: ReplaceBed):
    window = bed.window(TWO_TO_FOUR)
    outside = [row for row in read.rows(bed.typed()).to_pylist() if row["sequence_number"] not in "234"]
    before = bed.typed().load().positions
    assert bed.replace(window) == ["3 rows parsed again: 3 parsed, 0 set aside, in the place of 3 older rows"]
    check(bed, NEW, 5, 12)
    assert bed.aside() == {5: ("bad", "1"), 12: ("bad", "1")}
    rows = read.rows(bed.typed()).to_pylist()
    assert all(row in rows for row in outside)
    # No live position has moved: only the generations of the shards whose rows were exchanged have.
    after = bed.typed().load().positions
    assert {k: p for k, p in after.shards.items() if k in before.shards} == before.shards
    assert set(after.shards) - set(before.shards) == {chain_of(A), chain_of(B)}
    assert bed.replacing(window).rows_done() == 3
    assert bed.replace(window) == ["nothing left to replace"]
    # The same once more gives the same rows.
    bed.replace(bed.window(TWO_TO_FOUR))
    check(bed, NEW, 5, 12)


@pytest.mark.slow
def test_the_ledger_names_the_window_and_accounts_for_its_rows(bed: ReplaceBed):
    window = bed.window(Numbers(A.shard_id, None, 5))
    bed.replace(window)
    page = bed.last_page()
    (replay,) = (each for each in page.ranges if each.kind is Kind.REPLAY)
    assert (replay.key, replay.after, replay.upto.sequence, replay.rows) == (A, None, 5, 4)
    told = read_accounting(replay.account)
    assert (told.window, told.version, told.rows, told.parsed, told.quarantined) == (window.id, "2", 5, 4, 1)
    assert told.removed == (3, 2)
    raised = [each for each in page.ranges if each.kind is Kind.GENERATION]
    assert [(each.key, each.after, each.upto.sequence) for each in raised] == [
        (chain_of(A), None, 1),
        (chain_of(B), None, 1),
    ]
    assert bed.aside()[5] == ("bad", "2")


@pytest.mark.parametrize(
    "arrow",
    [
        pytest.param("planned", marks=pytest.mark.slow),
        pytest.param("staged", marks=pytest.mark.slow),
        "committed",
    ],
)
def test_a_replacement_that_is_killed_leaves_the_old_rows_or_the_new_ones(bed: ReplaceBed, arrow: str):
    window = bed.window(TWO_TO_FOUR)
    with pytest.raises(Killed):
        bed.replace(window, kill=arrow)
    assert bed.values() == (NEW if arrow == "committed" else OLD)
    # Another version carries out what was decided: it would parse no row at all.
    if arrow == "committed":
        bed.parser.fixes = WRONG
        bed.settings = replace(bed.settings, version="3")
        bed.parsing().wave()
    bed.replace(window)
    check(bed, NEW, 5, 12)
    assert bed.aside()[5] == ("bad", "1")


@pytest.mark.parametrize("has_rows", [pytest.param(True, marks=pytest.mark.slow), False])
def test_of_two_identical_replacements_at_the_same_moment_the_second_one_is_refused(
    bed: ReplaceBed, *, has_rows: bool
):
    window = bed.window(TWO_TO_FOUR)
    if not has_rows:
        # A range without rows has no file that could tell.
        bed.dropped_as, bed.parser.keeps = "callable", lambda _: False
        bed.replace(bed.window(TWO_TO_FOUR))
    landed = []
    late = bed.replacing(window, at=at_arrow("staged", lambda: landed.extend(bed.replace(window))))
    with pytest.raises(Transient, match="another commit has changed rows"):
        late.wave()
    assert len(landed) == 1
    assert bed.values() == (NEW if has_rows else {n: v for n, v in NEW.items() if n not in (2, 3, 4)})
    assert bed.replace(window) == ["nothing left to replace"]


def test_a_redrive_in_between_and_a_replacement_exclude_each_other(bed: ReplaceBed):
    window = bed.window(TWO_TO_FOUR)
    late = bed.replacing(window, at=at_arrow("staged", lambda: list(bed.redriving().portions())))
    with pytest.raises(Transient, match="another commit has changed rows"):
        late.wave()
    check(bed, {**OLD, 3: 3}, 5, 12)
    bed.parser.fixes = {BAD: good(0)}
    redriving = bed.redriving()
    slow = replace(redriving, on_step=at_arrow("staged", lambda: bed.replace(window)))
    with pytest.raises(Transient, match="another redrive"):
        list(slow.portions())
    check(bed, NEW, 5, 12)


@pytest.mark.slow
@pytest.mark.parametrize("when", ["before", "after it has settled"])
def test_a_redrive_that_was_decided_and_not_carried_out_doubles_nothing(bed: ReplaceBed, when: str):
    window = bed.window(TWO_TO_FOUR)
    late = bed.replacing(window)

    def redrive() -> None:
        with pytest.raises(Killed):
            list(bed.redriving(kill="committed").portions())

    if when == "before":
        redrive()
        late.wave()
    else:
        # The replacement's look finds the record in both tables.
        aside = _After(redrive, late.ports.set_aside)
        late = replace(late, ports=replace(late.ports, set_aside=aside))
        with pytest.raises(Transient, match="another commit has changed rows"):
            late.wave()
        bed.replace(window)
    check(bed, NEW, 5, 12)


@pytest.mark.slow
def test_a_record_that_is_about_to_come_into_quarantine_isnt_there_twice(bed: ReplaceBed):
    bed.land(A, {7: BAD})
    window = bed.window(Numbers(A.shard_id, 2, 7))

    def parse() -> None:
        with pytest.raises(Killed):
            bed.parsing(kill="committed").wave()

    late = bed.replacing(window)
    late = replace(late, ports=replace(late.ports, set_aside=_After(parse, late.ports.set_aside)))
    with pytest.raises(Transient, match="still to follow"):
        late.wave()
    bed.replace(window)
    check(bed, NEW, 5, 7, 12)
    assert {bed.aside()[5], bed.aside()[7]} == {("bad", "2")}


@dataclass
class _After(SourceTable):
    """A table that is looked at just after something else has happened."""

    act: Callable[[], object]
    table: SourceTable

    def exists(self) -> bool:
        return self.table.exists()

    def look(self) -> SourceLook:
        self.act()
        return self.table.look()

    def changed_by_others(self, since: int, *, lacks: int) -> str:
        return self.table.changed_by_others(since, lacks=lacks)


@pytest.mark.slow
def test_a_compaction_of_the_typed_table_in_between_is_noticed(bed: ReplaceBed):
    for number in range(20, 25):
        bed.land(A, {number: good(number)})
        bed.catch_up()
    window = bed.window(TWO_TO_FOUR)
    late = bed.replacing(window, at=at_arrow("staged", lambda: compact(bed, bed.typed())))
    with pytest.raises(Transient, match="another commit has changed rows"):
        late.wave()
    bed.replace(window)
    check(bed, NEW | {number: number for number in range(20, 25)}, 5, 12)


@pytest.mark.slow
def test_a_compaction_of_the_quarantine_table_in_between_changes_nothing(bed: ReplaceBed):
    for number in range(20, 25):
        bed.land(A, {number: BAD})
        bed.catch_up()
    window = bed.window(TWO_TO_FOUR)
    bed.replace(window, at=at_arrow("staged", lambda: compact(bed, bed.quarantine())))
    check(bed, NEW, 5, 12, *range(20, 25))


@pytest.mark.slow
def test_rows_that_another_engine_deletes_in_between_dont_come_back(bed: ReplaceBed):
    window = bed.window(TWO_TO_FOUR)

    def delete() -> None:
        table = bed.typed().open()
        (path,) = (f.path for f in read.landed_files(bed.typed()) if _has(f.path, 6))
        delete_rows(table, path, 0)

    late = bed.replacing(window, at=at_arrow("staged", delete))
    with pytest.raises(Transient, match="deleted rows of it"):
        late.wave()
    deleted = bed.values()
    assert len(deleted) == len(OLD) - 1
    with pytest.raises(WrongShape, match="delete file"):
        bed.replace(window)
    assert bed.values() == deleted


def _has(path: str, number: int) -> bool:
    return str(number) in pq.read_table(path)["sequence_number"].to_pylist()


@pytest.mark.slow
def test_a_window_is_replaced_in_portions_over_shards_and_parents(bed: ReplaceBed):
    child = a_key(2)
    bed.parser.fixes = WRONG | {good(30): good(130)}
    bed.land(A, {7: good(2)}, ended=[child.shard_id])
    bed.land(child, {30: good(30), 31: good(31)}, parents=[A.shard_id])
    bed.catch_up()
    mend(bed)
    window = bed.window(ALL)
    assert window.is_whole
    waves = bed.replace(window, limits=WaveLimits(2, 2**30))
    assert len(waves) > 3
    right = {number: number for number in (1, 2, 3, 4, 6, 10, 11, 30, 31)}
    check(bed, right | {7: 2}, 5, 12)
    assert {version for _, version in bed.aside().values()} == {"2"}
    # Nothing hinders the waves that come after.
    bed.land(child, {32: good(32)})
    bed.catch_up()
    check(bed, right | {7: 2, 32: 32}, 5, 12)


@pytest.mark.slow
def test_records_that_the_lake_table_has_no_more_are_not_replaced(bed: ReplaceBed):
    key = a_key(3)
    bed.land(key, {50: good(50), 51: good(51)}, arrival=NOON - timedelta(days=2))
    bed.land(key, {52: good(52)})
    bed.catch_up()
    before = bed.values()
    whole, cut = bed.window(ALL), bed.window(Numbers(key.shard_id, 51, 52))
    assert IcebergLive(bed.lake.handle()).drop(NOON.date())
    with pytest.raises(
        WrongShape, match=r"has 10 rows of the landings of the window .* state 12: rows were removed"
    ):
        bed.replace(whole)
    with pytest.raises(
        WrongShape, match=r"has 1 row of the landings of the window .* state 3: rows were removed"
    ):
        bed.replace(cut)
    # Days may also leave the lake table between the first look and a wave.
    with pytest.raises(WrongShape, match=r"2 rows would leave .* doesn't have all of their records any more"):
        bed.replacing(cut).wave()
    assert bed.values() == before


def test_a_cut_window_of_which_another_engine_has_deleted_a_record_is_refused_where_a_dropped_one_balances_it(
    bed: ReplaceBed,
):
    bed.dropped_as = "filtered"
    bed.land(A, {41: good(41), 42: good(42)})
    # The second row of the wave.
    bed.parser.keeps = lambda number: number != 1
    assert with_ports(bed.parsing(), dropped_as="filtered").wave().dropped == {"filtered": 1}
    bed.parser.keeps = lambda _: True
    for numbers in ((43,), (44, 45)):
        bed.land(A, {number: good(number) for number in numbers})
        bed.parsing().wave()
    window = bed.window(Numbers(A.shard_id, 42, 44))
    # The lake table has two records of the window, and the typed table has two rows: 43 would leave, and couldn't be made again.
    bed.lake.handle().open().delete("sequence_number = '43'")
    with pytest.raises(WrongShape, match=r"has 4 rows of the landings .* state 5: rows were removed"):
        bed.replace(window)
    assert {42, 43, 44} & bed.values().keys() == {43, 44}


def test_records_that_the_lake_table_has_twice_are_not_replaced(bed: ReplaceBed):
    early, cut, before_it = (
        bed.window(Numbers(A.shard_id, None, 6)),
        bed.window(Numbers(A.shard_id, 2, 4)),
        bed.window(Numbers(A.shard_id, 1, 2)),
    )
    before = bed.values()
    table = bed.lake.handle()
    back = Range(
        Kind.REPOSITION, A, table.load().positions.of(A), Position(3, 0), run="a person", claim="", why=""
    )
    assert not table.commit(Proposal((back,))).landing.refused
    bed.land(A, {4: good(4), 5: BAD, 6: good(6)})
    for window in (early, cut):
        with pytest.raises(
            WrongShape, match=r"twice in the window .* has moved the position of the shard back"
        ):
            bed.replace(window)
        # The position may also be moved back between the first look and a wave.
        with pytest.raises(WrongShape, match=r"twice in the window"):
            bed.replacing(window).wave()
    with pytest.raises(WrongShape, match="twice in this window"):
        bed.window(TWO_TO_FOUR)
    assert bed.values() == before
    assert bed.window(Numbers(A.shard_id, 1, 3)).rows
    assert bed.replace(before_it)[0].startswith("2 rows parsed again")


def check_old(bed: ReplaceBed) -> None:
    assert bed.values() == OLD
    assert sorted(bed.aside()) == [3, 5, 12]


@pytest.mark.slow
def test_what_the_typed_table_has_not_parsed_yet_is_not_replaced(bed: ReplaceBed):
    bed.land(A, {40: good(40)})
    window = bed.window(Numbers(A.shard_id, 4, 40))
    with pytest.raises(WrongShape, match="parse these records first"):
        bed.replace(window)
    check_old(bed)


@pytest.mark.slow
def test_a_cancelled_window_replaces_nothing(bed: ReplaceBed):
    window = bed.window(TWO_TO_FOUR)
    cancel = at_arrow("staged", lambda: bed.windowing().say(window.id, Word.CANCELLED))
    with pytest.raises(Unknown, match="--resume"):
        bed.replace(window, at=cancel)
    check_old(bed)


@pytest.mark.slow
def test_a_parser_that_fails_most_records_replaces_nothing(bed: ReplaceBed):
    bed.land(A, {number: good(1000 + number) for number in range(100, 250)})
    bed.catch_up()
    before = bed.values()
    bed.parser.fixes = {good(1000 + number): BAD for number in range(100, 200)}
    with pytest.raises(WrongShape, match="the older rows are all there"):
        bed.replace(bed.window(Numbers(A.shard_id, 100)))
    assert bed.values() == before


def test_rows_of_a_target_that_lands_an_event_once_are_not_replaced():
    target = ParseSettings(
        name="orders", table="typed", unique=UniqueSettings(by="order_id", within=timedelta(hours=1))
    )
    with pytest.raises(BadSetting, match=r"nothing was replaced"):
        check_replaceable(target)
