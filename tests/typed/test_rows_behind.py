"""Records that land behind the position of a typed table, after the lake table was set back: a wave finds them, and refuses to pass over them."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from headrace.pipeline.core.landing.landing import Proposal
from headrace.pipeline.core.ledger.filter import ALL_RANGES, RangeFilter
from headrace.pipeline.core.ledger.ledger import Kind, LedgerEntry, LedgerPage, Lost, Range
from headrace.pipeline.core.shards.position import Position
from headrace.pipeline.core.shards.sort_texts import order_text
from headrace.pipeline.core.shards.stream import ShardKey
from headrace.pipeline.errors import WrongShape
from headrace.pipeline.lineage.table import IcebergLineage
from headrace.pipeline.typed.check_wave import SET_ELSEWHERE
from headrace.pipeline.typed.table import IcebergTyped
from headrace.pipeline.typed.wave import Parsing
from tests.lake.tables import delete_as_others, expire_all_but_the_head
from tests.typed.differences import accepting, expire_snapshots
from tests.typed.parsings import A, B, Bed, good


@pytest.fixture
def bed(tmp_path: Path) -> Bed:
    bed = Bed(tmp_path)
    bed.clock.at = datetime.now(UTC) + timedelta(hours=1)
    return bed


def test_rows_that_land_behind_the_position_after_a_rollback_are_never_passed_unseen(bed: Bed):
    """As where a person undoes a skip: records that were given up land after all."""
    bed.land(A, {1: good(1)}, arrival=bed.clock.at)
    bed.land(A, {3: good(3)}, arrival=bed.clock.at)
    bed.catch_up()
    bed.lake.rollback(1)
    bed.land(A, {2: good(2), 3: good(3)}, arrival=bed.clock.at)
    bed.land(A, {4: good(4)}, arrival=bed.clock.at)
    for _ in range(2):
        with pytest.raises(WrongShape, match=f"{SET_ELSEWHERE} {A}.*it has 3 rows now, and 2 were parsed"):
            bed.parsing().wave()
    wave = accepting(bed).wave()
    assert wave.landed == 1
    assert "as a person has accepted" in wave.notes[0]
    bed.land(A, {5: good(5)}, arrival=bed.clock.at)
    assert bed.catch_up() == 1


def land_what_had_been_skipped(bed: Bed) -> Parsing:
    """A person accepts that the record 2 isn't parsed, and in the same run records up to 6 are. Returns that run."""
    bed.land(A, {1: good(1)}, arrival=bed.clock.at)
    bed.land(A, {3: good(3)}, arrival=bed.clock.at)
    bed.catch_up()
    bed.lake.rollback(1)
    bed.land(A, {2: good(2), 3: good(3)}, arrival=bed.clock.at)
    skip_to(bed, 5)
    bed.land(A, {6: good(6)}, arrival=bed.clock.at)
    parsing = accepting(bed)
    wave = parsing.wave()
    assert wave.landed == 1
    assert "as a person has accepted" in wave.notes[0]
    return parsing


def test_what_a_person_accepts_is_what_there_was_when_the_run_began(bed: Bed):
    """While the run goes on, the lake table is set back once more, to before another skip."""
    parsing = land_what_had_been_skipped(bed)
    bed.lake.rollback(2)
    bed.land(A, {5: good(5), 6: good(6)}, arrival=bed.clock.at)
    bed.land(A, {7: good(7)}, arrival=bed.clock.at)
    for _ in range(2):
        with pytest.raises(
            WrongShape, match=r"2 rows now, and 1 were parsed.* came after this run had begun"
        ):
            parsing.wave()
    wave = accepting(bed).wave()
    assert wave.landed == 1
    assert "as a person has accepted" in wave.notes[0]


