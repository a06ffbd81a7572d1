"""`kcl.mode: 2.x`: workers take leases for themselves."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from datetime import timedelta
from functools import partial

import pytest

from headrace.pipeline.beside_kcl.lease_taking import LeaseTaking, TakingMemory, TakingReport
from headrace.pipeline.beside_kcl.shuffle import Shuffle, ShuffleMemory
from headrace.pipeline.core.leases.change import Applied, Change, Refused, beat, give_up
from headrace.pipeline.core.leases.change_kind import ChangeKind
from headrace.pipeline.core.leases.lease import Lease
from headrace.pipeline.core.shards.checkpoint import SHARD_END
from headrace.pipeline.core.sharing.assign_plan import AssignmentInput, GapRules, plan_assign
from headrace.pipeline.core.sharing.loads import cluster_name
from headrace.pipeline.duties.policy.own_form import OwnForm
from headrace.pipeline.kcl import leader
from headrace.pipeline.settings.blocks.kcl import KclSettings
from headrace.pipeline.settings.choices import Heartbeat, Mode
from headrace.pipeline.settings.model import Settings, StreamSettings
from tests.duties.world import MadeTables
from tests.memory.clock import CountingIds, MemoryClock
from tests.memory.leases import MemoryLeaseStore
from tests.memory.workers import MemoryWorkerStore

TICK, PERIOD = timedelta(seconds=5), timedelta(seconds=40)
SETTINGS = Settings(
    application="app",
    streams=(StreamSettings(name="orders"),),
    kcl=KclSettings(mode=Mode.KCL_2, heartbeat=Heartbeat.LEASE),
)

ME = frozenset({"w1"})


def rows(count: int, owner: str | None = None) -> list[Lease]:
    return [Lease(f"shardId-{n:012d}", owner=owner) for n in range(count)]


@dataclass
class Fleet:
    """Workers that take leases for themselves, without ticks, runs and a stream."""

    leases: MemoryLeaseStore
    settings: Settings = SETTINGS
    clock: MemoryClock = field(default_factory=MemoryClock)
    memories: dict[str, TakingMemory] = field(default_factory=dict)
    ids: CountingIds = field(default_factory=CountingIds)
    kcls: frozenset[str] = frozenset()
    """The names of KCL's workers, which have no worker row here."""

    def taking(self, worker: str) -> LeaseTaking:
        return LeaseTaking(
            me=worker,
            leases=self.leases,
            clock=self.clock,
            ids=self.ids,
            settings=self.settings,
            tables=MadeTables(),
            workers=self.workers(),
        )

    def workers(self) -> MemoryWorkerStore:
        """A worker store in which every owner but KCL's workers has a row."""
        store = MemoryWorkerStore(clock=self.clock)
        for name in {row.holder for row in self.leases._rows.values()} - {None, *self.kcls}:
            store.beat(name or "", "dagster", found=None)
        return store

    def take(self, worker: str) -> TakingReport:
        report = self.taking(worker).tick(self.memories.get(worker, TakingMemory()))
        self.memories[worker] = report.memory
        return report

    def renew(self, workers: Iterable[str]) -> None:
        names = set(workers)
        for row in self.leases.scan().leases:
            if row.holder in names:
                self.leases.apply(beat(row, row.holder or ""))

    def period(self, *workers: str) -> dict[str, TakingReport]:
        """Each of these workers renews its leases and then looks for leases to take."""
        self.renew(workers)
        reports = {worker: self.take(worker) for worker in workers}
        self.clock.advance(PERIOD)
        return reports

    @property
    def counts(self) -> dict[str | None, int]:
        return dict(Counter(row.owner for row in self.leases.scan().leases))


def a_fleet(*held: Lease, settings: Settings = SETTINGS) -> Fleet:
    return Fleet(MemoryLeaseStore(held), settings)


def settings_with_kcl(**knobs: object) -> Settings:
    return replace(SETTINGS, kcl=replace(SETTINGS.kcl, **knobs))  # type: ignore[arg-type]


