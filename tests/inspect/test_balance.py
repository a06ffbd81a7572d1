"""How leases are spread over workers and clusters, and an imbalance of clusters that the numbers of leases per
worker don't show."""

import re

import pytest

from headrace.pipeline.core.leases.lease import Lease
from headrace.pipeline.core.shards.checkpoint import SHARD_END
from headrace.pipeline.inspect.balance import (
    BEFORE_THE_FIRST_DASH,
    Balance,
    balance_of,
    cluster_by_rule,
    imbalance_of,
)

CLUSTER_RULE = re.compile(BEFORE_THE_FIRST_DASH)


def a_fleet(**workers: int) -> Balance:
    """A fleet in which each worker reads so many leases: `east_1=3` is worker east-1."""
    names = [name.replace("_", "-") for name, count in workers.items() for _ in range(count)]
    leases = [Lease(f"shardId-{n:012d}", owner=name) for n, name in enumerate(names)]
    return balance_of(leases, [name.replace("_", "-") for name in workers], cluster_by=CLUSTER_RULE)


@pytest.mark.parametrize(
    ("worker", "rule", "cluster"),
    [
        ("east-1", BEFORE_THE_FIRST_DASH, "east"),
        ("east-1-b", BEFORE_THE_FIRST_DASH, "east"),
        ("east", BEFORE_THE_FIRST_DASH, "east"),
        ("-1", BEFORE_THE_FIRST_DASH, "-1"),
        ("host.zone-a.net:5f", r"zone-(\w)", "a"),
        ("host.zone-a.net:5f", r"zone-\w", "zone-a"),
        ("elsewhere", r"zone-(\w)", "elsewhere"),
        ("zone-", r"zone-(\w)?", "zone-"),
    ],
)
def test_a_workers_cluster_is_found_in_its_id_by_the_rule(worker: str, rule: str, cluster: str):
    assert cluster_by_rule(worker, re.compile(rule)) == cluster


def test_a_lease_during_its_handover_counts_for_its_holder():
    lease = Lease("a", owner="next", checkpoint_owner="now")
    shares = {
        share.name: share.leases for share in balance_of([lease], ["next"], cluster_by=CLUSTER_RULE).workers
    }
    assert shares == {"now": 1, "next": 0}


def test_ended_leases_dont_count():
    leases = [
        Lease("a", owner="w1", throughput_kbps=2.5),
        Lease("b", 3, SHARD_END, owner="w1", throughput_kbps=9.0),
        Lease("c", owner="w2"),
        Lease("d"),
    ]
    w1, w2 = balance_of(leases, cluster_by=CLUSTER_RULE).workers
    assert (w1.leases, w1.ended, w1.kbps, w1.share) == (1, 1, 2.5, 0.5)
    assert (w2.leases, w2.ended, w2.kbps, w2.share) == (1, 0, 0.0, 0.5)


def test_workers_that_neither_live_nor_own_leases_are_listed_separately():
    leases = [
        Lease("a", owner="w1"),
        Lease("b", 3, SHARD_END, owner="w2"),
        Lease("c", 3, SHARD_END, owner="w3"),
    ]
    balance = balance_of(leases, ["w3"], cluster_by=CLUSTER_RULE)
    assert [share.name for share in balance.workers] == ["w1", "w3"]
    assert [share.name for share in balance.clusters] == ["w1", "w3"]
    assert [(share.name, share.ended) for share in balance.leavers] == [("w2", 1)]


def test_singular_and_plural_are_right_in_the_sentences():
    said = imbalance_of(a_fleet(east_1=1, west_1=3, west_2=3)) or ""
    assert "with 2 workers (3.00 each), cluster east 1 with 1 (1.00 each)" in said
    said = imbalance_of(a_fleet(east_1=5, west_1=1, west_2=1)) or ""
    assert "cluster east reads 5 open leases with 1 worker (" in said
    assert "differ by up to 4 leases" in said


def test_the_imbalance_of_two_clusters_that_kcl_2_x_leaves_is_called_stable():
    """With 500 shards and two clusters of 100 workers, KCL 2.x stays at 300 against 200 leases without a warning."""
    workers = {f"east_{n}": 3 for n in range(100)} | {f"west_{n}": 2 for n in range(100)}
    balance = a_fleet(**workers)
    assert [(c.name, c.leases, c.workers, c.share) for c in balance.clusters] == [
        ("east", 300, 100, 0.6),
        ("west", 200, 100, 0.4),
    ]
    assert balance.spread == 1
    said = imbalance_of(balance)
    assert said is not None
    assert "cluster east reads 300 open leases with 100 workers (3.00 each), cluster west 200" in said
    assert "stable" in said


def test_an_even_spread_of_the_same_workers_is_no_imbalance():
    workers = {f"{zone}_{n}": 2 + n % 2 for zone in ("east", "west") for n in range(100)}
    assert imbalance_of(a_fleet(**workers)) is None


def test_clusters_of_different_sizes_are_judged_by_their_numbers_of_workers():
    assert imbalance_of(a_fleet(east_1=5, east_2=5, east_3=5, west_1=5, west_2=5)) is None
    assert imbalance_of(a_fleet(east_1=4, east_2=4, east_3=4, west_1=3, west_2=3)) is not None


def test_a_spread_that_no_single_move_improves_is_no_imbalance():
    """Of five leases on two clusters, one cluster has to have three."""
    assert imbalance_of(a_fleet(east_1=2, east_2=1, west_1=1, west_2=1)) is None


def test_an_uneven_fleet_that_will_still_change_isnt_called_stable():
    balance = a_fleet(east_1=6, east_2=6, west_1=1, west_2=0)
    assert balance.spread == 6
    assert "may still settle" in (imbalance_of(balance) or "")


@pytest.mark.parametrize("workers", [{"east_1": 9, "east_2": 1}, {"east_1": 9, "west_1": 1}, {}])
def test_one_cluster_or_one_worker_in_each_has_no_imbalance_of_clusters(workers: dict[str, int]):
    assert imbalance_of(a_fleet(**workers)) is None