def test_a_person_accepts_for_shards_that_a_later_wave_of_the_run_comes_to(bed: Bed):
    """The lake table is behind the other shard's position when the run begins."""
    bed.land(A, {1: good(1)}, arrival=bed.clock.at)
    bed.land(B, {1: good(1)}, arrival=bed.clock.at)
    bed.land(B, {3: good(3)}, arrival=bed.clock.at)
    bed.catch_up()
    bed.lake.rollback(1)
    bed.land(A, {2: good(2)}, arrival=bed.clock.at)
    parsing = accepting(bed)
    assert parsing.wave().landed == 1
    bed.land(B, {2: good(2), 3: good(3)}, arrival=bed.clock.at)
    bed.land(B, {4: good(4)}, arrival=bed.clock.at)
    wave = parsing.wave()
    assert wave.landed == 1
    assert "as a person has accepted" in wave.notes[0]


def set_back(bed: Bed, to: int) -> None:
    """As `headrace repair` sets a shard's position back to its last row: records after it land behind a typed table."""
    table = bed.lake.handle()
    position = table.load().positions.of(A)
    back = Range(Kind.REPAIR, A, position, Position(to, arrival=bed.clock.at), run="r", claim="r")
    assert table.commit(Proposal((back,))).landing.page.ranges


def roll_back_by_one(bed: Bed) -> None:
    bed.lake.rollback(1)


def set_back_to_one(bed: Bed) -> None:
    set_back(bed, 1)


@pytest.mark.parametrize("act", [roll_back_by_one, set_back_to_one])
def test_a_wave_that_has_nothing_new_is_refused_for_rows_behind_the_position(
    bed: Bed, act: Callable[[Bed], None]
):
    """The lake table is at the typed table's position again, and no record comes any more."""
    bed.land(A, {1: good(1)}, arrival=bed.clock.at)
    bed.land(A, {3: good(3)}, arrival=bed.clock.at)
    bed.catch_up()
    act(bed)
    assert not bed.parsing().is_behind()
    assert bed.parsing().wave().snapshot is None
    bed.land(A, {2: good(2), 3: good(3)}, arrival=bed.clock.at)
    assert bed.parsing().is_behind(), "no record comes any more for which the sensor would ask for a run"
    for _ in range(2):
        with pytest.raises(WrongShape, match=f"{SET_ELSEWHERE} {A}.*it has . rows now, and . were parsed"):
            bed.parsing().wave()
    wave = accepting(bed).wave()
    assert wave.landed == 0
    assert "as a person has accepted" in wave.notes[0]
    # The person has said so once, and is asked no more, also not when a record comes.
    assert not bed.parsing().is_behind()
    assert bed.parsing().wave().snapshot is None
    bed.land(A, {4: good(4)}, arrival=bed.clock.at)
    assert bed.catch_up() == 1


def land_a_row_behind_and_one_of_another_shard(bed: Bed) -> None:
    """The lake table was set back after the typed table had parsed, and row 2 landed there the second time only."""
    bed.land(A, {1: good(1)}, arrival=bed.clock.at)
    bed.land(A, {3: good(3)}, arrival=bed.clock.at)
    bed.catch_up()
    set_back(bed, 1)
    bed.land(A, {2: good(2), 3: good(3)}, arrival=bed.clock.at)
    bed.land(B, {9: good(9)}, arrival=bed.clock.at)


def test_rows_behind_the_position_of_a_shard_at_rest_are_found_by_a_wave_of_another_shard(bed: Bed):
    land_a_row_behind_and_one_of_another_shard(bed)
    with pytest.raises(WrongShape, match=f"{SET_ELSEWHERE} {A}"):
        bed.parsing().wave()


def land_and_parse_the_last_two_in_one_wave(bed: Bed) -> None:
    """So the range in which a row comes later has as many rows as before, until the lake table is at its end again."""
    bed.land(A, {1: good(1)}, arrival=bed.clock.at)
    bed.catch_up()
    for number in (3, 5):
        bed.land(A, {number: good(number)}, arrival=bed.clock.at)
    bed.catch_up()