# -- as KCL 2.x was observed to do ---------------------------------------------------------------------------------


def test_two_clusters_stay_at_300_to_200_leases_until_the_strategy_gap_balances_them():
    first = [f"a-{n}" for n in range(1, 101)]
    second = [f"b-{n}" for n in range(1, 101)]
    fleet = a_fleet(*(replace(row, owner=first[n % 100]) for n, row in enumerate(rows(500))))
    fleet.period(*first)
    for _ in range(3):
        fleet.period(*first, *second)
    settled = {row.key: row.owner for row in fleet.leases.scan().leases}
    for report in fleet.period(*first, *second).values():
        assert report.taken == ()
    assert {row.key: row.owner for row in fleet.leases.scan().leases} == settled
    assert Counter(cluster_name(owner or "") for owner in settled.values()) == {"a": 300, "b": 200}
    assert set(fleet.counts.values()) == {2, 3}, (
        "no worker has two leases more than another, so no lease is stolen"
    )

    scene = AssignmentInput(
        leases=fleet.leases.scan().leases, living=frozenset([*first, *second]), now=fleet.clock.now()
    )
    moves = plan_assign(scene, GapRules(dwell=timedelta(0), graceful=False))
    assert all(isinstance(fleet.leases.apply(change), Applied) for change in moves)
    assert Counter(
        cluster_name(owner or "") for owner in fleet.counts for _ in range(fleet.counts[owner])
    ) == {
        "a": 250,
        "b": 250,
    }
    assert len(moves) == 50


# -- taking ------------------------------------------------------------------------------------------------------


def test_at_first_one_worker_takes_all_unowned_leases_and_the_others_steal_one_at_a_time():
    fleet = a_fleet(*rows(6))
    reports = fleet.period("w1", "w2")
    assert fleet.counts == {"w1": 5, "w2": 1}
    assert reports["w1"].held == frozenset(row.key for row in reports["w1"].taken)
    assert len(reports["w1"].taken) == 6
    assert str(reports["w1"]) == "took 6 leases of 6 (6 leases stood still for very long; w1 has room for 6)"
    fleet.period("w1", "w2")
    assert fleet.counts == {"w1": 4, "w2": 2}
    fleet.period("w1", "w2")
    fleet.period("w1", "w2")
    assert fleet.counts == {"w1": 3, "w2": 3}


def test_with_very_old_first_switched_off_the_first_workers_share_the_unowned_leases():
    fleet = a_fleet(*rows(6), settings=settings_with_kcl(very_old_first=False))
    fleet.period("w1")
    fleet.period("w1", "w2")
    fleet.period("w1", "w2")
    fleet.period("w1", "w2")
    assert fleet.counts == {"w1": 3, "w2": 3}


def test_steal_at_most_sets_how_many_leases_are_stolen_at_a_time():
    fleet = a_fleet(*rows(8, "w1"), settings=settings_with_kcl(steal_at_most=4))
    fleet.period("w1")
    assert len(fleet.period("w1", "w2")["w2"].taken) == 4


def test_a_dead_workers_leases_are_taken_at_the_second_look():
    fleet = a_fleet(*rows(4, "w1"), *(Lease(f"shardId-{n:012d}", owner="dead") for n in range(4, 8)))
    fleet.period("w1")
    assert fleet.counts == {"w1": 4, "dead": 4}
    fleet.period("w1")
    assert fleet.counts == {"w1": 8}
    taken = fleet.leases.get("shardId-000000000005")
    assert taken is not None
    assert (taken.counter, taken.owner_switches) == (1, 1)


def test_a_row_that_was_made_anew_for_another_life_of_the_stream_hasnt_stood_still():
    former = Lease("shardId-000000000000", 1, owner="w2", stream_epoch=1)
    fleet = a_fleet(former)
    fleet.period("w1")
    fleet.leases = MemoryLeaseStore([replace(former, stream_epoch=2)])
    assert fleet.period("w1")["w1"].taken == ()
    assert len(fleet.period("w1")["w1"].taken) == 1, "from then on its counter stands still"


