"""KCL's rules for metrics, periods, migrations, the shuffled leader, shard order and CPU measurement."""

from datetime import UTC, datetime, timedelta
from math import isnan
from random import Random

import pytest

from headrace.pipeline.errors import BadSetting, WrongShape
from headrace.pipeline.kcl import cpu, leader, metrics
from headrace.pipeline.kcl.migration import ClientVersion, TableStatus, table_status
from headrace.pipeline.kcl.scan_segments import scan_segments
from tests.vectors.rules import pace
from tests.vectors.rules.client_version import ClientConfig, first_version
from tests.vectors.rules.prioritize import depths, prioritize

MS = timedelta(milliseconds=1)
NOW = datetime(2026, 5, 1, tzinfo=UTC)


@pytest.mark.parametrize(
    ("stats", "ranges", "valid"),
    [
        (None, None, True),
        ({}, {}, True),
        ({"C": [5]}, {"C": [80]}, True),
        ({"C": []}, {"C": [80, 0]}, True),
        ({}, {"C": [80]}, True),
        ({"C": [5]}, None, False),
        (None, {"C": [80]}, False),
        ({"C": [5], "M": [5]}, {"C": [80]}, False),
        ({"C": [5]}, {"C": [0]}, False),
        ({"C": [5]}, {"C": [80], "M": []}, False),
        ({"THROUGHPUT": [5]}, None, True),
    ],
)
def test_a_worker_row_is_valid_if_every_metric_has_a_range(stats, ranges, valid):
    assert metrics.is_valid(1, stats, ranges) is valid
    assert not metrics.is_valid(None, stats, ranges)


@pytest.mark.parametrize(
    ("stats", "failing"),
    [
        ({"C": [5, -1]}, True),
        ({"C": [-1, 5]}, False),
        ({"C": [5], "M": [5, -1]}, True),
        ({"C": []}, False),
        ({}, False),
        ({"C": [-1], "THROUGHPUT": [1]}, False),
    ],
)
def test_a_worker_is_failing_if_the_latest_value_of_any_metric_failed(stats, failing):
    assert metrics.is_failing(stats, {"C": [80], "M": [80]}) is failing


@pytest.mark.parametrize(
    ("values", "alpha", "average"),
    [
        ([], 0.5, 0.0),
        ([-1, -1], 0.5, 0.0),
        ([8], 0.5, 8.0),
        ([8, 16], 0.5, 12.0),
        ([-1, 8, -1, 16], 0.5, 12.0),
        ([8, 16], 0.25, 10.0),
        ([0, 8], 1.0, 8.0),
    ],
)
def test_the_average_weights_each_older_value_half_and_skips_failures(values, alpha, average):
    assert metrics.ema(values, alpha) == average


def test_a_row_is_active_for_two_periods_and_stale_after_a_day():
    assert metrics.is_active(NOW - timedelta(seconds=60), NOW)
    assert not metrics.is_active(NOW - timedelta(seconds=61), NOW)
    assert not metrics.is_stale(NOW - timedelta(days=1), NOW)
    assert metrics.is_stale(NOW - timedelta(days=1, seconds=1), NOW)


@pytest.mark.parametrize(
    ("failover", "assignment", "epsilon", "expected"),
    [
        (10_000, None, 25, (3_308, 20_050, 9_975)),
        (1_000, 3_001, 10, (323, 2_020, 1_490)),
        (60_000, 30_000, 0, (20_000, 120_000, 15_000)),
    ],
)
def test_periods_are_cut_to_whole_milliseconds(failover, assignment, epsilon, expected):
    found = pace.intervals(
        failover * MS, None if assignment is None else assignment * MS, epsilon=epsilon * MS
    )
    assert (found.renew, found.take, found.discover) == tuple(each * MS for each in expected)


@pytest.mark.parametrize(
    ("elapsed", "behind", "threshold", "pause"),
    [
        (None, None, None, 1_000),
        (400, None, None, 600),
        (-400, None, None, 600),
        (1_400, None, None, 0),
        (400, 0, 3_000, 2_600),
        (400, 3_000, 3_000, 600),
        (4_000, 0, 3_000, 0),
        (400, None, 3_000, 600),
        (400, 0, 0, 600),
    ],
)
def test_a_reader_pauses_longer_if_it_is_less_behind_than_the_threshold(elapsed, behind, threshold, pause):
    def ms(value):
        return None if value is None else value * MS

    assert (
        pace.pause_before_call(ms(elapsed), 1_000 * MS, behind=ms(behind), threshold=ms(threshold))
        == pause * MS
    )


GIB = 1024**3


