"""In the tables of a live KCL fleet: leases move in both directions, and the ledger says which ranges KCL's workers
read."""

from __future__ import annotations

from datetime import timedelta

import pytest

from headrace.pipeline.core.leases.change import Applied, Change, Refused, repair
from headrace.pipeline.core.leases.change_kind import ChangeKind
from headrace.pipeline.core.leases.lease import Lease
from headrace.pipeline.core.leases.worker import Worker
from headrace.pipeline.core.ledger.ledger import Kind
from headrace.pipeline.core.shards.checkpoint import SHARD_END, Checkpoint
from headrace.pipeline.duties.waves.report import WaveStep
from headrace.pipeline.settings.choices import InitialPosition
from tests.duties.moves import row_of, shared
from tests.duties.world import TICK, Cut, World


def kcl_writes(world: World, shard: int, **put: object) -> Applied | Refused:
    """Write as a KCL worker does: it compares the counter, and doesn't know claims."""
    row = row_of(world, shard)
    put.setdefault("owner", "kcl-1")
    return world.leases.apply(
        Change(
            row.key,
            "KCL",
            requires={"counter": row.counter},
            put=put,
            add={"counter": 1},
            kind=ChangeKind.TAKE,
        )
    )


def kcl_reads(world: World, shard: int) -> Checkpoint:
    """KCL reads all that the shard holds. Those records must not land."""
    its = [record for record in world.put if record[0] == world.shard(shard)]
    world.skipped |= set(its) - set(world.landed())
    stands = Checkpoint(str(its[-1][1]))
    assert isinstance(kcl_writes(world, shard, checkpoint=stands), Applied)
    return stands


def headrace_takes_back(world: World, shard: int) -> None:
    assert isinstance(kcl_writes(world, shard, owner="w1"), Applied)


def kinds(world: World) -> list[tuple[str, str]]:
    """The shard and the kind of each range in the ledger."""
    head = world.table.load().snapshot
    pages = [snapshot.page for snapshot in world.table.history(head)][::-1]
    return [
        (str(r.kind), r.key.shard_id[-1])
        for page in pages
        for r in page.ranges
        if r.rows or r.kind != Kind.LANDED
    ]


def nothing_is_missing_or_doubled(world: World) -> None:
    assert sorted(world.landed()) == sorted(set(world.put) - world.skipped)


def test_records_that_kcl_read_meanwhile_are_a_foreign_range_and_headrace_reads_on_after_them() -> None:
    world = shared(World(shards=1))
    world.settle()
    world.produce(0, 5)
    assert world.wave().rows == 5
    world.produce(0, 7)
    kcl_reads(world, 0)
    world.produce(0, 3)
    headrace_takes_back(world, 0)
    assert world.wave("w1", "later").rows == 3
    nothing_is_missing_or_doubled(world)
    assert kinds(world) == [("landed", "0"), ("foreign", "0"), ("landed", "0")]


def test_a_foreign_checkpoint_stops_its_shard_unless_the_settings_allow_it() -> None:
    world = World(shards=1)
    world.settle()
    world.produce(0, 5)
    kcl_reads(world, 0)
    headrace_takes_back(world, 0)
    report = world.wave()
    assert report.rows == 0
    assert report.problems[0].fatal


def test_a_row_that_kcl_left_behind_the_table_is_brought_forward() -> None:
    world = shared(World(shards=1))
    world.settle()
    world.produce(0, 5)
    world.wave()
    first = Checkpoint(str(world.put[0][1]))
    assert isinstance(kcl_writes(world, 0, checkpoint=first), Applied)
    headrace_takes_back(world, 0)
    world.produce(0, 2)
    assert world.wave("w1", "later").rows == 2
    nothing_is_missing_or_doubled(world)