def test_a_change_says_whether_the_lease_is_stolen():
    kinds: list[ChangeKind] = []

    def noted(change: Change, *, store: MemoryLeaseStore) -> Applied | Refused:
        kinds.append(change.kind)
        return MemoryLeaseStore.apply(store, change)

    fleet = a_fleet(*rows(6))
    fleet.leases.apply = partial(noted, store=fleet.leases)  # type: ignore[method-assign]
    fleet.period("w1")
    assert kinds == [ChangeKind.TAKE] * 6
    fleet.take("w2")
    assert kinds[6:] == [ChangeKind.STEAL]


def test_leases_that_are_renewed_are_never_taken_as_dead():
    fleet = a_fleet(*rows(4, "w1"), *(Lease(f"shardId-{n:012d}", owner="w2") for n in range(4, 8)))
    for _ in range(30):
        assert not any(report.taken for report in fleet.period("w1", "w2").values())


def test_a_worker_that_lost_its_memory_takes_no_lease_as_dead():
    fleet = a_fleet(*rows(2, "w1"), *(Lease(f"shardId-{n:012d}", owner="dead") for n in range(2, 4)))
    for _ in range(5):
        fleet.memories.clear()
        fleet.period("w1")
    assert fleet.counts == {"w1": 2, "dead": 2}


@pytest.mark.parametrize("jump", [timedelta(hours=1), timedelta(seconds=41), timedelta(hours=-1)])
def test_no_lease_is_taken_because_a_clock_jumped(jump: timedelta):
    fleet = a_fleet(*rows(2, "w1"), *(Lease(f"shardId-{n:012d}", owner="w2") for n in range(2, 4)))
    fleet.period("w1", "w2")
    fleet.renew(["w1", "w2"])
    assert fleet.take("w1").taken == ()
    fleet.clock.jump(jump)
    fleet.clock.advance(TICK)
    assert fleet.take("w1").taken == ()


def test_no_lease_is_taken_because_the_hosts_monotonic_clock_began_anew():
    fleet = a_fleet(Lease("shardId-000000000000", owner="w2"), Lease("shardId-000000000001", owner="w1"))
    fleet.period("w1")
    fleet.memories["w1"] = replace(fleet.memories["w1"], last_mono=1e9)
    assert fleet.take("w1").taken == ()


def test_no_lease_is_taken_by_a_tick_on_another_host_whose_clock_is_behind():
    fleet = a_fleet(Lease("shardId-000000000000", owner="w2"), Lease("shardId-000000000001", owner="w1"))
    fleet.take("w1")
    fleet.memories["w1"] = replace(
        fleet.memories["w1"], last_mono=-1e9
    )  # the other host has been up for longer
    fleet.clock.jump(timedelta(minutes=-1))
    fleet.clock.advance(TICK)
    assert fleet.take("w1").taken == ()


def test_between_two_looks_no_row_is_read():
    fleet = a_fleet(*rows(2))
    fleet.take("w1")
    scans = fleet.leases.scans
    for _ in range(7):
        fleet.clock.advance(TICK)
        report = fleet.take("w1")
        assert (report.held, str(report)) == (None, "")
    assert fleet.leases.scans == scans
    fleet.clock.advance(TICK)
    assert fleet.take("w1").held == frozenset({"shardId-000000000000", "shardId-000000000001"})


def test_of_two_workers_that_take_the_same_lease_one_gets_it():
    fleet = a_fleet(*rows(1))
    slow = MemoryLeaseStore(rows(1))
    slow.apply = fleet.leases.apply  # type: ignore[method-assign]  # it read the table before the other one wrote
    fleet.take("w1")
    late = replace(fleet.taking("w2"), leases=slow).tick(TakingMemory())
    assert (late.taken, late.held) == ((), frozenset())
    assert str(late).startswith("took 0 leases of 1")
    assert fleet.counts == {"w1": 1}


