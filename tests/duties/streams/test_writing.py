"""The leader's writes go out in portions: as many at a time as the store takes, and parents before their children."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import pytest

from headrace.pipeline.core.leases import change
from headrace.pipeline.core.leases.change import Change, Outcome
from headrace.pipeline.core.leases.lease import Lease
from headrace.pipeline.duties.streams.writing import Tally, write_all
from headrace.pipeline.errors import HeadraceError, Throttled, WrongShape
from tests.duties.world import World
from tests.memory.leases import MemoryLeaseStore


@dataclass
class Portions:
    """A store that records which rows it was asked to write together."""

    rows: tuple[Lease, ...] = ()
    at_once: int = 16
    trouble: dict[str, HeadraceError] = field(default_factory=dict)
    asked: list[list[str]] = field(default_factory=list)

    def store(self) -> MemoryLeaseStore:
        noting = self

        class Store(MemoryLeaseStore):
            at_once = noting.at_once

            def apply_all(self, changes: Sequence[Change]) -> tuple[Outcome, ...]:
                noting.asked.append([each.key for each in changes])
                return tuple(noting.trouble.get(each.key) or self.apply(each) for each in changes)

        return Store(self.rows)


def always() -> bool:
    return True


def creates(*keys: str) -> list[Change]:
    return [change.create(Lease(key), "a test") for key in keys]


def child(key: str, *parents: str) -> Change:
    return change.create(Lease(key, parents=frozenset(parents)), "a test")


def names(count: int) -> list[str]:
    return [f"shardId-{n:03d}" for n in range(count)]


def test_a_thousand_rows_are_written_sixteen_at_a_time() -> None:
    noting = Portions()
    written = write_all(noting.store(), creates(*names(1000)), has_time=always)
    assert [len(each) for each in noting.asked] == [16] * 62 + [8]
    assert (len(written.applied), written.not_tried) == (1000, 0)


def test_the_deadline_is_checked_between_portions_and_one_portion_is_always_written() -> None:
    noting, left = Portions(), iter([True, False])
    written = write_all(noting.store(), creates(*names(50)), has_time=lambda: next(left))
    assert (len(written.applied), written.not_tried) == (32, 18)
    assert write_all(noting.store(), creates(*names(50)), has_time=lambda: False).not_tried == 34


def test_a_childs_row_is_never_in_the_same_portion_as_its_parents() -> None:
    noting = Portions()
    wanted = [*creates("a", "b"), child("c", "a", "b"), child("d", "c"), child("e", "c")]
    write_all(noting.store(), wanted, has_time=always)
    assert noting.asked == [["a", "b"], ["c"], ["d", "e"]]


def test_a_row_of_a_former_life_is_deleted_before_the_new_row_is_made() -> None:
    noting = Portions((Lease("a", stream_epoch=1),))
    store = noting.store()
    written = write_all(
        store, [change.retire(Lease("a", stream_epoch=1), "made anew"), *creates("a")], has_time=always
    )
    assert (noting.asked, len(written.applied)) == ([["a"], ["a"]], 2)


def test_an_error_at_one_row_delays_only_the_rows_of_its_descendants() -> None:
    noting = Portions(trouble={"a": WrongShape("odd")})
    store = noting.store()
    written = write_all(
        store, [*creates("a", "b"), child("c", "a"), child("d", "b"), child("e", "c")], has_time=always
    )
    assert {row.key for row in store.scan().leases} == {"b", "d"}
    assert (str(written.trouble), written.failed_rows, written.not_tried) == ("odd", 3, 0)


def test_an_error_at_one_row_doesnt_keep_the_round_from_its_end() -> None:
    """The rows that wait for the row with the error are no work for the next tick, which would begin with the same row
    again."""
    world = World(shards=2)
    world.leases.hold_odd_row(world.shard(0).shard_id, "odd")
    for _ in range(3):
        assert world.lead().trouble is None
    assert world.leader_memory["w1"].streams.unfinished is None


def test_a_refused_write_is_counted_and_is_no_error() -> None:
    tally = Tally()
    written = tally.write(Portions((Lease("a"),)).store(), creates("a", "b"), has_time=always)
    assert (tally.created, tally.refused, written.trouble) == (1, 1, None)


def test_if_no_write_of_the_first_portion_is_answered_the_error_is_raised() -> None:
    noting = Portions(trouble=dict.fromkeys(names(40), Throttled("slow down")))
    with pytest.raises(Throttled):
        write_all(noting.store(), creates(*names(40)), has_time=always)
    assert len(noting.asked) == 1


def test_if_no_write_of_a_later_portion_is_answered_the_rest_is_left_to_the_next_tick() -> None:
    noting = Portions(trouble=dict.fromkeys(names(64)[16:], Throttled("slow down")))
    written = write_all(noting.store(), creates(*names(64)), has_time=always)
    assert len(noting.asked) == 2
    assert (len(written.applied), written.failed_rows, written.not_tried) == (16, 16, 32)


def test_the_report_counts_moved_leases_and_newly_assigned_ones_separately() -> None:
    lying, held = Lease("a", 1), Lease("b", 1, owner="w1")
    tally = Tally()
    changes = [change.assign(lying, "w1", "unowned"), change.initiate_handover(held, "w2", "too much")]
    tally.write(Portions((lying, held)).store(), changes, has_time=always)
    assert (tally.assigned, tally.moved) == (1, 1)