def test_headraces_own_checkpoint_ahead_of_the_table_means_a_rollback_beside_kcl_too() -> None:
    """D14 of docs/reference/protocol.md."""
    world = shared(World(shards=1))
    world.settle()
    world.produce(0, 5)
    world.wave()
    before = world.table.load().snapshot
    world.produce(0, 5)
    world.wave("w1", "second")
    world.table.rollback(before)
    world.produce(0, 5)
    report = world.wave("w1", "third")
    assert "rolled back" in report.problems[0].why
    assert ("foreign", "0") not in kinds(world)


def test_children_are_read_after_kcl_has_ended_their_parent() -> None:
    world = shared(World(shards=1))
    world.settle()
    world.produce(0, 5)
    world.wave()
    world.produce(0, 4)
    kcl_reads(world, 0)
    children = world.source.split(world.shard(0))
    for child in children:
        assert isinstance(
            world.leases.apply(
                Change(
                    child.shard_id,
                    "KCL",
                    create=Lease(child.shard_id, owner="w1", parents=frozenset({world.shard(0).shard_id})),
                    kind=ChangeKind.CREATE,
                )
            ),
            Applied,
        )
    world.produce(1, 6)
    assert world.wave("w1", "too-early").rows == 0, "KCL is still reading the parent"
    named = frozenset(child.shard_id for child in children)
    assert isinstance(kcl_writes(world, 0, checkpoint=SHARD_END, children=named), Applied)
    assert world.wave("w1", "later").rows == 6
    nothing_is_missing_or_doubled(world)
    assert world.table.load().positions.has_ended(world.shard(0))
    assert kinds(world)[1] == ("foreign", "0")


def test_a_parent_whose_row_kcl_deleted_counts_as_ended_once_a_child_is_past_its_start() -> None:
    world = shared(World(shards=1))
    world.settle()
    world.produce(0, 5)
    kcl_reads(world, 0)
    child = world.source.split(world.shard(0))[0]
    world.produce(1, 4)
    made = Lease(child.shard_id, owner="kcl-1", parents=frozenset({world.shard(0).shard_id}))
    assert isinstance(
        world.leases.apply(Change(child.shard_id, "KCL", kind=ChangeKind.CREATE, create=made)), Applied
    )
    kcl_reads(world, 1)
    world.leases.wipe(world.shard(0).shard_id)
    world.produce(1, 3)
    headrace_takes_back(world, 1)
    assert world.wave("w1", "later").rows == 3
    nothing_is_missing_or_doubled(world)
    assert kinds(world) == [("foreign", "0"), ("foreign", "1"), ("landed", "1")]


def test_an_end_of_headrace_that_a_rollback_removed_is_not_recorded_as_kcls() -> None:
    world = shared(World(shards=1))
    world.settle()
    world.produce(0, 3)
    world.wave()
    before = world.table.load().snapshot
    world.produce(0, 4)
    world.source.split(world.shard(0))
    world.wave("w1", "to-the-end")
    assert row_of(world, 0).has_ended
    world.table.rollback(before)
    world.produce(1, 2)
    for n in range(3):
        world.tick(2)
        assert world.wave("w1", f"later-{n}").rows == 0
    assert not world.table.load().positions.has_ended(world.shard(0))
    world.leases.wipe(world.shard(0).shard_id)
    assert ("foreign", "0") not in kinds(world)


def test_a_child_that_headrace_landed_doesnt_show_that_kcl_ended_its_parent() -> None:
    world = shared(World(shards=1))
    world.settle()
    world.produce(0, 3)
    world.wave()
    before = world.table.load().snapshot
    world.source.split(world.shard(0))
    world.wave("w1", "to-the-end")
    world.produce(1, 2)
    world.wave("w1", "the-child")
    world.table.rollback(before)
    world.leases.wipe(world.shard(0).shard_id)
    report = world.wave("w1", "later")
    assert report.rows == 0
    assert ("foreign", "0") not in kinds(world)


