"""KCL's published example of a shard sync at its three starting positions, planned in KCL's way and in Headrace's;
and reports of holes."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from headrace.pipeline.beside_kcl.shared_sync import plan_sync_kcl
from headrace.pipeline.core.leases.change import Change
from headrace.pipeline.core.leases.change_kind import ChangeKind
from headrace.pipeline.core.leases.lease import Lease
from headrace.pipeline.core.order.parents import a_family
from headrace.pipeline.core.shards.checkpoint import AT_TIMESTAMP, LATEST, SHARD_END, TRIM_HORIZON, Checkpoint
from headrace.pipeline.core.shards.position import TRIM, Origin, Position, Positions, Start
from headrace.pipeline.core.shards.shard import MAX_HASH_KEY, HashRange, Shard
from headrace.pipeline.core.shards.stream import ShardKey, StreamId
from headrace.pipeline.core.sharing.sync_plan import plan_shard_sync
from headrace.pipeline.kcl.auditor import SeenHole
from headrace.pipeline.kcl.coverage import SeenHoles, coverage_warnings

STREAM = StreamId("arn:aws:kinesis:us-east-1:123456789012:stream/orders", 1_700_000_000)
FIRST_MOMENT = datetime(2026, 1, 1, tzinfo=UTC)
SIXTH = (MAX_HASH_KEY + 1) // 6


def hashes(first: int, last: int) -> HashRange:
    """Hash keys in sixths of all; the last sixth takes the rest."""
    return HashRange(first * SIXTH, MAX_HASH_KEY if last == 5 else (last + 1) * SIXTH - 1)


# 0 1 2 3 4   5    - shards till epoch 102
# \ / \ / |   |
#  6   7  4   5    - shards from epoch 103 - 205
#  \  /   |  / \
#    8    4 9  10  - shards from epoch 206+ (still open)
TREE = {
    shard.shard_id: shard
    for shard in (
        *(Shard(str(n), (), hashes(n, n), closed=n != 4) for n in range(6)),
        Shard("6", ("0", "1"), hashes(0, 1), closed=True),
        Shard("7", ("2", "3"), hashes(2, 3), closed=True),
        Shard("8", ("6", "7"), hashes(0, 3)),
        Shard("9", ("5",), HashRange(5 * SIXTH, 5 * SIXTH + 9)),
        Shard("10", ("5",), HashRange(5 * SIXTH + 10, MAX_HASH_KEY)),
    )
}
HELD = tuple(Lease(name, checkpoint=Checkpoint("100"), stream_epoch=STREAM.epoch) for name in "457")
READING = {ShardKey(STREAM, name): Position(100) for name in "457"}
SINCE_103 = ("4", "5", "6", "7", "8", "9", "10")
SINCE_206 = ("4", "8", "9", "10")


def created(plan: list[Change]) -> dict[str, Checkpoint]:
    """The rows that the plan makes, with the checkpoint of each."""
    return {c.key: c.create.checkpoint for c in plan if c.create}


def at(*, since: Start = TRIM, shards: dict[ShardKey, Position] | None = None) -> Positions:
    return Positions({STREAM: Origin(since, FIRST_MOMENT)}, shards or {})


def kcl(*shards: str, rows: tuple[Lease, ...] = HELD, sentinel: Checkpoint, **more: object) -> list[Change]:
    """The rows that KCL's plan makes."""
    listed = [TREE[name] for name in shards]
    family = a_family(STREAM, listed, leases=rows)
    found = {"positions": at(), "multi": False} | more
    return plan_sync_kcl(family, listed, rows, sentinel=sentinel, **found)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("initial", "expected"), [(LATEST, {"6"}), (TRIM_HORIZON, {"0", "1"}), (AT_TIMESTAMP, {"0", "1"})]
)
def test_kcls_plan_is_the_published_one(initial: Checkpoint, expected: set[str]) -> None:
    assert created(kcl(*TREE, sentinel=initial)) == dict.fromkeys(expected, initial)


@pytest.mark.parametrize(
    ("scope", "expected", "later"),
    [
        (tuple(TREE), {"0", "1"}, {"6"}),  # TRIM_HORIZON: shards that were never begun, oldest first
        (
            SINCE_103,
            {"6"},
            {"8"},
        ),  # at epoch 200: 0 and 1 were closed before, and their records aren't asked for
        # now: the records of 6 aren't asked for either; 8 waits for 7, which is being read
        (SINCE_206, set(), set()),
    ],
    ids=["TRIM_HORIZON", "AT_TIMESTAMP", "LATEST"],
)
def test_headraces_plan_fills_the_same_gap_without_records_from_before_the_start(
    scope: tuple[str, ...], expected: set[str], later: set[str]
) -> None:
    shards = [TREE[name] for name in scope]
    rows = list(HELD)

    def sync(positions: Positions) -> set[str]:
        family = a_family(STREAM, shards, leases=rows)
        plan = plan_shard_sync(family, shards, rows, positions=positions, multi=False, sentinel=TRIM_HORIZON)
        rows.extend(c.create for c in plan if c.create)
        return set(created(plan))

    assert sync(at(shards=READING)) == expected
    over = dict.fromkeys((ShardKey(STREAM, name) for name in expected), Position(9, ended=True))
    assert sync(at(shards={**READING, **over})) == later


