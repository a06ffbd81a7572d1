"""Which worker completes a handover, and when: decided from rows, sightings and the claims of living runs."""

from __future__ import annotations

from datetime import timedelta

from headrace.pipeline.core.leases.change import complete_handover
from headrace.pipeline.core.leases.lease import Lease
from headrace.pipeline.core.leases.sighting import Sighting
from headrace.pipeline.core.sharing.handover import pending, plan_hand_over, plan_overdue, plan_take_over

DEADLINE = timedelta(seconds=90)
LATE = Sighting("w1>w2", DEADLINE + timedelta(seconds=1))
IN_TIME = Sighting("w1>w2", DEADLINE)
OUR_WORKERS = frozenset({"w1", "w2"})
NOBODY: frozenset[str] = frozenset()


def a_handover(
    key: str = "s", *, holder: str | None = "w1", to: str | None = "w2", claim: str | None = None
) -> Lease:
    return Lease(key, 5, owner=to, checkpoint_owner=holder, run_claim=claim)


def test_a_pending_handover_is_identified_by_its_holder_and_its_next_owner() -> None:
    rows = [a_handover("a"), a_handover("b", holder=None), a_handover("c", holder="w2", to="w3")]
    assert pending(rows) == {"a": "w1>w2", "c": "w2>w3"}


def test_an_overdue_handover_is_completed_though_its_holders_run_reads() -> None:
    row = a_handover(claim="run/1")
    why = f"w1 took longer than {DEADLINE} to hand over to w2"
    assert plan_overdue([row], {"s": LATE}, DEADLINE, ours=OUR_WORKERS) == [complete_handover(row, why)]
    assert plan_overdue([row], {"s": IN_TIME}, DEADLINE, ours=OUR_WORKERS) == []
    assert plan_overdue([row], {}, DEADLINE, ours=OUR_WORKERS) == []


def test_a_handover_of_an_unread_lease_is_completed_at_once_if_its_holder_is_of_this_application() -> None:
    row = a_handover()
    done = [complete_handover(row, "no run reads the shard: worker w1 hands it over to worker w2")]
    assert plan_overdue([row], {"s": IN_TIME}, DEADLINE, ours=OUR_WORKERS) == done
    assert plan_overdue([row], {"s": IN_TIME}, DEADLINE, ours=frozenset({"w2"})) == []


def test_an_overdue_handover_of_a_holder_of_another_application_is_completed() -> None:
    row = a_handover()
    why = f"w1 took longer than {DEADLINE} to hand over to w2"
    assert plan_overdue([row], {"s": LATE}, DEADLINE, ours=NOBODY) == [complete_handover(row, why)]


def test_a_row_without_a_handover_or_without_a_next_owner_is_left_alone() -> None:
    settled, ownerless = a_handover("a", holder=None), a_handover("b", to=None)
    late = {"a": LATE, "b": LATE}
    assert plan_overdue([settled, ownerless], late, DEADLINE, ours=OUR_WORKERS) == []
    assert plan_overdue([settled, ownerless], {}, DEADLINE, ours=OUR_WORKERS) == []


def test_each_of_many_handovers_is_judged_separately() -> None:
    reading, idle = a_handover("a", claim="run/1"), a_handover("b")
    assert [made.key for made in plan_overdue([reading, idle], {}, DEADLINE, ours=OUR_WORKERS)] == ["b"]


def test_the_holder_hands_over_leases_that_no_living_run_reads() -> None:
    idle, dead, read = a_handover("a"), a_handover("b", claim="run/1"), a_handover("c", claim="run/2")
    assert plan_hand_over([idle, dead, read], "w1", frozenset({"run/2"})) == [
        complete_handover(idle, "worker w1 hands the shard over to worker w2"),
        complete_handover(dead, "worker w1 hands the shard over to worker w2"),
    ]


def test_a_holder_hands_over_no_rows_of_other_workers() -> None:
    rows = [a_handover("a", holder="w3"), a_handover("b", holder=None, to="w1"), a_handover("c", to="w1")]
    assert [made.key for made in plan_hand_over(rows, "w1", NOBODY)] == ["c"]


def test_the_next_owner_takes_over_from_a_dead_run_of_this_application() -> None:
    row = a_handover(claim="run-7/1")
    assert plan_take_over([row], "w2", NOBODY, ours=OUR_WORKERS) == [
        complete_handover(row, "run run-7 is dead: worker w2 takes the shard over")
    ]
    assert plan_take_over([row], "w2", frozenset({"run-7/1"}), ours=OUR_WORKERS) == []


def test_the_next_owner_leaves_a_row_without_a_claim_to_its_holder() -> None:
    assert plan_take_over([a_handover()], "w2", NOBODY, ours=OUR_WORKERS) == []


def test_the_next_owner_takes_no_row_of_another_application_or_of_another_next_owner() -> None:
    rows = [
        a_handover("a", holder="kcl", claim="run/1"),
        a_handover("b", to="w3", claim="run/1"),
        a_handover("c", holder="w2", claim="run/1"),
        a_handover("d", holder=None, claim="run/1"),
    ]
    assert plan_take_over(rows, "w2", NOBODY, ours=OUR_WORKERS) == []