@pytest.mark.parametrize(
    ("size", "segments"),
    [(0, 1), (1, 1), (GIB // 5, 1), (GIB // 5 + 1, 2), (GIB, 5), (6 * GIB, 30), (7 * GIB, 32), (None, 10)],
)
def test_a_scan_is_split_into_segments_by_the_tables_size(size, segments):
    assert scan_segments(size) == segments


@pytest.mark.parametrize(
    ("read", "previous", "kbps"),
    [((), None, None), ((), 8.0, 4.0), ((2048, 2048), None, 2.0), ((4096,), 8.0, 5.0), ((0,), None, 0.0)],
)
def test_throughput_is_smoothed_from_renewal_to_renewal(read, previous, kbps):
    assert pace.throughput_kbps(read, timedelta(seconds=2), previous=previous) == kbps


def test_the_stored_version_decides_which_version_a_worker_starts_with():
    stored = {
        config: [first_version(config, version) for version in ClientVersion] for config in ClientConfig
    }
    v = ClientVersion
    assert stored[ClientConfig.PHASE1] == [v.INIT, v.UPGRADE_FROM_2X, v.ROLLED_BACK, v.WITH_ROLLBACK, v.V3]
    assert stored[ClientConfig.COMPATIBLE_WITH_2X] == [
        v.UPGRADE_FROM_2X,
        v.UPGRADE_FROM_2X,
        v.ROLLED_BACK,
        v.WITH_ROLLBACK,
        v.V3,
    ]
    assert stored[ClientConfig.V3] == [v.V3, v.UPGRADE_FROM_2X, v.ROLLED_BACK, v.V3, v.V3]
    assert [first_version(config, None) for config in ClientConfig] == [v.INIT, v.UPGRADE_FROM_2X, v.V3]


@pytest.mark.parametrize(
    ("stored", "legacy", "migrate", "status"),
    [
        (None, False, False, TableStatus.COMPLETE),
        (None, False, True, TableStatus.COMPLETE),
        (None, True, False, TableStatus.INIT),
        (TableStatus.INIT, True, False, TableStatus.INIT),
        (TableStatus.DEPLOYED, True, False, TableStatus.DEPLOYED),
        (TableStatus.DEPLOYED, True, True, TableStatus.PENDING),
        (TableStatus.PENDING, True, True, TableStatus.PENDING),
        (TableStatus.PENDING, True, False, TableStatus.DEPLOYED),
        (TableStatus.COMPLETE, True, False, TableStatus.COMPLETE),
        (TableStatus.COMPLETE, True, True, TableStatus.COMPLETE),
    ],
)
def test_the_migrate_flag_moves_a_table_between_deployed_and_pending(stored, legacy, migrate, status):
    assert table_status(stored, legacy_table=legacy, migrate=migrate) is status


@pytest.mark.parametrize("stored", [None, TableStatus.INIT])
def test_a_migration_that_isnt_deployed_everywhere_cant_be_started(stored):
    with pytest.raises(BadSetting, match="Nothing was moved"):
        table_status(stored, legacy_table=True, migrate=True)


@pytest.mark.parametrize(
    ("owners", "order"),
    [  # the order of java.util.Collections.shuffle(list, new Random(1947)) in OpenJDK 17
        ([], ()),
        ([None], ()),
        (["b"], ("b",)),
        (["w1", "w0", None, "w1"], ("w0", "w1")),
        # Java sorts by UTF-16 units: U+1F600 comes before U+FF5E there.
        (["a", "\U0001f600", "\uff5e", "b"], ("\uff5e", "a", "b", "\U0001f600")),
        (["w4", "w2", "w0", "w3", "w1"], ("w4", "w0", "w2", "w1", "w3")),
        ([f"w{n}" for n in range(7)], ("w2", "w4", "w3", "w5", "w0", "w6", "w1")),
        ([f"w{n}" for n in range(8)], ("w2", "w3", "w0", "w6", "w4", "w7", "w1", "w5")),
    ],
)
def test_the_leader_is_the_first_of_a_shuffle_that_gives_every_worker_the_same_order(owners, order):
    assert leader.order_of_leadership(owners) == order
    assert sorted(leader.order_of_leadership(owners)) == sorted({owner for owner in owners if owner})


FAMILY = {"a": ["gone"], "b": ["gone"], "c": ["a", "b"], "d": ["c"], "e": ["d", "a"]}


def test_shards_are_ordered_by_their_depth_below_finished_and_unknown_parents():
    assert depths(FAMILY) == {"a": 1, "b": 1, "c": 2, "d": 3, "e": 4}
    assert depths(FAMILY, done=["a", "b"]) == {"c": 1, "d": 2, "e": 3}
    assert prioritize(FAMILY, max_depth=3) == ("a", "b", "c", "d")
    for none in (0, -1):
        with pytest.raises(BadSetting, match="would leave out every shard"):
            prioritize(FAMILY, max_depth=none)
    mixed = dict(Random(1).sample(list(FAMILY.items()), 5))
    assert prioritize(mixed, max_depth=99) == ("a", "b", "c", "d", "e")


def test_a_shard_that_is_its_own_ancestor_is_refused_and_a_long_chain_isnt():
    with pytest.raises(WrongShape):
        depths({"a": ["b"], "b": ["a"]})
    with pytest.raises(WrongShape):
        depths({"a": ["a"]})
    assert depths({f"s{n}": [f"s{n - 1}"] for n in range(5_000)})["s4999"] == 5_000


@pytest.mark.parametrize(
    ("text", "count"), [("0", 1), ("0-3", 4), ("0-4,6,8-10", 9), ("0,2\n", 2), ("7-7,", 1)]
)
def test_the_cpus_of_a_cpuset_are_counted(text, count):
    assert cpu.cpus_in(text) == count


def a_line(user, nice, system, *, idle, iowait):
    return f"cpu  {user} {nice} {system} {idle} {iowait} 7 7 7 0 0"


FIRST_LINE = a_line(100, 0, 50, idle=800, iowait=50)


@pytest.mark.parametrize(
    ("before", "line", "percent"),
    [
        (None, FIRST_LINE, 0.0),
        (FIRST_LINE, FIRST_LINE, 0.0),
        (FIRST_LINE, a_line(110, 5, 55, idle=860, iowait=70), 40.0),
        (FIRST_LINE, a_line(100, 0, 50, idle=900, iowait=50), 0.0),
        (FIRST_LINE, a_line(100, 0, 50, idle=900, iowait=10), 0.0),
        (a_line(0, 0, 5, idle=5, iowait=5), FIRST_LINE, 0.0),
        (FIRST_LINE, a_line(90, 0, 50, idle=900, iowait=50), (90 - 100) / 90 * 100),
    ],
)
def test_waiting_for_disks_counts_as_busy_and_a_falling_wait_as_0(before, line, percent):
    assert cpu.from_proc_stat(before, line) == pytest.approx(percent)


def test_a_cpu_value_outside_of_0_to_100_counts_as_failed():
    assert isnan(cpu.from_proc_stat(FIRST_LINE, FIRST_LINE.replace(" 7 ", " 8 ")))
    assert [cpu.is_sample(x) for x in (0.0, 100.0, -0.1, 100.1, float("nan"))] == [
        True,
        True,
        False,
        False,
        False,
    ]


@pytest.mark.parametrize(
    ("used", "wall", "limit", "percent"),
    [(500, 1_000, 2.0, 25.0), (3_000, 1_000, 2.0, 100.0), (0, 1_000, 0.5, 0.0), (5, 0, 2.0, 100.0)],
)
def test_the_cpu_time_of_a_cgroup_is_measured_against_its_cores(used, wall, limit, percent):
    assert cpu.from_cgroup(used, wall, limit) == percent


def test_a_cgroup_without_a_quota_may_use_all_cpus_of_its_set():
    assert cpu.cgroup_limit("max 100000", "0-3") == 4.0
    assert cpu.cgroup_limit("150000 100000", "0-3") == 1.5
    assert cpu.cgroup_limit_v1(-1, 100_000, "0,2") == 2.0
    assert cpu.cgroup_limit_v1(50_000, 100_000, "0,2") == 0.5


def test_a_container_is_measured_against_its_share_of_the_task():
    zero = cpu.Usage(0, 0)
    before, now = cpu.Usage(100, 1_000), cpu.Usage(150, 1_200)
    assert cpu.ecs_limit(30, [30, 90], task=2.0, online=8) == 0.5
    assert cpu.ecs_limit(None, [100], task=None, online=50) == 1.0
    assert cpu.from_ecs(before, now, online=2, limit=1.0) == 50.0
    assert cpu.from_ecs(before, now, online=2, limit=0.1) == 100.0
    assert cpu.from_ecs(zero, now, online=2, limit=1.0) == 0.0
    assert cpu.from_ecs(before, cpu.Usage(150, 1_000), online=2, limit=1.0) == 100.0
    assert isnan(
        cpu.from_ecs(before, cpu.Usage(100, 1_200), online=2, limit=cpu.ecs_limit(0, [], task=1.0, online=1))
    )