@pytest.mark.parametrize("commits", [False, True])
def test_rows_behind_the_position_that_landed_while_the_lake_table_was_behind_it_are_found(
    bed: Bed, *, commits: bool
):
    """`commits`: another shard goes on meanwhile, so that a commit of the typed table tells of a newer look."""
    land_and_parse_the_last_two_in_one_wave(bed)
    bed.lake.rollback(2)
    bed.land(A, {2: good(2), 3: good(3)}, arrival=bed.clock.at)
    if commits:
        bed.land(B, {9: good(9)}, arrival=bed.clock.at)
    parsing = bed.parsing()
    assert (parsing.wave().snapshot is not None) is commits
    bed.land(A, {5: good(5)}, arrival=bed.clock.at)
    with pytest.raises(WrongShape, match=f"{SET_ELSEWHERE} {A}"):
        parsing.wave()


def test_rows_that_landed_while_the_lake_table_was_behind_are_found_where_the_typed_tables_snapshots_have_expired(
    bed: Bed,
):
    """Only the typed table's lineage tells then when the shard's newest wave was. What landed last is as it was parsed."""
    land_and_parse_the_last_two_in_one_wave(bed)
    bed.lake.rollback(2)
    bed.land(A, {2: good(2), 3: good(3)}, arrival=bed.clock.at)
    bed.land(B, {9: good(9)}, arrival=bed.clock.at)
    bed.catch_up()
    IcebergLineage(bed.typed()).record(at_most=timedelta(minutes=1))
    expire_all_but_the_head(bed.typed(), forget=True)
    bed.land(A, {5: good(5)}, arrival=bed.clock.at)
    with pytest.raises(WrongShape, match=f"{SET_ELSEWHERE} {A}.*it has . rows now, and . were parsed"):
        bed.parsing().wave()


def skip_to(bed: Bed, number: int) -> None:
    """As `headrace skip --to` gives records up."""
    table = bed.lake.handle()
    upto = Position(number, arrival=bed.clock.at)
    skipped = Range(Kind.SKIPPED, A, table.load().positions.of(A), upto, run="r", claim="r")
    assert table.commit(Proposal((skipped,))).landing.page.ranges


def test_rows_behind_the_position_are_found_though_fewer_rows_than_before_are_there_in_all(bed: Bed):
    """A person goes back to before the first rows, and gives them up. A record that was skipped on the other way lands."""
    bed.land(A, {number: good(number) for number in (1, 2, 3)}, arrival=bed.clock.at)
    bed.catch_up()
    skip_to(bed, 5)
    bed.catch_up()
    bed.lake.rollback(2)
    skip_to(bed, 2)
    bed.land(A, {3: good(3), 5: good(5)}, arrival=bed.clock.at)
    with pytest.raises(WrongShape, match=f"{SET_ELSEWHERE} {A}.*it has 1 row now, and 0 were parsed"):
        bed.parsing().wave()


def test_a_wave_at_rest_reads_the_ledgers_of_the_lake_table_once(bed: Bed):
    bed.land(A, {1: good(1)}, arrival=bed.clock.at)
    bed.catch_up()
    set_back(bed, 1)
    parsing, asked = bed.parsing(), list[RangeFilter]()
    checking = parsing.checking
    assert checking is not None

    class Asked(IcebergLineage):
        def entries(self, ranges: RangeFilter = ALL_RANGES) -> Iterator[LedgerEntry | Lost]:
            asked.append(ranges)
            return super().entries(ranges)

    parsing = replace(parsing, checking=replace(checking, landings=Asked(bed.lake.handle())))
    for _ in range(3):
        assert parsing.wave().snapshot is None
    assert len(asked) == 1


def test_a_run_is_asked_for_once_where_the_same_records_have_landed_anew(bed: Bed):
    bed.land(A, {1: good(1)}, arrival=bed.clock.at)
    bed.land(A, {3: good(3)}, arrival=bed.clock.at)
    bed.catch_up()
    bed.lake.rollback(1)
    bed.land(A, {3: good(3)}, arrival=bed.clock.at)
    assert bed.parsing().is_behind()
    wave = bed.parsing().wave()
    assert (wave.landed, wave.snapshot is not None) == (0, True)
    assert not bed.parsing().is_behind()