def test_a_lease_is_read_again_before_it_is_stolen_because_its_owners_renewals_move_the_counter():
    fleet = a_fleet(*rows(2, "w1"))
    fleet.period("w1")
    stale = MemoryLeaseStore(rows(2, "w1"))
    fleet.renew(["w1"])
    stale.apply, stale.get_many = fleet.leases.apply, fleet.leases.get_many  # type: ignore[method-assign]
    assert len(replace(fleet.taking("w2"), leases=stale).tick(TakingMemory()).taken) == 1


def test_a_lease_that_has_a_new_owner_meanwhile_isnt_stolen():
    fleet = a_fleet(*rows(2, "w3"))
    stale = MemoryLeaseStore(rows(2, "w1"))
    stale.apply, stale.get_many = fleet.leases.apply, fleet.leases.get_many  # type: ignore[method-assign]
    assert replace(fleet.taking("w2"), leases=stale).tick(TakingMemory()).taken == ()
    assert fleet.counts == {"w3": 2}


def test_taking_a_lease_ends_its_handover_and_the_claim_of_the_old_owners_run():
    row = Lease("shardId-000000000000", 5, owner="next", checkpoint_owner="old", run_claim="run/1")
    fleet = a_fleet(row)
    fleet.period("w1")
    (taken,) = fleet.period("w1")["w1"].taken
    assert (taken.owner, taken.checkpoint_owner, taken.run_claim, taken.counter) == ("w1", None, None, 6)


def test_ended_leases_count_for_no_worker_and_are_never_taken():
    ended = [replace(row, key=f"shardId-9{row.key[9:]}", checkpoint=SHARD_END) for row in rows(9, "gone")]
    fleet = a_fleet(*rows(2, "w1"), *ended)
    fleet.period("w1", "w2")
    fleet.period("w1", "w2")
    assert fleet.counts == {"gone": 9, "w1": 1, "w2": 1}


def test_no_worker_takes_more_leases_than_the_cap():
    capped = replace(SETTINGS, assignment=replace(SETTINGS.assignment, max_leases=2))
    fleet = a_fleet(*rows(6), settings=capped)
    for _ in range(4):
        fleet.period("w1", "w2")
    assert fleet.counts == {"w1": 2, "w2": 2, None: 2}


def test_leases_that_a_stopping_worker_gave_up_are_taken_at_the_next_look():
    fleet = a_fleet(*rows(2, "w1"), *(Lease(f"shardId-{n:012d}", owner="w2") for n in range(2, 4)))
    fleet.period("w1", "w2")
    for row in fleet.leases.scan().leases:
        if row.owner == "w2":
            assert isinstance(fleet.leases.apply(give_up(row, "w2")), Applied)
    fleet.period("w1")
    assert fleet.counts == {"w1": 4}


def test_leases_that_were_given_up_are_shared_and_dont_count_as_very_old():
    fleet = a_fleet(*(replace(row, owner=f"w{n % 3}") for n, row in enumerate(rows(6))))
    fleet.period("w0", "w1", "w2")
    for row in fleet.leases.scan().leases:
        if row.owner == "w2":
            fleet.leases.apply(give_up(row, "w2"))
    reports = fleet.period("w0", "w1")
    assert [len(report.taken) for report in reports.values()] == [1, 1]


# -- which worker syncs shards -------------------------------------------------------------------------------------


def test_all_workers_agree_on_the_same_leader_among_the_owners():
    store = MemoryLeaseStore([Lease(f"l{n}", owner=f"w{n}") for n in range(7)])
    first = leader.order_of_leadership(f"w{n}" for n in range(7))[0]
    clock = MemoryClock()
    leads = {
        f"w{n}": Shuffle(ours=frozenset({f"w{n}"}), leases=store, clock=clock).tick(ShuffleMemory())[1]
        for n in range(7)
    }
    assert [name for name, it in leads.items() if it] == [first]