# --- KCL's plan with Headrace's additions -------------------------------------------------------------------


@pytest.mark.parametrize(
    ("initial", "scope", "expected"),
    [
        (TRIM_HORIZON, tuple(TREE), {"0", "1", "2", "3", "4", "5"}),
        (AT_TIMESTAMP, SINCE_103, {"4", "5", "6", "7"}),
        (LATEST, SINCE_206, {"4", "8", "9", "10"}),
    ],
)
def test_an_empty_table_gets_rows_of_the_shards_that_were_open_at_the_start(
    initial: Checkpoint, scope: tuple[str, ...], expected: set[str]
) -> None:
    assert created(kcl(*scope, rows=(), sentinel=initial)) == dict.fromkeys(expected, initial)


def test_a_first_listing_that_does_not_cover_all_hash_keys_makes_no_rows() -> None:
    assert kcl(*(set(TREE) - {"2"}), rows=(), sentinel=TRIM_HORIZON) == []


def test_a_listing_in_the_middle_of_a_reshard_makes_no_rows_or_leaves_the_children_out() -> None:
    shards = [Shard("p", (), hashes(0, 5)), Shard("c", ("p",), hashes(0, 5)), Shard("x", (), hashes(0, 0))]
    family = a_family(STREAM, shards)
    rows = [Lease("p", stream_epoch=STREAM.epoch)]
    same = {"positions": at(), "multi": False, "sentinel": LATEST}
    assert plan_sync_kcl(family, shards, rows, **same) == []  # type: ignore[arg-type]
    passed = plan_sync_kcl(family, shards, rows, **same, pass_over_inconsistent=True)  # type: ignore[arg-type]
    assert set(created(passed)) == {"x"}


def test_a_row_that_kcls_plan_makes_again_stands_where_the_table_does_and_that_of_an_ended_shard_is_finished_again() -> (
    None
):
    known = {ShardKey(STREAM, "0"): Position(7), ShardKey(STREAM, "1"): Position(8, ended=True)}
    plan = kcl(*TREE, sentinel=TRIM_HORIZON, positions=at(shards=known))
    assert created(plan) == {"0": Checkpoint("7"), "1": TRIM_HORIZON, "6": TRIM_HORIZON}


def test_a_shard_that_was_split_after_the_start_at_latest_gets_a_row() -> None:
    split = [Shard("5", (), hashes(0, 5), closed=True), TREE["9"], replace(TREE["10"], closed=True)]
    plan = plan_sync_kcl(a_family(STREAM, split), split, (), positions=at(), multi=False, sentinel=LATEST)
    assert created(plan) == {"5": LATEST}


@pytest.mark.parametrize("stands", [None, Position(7)], ids=["unread", "being read"])
def test_a_missing_row_of_an_ended_parents_child_is_made(stands: Position | None) -> None:
    """KCL's own plan relies on the children of an ended parent having rows. So a late listing at the parent's end
    would leave a hole for ever."""
    rows = (
        *(row for row in HELD if row.key != "5"),
        Lease("5", checkpoint=SHARD_END),
        Lease("6"),
        Lease("9"),
    )
    known = {ShardKey(STREAM, "5"): Position(99, ended=True)}
    if stands is not None:  # in this case the END may have been removed
        known = {ShardKey(STREAM, "10"): stands}
    plan = kcl(*TREE, rows=rows, sentinel=LATEST, positions=at(shards=known))
    assert created(plan) == {"10": TRIM_HORIZON if stands is None else Checkpoint("7")}


@pytest.mark.parametrize(
    ("start", "comes"),
    [(TRIM_HORIZON, {"c"}), (AT_TIMESTAMP, {"c"}), (LATEST, set()), (Checkpoint("300"), set())],
)
def test_a_row_that_kcl_deleted_is_not_made_again(start: Checkpoint, comes: set[str]) -> None:
    """KCL deletes a row once the rows of the children are past their start, even if the table holds no END."""
    chain = [
        Shard("p", (), hashes(0, 5), closed=True),
        Shard("c", ("p",), hashes(0, 5), closed=True),
        Shard("g", ("c",), hashes(0, 5)),
    ]
    rows = [Lease("p", checkpoint=SHARD_END), Lease("g", checkpoint=start, parents=frozenset({"c"}))]
    ended = at(shards={ShardKey(STREAM, "p"): Position(9, ended=True, children=("c",))})
    plan = plan_sync_kcl(
        a_family(STREAM, chain, leases=rows), chain, rows, positions=ended, multi=False, sentinel=LATEST
    )
    assert set(created(plan)) == comes


