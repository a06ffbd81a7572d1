"""What a recording has to add and to remove, on snapshots as values."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from hypothesis import given
from hypothesis import strategies as st

from headrace.pipeline.core.ledger.recording import OnMain, Recorded, Tail, tail_of
from headrace.pipeline.errors import ChainBroken


def line(*numbers: int, root: bool = True) -> Iterator[OnMain]:
    """A main branch, newest first, on which reading on below the oldest fails unless that one is the root."""
    for number, parent in zip(numbers, (*numbers[1:], None), strict=True):
        yield OnMain(number, parent if parent is not None or root else number - 1, sequence=number)
    if not root:
        raise ChainBroken("the history is lost")


def never() -> Mapping[int, int]:
    raise AssertionError("the rows of the lineage table were read, though nothing was rolled back")


def rows(*numbers: int) -> Mapping[int, int]:
    return {number: number for number in numbers}


def numbers_of(tail: Tail[OnMain]) -> tuple[tuple[int, ...], int | None, bool]:
    return tuple(each.snapshot for each in tail.new), tail.cut, tail.broken


def test_where_nothing_is_recorded_all_of_main_is_new():
    assert numbers_of(tail_of(line(3, 2, 1), Recorded(), never)) == ((1, 2, 3), None, False)


def test_the_walk_ends_at_the_recorded_snapshot():
    main = line(5, 4, 3, 2, 1)
    assert numbers_of(tail_of(main, Recorded(3, 3), never)) == ((4, 5), None, False)
    assert next(main).snapshot == 3, "snapshots below the recorded one were read"


def test_the_recorded_snapshot_may_have_expired_where_its_child_still_names_it():
    assert numbers_of(tail_of(line(5, 4, root=False), Recorded(3, 3), never)) == ((4, 5), None, False)


def test_a_history_that_is_lost_above_the_recorded_snapshot_is_broken_and_no_row_is_removed():
    assert numbers_of(tail_of(line(7, 6, root=False), Recorded(3, 3), never)) == ((6, 7), None, True)


def test_a_history_that_is_lost_before_the_first_recording_is_broken():
    assert numbers_of(tail_of(line(7, 6, root=False), Recorded(), never)) == ((6, 7), None, True)


def test_after_a_rollback_the_histories_part_at_the_first_snapshot_of_main_with_rows():
    tail = tail_of(line(6, 3, 2, 1), Recorded(5, 5), lambda: rows(1, 2, 4, 5))
    assert numbers_of(tail) == ((3, 6), 2, False)


def test_after_a_rollback_to_a_recorded_snapshot_nothing_is_new():
    assert numbers_of(tail_of(line(2, 1), Recorded(5, 5), lambda: rows(1, 2, 5))) == ((), 2, False)


def test_after_a_rollback_the_snapshot_where_the_histories_part_may_have_expired():
    tail = tail_of(line(6, 3, root=False), Recorded(5, 5), lambda: rows(1, 2, 5))
    assert numbers_of(tail) == ((3, 6), 2, False)


def test_after_a_rollback_to_before_everything_recorded_every_row_goes():
    assert numbers_of(tail_of(line(6, 1), Recorded(5, 5), lambda: rows(3, 5))) == ((1, 6), 0, False)


def test_after_a_rollback_and_a_lost_history_only_rows_above_the_oldest_known_snapshot_go():
    tail = tail_of(line(6, 4, root=False), Recorded(5, 5), lambda: rows(1, 2, 5))
    assert numbers_of(tail) == ((4, 6), 3, True)


def test_a_table_that_lost_all_its_snapshots_loses_its_rows():
    assert numbers_of(tail_of(iter(()), Recorded(5, 5), lambda: rows(5))) == ((), 0, False)
    assert numbers_of(tail_of(iter(()), Recorded(), never)) == ((), None, False)


# --- any history --------------------------------------------------------------------------------------------


@dataclass
class Life:
    """A lake table and its lineage table, as numbers."""

    parents: dict[int, int | None] = field(default_factory=dict)
    ours: set[int] = field(default_factory=set)
    head: int | None = None
    gone: set[int] = field(default_factory=set)
    """Expired snapshots that no metadata file describes any more."""
    recorded: Recorded = field(default_factory=Recorded)
    with_rows: set[int] = field(default_factory=set)

    def main(self) -> list[int]:
        found: list[int] = []
        at = self.head
        while at is not None:
            found.append(at)
            at = self.parents[at]
        return found

    def walk(self) -> Iterator[OnMain]:
        for number in self.main():
            if number in self.gone:
                raise ChainBroken("the history is lost")
            yield OnMain(number, self.parents[number], sequence=number)

    def commit(self, *, ours: bool) -> None:
        new = len(self.parents) + 1
        self.parents[new] = self.head
        self.head = new
        if ours:
            self.ours.add(new)

    def rollback(self, steps: int) -> None:
        known = [number for number in self.main() if number not in self.gone]
        if known:
            self.head = known[min(steps, len(known) - 1)]

    def expire(self) -> None:
        """Expire everything below the recorded snapshot, if that one is on main."""
        main = self.main()
        if self.recorded.snapshot in main:
            self.gone |= set(main[main.index(self.recorded.snapshot) + 1 :])

    def record(self) -> None:
        tail = tail_of(self.walk(), self.recorded, lambda: rows(*self.with_rows))
        assert not tail.broken
        if tail.cut is not None:
            self.with_rows = {number for number in self.with_rows if number <= tail.cut}
        new = {each.snapshot for each in tail.new} & self.ours
        assert not new & self.with_rows, "a ledger would be there twice"
        self.with_rows |= new
        self.recorded = Recorded(self.head, self.head or 0)


@given(st.lists(st.sampled_from(["ours", "other", "rollback", "far", "record", "expire"]), max_size=40))
def test_after_each_recording_exactly_the_ledgers_of_main_are_there(acts: list[str]):
    life = Life()
    for act in [*acts, "record"]:
        match act:
            case "ours" | "other":
                life.commit(ours=act == "ours")
            case "rollback":
                life.rollback(1)
            case "far":
                life.rollback(3)
            case "expire":
                life.expire()
            case _:
                life.record()
                assert life.with_rows == life.ours & set(life.main())