def test_ticks_at_rest_read_no_ledger_and_those_after_a_commit_read_the_new_ones_once(bed: Bed):
    asked, went_through = list[RangeFilter](), list[None]()

    class Landings(IcebergLineage):
        def entries(self, ranges: RangeFilter = ALL_RANGES) -> Iterator[LedgerEntry | Lost]:
            asked.append(ranges)
            return super().entries(ranges)

    class Typed(IcebergTyped):
        def pages(self) -> Iterator[LedgerPage]:
            went_through.append(None)
            return super().pages()

    bed.land(A, {1: good(1)}, arrival=bed.clock.at)
    bed.catch_up()
    seen = bed.parsing().ports.seen
    typed = Typed(bed.lake.properties, bed.settings.table, state=bed.state, clock=bed.clock)

    def tick() -> bool:
        parsing = bed.parsing()
        checking = parsing.checking
        assert checking is not None
        checking = replace(checking, landings=Landings(bed.lake.handle()))
        return replace(
            parsing, ports=replace(parsing.ports, seen=seen, table=typed), checking=checking
        ).is_behind()

    assert [tick() for _ in range(3)] == [False] * 3
    assert (len(asked), len(went_through)) == (0, 1), "the typed table has looked at all that there is"
    stand_still(bed)
    assert [tick() for _ in range(3)] == [False] * 3
    assert (len(asked), len(went_through)) == (1, 2)
    set_back(bed, 0)
    bed.land(A, {1: good(1)}, arrival=bed.clock.at)
    assert tick()


def stand_still(bed: Bed) -> None:
    """As a run at rest commits that it has looked at a shard."""
    table = bed.lake.handle()
    position = table.load().positions.of(A)
    assert position is not None
    looked = replace(position, seen=bed.clock.at)
    assert table.commit(
        Proposal((Range(Kind.LANDED, A, position, looked, run="r", claim="r"),))
    ).landing.page.ranges


def test_rows_that_another_engine_deleted_excuse_no_rows_behind_the_position(bed: Bed):
    (file,) = bed.land(A, {1: good(1)}, arrival=bed.clock.at)
    bed.land(A, {2: good(2)}, arrival=bed.clock.at)
    bed.catch_up()
    bed.land(A, {4: good(4)}, arrival=bed.clock.at)
    bed.catch_up()
    bed.lake.rollback(1)
    bed.land(A, {3: good(3), 4: good(4)}, arrival=bed.clock.at)
    delete_as_others(bed.lake.handle().open(), file.path)
    bed.land(A, {5: good(5)}, arrival=bed.clock.at)
    with pytest.raises(WrongShape, match=f"{SET_ELSEWHERE} {A}.*it has 2 rows now, and 1 were parsed"):
        bed.parsing().wave()


def test_rows_behind_the_position_are_seen_where_records_land_anew_in_other_ranges(bed: Bed):
    bed.land(A, {1: good(1)}, arrival=bed.clock.at)
    bed.land(A, {n: good(n) for n in range(5, 9)}, arrival=bed.clock.at)
    bed.catch_up()
    bed.lake.rollback(1)
    # The position lies inside of this range, of which the ledger doesn't tell how many rows are behind it.
    bed.land(A, {n: good(n) for n in range(4, 12)}, arrival=bed.clock.at)
    with pytest.raises(WrongShape, match=f"{SET_ELSEWHERE} {A}.*it has 6 rows now, and 5 were parsed"):
        bed.parsing().wave()