def test_a_grandparent_that_headrace_had_begun_to_read_is_ended_too() -> None:
    world = shared(World(shards=1))
    world.settle()
    world.produce(0, 5)
    world.wave()
    child = world.source.split(world.shard(0))[0]
    grandchild = world.source.split(child)[0]
    world.produce(3, 4)
    shards = {0: (), 1: (world.shard(0),), 3: (child,)}
    for shard, parents in shards.items():
        if shard:
            made = Lease(world.shard(shard).shard_id, parents=frozenset(p.shard_id for p in parents))
            assert isinstance(
                world.leases.apply(Change(made.key, "KCL", kind=ChangeKind.CREATE, create=made)), Applied
            )
    kcl_writes(world, 0, checkpoint=SHARD_END)
    kcl_writes(world, 1, checkpoint=SHARD_END)
    kcl_writes(world, 3, owner="w1")
    assert grandchild == world.shard(3)
    assert world.wave("w1", "later").rows == 4
    positions = world.table.load().positions
    assert positions.has_ended(world.shard(0))
    assert positions.has_ended(child)


def test_a_finished_shard_whose_row_kcl_has_deleted_gets_no_new_row() -> None:
    world = shared(World(shards=1))
    world.settle()
    world.produce(0, 5)
    world.wave()
    world.produce(0, 5)
    kcl_reads(world, 0)
    for child in world.source.split(world.shard(0)):
        made = Lease(child.shard_id, owner="kcl-1", parents=frozenset({world.shard(0).shard_id}))
        assert isinstance(
            world.leases.apply(Change(made.key, "KCL", kind=ChangeKind.CREATE, create=made)), Applied
        )
    world.produce(1, 1)
    world.produce(2, 1)
    kcl_reads(world, 1)
    kcl_reads(world, 2)
    world.leases.wipe(world.shard(0).shard_id)
    world.tick(20)
    assert world.leases.get(world.shard(0).shard_id) is None


def test_a_kcl_worker_counts_as_alive_by_its_rows_time_stamp_and_is_assigned_leases() -> None:
    world = shared(World(workers=("w1",), shards=4))
    for n in range(60):
        if n % 9 == 0:  # a KCL worker's reports may come half a period late
            stamped = Worker("kcl-1", last_update=world.clock.now().replace(microsecond=0))
            world.rows._put(stamped)
        for row in world.leases.scan().leases:
            if row.owner == "kcl-1":
                kcl_writes(world, int(row.shard_id[-2:]))  # the KCL worker renews its lease
        world.tick()
    assert sorted(row.owner or "" for row in world.leases.scan().leases) == ["kcl-1", "kcl-1", "w1", "w1"]
    for _ in range(int(timedelta(seconds=60) / TICK)):
        world.tick()
    assert {row.owner for row in world.leases.scan().leases} == {"w1"}, "kcl-1 doesn't renew any more"


def test_a_run_whose_shard_kcl_stole_releases_its_claim_without_moving_the_counter() -> None:
    world = shared(World(shards=1))
    world.settle()
    world.produce(0, 5)
    run = world.a_run()

    def steal(step: WaveStep, _keys: tuple[str, ...]) -> None:
        if step is WaveStep.STAGED:
            assert isinstance(kcl_writes(world, 0), Applied)

    run.on_step = steal
    before = row_of(world, 0).counter
    run.wave()
    row = row_of(world, 0)
    assert (row.owner, row.run_claim) == ("kcl-1", None)
    assert row.counter == before + 2, "the counter moved once for the claim and once for the steal"


def test_a_repair_demands_the_holder_so_that_it_writes_on_no_row_of_kcl() -> None:
    read = Lease("a", 5, owner="w1", run_claim="run/1")
    assert repair(read, "run/1", Checkpoint("7")).holder == "w1"