def test_a_deployment_leads_if_any_of_its_workers_comes_first_in_the_shuffled_order():
    store, clock = MemoryLeaseStore([Lease(f"l{n}", owner=f"w{n}") for n in range(7)]), MemoryClock()
    deployments = [frozenset({f"w{n}" for n in group}) for group in ((0, 1, 2), (3, 4), (5, 6))]
    first = leader.order_of_leadership(f"w{n}" for n in range(7))[0]
    leads = [
        ours for ours in deployments if Shuffle(ours=ours, leases=store, clock=clock).tick(ShuffleMemory())[1]
    ]
    assert leads == [next(ours for ours in deployments if first in ours)]
    assert any(min(ours) != first for ours in leads), (
        "the first worker in the order should not be the first of its deployment"
    )


def test_an_owner_of_ended_rows_only_does_not_lead():
    order = leader.order_of_leadership(["w0", "w1"])
    ended = Lease("l0", owner=order[0], checkpoint=SHARD_END)
    store = MemoryLeaseStore([ended, Lease("l1", owner=order[1])])
    duty = Shuffle(ours=frozenset({order[1]}), leases=store, clock=MemoryClock())
    assert duty.tick(ShuffleMemory())[1]


@pytest.mark.parametrize("multi", [False, True])
def test_an_owner_of_rows_of_the_other_key_form_only_does_not_lead(*, multi: bool):
    order = leader.order_of_leadership(["w0", "w1"])
    plain = Lease("shardId-000000000000")
    serialized = "123456789012:orders:1700000000"
    multiple = Lease(f"{serialized}:shardId-000000000000", stream=serialized, shard="shardId-000000000000")
    ours, stray = (multiple, plain) if multi else (plain, multiple)
    store = MemoryLeaseStore([replace(stray, owner=order[0]), replace(ours, owner=order[1])])
    duty = Shuffle(ours=frozenset({order[1]}), leases=OwnForm(store, multi), clock=MemoryClock())
    assert duty.tick(ShuffleMemory())[1]


def test_while_no_lease_has_an_owner_every_deployment_leads():
    duty = Shuffle(ours=ME, leases=MemoryLeaseStore(rows(2)), clock=MemoryClock())
    assert duty.tick(ShuffleMemory())[1]


def test_the_leader_is_worked_out_again_after_a_minute_and_then_every_five_minutes():
    store, clock = MemoryLeaseStore(rows(2)), MemoryClock()
    duty, memory, asked = Shuffle(ours=ME, leases=store, clock=clock), ShuffleMemory(), []
    for second in range(0, 1000, 5):
        before = store.scans
        memory, _ = duty.tick(memory)
        if store.scans > before:
            asked.append(second)
        clock.advance(TICK)
    assert asked == [0, 60, 360, 660, 960]


def test_no_lease_is_taken_beside_kcl_workers_that_the_settings_dont_join():
    fleet = a_fleet(*rows(4, "kcl-1"))
    fleet.kcls = frozenset({"kcl-1"})
    fleet.leases.apply(give_up(fleet.leases.scan().leases[0], "kcl-1"))
    for _ in range(5):
        fleet.renew(["kcl-1"])
        told = fleet.period("w1")["w1"]
        assert "KCL workers (kcl-1) renew leases of this application" in str(told)
        assert told.taken == ()
    assert fleet.counts == {"kcl-1": 3, None: 1}


def test_leases_of_stopped_kcl_workers_are_taken_once_they_have_stood_still():
    fleet = a_fleet(*rows(4, "kcl-1"))
    fleet.kcls = frozenset({"kcl-1"})
    for _ in range(3):
        fleet.period("w1")
    assert fleet.counts == {"w1": 4}


def test_leases_of_a_fleet_that_the_settings_join_are_stolen_as_kcl_does():
    kcl = replace(SETTINGS.kcl, failover=timedelta(seconds=40))
    fleet = a_fleet(*rows(4, "kcl-1"), settings=replace(SETTINGS, kcl=kcl))
    fleet.kcls = frozenset({"kcl-1"})
    for _ in range(3):
        fleet.renew(["kcl-1"])
        fleet.period("w1")
    assert fleet.counts == {"kcl-1": 2, "w1": 2}