def test_rows_that_landed_behind_the_position_are_seen_when_the_snapshots_of_that_time_have_expired(bed: Bed):
    """Another shard's wave looks at the new main first, so that the newest look is of main."""
    bed.land(A, {1: good(1)}, arrival=bed.clock.at)
    bed.land(A, {3: good(3)}, arrival=bed.clock.at)
    bed.catch_up()
    bed.lake.rollback(1)
    bed.land(B, {9: good(9)}, arrival=bed.clock.at)
    bed.catch_up()
    bed.land(A, {2: good(2), 3: good(3)}, arrival=bed.clock.at)
    expire_snapshots(bed)
    bed.land(A, {4: good(4)}, arrival=bed.clock.at)
    with pytest.raises(WrongShape, match=f"{SET_ELSEWHERE} {A}.*it has 3 rows now, and 2 were parsed"):
        bed.parsing().wave()


def test_rows_that_landed_behind_the_position_are_seen_when_the_ledger_of_their_landing_is_lost(bed: Bed):
    """Another engine expires the snapshots before any process has recorded their ledgers."""
    land_a_row_behind_and_one_of_another_shard(bed)
    expire_all_but_the_head(bed.lake.handle(), forget=True)
    bed.land(A, {4: good(4)}, arrival=bed.clock.at)
    for _ in range(2):
        with pytest.raises(WrongShape, match=f"{SET_ELSEWHERE} {A}.*it has . rows now, and 2 were parsed"):
            bed.parsing().wave()
    wave = accepting(bed).wave()
    assert wave.landed == 2
    bed.land(A, {5: good(5)}, arrival=bed.clock.at)
    assert bed.catch_up() == 1


@pytest.mark.parametrize("goes_on", [A, B])
def test_rows_behind_the_position_of_a_shard_at_rest_are_found_though_their_ledger_is_lost(
    bed: Bed, goes_on: ShardKey
):
    """`goes_on`: the shard of the only landing whose ledger isn't lost; of A it brings no record."""
    bed.land(A, {1: good(1)}, arrival=bed.clock.at)
    bed.land(A, {3: good(3)}, arrival=bed.clock.at)
    bed.catch_up()
    set_back(bed, 1)
    bed.land(A, {2: good(2), 3: good(3)}, arrival=bed.clock.at)
    bed.land(goes_on, {9: good(9)} if goes_on == B else {}, arrival=bed.clock.at)
    expire_all_but_the_head(bed.lake.handle(), forget=True)
    assert bed.parsing().is_behind()
    for _ in range(2):
        with pytest.raises(WrongShape, match=f"{SET_ELSEWHERE} {A}.*it has . rows now, and 2 were parsed"):
            bed.parsing().wave()
    assert accepting(bed).wave().snapshot is not None
    assert not bed.parsing().is_behind()
    assert bed.parsing().wave().snapshot is None


def test_a_lost_ledger_without_rows_behind_the_position_is_asked_about_once(bed: Bed):
    bed.land(A, {1: good(1)}, arrival=bed.clock.at)
    bed.catch_up()
    for _ in range(2):
        bed.land(A, {}, arrival=bed.clock.at)
    expire_all_but_the_head(bed.lake.handle(), forget=True)
    assert bed.parsing().is_behind()
    assert bed.parsing().wave().snapshot is not None
    assert not bed.parsing().is_behind()
    assert bed.parsing().wave().snapshot is None


def test_of_each_shard_the_ledgers_since_its_own_look_are_searched(bed: Bed):
    """A wave may have looked for the other shard only, while the lake table was behind the position of this one."""
    looks: list[int] = []
    for key, number in ((A, 1), (A, 2), (B, 1)):
        bed.land(key, {number: good(number)}, arrival=bed.clock.at)
        looks.append(sequence_of(bed))
    checking = bed.parsing().checking
    assert checking is not None
    places = checking.landed_behind(bed.lake.handle().load().positions, {A: looks[0], B: looks[1]})
    assert places == {A: order_text(Position(1)), B: ""}


def sequence_of(bed: Bed) -> int:
    snapshot = bed.lake.handle().open().current_snapshot()
    assert snapshot is not None
    assert snapshot.sequence_number is not None
    return snapshot.sequence_number