def test_a_kcl_worker_whose_leases_expired_is_assigned_none_until_its_time_stamp_moves() -> None:
    world = shared(World(workers=("w1",), shards=4))
    for n in range(60):
        if n % 6 == 0:
            world.rows._put(Worker("kcl-1", last_update=world.clock.now().replace(microsecond=0)))
        for row in world.leases.scan().leases:
            if row.owner == "kcl-1" and n < 30:
                kcl_writes(world, int(row.shard_id[-2:]))
        world.tick()
        if n == 29:
            assert "kcl-1" in {row.owner for row in world.leases.scan().leases}
    given_back = []
    for _ in range(8):  # kcl-1's last stamp is recent, but its leases stand still
        world.tick()
        given_back.append(sum(row.owner == "kcl-1" for row in world.leases.scan().leases))
    assert given_back[-1] == 0


def test_the_leader_leaves_a_handover_between_kcl_workers_alone() -> None:
    world = shared(World(workers=("w1",), shards=1))
    world.settle()
    for name in ("kcl-1", "kcl-2"):
        world.rows._put(Worker(name, last_update=world.clock.now()))
    kcl_writes(world, 0, owner="kcl-2", checkpoint_owner="kcl-1")
    for _ in range(3):
        kcl_writes(world, 0, owner="kcl-2")
        world.tick(2)
    assert row_of(world, 0).checkpoint_owner == "kcl-1"


def test_a_lease_is_handed_over_to_a_kcl_worker_as_kcls_leader_asks() -> None:
    world = shared(World(shards=1))
    world.settle()
    world.work()
    row = row_of(world, 0)
    asked = Change(
        row.key,
        "KCL's leader",
        requires={"owner": "w1", "checkpoint_owner": None},
        put={"owner": "kcl-1", "checkpoint_owner": "w1"},
        kind=ChangeKind.TAKE,
    )
    assert isinstance(world.leases.apply(asked), Applied)
    world.work()
    row = row_of(world, 0)
    assert (row.owner, row.checkpoint_owner, row.run_claim) == ("kcl-1", None, None)


def test_the_waves_report_notes_the_range_that_kcl_read_meanwhile() -> None:
    world = shared(World(shards=1))
    world.settle()
    world.produce(0, 5)
    world.wave()
    world.produce(0, 4)
    kcl_reads(world, 0)
    headrace_takes_back(world, 0)
    world.produce(0, 1)
    report = world.wave("w1", "second")
    assert ["KCL read this shard from" in note for note in report.notes] == [True]


# --- KCL's own shard sync, and which shards it leaves out ---------------------------------------------------------


def test_children_that_late_listings_left_out_at_their_parents_end_are_read_all_the_same() -> None:
    """KCL's plan relies on the children of an ended parent having rows."""
    world = shared(World(shards=2))
    world.settle()
    world.source.split(world.shard(0))
    for shard in (1, 2, 3):
        world.produce(shard, 4)
    listed, children = world.source.list_shards, {world.shard(2).shard_id, world.shard(3).shard_id}
    world.source.list_shards = lambda *asked: tuple(  # type: ignore[method-assign]
        each for each in listed(*asked) if each.shard_id not in children
    )
    world.wave()
    assert row_of(world, 0).has_ended
    world.source.list_shards = listed  # type: ignore[method-assign]
    world.tick(8)
    world.wave("w1", "later")
    nothing_is_missing_or_doubled(world)


def test_a_shard_that_is_split_between_the_start_at_latest_and_the_first_row_is_read_before_its_children() -> (
    None
):
    world = shared(World(shards=2, position=InitialPosition.LATEST))
    held, world.leases.apply = world.leases.apply, _cut  # type: ignore[method-assign,assignment]
    with pytest.raises(Cut):
        world.lead()
    world.leases.apply = held  # type: ignore[method-assign]
    world.clock.advance(TICK)
    world.produce(0, 3)
    world.source.split(world.shard(0))
    for shard in (1, 2, 3):
        world.produce(shard, 4)
    world.settle()
    for run in ("parent", "children"):
        world.wave("w1", run)
    nothing_is_missing_or_doubled(world)


def _cut(_change: Change) -> Applied | Refused:
    raise Cut