@pytest.mark.parametrize(
    ("sentinel", "start", "comes"),
    [
        (TRIM_HORIZON, TRIM_HORIZON, {"o", "b"}),
        (AT_TIMESTAMP, AT_TIMESTAMP, {"o", "b"}),
        # Nothing tells that the shards came after the start.
        (LATEST, LATEST, set()),
        # The child is read: its parents are over.
        (TRIM_HORIZON, Checkpoint("300"), set()),
    ],
)
def test_a_row_that_a_late_listing_hid_is_made_while_an_unread_child_waits_for_it(
    sentinel: Checkpoint, start: Checkpoint, comes: set[str]
) -> None:
    """The child covers the hash keys, so that KCL's plan never makes the row. A KCL worker would read the child at once, and
    pass over the records of its parent."""
    merge = [
        Shard("o", (), hashes(3, 5), closed=True),
        Shard("b", ("o",), hashes(3, 5), closed=True),
        Shard("a", (), hashes(0, 2), closed=True),
        Shard("m", ("b", "a"), hashes(0, 5)),
    ]
    rows = [Lease("a", checkpoint=SHARD_END), Lease("m", checkpoint=start, parents=frozenset({"a", "b"}))]
    plan = plan_sync_kcl(
        a_family(STREAM, merge, leases=rows), merge, rows, positions=at(), multi=False, sentinel=sentinel
    )
    assert [*created(plan)] == sorted(comes, reverse=True)


def test_a_merged_shards_row_is_made_after_those_of_its_parents() -> None:
    """A KCL worker takes a parent without a row for finished."""
    merge = [
        Shard("a", (), hashes(0, 2), closed=True),
        Shard("b", (), hashes(3, 5), closed=True),
        Shard("m", ("b", "a"), hashes(0, 5)),
    ]
    rows = [Lease("a", checkpoint=SHARD_END)]
    known = at(shards={ShardKey(STREAM, "a"): Position(9, ended=True)})
    plan = plan_sync_kcl(
        a_family(STREAM, merge, leases=rows), merge, rows, positions=known, multi=False, sentinel=LATEST
    )
    assert list(created(plan)) == ["b", "m"]


def test_rows_have_the_multi_stream_form_in_an_application_with_several_streams() -> None:
    (row, *_) = [c.create for c in kcl(*TREE, rows=(), sentinel=TRIM_HORIZON, multi=True) if c.create]
    assert (row.key, row.stream, row.shard) == (f"{STREAM.serialized}:0", STREAM.serialized, "0")
    assert row.stream_epoch == STREAM.epoch


def test_rows_of_a_former_life_are_replaced_in_kcls_plan_too() -> None:
    old = Lease("0", stream_epoch=STREAM.epoch - 1)
    plan = kcl(*TREE, rows=(old,), sentinel=TRIM_HORIZON)
    assert [c.key for c in plan if c.kind is ChangeKind.REPLACE] == ["0"]
    assert set(created(plan)) == {"0", "1", "2", "3", "4", "5"}


# --- holes --------------------------------------------------------------------------------------------------

OPEN = ("4", "8", "9", "10")


def warnings(
    rows: set[str], ended: set[str], *, listed: tuple[str, ...] = tuple(TREE), looks: int = 3
) -> list[tuple[str, ...]]:
    """What the leader reports about holes, after so many looks."""
    shards = [TREE[name] for name in listed]
    leases = [Lease(name) for name in sorted(rows)]
    positions = at(shards={ShardKey(STREAM, name): Position(1, ended=True) for name in ended})
    remembered, told = SeenHoles(), []
    for _ in range(looks):
        remembered, now = coverage_warnings(
            a_family(STREAM, shards, leases=leases),
            shards,
            leases,
            positions=positions,
            remembered=remembered,
        )
        told.append(now)
    return told


def test_no_hole_is_reported_if_rows_and_table_cover_all_hash_keys() -> None:
    assert warnings(set(OPEN), set(TREE) - set(OPEN)) == [(), (), ()]


def test_a_hole_in_the_rows_is_reported_with_its_place_at_the_third_look() -> None:
    told = warnings({"8", "9", "10"}, set(TREE) - set(OPEN))
    assert told[:2] == [(), ()]
    assert told[2] == (f"orders: the open lease rows leave out the hash keys {4 * SIXTH} to {5 * SIXTH - 1}",)


def test_a_hole_in_what_the_table_has_yet_to_read_is_reported_too() -> None:
    told = warnings(set(OPEN), set(TREE) - set(OPEN), listed=tuple(set(TREE) - {"9"}))
    assert [len(now) for now in told] == [0, 0, 2]
    assert "the shards that the lake table hasn't ended leave out" in told[2][1]


def test_holes_at_the_ends_and_a_hole_of_all_hash_keys_are_described() -> None:
    assert f"hash keys {5 * SIXTH} to {MAX_HASH_KEY}" in warnings({"8", "4"}, set(TREE) - set(OPEN))[2][0]
    rows = [Lease("8", checkpoint=SHARD_END)]
    shards = [TREE["8"]]
    seen = SeenHoles(table=SeenHole())
    for _ in range(3):
        seen, told = coverage_warnings(
            a_family(STREAM, shards), shards, rows, positions=at(), remembered=seen
        )
    assert f"the hash keys 0 to {MAX_HASH_KEY}" in told[0]
